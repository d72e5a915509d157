"""The digest of a state: equal where the states are, and different wherever one field is."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.digest import run_digest, state_digest
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, folded

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.integers() | st.text(), part, max_size=4),
    max_leaves=12,
)


class Holder:
    """Stands for a run: anything with fields."""

    __slots__ = ("other", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.other = self


def digest_of(value: Any) -> str:
    return run_digest(Holder(value))  # type: ignore[arg-type]


def busy() -> Rig:
    rig = Rig()
    rig.submit_graph([[], [0], [0], [1, 2]], retry={"max_attempts": 2, "base_ns": 10**8, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node, 5)
    (_, first, one), *_ = rig.leases()
    rig.fail(worker, first, one)
    return rig


def test_the_same_log_gives_the_same_digest() -> None:
    rig = busy()
    assert state_digest(folded(rig.records).scheduler) == state_digest(folded(rig.records).scheduler)


@pytest.mark.parametrize(
    "change",
    [
        lambda run, _: run.state.__setitem__(3, 5),
        lambda run, _: run.results.__setitem__(0, 6),
        lambda run, _: run.waits.__setitem__(3, 1),
        lambda run, _: run.rare.attempts.__setitem__(1, 2),
        lambda run, _: run.rare.events.pop(),
        lambda run, _: run.columns.succ.append(0),
        lambda _, scheduler: scheduler.ended_ns.__setitem__(1, 2),
        lambda _, scheduler: setattr(scheduler.book.sessions["s"], "seq_last", 9),
        lambda _, scheduler: scheduler.book.expect_no(17),
    ],
)
def test_one_field_makes_another_digest(change: Callable[[Any, Scheduler], None]) -> None:
    rig = busy()
    scheduler = folded(rig.records).scheduler
    before = state_digest(scheduler)
    change(scheduler.book.live[1], scheduler)
    assert state_digest(scheduler) != before


@pytest.mark.slow
@given(VALUES, VALUES)
def test_values_have_one_digest_each(one: Any, other: Any) -> None:
    assert (digest_of(one) == digest_of(other)) == (repr(one) == repr(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (array("I", [1, 2]), array("I", [2, 1])),
        (deque([1]), deque([2])),
        ({1, 2}, {1, 3}),
        ([[1], [2]], [[1, 2]]),
        (["a", b"a"], ["a", "a"]),
        ([1 << 70], [1 << 71]),
    ],
)
def test_containers_differ_by_what_is_in_them(one: Any, other: Any) -> None:
    assert digest_of(one) != digest_of(other)
    assert digest_of(one) == digest_of(one)

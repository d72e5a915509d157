"""When the archive is trimmed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.trimming import FIRST_NS, LOOK_MAX_NS, REST_NS, RETRY_NS, Trimming

S = 10**9


def test_a_first_look_a_while_after_the_start() -> None:
    plan = Trimming()
    assert not plan.look(0)
    plan.begin(0)
    assert plan.at_ns == FIRST_NS
    assert not plan.look(FIRST_NS - 1)
    assert plan.look(FIRST_NS)
    assert not plan.look(FIRST_NS), "never two at once"


def test_the_next_when_the_first_run_is_over() -> None:
    plan = Trimming()
    plan.due(0, 10 * S)
    plan.due(1, 30 * S)
    assert plan.at_ns == 10 * S
    assert plan.look(10 * S)
    plan.ended(11 * S, 20 * S, failed=False)
    assert plan.at_ns == 31 * S


def test_none_where_nothing_is_ever_over() -> None:
    plan = Trimming()
    plan.due(0, None)
    assert plan.at_ns is None
    plan.due(0, 0)
    assert plan.look(0)
    plan.ended(1, None, failed=False)
    assert plan.at_ns is None


def test_a_rest_between_two_and_a_longer_one_after_a_failure() -> None:
    plan = Trimming()
    plan.due(0, -5)
    assert plan.look(0)
    plan.ended(1, -1, failed=False)
    assert plan.at_ns == 1 + REST_NS
    assert plan.look(1 + REST_NS)
    plan.ended(2 * S, None, failed=True)
    assert plan.at_ns == 2 * S + RETRY_NS


def test_what_is_said_meanwhile_counts() -> None:
    plan = Trimming()
    plan.due(0, 0)
    assert plan.look(0)
    plan.due(1, 5 * S)
    plan.due(1, 7 * S)
    assert plan.at_ns is None
    plan.ended(2 * S, 20 * S, failed=False)
    assert plan.at_ns == 5 * S + 1


STEPS = st.one_of(
    st.tuples(st.just("due"), st.integers(-10, 10**13)),
    st.tuples(st.just("time"), st.integers(0, 10**13)),
    st.tuples(st.just("ended"), st.integers(0, 1)),
)


@given(st.lists(STEPS))
def test_it_never_runs_twice_and_looks_within_the_hour(steps: list[tuple[str, int]]) -> None:
    plan, now, running = Trimming(), 0, False
    plan.begin(0)
    for what, value in steps:
        if what == "due":
            plan.due(now, value)
        elif what == "time":
            now += value
            began = plan.look(now)
            assert not (began and running)
            running = running or began
        elif running:
            plan.ended(now, value * S, failed=bool(value))
            running = False
        assert plan.running == running
        assert running or plan.at_ns is None or plan.at_ns - now <= LOOK_MAX_NS

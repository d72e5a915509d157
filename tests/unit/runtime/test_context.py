"""What a handler is told of its time and of being stopped."""

from __future__ import annotations

import time
from typing import Any

import pytest

from actors.protocol.control_signals import AttemptCancelled, AttemptTimeout
from actors.worker import WorkGroup
from runtime import TaskContext
from runtime.host.attempts import deadline_of
from runtime.host.results import Place


class View:
    """A worker's side, as far as it is asked here."""

    place = Place(1, 1, "run", 0)
    attempt = 1
    batch = ()

    def __init__(self, reason: int = 0, deadline_ns: int | None = None) -> None:
        self.reason = reason
        self.deadline_ns = deadline_ns

    def stop_reason(self) -> int:
        return self.reason


def context(**more: Any) -> TaskContext:
    view: Any = View(**more)
    return TaskContext(view)


@pytest.mark.parametrize(
    ("reason", "raised", "words"),
    [
        (1, AttemptCancelled, "cancelled"),
        (2, AttemptTimeout, "its timeout"),
        (3, AttemptTimeout, "deadline of its task"),
    ],
)
def test_an_attempt_learns_why_it_shall_stop(reason: int, raised: type[BaseException], words: str) -> None:
    assert context(reason=reason).cancelled
    with pytest.raises(raised, match=words):
        context(reason=reason).check_cancelled()
    context().check_cancelled()


def test_the_time_that_is_left_is_not_below_nothing() -> None:
    assert context().remaining() is None
    assert context(deadline_ns=time.monotonic_ns() - 5).remaining() == 0
    assert 9 < (context(deadline_ns=time.monotonic_ns() + 10_000_000_000).remaining() or 0) <= 10


def test_an_attempt_ends_at_its_timeout_or_at_the_deadline_of_its_task() -> None:
    group = WorkGroup(1, 1, "run", 1, [0, 1], None, [None, None], True)
    assert deadline_of(group, 0, None, 100) is None
    assert deadline_of(group, 0, 50, 100) == 150
    group.ends_ns = [0, 120]
    assert [deadline_of(group, 0, timeout, 100) for timeout in (None, 50)] == [None, 150]
    assert [deadline_of(group, 1, timeout, 100) for timeout in (None, 5, 50)] == [120, 105, 120]

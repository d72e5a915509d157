"""Load for scenarios about who runs next: work that waits in bulk, and single tasks that come at a steady pace.

A paced task that is due while the one before it still waits is timed from when it was due, not from when it could be
sent: else a long wait would hide those that it caused ("coordinated omission", G. Tene, wrk2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.bench import session
from runtime.bench.handlers import burn_increment
from runtime.bench.workloads.base import SECONDS_MAX, check_equal
from runtime.handle import TaskHandle
from runtime.submitter import Submitter

PACE_NS: Final = 20_000_000
"""Between two paced tasks."""


class Bulk:
    """Single tasks that take some time each, all submitted at once. `opened_ns` to `ended_ns` is how long they took.

    Args:
        submitter: Submits them, with the options that they shall have.
        count: How many.
        duration_ns: CPU time that each takes.
    """

    def __init__(self, submitter: Submitter, count: int, duration_ns: int) -> None:
        self.ended_ns = 0
        self.opened_ns = time.perf_counter_ns()
        self._handles = [session.submit_soon(submitter, burn_increment, duration_ns, n) for n in range(count)]
        self._handles[-1].add_done_callback(self._note_end)

    def _note_end(self, handle: TaskHandle[Any]) -> None:
        self.ended_ns = time.perf_counter_ns()

    def finish(self) -> int:
        """Wait for all of them, check their results, and return how long they took, in nanoseconds."""
        found = [handle.result(SECONDS_MAX) for handle in self._handles]
        self.ended_ns = self.ended_ns or time.perf_counter_ns()
        check_equal(found, list(range(1, len(found) + 1)), "batch")
        return self.ended_ns - self.opened_ns


def paced(
    submitter: Submitter, fn: Callable[..., int], args: Sequence[int], goes_on: Callable[[int], bool]
) -> list[int]:
    """Submit one task every PACE_NS and wait for its result; how long each took, in nanoseconds.

    Args:
        submitter: Submits them.
        fn: Returns one more than its last argument.
        args: Its arguments before the last, which is the number of the task.
        goes_on: Given the time at which the next is due (perf_counter_ns): whether it shall be sent. The first is.
    """
    clock, times, found = time.perf_counter_ns, list[int](), list[int]()
    due_ns = clock()
    while not times or goes_on(due_ns):
        started_ns = clock()
        if started_ns < due_ns:
            time.sleep((due_ns - started_ns) / 1e9)
            started_ns = clock()
        else:
            started_ns = due_ns
        found.append(submitter.submit(fn, *args, len(found)).result(SECONDS_MAX))
        times.append(clock() - started_ns)
        due_ns += PACE_NS
    check_equal(found, list(range(1, len(found) + 1)), "paced tasks")
    return times


def paced_beside(batch: Bulk, submitter: Submitter, fn: Callable[..., int], args: Sequence[int] = ()) -> list[int]:
    """The same for as long as a batch takes: all that are due before its end."""
    return paced(submitter, fn, args, lambda due_ns: not batch.ended_ns or due_ns < batch.ended_ns)

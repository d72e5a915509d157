"""A virtual worker decides as a real one: what it claims, in which order, what it gives back and what it stops."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.kinds import Kind
from runtime.planning.worker import HOP_NS, LATE_NS, Ending, VirtualAsyncWorker, VirtualWorker
from tests.unit.planning.histories import MS, kind

RUN: Any = SimpleNamespace(no=1, key="s-1")


class Stage:
    """The world of one worker."""

    def __init__(self, *takes_ms: float) -> None:
        self.now_ns = 0
        self.takes = [int(ms * MS) for ms in takes_ms]
        self.spans: dict[int, tuple[int, int]] = {}
        self.said: list[Any] = []
        self.fails: dict[int, dict[str, Any]] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._tickets = count()

    def at(self, due_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (due_ns, next(self._tickets), action))

    def ending(self, run: Any, node: int, attempt: int) -> Ending:
        return Ending(self.takes[node], self.fails.get(node))

    def ran(self, run: Any, node: int, start_ns: int, end_ns: int) -> None:
        self.spans[node] = (start_ns, end_ns)

    def say(self, message: Any, *, alone: bool = False) -> None:
        self.said.append(message)

    def go_on(self, until_ns: int = 1 << 62) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self.now_ns, _, action = heapq.heappop(self._heap)
            action()
        self.now_ns = max(self.now_ns, min(until_ns, 1 << 61) if until_ns < 1 << 62 else self.now_ns)

    def done(self) -> list[int]:
        """Nodes in the order in which their results were sent."""
        return [n for m in self.said if isinstance(m, msg.WorkerDone) for group in m.groups for n in group[2]]


def work(serial: int, nodes: Sequence[int], priority: str = "normal", batch: int = 0) -> fx.LeaseWork:
    made = Kind.of({"low": 1, "normal": 2, "realtime": 3}[priority], kind(priority=priority))
    return fx.LeaseWork(1, serial, RUN, made, nodes, None, [None] * len(nodes), batch)


def test_tasks_run_one_after_the_other() -> None:
    stage = Stage(10, 20, 30)
    VirtualWorker(1, "default", stage).lease([work(1, [0, 1, 2])])
    stage.go_on()
    assert [stage.spans[node] for node in range(3)] == [
        (HOP_NS, HOP_NS + 10 * MS),
        (HOP_NS + 10 * MS, HOP_NS + 30 * MS),
        (HOP_NS + 30 * MS, HOP_NS + 60 * MS),
    ]
    assert stage.done() == [0, 1, 2]
    assert stage.said[-1].passed == 3


def test_the_best_class_is_claimed_first() -> None:
    stage = Stage(10, 10, 10)
    worker = VirtualWorker(1, "default", stage)
    worker.lease([work(1, [0, 1], "low")])
    stage.go_on(5 * MS)
    worker.lease([work(3, [2], "realtime")])
    stage.go_on()
    assert stage.done() == [0, 2, 1]


def test_what_is_taken_back_does_not_run() -> None:
    stage = Stage(10, 10, 10)
    worker = VirtualWorker(1, "default", stage)
    worker.lease([work(1, [0, 1, 2])])
    stage.go_on(5 * MS)
    assert worker.revoke((1, 2)) == (2,), "the first runs"
    stage.go_on()
    assert stage.done() == [0, 2]


def test_an_attempt_that_runs_is_stopped_and_one_that_waits_does_not_start() -> None:
    stage = Stage(50, 10, 10)
    worker = VirtualWorker(1, "default", stage)
    worker.lease([work(1, [0, 1, 2])])
    stage.go_on(5 * MS)
    worker.stop(2, 1)
    worker.stop(1, 2)
    stage.go_on()
    assert stage.spans[0] == (HOP_NS, 5 * MS)
    failed = [(row[2], row[5]["kind"]) for m in stage.said if isinstance(m, msg.WorkerFailed) for row in m.rows]
    assert failed == [(0, "timeout"), (1, "cancelled")]
    assert stage.done() == [2]


def test_short_tasks_are_claimed_many_at_a_time_and_go_back_behind_a_long_one() -> None:
    stage = Stage(*[0.005] * 200, 20, *[0.005] * 50)
    worker = VirtualWorker(1, "default", stage)
    worker.lease([work(1, range(251))])
    stage.go_on(LATE_NS)
    assert stage.spans.keys() >= set(range(150))
    assert len(stage.said) < 60, "results go together"
    won = worker.revoke(tuple(range(1, 252)))
    assert 250 in won, "behind the long one nothing is claimed"
    stage.go_on()
    assert len(stage.spans) == 251 - len(won)


def test_a_batch_is_one_call() -> None:
    stage = Stage(10, 30, 20)
    VirtualWorker(1, "default", stage).lease([work(1, [0, 1], batch=5), work(3, [2], batch=5)])
    stage.go_on()
    assert set(stage.spans.values()) == {(HOP_NS, HOP_NS + 30 * MS)}


def test_a_worker_that_is_drained_finishes_what_runs() -> None:
    stage = Stage(10, 10)
    worker = VirtualWorker(1, "default", stage)
    worker.lease([work(1, [0, 1])])
    stage.go_on(5 * MS)
    worker.drain()
    stage.go_on()
    assert stage.done() == [0]
    assert isinstance(stage.said[-1], msg.WorkerExited)
    worker.die("killed", 9)
    assert sum(isinstance(m, msg.WorkerExited) for m in stage.said) == 1, "nobody dies twice"


def test_an_asyncio_worker_overlaps_its_tasks() -> None:
    stage = Stage(10, 30, 10)
    worker = VirtualAsyncWorker(1, "io", stage, slots=2)
    worker.lease([work(1, [0, 1, 2])])
    stage.go_on(20 * MS)
    worker.stop(2, 3)
    stage.go_on()
    assert stage.spans[2][0] == stage.spans[0][1], "the third follows the first"
    assert stage.spans[1] == (HOP_NS, 20 * MS)
    assert worker.observed().running == ()

"""The standard library's nearest equivalents, as a competent programmer would write them.

They keep no state on disk, know no retry, timeout or cancel of a running task, and lose everything when a process
dies: they mark how fast Python's processes can be driven at all, not what a durable engine should cost.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.pool import Pool

from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, members_with_children
from runtime.bench.workloads.base import SECONDS_MAX, check_equal
from runtime.bench.workloads.graphs import TaskGraph

WARM_TASKS = 512


@contextmanager
def executor(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A warm `ProcessPoolExecutor` with the start method that this Python chooses."""
    with ProcessPoolExecutor(workers) as pool:
        check_equal(list(pool.map(increment, range(WARM_TASKS))), list(range(1, WARM_TASKS + 1)), "warm-up")
        yield pool


@contextmanager
def pool_of(workers: int) -> Iterator[Pool]:
    """A warm `multiprocessing.Pool`; closed and joined at the end, so that nothing is left."""
    pool = multiprocessing.Pool(workers)
    try:
        check_equal(pool.map(increment, range(WARM_TASKS)), list(range(1, WARM_TASKS + 1)), "warm-up")
        yield pool
        pool.close()
    except BaseException:
        pool.terminate()
        raise
    finally:
        pool.join()


def measure_graph(workers: int, graph: TaskGraph, name: str) -> Sample:
    """A graph by the hand-written scheduler, its results checked; the window is the run."""
    expected = graph.expected()
    with pool_of(workers) as pool:
        scheduler = PoolScheduler(pool, graph)
        with MeasuredWindow(members_with_children) as window:
            found = scheduler.run()
        check_equal(found, expected, name)
        return window.sample(len(graph))


class PoolScheduler:
    """A hand-written scheduler of one graph over `multiprocessing.Pool`.

    Every node is one `apply_async`. Its callback stores the result, counts down the children and submits those that
    became ready, so that no node waits for a layer to end and nothing polls. Callbacks run one at a time, in the
    pool's own result thread, after `run` has submitted the roots: apart from that, this object is touched by that
    thread only.
    """

    def __init__(self, pool: Pool, graph: TaskGraph) -> None:
        self._pool = pool
        self._graph = graph
        self._children = graph.children()
        self._waits = [len(parents) for parents in graph.parents]
        self._results: list[int] = [0] * len(graph)
        self._left = len(graph)
        self._error: BaseException | None = None
        self._ended = threading.Event()

    def run(self) -> list[int]:
        """Run all nodes and return their results by node."""
        for node in [node for node, count in enumerate(self._waits) if not count]:
            self._submit(node)
        if not self._ended.wait(SECONDS_MAX):
            raise BenchError(f"the baseline did not end within {SECONDS_MAX:.0f} s")
        if self._error is not None:
            raise BenchError(f"a task of the baseline failed: {self._error!r}")
        return self._results

    def _submit(self, node: int) -> None:
        graph, results = self._graph, self._results
        arguments = (*graph.arguments(node), *[results[parent] for parent in graph.parents[node]])
        self._pool.apply_async(
            graph.handler, arguments, callback=partial(self._finished, node), error_callback=self._failed
        )

    def _finished(self, node: int, result: int) -> None:
        self._results[node] = result
        waits = self._waits
        for child in self._children[node]:
            waits[child] -= 1
            if not waits[child]:
                self._submit(child)
        self._left -= 1
        if not self._left:
            self._ended.set()

    def _failed(self, error: BaseException) -> None:
        self._error = error
        self._ended.set()

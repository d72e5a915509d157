"""Opens a warm `Runtime` as a user would and runs graphs on it.

Every sample has its own state folder, which is removed with it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from runtime import Flow, NodeType, Runtime
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import hold, increment, make_gate, open_gate
from runtime.bench.measure import MeasuredWindow, Members, members_of
from runtime.bench.workloads.base import SECONDS_MAX, Setup, check_equal
from runtime.bench.workloads.graphs import TaskGraph, layered
from runtime.errors import QueueFull
from runtime.handle import RunHandle, TaskHandle
from runtime.submitter import Submitter

NODE_TYPE = "cpu"
WARM_TASKS = 2_000
POLL_S = 0.002


def node_types(workers: int, prefetch: int | None = None, niceness: int = 0) -> list[NodeType]:
    """One pool of a fixed size, so that no worker is started inside a window."""
    return [NodeType(NODE_TYPE, workers=workers, prefetch=prefetch, niceness=niceness)]


def open_folder(folder: Path, setup: Setup, **more: Any) -> Runtime:
    """A runtime over a given state folder, new or not; not warm. `more` goes to `Runtime`, before the usual."""
    usual: dict[str, Any] = {"node_types": node_types(setup.workers), "durability": setup.durability or "none"}
    return Runtime(folder, **{**usual, **more})


@contextmanager
def open_runtime(setup: Setup, **more: Any) -> Iterator[Runtime]:
    """A warm runtime over a new state folder: all workers have run tasks of both forms, single ones and graphs.

    Args:
        setup: Its workers, durability and folder.
        more: Arguments of `Runtime`, besides the usual or in their place.
    """
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as parent,
        open_folder(Path(parent) / "state", setup, **more) as runtime,
    ):
        warm(runtime)
        yield runtime


def warm(runtime: Runtime) -> None:
    """Let every process load and run what the window will use."""
    check_equal(list(runtime.map(increment, range(WARM_TASKS))), list(range(1, WARM_TASKS + 1)), "warm-up")
    check_equal(runtime.submit(increment, 1).result(timeout=SECONDS_MAX), 2, "warm-up")
    graph = layered(4, 16, 3)
    check_equal(run_flow(runtime, flow_of(graph, "warm-up")), expected_results(graph), "warm-up")


@contextmanager
def held_workers(runtime: Runtime, setup: Setup) -> Iterator[Callable[[], None]]:
    """Every worker is busy with a task that holds at a gate, so that work piles up. Gives what opens the gate."""
    with tempfile.TemporaryDirectory(prefix="mainspring-gate-") as folder:
        gate = os.path.join(folder, "gate")
        make_gate(gate)
        holding = [runtime.submit(hold, gate, number) for number in range(setup.workers)]
        try:
            await_running(holding)
            yield lambda: open_gate(gate)
        finally:
            if os.path.exists(gate):
                open_gate(gate)
            check_equal([task.result(SECONDS_MAX) for task in holding], list(range(setup.workers)), "held workers")


def await_running(handles: Sequence[TaskHandle[Any]]) -> None:
    """Wait until all of them run; each is then at a worker of its own."""
    until = time.monotonic() + SECONDS_MAX
    while not all(handle.status().started_ns for handle in handles):
        if time.monotonic() > until:
            raise BenchError(f"{len(handles)} tasks did not all start within {SECONDS_MAX:.0f} s")
        time.sleep(POLL_S)


def submit_soon(submitter: Submitter, fn: Callable[..., Any], /, *args: Any) -> TaskHandle[Any]:
    """Submit a single task without waiting for the disk; when the engine is full, wait as a user would."""
    try:
        return submitter.submit_nowait(fn, *args)
    except QueueFull:
        return submitter.submit(fn, *args)


def members(runtime: Runtime) -> Members:
    """What a `MeasuredWindow` asks for the processes of a runtime."""
    return partial(members_of, runtime)


def flow_of(graph: TaskGraph, name: str, **options: Any) -> Flow:
    """The graph as a flow, nodes in the same order; `options` are those of its tasks."""
    flow = Flow(name, **options)
    nodes: list[Any] = []
    add, handler = flow.add, graph.handler
    for node, parents in enumerate(graph.parents):
        nodes.append(add(handler, *graph.arguments(node), *[nodes[p] for p in parents]))
    return flow


def run_flow(runtime: Runtime, flow: Flow) -> dict[str, Any]:
    """Submit a flow, wait for its end, and return the results of the nodes that nobody waits for, by id."""
    run = runtime.submit(flow)
    run.raise_if_failed(SECONDS_MAX)
    return final_results(run)


def final_results(run: RunHandle) -> dict[str, Any]:
    """Results of the nodes that nobody waits for, by id, whether there is one or many."""
    found = run.result()
    return found if isinstance(found, dict) else {"": found}


def expected_results(graph: TaskGraph) -> dict[str, Any]:
    """What `run_flow` must return. Each result enters those after it, so a wrong one anywhere shows here."""
    results, sinks = graph.expected(), graph.sinks()
    return {"": results[sinks[0]]} if len(sinks) == 1 else {str(node): results[node] for node in sinks}


def measure_graph(setup: Setup, graph: TaskGraph, name: str) -> Sample:
    """One window: from submission of the flow to the last result. Building the flow is not in it."""
    with open_runtime(setup) as runtime:
        return measure_on(runtime, graph, name)


def measure_on(runtime: Runtime, graph: TaskGraph, name: str, **options: Any) -> Sample:
    """The same on a runtime that is open and warm."""
    expected = expected_results(graph)
    flow = flow_of(graph, name, **options)
    with MeasuredWindow(members(runtime)) as window:
        found = run_flow(runtime, flow)
    check_equal(found, expected, name)
    return window.sample(len(graph))


def wait_for_done(run: RunHandle, count: int, poll_s: float) -> None:
    """Wait until this many nodes of a run have succeeded. The window of a recovery ends here, so it looks often."""
    until = time.monotonic() + SECONDS_MAX
    while run.status().counts.succeeded < count:
        if time.monotonic() > until:
            raise BenchError(f"{count:,} nodes were not done within {SECONDS_MAX:.0f} s")
        time.sleep(poll_s)


def pending(run: RunHandle) -> int:
    """Nodes of a run that wait for others."""
    return run.status().counts.pending

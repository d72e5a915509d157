"""Opens a warm `Runtime` as a user would and runs graphs on it.

Every sample has its own state folder, which is removed with it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from runtime import Flow, NodeType, Runtime
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, Members, members_of
from runtime.bench.workloads.base import SECONDS_MAX, Setup, check_equal
from runtime.bench.workloads.graphs import TaskGraph, layered

NODE_TYPE = "cpu"
WARM_TASKS = 2_000


def node_types(workers: int) -> list[NodeType]:
    """One pool of a fixed size, so that no worker is started inside a window."""
    return [NodeType(NODE_TYPE, workers=workers)]


def open_folder(folder: Path, setup: Setup) -> Runtime:
    """A runtime over a given state folder, new or not; not warm."""
    return Runtime(folder, node_types=node_types(setup.workers), durability=setup.durability or "none")


@contextmanager
def open_runtime(setup: Setup) -> Iterator[Runtime]:
    """A warm runtime over a new state folder: all workers have run tasks of both forms, single ones and graphs."""
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as parent,
        open_folder(Path(parent) / "state", setup) as runtime,
    ):
        warm(runtime)
        yield runtime


def warm(runtime: Runtime) -> None:
    """Let every process load and run what the window will use."""
    check_equal(list(runtime.map(increment, range(WARM_TASKS))), list(range(1, WARM_TASKS + 1)), "warm-up")
    check_equal(runtime.submit(increment, 1).result(timeout=SECONDS_MAX), 2, "warm-up")
    graph = layered(4, 16, 3)
    check_equal(run_graph(runtime, graph, "warm-up"), last_results(graph), "warm-up")


def members(runtime: Runtime) -> Members:
    """What a `MeasuredWindow` asks for the processes of a runtime."""
    return partial(members_of, runtime)


def flow_of(graph: TaskGraph, name: str) -> tuple[Flow, list[Any]]:
    """The graph as a flow, and its nodes by number."""
    flow = Flow(name)
    nodes: list[Any] = []
    add, handler = flow.add, graph.handler
    for node, parents in enumerate(graph.parents):
        nodes.append(add(handler, *graph.arguments(node), *[nodes[p] for p in parents]))
    return flow, nodes


def run_graph(runtime: Runtime, graph: TaskGraph, name: str) -> list[int]:
    """Submit the graph, wait for its end, and return the results of its sinks in order."""
    flow, nodes = flow_of(graph, name)
    return run_flow(runtime, flow, [nodes[n] for n in graph.sinks()])


def run_flow(runtime: Runtime, flow: Flow, wanted: list[Any]) -> list[int]:
    """Submit a flow, wait for its end, and return the results of the wanted nodes."""
    run = runtime.submit(flow)
    run.wait(timeout=SECONDS_MAX)
    return [run.result(node) for node in wanted]


def wait_for_done(run: Any, count: int, poll_s: float) -> None:
    """Wait until this many nodes of a run have succeeded. The window of a recovery ends here, so it looks often."""
    until = time.monotonic() + SECONDS_MAX
    while run.status().counts.succeeded < count:
        if time.monotonic() > until:
            raise BenchError(f"{count:,} nodes were not done within {SECONDS_MAX:.0f} s")
        time.sleep(poll_s)


def pending(run: Any) -> int:
    """Nodes of a run that wait for others."""
    return int(run.status().counts.pending)


def last_results(graph: TaskGraph) -> list[int]:
    """What `run_graph` must return."""
    results = graph.expected()
    return [results[node] for node in graph.sinks()]


def measure_graph(setup: Setup, graph: TaskGraph, name: str) -> Sample:
    """One window: from submission of the flow to the last result. Building the flow is not in it.

    Results of the sinks are checked; since each result enters the next, a wrong one anywhere shows there.
    """
    expected = last_results(graph)
    with open_runtime(setup) as runtime:
        flow, nodes = flow_of(graph, name)
        wanted = [nodes[n] for n in graph.sinks()]
        with MeasuredWindow(members(runtime)) as window:
            found = run_flow(runtime, flow, wanted)
        check_equal(found, expected, name)
        return window.sample(len(graph))

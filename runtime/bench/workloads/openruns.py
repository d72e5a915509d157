"""Scenario `openruns`: many open runs, every one half done, when every process is killed; how long until they go on?

Runs of 100 nodes, ten short chains each. Behind the first half of a run the second waits for a worker of its own, which
a gate holds. When all first halves are done, and a checkpoint was taken as the usual setting takes them, all processes
get SIGKILL. Measured is the time from the call of `Runtime` to the end of the task that was held, which is the oldest
and the first to be dispatched. Then some of the runs are awaited and their results checked.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

from runtime import Flow, NodeType, TaskRegistry
from runtime.bench import fresh, session
from runtime.bench.figures import Sample
from runtime.bench.handlers import hold, increment, make_gate
from runtime.bench.measure import MeasuredWindow
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.bench.workloads.recovery import POLL_S, check_begun, checkpoint_bytes_of, killed, say_when_settled

NODES: Final = 100
CHAINS: Final = 10
LENGTH: Final = NODES // CHAINS
SECOND: Final = "second"
HELD_ID: Final = "bench-held"
CHECKED: Final = 20


class OpenRunsScenario(Scenario):
    """Time from `Runtime()` to the first task of many runs, after SIGKILL of everything."""

    name = "openruns"
    title = "open runs of 100, half done, SIGKILL of everything, time to the first task; a task is one node"
    tasks_default = 1_000_000
    tasks_smoke = 1_000

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "runs": runs_of(setup.tasks), "nodes": NODES}

    def run(self, setup: Setup) -> Sample:
        count, checkpoint_bytes = runs_of(setup.tasks), checkpoint_bytes_of(setup)
        with killed(setup, many_halves, checkpoint_bytes) as path:
            opened = time.perf_counter_ns()
            with session.open_folder(
                path, setup, checkpoint_bytes=checkpoint_bytes, node_types=types(setup.workers)
            ) as runtime:
                runtime.handle(HELD_ID).result(timeout=SECONDS_MAX)
                first = time.perf_counter_ns() - opened
                check_begun(runtime, checkpoint_bytes)
                with MeasuredWindow(session.members(runtime)) as window:
                    for number in range(max(0, count - CHECKED), count):  # those before them may be forgotten already
                        run = runtime.handle(id_of(number))
                        run.raise_if_failed(SECONDS_MAX)
                        check_equal(list(session.final_results(run).values()), [LENGTH] * CHAINS, self.name)
        return Sample(count * NODES, first, rss_bytes=window.rss_bytes)


def runs_of(tasks: int) -> int:
    """How many open runs have about so many nodes."""
    return max(1, tasks // NODES)


def id_of(number: int) -> str:
    """The id of a run."""
    return f"bench-open-{number}"


def types(workers: int) -> list[NodeType]:
    """The usual pool, and one worker for the second halves."""
    return [*session.node_types(workers), NodeType(SECOND, workers=1)]


def two_halves() -> Flow:
    """Short chains, whose second halves are for the one worker."""
    flow, later = Flow("open", node_type=session.NODE_TYPE), TaskRegistry().task(node_type=SECOND)(increment)
    row = [flow.add(increment, 0) for _ in range(CHAINS)]
    for step in range(1, LENGTH):
        row = [flow.add(increment if step < LENGTH // 2 else later, node) for node in row]
    return flow


def many_halves() -> None:
    """In the child: run all first halves, say the pids of all processes, and wait to be killed."""
    folder, tasks, workers, durability, checkpoint_bytes = fresh.arguments()
    gate = os.path.join(folder, "gate")
    make_gate(gate)
    setup, flow = Setup(tasks, workers, durability, Path(folder)), two_halves()
    with session.open_folder(
        Path(folder) / "state", setup, checkpoint_bytes=checkpoint_bytes, node_types=types(workers)
    ) as runtime:
        held = runtime.options(node_type=SECOND).submit(hold, gate, run_id=HELD_ID)
        session.await_running([held])
        runs = [runtime.submit(flow, run_id=id_of(number)) for number in range(runs_of(tasks))]
        for run in runs:
            session.wait_for_done(run, NODES // 2, POLL_S)
        say_when_settled(runtime, wanted=True)

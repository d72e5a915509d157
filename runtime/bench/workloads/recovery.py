"""Scenario `recovery`: a large graph is half done when every process is killed; how long until it goes on?

The graph is many parallel chains, each node taking the result before it, so that nodes which run after the recovery
work with results from before it. A gate holds all chains at half their length: when it is all that is left to run,
exactly half is done and durable. Then face, spawner, engine and workers get SIGKILL. Measured is the time from the
call of `Runtime` to the first node finished that was not before. Afterwards the graph runs to its end and the last
result of every chain is checked.

The row is that without a checkpoint: the whole log is read. `after_checkpoint_seconds` is the same, killed when there
was a checkpoint of it, as the usual setting takes them.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.protocol import limits
from runtime import Flow, Runtime
from runtime.bench import fresh, session
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import hold, increment, make_gate, open_gate
from runtime.bench.measure import MeasuredWindow, members_of
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal

CHAINS_MAX = 1_000
RUN_ID = "bench-recovery"
POLL_S = 0.002
LOG_BYTES_A_TASK = 4
"""At least; it is five times as much."""
CHECKPOINT_SETTLED_BYTES = 2 * limits.CHECKPOINT_BYTES
"""Behind the checkpoint, below which no other is due: that of closed segments, and the one that is written."""


class RecoveryScenario(Scenario):
    """Time from `Runtime()` to the first newly finished task, after SIGKILL of everything."""

    name = "recovery"
    title = "a graph half done, SIGKILL of everything, time to the first newly finished task; a task is one node"
    tasks_default = 1_000_000
    tasks_smoke = 4_000

    def params(self, setup: Setup) -> dict[str, Any]:
        chains, length = shape(setup.tasks)
        return {"workers": setup.workers, "chains": chains, "length": length, "done_before": chains * (length // 2)}

    def run(self, setup: Setup) -> Sample:
        chains, length = shape(setup.tasks)
        first, window = _half_done(setup, None)
        extra = {
            "finish_seconds": (window.elapsed_ns + first) / 1e9,
            "after_checkpoint_seconds": _half_done(setup, checkpoint_bytes_of(setup))[0] / 1e9,
        }
        return Sample(chains * length + 1, first, rss_bytes=window.rss_bytes, extra=extra)


@contextmanager
def killed(setup: Setup, first_half: Callable[[], None], checkpoint_bytes: int | None) -> Iterator[Path]:
    """A state folder whose processes were killed when a child said so; the gate is open."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as folder:
        given = (folder, setup.tasks, setup.workers, setup.durability, checkpoint_bytes)
        with fresh.FreshProcess(fresh.program(first_half), *given) as child:
            pids = child.hear()
            fresh.kill_all([child.pid, *pids])
        open_gate(os.path.join(folder, "gate"))
        yield Path(folder) / "state"


def _half_done(setup: Setup, checkpoint_bytes: int | None) -> tuple[int, MeasuredWindow]:
    """Time to the first node, and the window of the rest."""
    chains, length = shape(setup.tasks)
    with killed(setup, first_half, checkpoint_bytes) as path:
        opened = time.perf_counter_ns()
        with session.open_folder(path, setup, checkpoint_bytes=checkpoint_bytes) as runtime:
            run = runtime.handle(RUN_ID)
            session.wait_for_done(run, chains * (length // 2) + 1, POLL_S)
            first = time.perf_counter_ns() - opened
            check_begun(runtime, checkpoint_bytes)
            with MeasuredWindow(session.members(runtime)) as window:
                run.raise_if_failed(SECONDS_MAX)
            found = session.final_results(run)
        check_equal(list(found.values()), [length] * chains, RUN_ID)
    return first, window


def check_begun(runtime: Runtime, checkpoint_bytes: int | None) -> None:
    """Raise BenchError where there should have been a checkpoint to begin with, and was none."""
    if checkpoint_bytes and not runtime.recovery["checkpoint_lsn"]:
        raise BenchError("the recovery did not begin with a checkpoint")


def checkpoint_bytes_of(setup: Setup) -> int:
    """The usual setting, or less than half a run writes where that is less."""
    return max(limits.CHECKPOINT_BYTES_MIN, min(setup.tasks * LOG_BYTES_A_TASK, limits.CHECKPOINT_BYTES))


def shape(tasks: int) -> tuple[int, int]:
    """Number and length of the chains for about this many nodes."""
    chains = max(1, min(CHAINS_MAX, tasks // 4))
    return chains, max(2, tasks // chains)


def gated_chains(gate: str, chains: int, length: int) -> Flow:
    """The graph: every node of a chain takes the result before it; those at half the length wait for the gate too."""
    flow = Flow("recovery")
    barrier = [flow.add(hold, gate)]
    half = length // 2
    row = [flow.add(increment, 0) for _ in range(chains)]
    for step in range(1, length):
        after = barrier if step == half else []
        row = [flow.add(increment, node, after=after) for node in row]
    return flow


def first_half() -> None:
    """In the child: run to the gate, say the pids of all processes, and wait to be killed."""
    folder, tasks, workers, durability, checkpoint_bytes = fresh.arguments()
    chains, length = shape(tasks)
    gate = os.path.join(folder, "gate")
    make_gate(gate)
    setup = Setup(tasks, workers, durability, Path(folder))
    with session.open_folder(Path(folder) / "state", setup, checkpoint_bytes=checkpoint_bytes) as runtime:
        run = runtime.submit(gated_chains(gate, chains, length), run_id=RUN_ID)
        session.wait_for_done(run, chains * (length // 2), POLL_S)
        say_when_settled(runtime, wanted=checkpoint_bytes is not None)


def say_when_settled(runtime: Runtime, *, wanted: bool) -> None:
    """Say the pids of all processes when there is a checkpoint, if one is wanted, and no other is due; wait."""
    until = time.monotonic() + SECONDS_MAX
    while wanted:
        found = runtime.statistics()["checkpoint"]
        if found["trouble"]:
            raise BenchError(f"a checkpoint failed: {found['trouble']}")
        if found["lsn"] and not found["running"] and found["bytes_behind"] < CHECKPOINT_SETTLED_BYTES:
            break
        if time.monotonic() > until:
            raise BenchError("no checkpoint was taken")
        time.sleep(POLL_S)
    fresh.say([member.pid for member in members_of(runtime)])
    fresh.listen()
    raise BenchError("the process was not killed")

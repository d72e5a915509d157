"""Scenario `checkpoint`: what checkpoints take of the disk and of the cores, and whether anybody waits for them.

- One run of a layered graph with small results, to its end. `persister_cpu_seconds` is what all that goes to the disk
  took: the engine's threads that write the log, every process that took a checkpoint, and the last checkpoint, of the
  whole run, which is taken when the engine has closed. `checkpoint_file_bytes` is that checkpoint.
- `dag` with and without checkpoints, alternating, the graph a quarter of the size; there is one after each
  `checkpoint_bytes` of log, which is less than anybody would set. `dag_on_of_off` is the rate with by the rate without.
- Thousands of tasks a second that sleep at the workers, and a checkpoint each 64 KiB of log. Meanwhile somebody asks
  the engine for the status of the run and measures how long the answer takes, again and again. The answer waits for
  whatever the scheduler does, so it is as late as the scheduler paused: `pause_p999_ms` with checkpoints, and without.
  (Durability `none`. Where all cores are busy, an answer waits for a core, and for batches of thousands of tasks.)
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.protocol import limits
from runtime import Flow, Runtime
from runtime.bench import session
from runtime.bench.figures import Sample
from runtime.bench.handlers import nap
from runtime.bench.measure import MeasuredWindow, members_of, percentile, threads_cpu_ns
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.bench.workloads.dag import PARENTS, WIDTH
from runtime.bench.workloads.graphs import TaskGraph, layered
from runtime.mail.blobs import BlobStore
from runtime.storage.checkpoint import CHECKPOINT_NAME
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.take import take_checkpoint

PAIRS: Final = 3
PAIRS_SMOKE: Final = 1
PAIR_SHARE: Final = 4
OFTEN_BYTES: Final = limits.MIB
ASK_EACH_S: Final = 0.001
PACED_S: Final = 5.0
PACED_S_SMOKE: Final = 0.5
PACED_NAP_S: Final = 0.0002
PACED_BYTES: Final = 64 * limits.KIB


class CheckpointScenario(Scenario):
    """Bytes and CPU time of checkpoints, and what they cost others; the window is the one run."""

    name = "checkpoint"
    title = "one graph and its checkpoint; then dag with and without checkpoints; a task is one node of the graph"
    tasks_default = 1_000_000
    tasks_smoke = 1_000

    def params(self, setup: Setup) -> dict[str, Any]:
        return {
            "workers": setup.workers,
            "width": WIDTH,
            "parents": PARENTS,
            "pairs": _pairs(setup),
            "checkpoint_bytes": _often(setup),
        }

    def run(self, setup: Setup) -> Sample:
        window, extra = _one_run(setup, layered(max(1, setup.tasks // WIDTH), WIDTH, PARENTS))
        graph = layered(max(1, setup.tasks // PAIR_SHARE // WIDTH), WIDTH, PARENTS)
        with_, without = [], []
        for _ in range(_pairs(setup)):
            without.append(_side(setup, graph, None))
            with_.append(_side(setup, graph, _often(setup)))
        rates = [off.elapsed_ns / on.elapsed_ns for on, off in zip(with_, without, strict=True)]
        extra |= {"dag_on_of_off": statistics.median(rates), "taken": sum(side.taken for side in with_)}
        for name, checkpoint_bytes in (("pause_without", None), ("pause", PACED_BYTES)):
            answers_ns, taken = _paced(setup, checkpoint_bytes)
            extra[f"{name}_p50_ms"] = percentile(answers_ns, 0.5) / 1e6
            extra[f"{name}_p999_ms"] = percentile(answers_ns, 0.999) / 1e6
            extra[f"{name}_taken"] = taken
        return window.sample(setup.tasks // WIDTH * WIDTH, (), **extra)


class Side(NamedTuple):
    """One run of the smaller graph: how long, and how many checkpoints there were."""

    elapsed_ns: int
    taken: int


def _one_run(setup: Setup, graph: TaskGraph) -> tuple[MeasuredWindow, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as parent:
        path = Path(parent) / "state"
        with session.open_folder(path, setup) as runtime:
            session.warm(runtime)
            engine = next(pid for role, pid in members_of(runtime) if role == "engine")
            before_ns = threads_cpu_ns(engine)
            flow = session.flow_of(graph, "checkpoint")
            with MeasuredWindow(session.members(runtime)) as window:
                found = session.run_flow(runtime, flow)
            check_equal(found, session.expected_results(graph), "checkpoint")
            _settle(runtime)
            used_ns = threads_cpu_ns(engine) - before_ns
            beside = runtime.statistics()["checkpoint"]
        begun_ns = time.process_time_ns()
        _take(path)
        last_ns = time.process_time_ns() - begun_ns
        return window, {
            "checkpoint_file_bytes": os.path.getsize(path / CHECKPOINT_NAME),
            "persister_cpu_seconds": (used_ns + beside["cpu_ns"] + last_ns) / 1e9,
            "taken_beside": beside["taken"],
        }


def _side(setup: Setup, graph: TaskGraph, checkpoint_bytes: int | None) -> Side:
    flow = session.flow_of(graph, "dag")
    with session.open_runtime(setup, checkpoint_bytes=checkpoint_bytes) as runtime:
        opened_ns = time.perf_counter_ns()
        found = session.run_flow(runtime, flow)
        elapsed_ns = time.perf_counter_ns() - opened_ns
        check_equal(found, session.expected_results(graph), "dag")
        return Side(elapsed_ns, runtime.statistics()["checkpoint"]["taken"])


def _paced(setup: Setup, checkpoint_bytes: int | None) -> tuple[list[int], int]:
    """How long each answer took while tasks slept at all workers, and how many checkpoints there were.

    This program does nothing else meanwhile: a second thread of Python would have to wait for the first. Nobody waits
    for the disk: an answer would, and the scheduler does not.
    """
    flow, seconds = Flow("paced"), PACED_S_SMOKE if setup.smoke else PACED_S
    for number in range(round(seconds / PACED_NAP_S) * setup.workers):
        flow.add(nap, round(PACED_NAP_S * 1e9), number)
    with session.open_runtime(replace(setup, durability="none"), checkpoint_bytes=checkpoint_bytes) as runtime:
        run, found = runtime.submit(flow), list[int]()
        until = time.monotonic() + seconds
        while time.monotonic() < until or not found:
            asked_ns = time.perf_counter_ns()
            run.status()
            found.append(time.perf_counter_ns() - asked_ns)
            time.sleep(ASK_EACH_S)
        return found, runtime.statistics()["checkpoint"]["taken"]


def _settle(runtime: Runtime) -> None:
    """Wait until no checkpoint is on its way."""
    until = time.monotonic() + SECONDS_MAX
    while runtime.statistics()["checkpoint"]["running"] and time.monotonic() < until:
        time.sleep(session.POLL_S)


def _take(path: Path) -> None:
    """Take a checkpoint of a folder that nobody has open, up to its last record."""
    with StateFolder.open(path, create=False, owner=False) as folder:
        reader = read_log(folder.log, DiskFiles())
        for _ in reader:
            pass
        report = reader.report()
        load_blob = BlobStore(folder.blobs_path, fsync=False).open
        take_checkpoint(folder, report.next_lsn - 1, report.segments[-1].no + 1, DiskFiles(), load_blob)


def _pairs(setup: Setup) -> int:
    return PAIRS_SMOKE if setup.smoke else PAIRS


def _often(setup: Setup) -> int:
    return limits.CHECKPOINT_BYTES_MIN if setup.smoke else OFTEN_BYTES

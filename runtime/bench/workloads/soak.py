"""Scenario `soak`: steady load for a time, with retention and checkpoints; whether anything grows.

Each tenth of a second so many tasks are run to their end: half of them in bulk, some one by one, some as a graph. Few
finished runs are kept in memory, the archive keeps them for a part of the time, and there is a checkpoint after little
log, so that all that should go is gone many times over.
Read are the bytes of the state folder, the memory that each process has for itself, and the descriptors of all. (Memory
that they share is of a fixed size, and pages of it are used one after the other, for minutes.) The
first third is warming up. Of the rest a line is drawn through the means of eight stretches: its slope, with 99 % of its
noise, says whether it is flat. `--seconds 600` is the long one.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from runtime import Retention, Runtime
from runtime.bench import session
from runtime.bench.chart import BLOCKS, chart, slope_of
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, descriptors, members_of, private_bytes
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.bench.workloads.graphs import layered

SECONDS: Final = 10.0
SECONDS_SMOKE: Final = 2.0
TICK_S: Final = 0.1
READINGS_MAX: Final = 600
ONE_BY_ONE: Final = 20
GRAPH: Final = layered(5, 10, 3)
RUNS: Final = 100
NODES: Final = 10_000
ARCHIVE_SHARE: Final = 1 / 20
"""Of the time, for which the archive keeps a run: it is full, and is trimmed, long before warming up is over."""
CHECKPOINT_BYTES: Final = 64 * 1024
WARM_SHARE: Final = 1 / 3
NAMES: Final = ("disk", "memory", "descriptors")


class Reading(NamedTuple):
    """What there is at a moment."""

    at_s: float
    disk: float
    memory: float
    descriptors: float


class SoakScenario(Scenario):
    """Disk, memory and descriptors under steady load; the window is the load."""

    name = "soak"
    title = "steady load for --seconds with retention, charts of disk, memory, descriptors; --tasks a second"
    tasks_default = 5_000
    tasks_smoke = 1_000

    def params(self, setup: Setup) -> dict[str, Any]:
        return {
            "workers": setup.workers,
            "for_seconds": _seconds(setup),
            "tasks_a_second": setup.tasks,
            "runs_kept": RUNS,
            "archive_s": _seconds(setup) * ARCHIVE_SHARE,
            "checkpoint_bytes": CHECKPOINT_BYTES,
        }

    def run(self, setup: Setup) -> Sample:
        with tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as parent:
            path = Path(parent) / "state"
            kept = Retention(runs=RUNS, nodes=NODES, archive=_seconds(setup) * ARCHIVE_SHARE)
            with session.open_folder(path, setup, retention=kept, checkpoint_bytes=CHECKPOINT_BYTES) as runtime:
                session.warm(runtime)
                with MeasuredWindow(session.members(runtime)) as window:
                    tasks, readings = _load(runtime, path, setup)
                checkpoints = runtime.statistics()["checkpoint"]
        if checkpoints["trouble"]:
            raise BenchError(f"a checkpoint failed: {checkpoints['trouble']}")
        extra, lines = judged(readings)
        extra["checkpoints"] = checkpoints["taken"]
        sample = window.sample(tasks, (), **extra)
        return Sample(tasks, sample.elapsed_ns, sample.cpu_ns, sample.rss_bytes, extra=extra, lines=lines)


def judged(readings: Sequence[Reading]) -> tuple[dict[str, float], list[str]]:
    """Figures and charts of what was read: the slope of each, what of it is noise, and whether it is flat."""
    extra: dict[str, float] = {}
    lines: list[str] = []
    kept = readings[int(len(readings) * WARM_SHARE) :]
    for name in NAMES:
        slope = slope_of([reading.at_s for reading in kept], [getattr(reading, name) for reading in kept])
        extra |= {f"{name}_a_minute": slope.per_second * 60, f"{name}_noise": slope.noise * 60}
        extra[f"{name}_flat"] = float(slope.flat)
        values = [getattr(reading, name) for reading in readings]
        lines += [
            f"{name}: {_said(name, min(values))} to {_said(name, max(values))}; after warming up "
            f"{_said(name, slope.per_second * 60)} a minute ± {_said(name, slope.noise * 60)}: "
            + ("flat" if slope.flat else "grows" if slope.per_second > 0 else "shrinks"),
            *(f"  |{row}" for row in chart(values)),
        ]
    return extra, lines


def _load(runtime: Runtime, path: Path, setup: Setup) -> tuple[int, list[Reading]]:
    """Run the load; returns how many tasks that were, and what was read."""
    seconds, each = _seconds(setup), max(1, round(setup.tasks * TICK_S))
    between_s = max(seconds / READINGS_MAX, TICK_S)
    begun = time.monotonic()
    readings, tasks, next_tick, next_reading = list[Reading](), 0, begun, begun
    while (now := time.monotonic()) < begun + seconds or len(readings) < 2 * BLOCKS:
        if now >= next_reading:
            readings.append(_read(runtime, path, now - begun))
            next_reading = max(next_reading + between_s, now)
        tasks += _tick(runtime, each)
        next_tick = max(next_tick + TICK_S, time.monotonic() - TICK_S)  # what is late is not made up for ever
        time.sleep(max(0.0, next_tick - time.monotonic()))
    return tasks, readings


def _tick(runtime: Runtime, tasks: int) -> int:
    """Run about so many tasks to their end; returns how many."""
    single = [runtime.submit_nowait(increment, value) for value in range(min(ONE_BY_ONE, tasks))]
    graph = runtime.submit(session.flow_of(GRAPH, "soak")) if tasks > len(GRAPH) else None
    bulk = max(1, tasks - len(single) - (len(GRAPH) if graph else 0))
    check_equal(list(runtime.map(increment, range(bulk))), list(range(1, bulk + 1)), "soak")
    check_equal([handle.result(SECONDS_MAX) for handle in single], list(range(1, len(single) + 1)), "soak")
    if graph is not None:
        check_equal(graph.result(timeout=SECONDS_MAX), session.expected_results(GRAPH), "soak")
    return bulk + len(single) + (len(GRAPH) if graph else 0)


def _read(runtime: Runtime, path: Path, at_s: float) -> Reading:
    pids = [pid for _, pid in members_of(runtime)]
    return Reading(at_s, _bytes_in(path), sum(map(private_bytes, pids)), sum(map(descriptors, pids)))


def _bytes_in(path: Path) -> int:
    """Of all files below a folder, as they are when it is their turn: some go meanwhile."""
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue
    return found


def _said(name: str, value: float) -> str:
    return f"{value:,.1f}" if name == "descriptors" else f"{value / 1e6:,.2f} MB"


def _seconds(setup: Setup) -> float:
    return setup.seconds or (SECONDS_SMOKE if setup.smoke else SECONDS)

"""Scenario `polling`: the same load through the engine, and through a table in SQLite that workers poll.

For each of three depths, `--tasks` and a twentieth and a thousandth of it, so many tasks of a paused tenant wait, and
the workers are idle. Then:

- tasks that may start are submitted one by one, at a steady pace: how long from submitting to starting (p50, p99), and
  how much of a core all processes use meanwhile;
- the tenant is resumed: how many of those that waited run in a second, and what CPU time each takes, by role.

The baseline (`runtime.bench.polled`) has as many workers and keeps the same promise (`--durability`). It is stopped
`DRAIN_S` after the tenant was resumed, whatever is left, and its rate is counted from its first start to its last end,
so that the wait for its next look is not in it. Submitting what waits is measured on neither side. The ratio compares
the time a task at the largest depth; p50 and p99 are those of the largest depth, too.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from runtime import Runtime
from runtime.bench import polled, session
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import burn_stamp, increment
from runtime.bench.measure import MeasuredWindow, Members, members_with_children, percentile
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal

SHARES = (1_000, 20, 1)
"""The depths are `--tasks` divided by these."""
PROBES = 30
PROBES_SMOKE = 1
PROBE_EVERY_S = 0.04
BACKLOG = "backlog"
PROBE = "probe"
DRAIN_S = 1.5


class PollingScenario(Scenario):
    """Latency of tasks that may start, and rate of those that waited."""

    name = "polling"
    title = "tasks that come, and tasks that wait, through the engine and a polled table; a task is a waiting one"
    tasks_default = 100_000
    tasks_smoke = 1_000
    durability_default = "os"
    baseline_name = "table in SQLite, polled"
    baseline_is_as_durable = True

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "probes": _probes(setup)}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return {**self.params(setup), "poll_s": polled.POLL_S}

    def run(self, setup: Setup) -> Sample:
        return _together([_ours(setup, depth) for depth in _depths(setup)])

    def run_baseline(self, setup: Setup) -> Sample:
        return _together([_theirs(setup, depth) for depth in _depths(setup)])


class Depth(NamedTuple):
    """What was found with so many waiting."""

    waiting: int
    latencies_ns: Sequence[int]
    probe_cpu_percent: float
    done: int
    elapsed_ns: int
    cpu_ns: Mapping[str, int]
    rss_bytes: int


def _depths(setup: Setup) -> list[int]:
    return [max(1, setup.tasks // share) for share in SHARES]


def _probes(setup: Setup) -> int:
    return PROBES_SMOKE if setup.smoke else PROBES


def _together(depths: Sequence[Depth]) -> Sample:
    """One sample of all depths."""
    extra: dict[str, float] = {}
    for depth in depths:
        extra |= {
            f"start_p50_ms_{depth.waiting}": percentile(depth.latencies_ns, 0.50) / 1e6,
            f"start_p99_ms_{depth.waiting}": percentile(depth.latencies_ns, 0.99) / 1e6,
            f"probe_cpu_percent_{depth.waiting}": depth.probe_cpu_percent,
            f"per_second_{depth.waiting}": depth.done / depth.elapsed_ns * 1e9,
            f"cpu_us_{depth.waiting}": sum(depth.cpu_ns.values()) / depth.done / 1e3,
        }
    last = depths[-1]
    return Sample(
        tasks=last.done,
        elapsed_ns=last.elapsed_ns,
        cpu_ns=last.cpu_ns,
        rss_bytes=last.rss_bytes,
        p50_ns=percentile(last.latencies_ns, 0.50),
        p99_ns=percentile(last.latencies_ns, 0.99),
        extra=extra,
    )


def _probe(send: Callable[[int], None], count: int, members: Members) -> tuple[list[int], MeasuredWindow]:
    """Send so many at a steady pace; returns when each was sent, and the window."""
    sent: list[int] = []
    with MeasuredWindow(members) as window:
        opened = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, opened + number * PROBE_EVERY_S - time.monotonic()))
            sent.append(time.monotonic_ns())
            send(number)
        time.sleep(PROBE_EVERY_S)
    return sent, window


def _percent(window: MeasuredWindow) -> float:
    return 100 * sum(window.cpu_ns.values()) / window.elapsed_ns


# --- the engine ---------------------------------------------------------------------------------------------------


def _ours(setup: Setup, waiting: int) -> Depth:
    with session.open_runtime(setup) as runtime:
        members = session.members(runtime)
        runtime.pause(f"tenant:{BACKLOG}")
        patient = runtime.options(tenant=BACKLOG)
        backlog = [session.submit_soon(patient, increment, number) for number in range(waiting - 1)]
        backlog.append(patient.submit(increment, waiting - 1))  # all that went before are durable, too
        latencies_ns, probed = _probe_engine(runtime, setup, members)
        with MeasuredWindow(members) as window:
            runtime.resume(f"tenant:{BACKLOG}")
            found = [handle.result(SECONDS_MAX) for handle in backlog]
        check_equal(found, list(range(1, waiting + 1)), "polling")
    return Depth(waiting, latencies_ns, _percent(probed), waiting, window.elapsed_ns, window.cpu_ns, window.rss_bytes)


def _probe_engine(runtime: Runtime, setup: Setup, members: Members) -> tuple[list[int], MeasuredWindow]:
    handles: list[Any] = []
    sent, window = _probe(lambda number: handles.append(runtime.submit(burn_stamp, 0, number)), _probes(setup), members)
    stamps = [handle.result(SECONDS_MAX) for handle in handles]
    check_equal([value for value, _ in stamps], list(range(len(sent))), "probes")
    return [started - at for at, (_, started) in zip(sent, stamps, strict=True)], window


# --- the table ----------------------------------------------------------------------------------------------------


def _theirs(setup: Setup, waiting: int) -> Depth:
    with (
        tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as folder,
        polled.open_table(Path(folder), setup.workers, setup.durability) as table,
    ):
        table.pause(BACKLOG)
        table.submit(BACKLOG, range(waiting))
        sent, probed = _probe(lambda number: table.submit(PROBE, [number]), _probes(setup), members_with_children)
        table.wait(PROBE, len(sent), SECONDS_MAX)
        probes = _checked(table, PROBE, len(sent))
        with MeasuredWindow(members_with_children) as window:
            table.resume(BACKLOG)
            table.wait(BACKLOG, 1, SECONDS_MAX)
            everything = table.wait(BACKLOG, waiting, DRAIN_S)
        ended = _checked(table, BACKLOG, waiting, unfinished=0 if everything else setup.workers)
    elapsed_ns = max(task.ended_ns for task in ended) - min(task.started_ns for task in ended)
    latencies_ns = [task.started_ns - at for at, task in zip(sent, probes, strict=True)]
    return Depth(
        waiting, latencies_ns, _percent(probed), len(ended), max(1, elapsed_ns), window.cpu_ns, window.rss_bytes
    )


def _checked(table: polled.PolledTable, tenant: str, count: int, *, unfinished: int = 0) -> list[polled.Ended]:
    """What has ended, right, each once, first in first out but for so many that a worker still had."""
    ended = table.ended(tenant)
    values = [task.value for task in ended]
    expected = [*range(count)]
    if unfinished and values:
        claimed = range(max(values) + 1)
        if len(claimed) - len(values) > unfinished:
            raise BenchError(f"the table lost {len(claimed) - len(values)} of {len(claimed)} tasks")
        expected = sorted({*claimed} & {*values})
    check_equal(values, expected, "tasks of the table")
    check_equal([task.result for task in ended], [value + 1 for value in values], "results of the table")
    check_equal({task.starts for task in ended}, {1}, "starts of the table")
    return ended

"""Scenario `profile-cost`: what the profiler itself costs, each figure with what it may be.

An engine is kept busy by rounds of short tasks, half of them on a worker of each mode, with single tasks in between
whose results are waited for; some hundred more tasks wait in the loop, to be looked at. What is always on (19 ticks a
second of CPU time, a look a second at what waits, the ring of the last minute) is switched on and off in the running
processes, a window each, in pairs (`runtime.bench.paired`). Compared are the CPU time of engine and workers for a task,
and the 99th percentile of the single tasks. Then the same with a capture of 99 ticks a second over each second window,
from question to answer, against nothing at all.

How much CPU time a short task takes differs by a tenth from window to window on a machine that is shared, so there is a
sharper look at the same, too: what a worker that computes gets done in its CPU time, and how long the slowest of a
hundred units of its work take, with all of it on and off.

Pauses: a probe in a worker of each mode looks at the clocks all the time, on a core of its own, while captures run and
everything that can be asked is asked, with 10,000 tasks in the loop; see `profile_handlers.Pauses`. The middle one of
five counts: a virtual core may stand still for milliseconds, unseen by its kernel. And a proof in a heap of a million
objects, an entry of the books, and the memory that the rings have after all that.

A limit that is missed beyond doubt is said, and the command ends with 1.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from runtime import NodeType, Priority, Runtime
from runtime.bench import session
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import increment
from runtime.bench.limits import Limit, point, table
from runtime.bench.measure import cpu_ns, percentile, rss_bytes
from runtime.bench.paired import MISSED, abba, difference, quantile_difference, undisturbed
from runtime.bench.profile_handlers import (
    increment_async,
    leave,
    ledger_cost,
    paired_work,
    paired_work_async,
    park,
    parked,
    probe,
    probe_async,
    prove_here,
)
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.profile.captures import capture
from runtime.profile.presence.control import ask
from runtime.submitter import Submitter

LOOP: Final = "loop"
ROUND: Final = 1_000
SINGLES: Final = 16
WAITING: Final = 256
WAITING_MANY: Final = 10_000
CAPTURE_S: Final = 10.0
"""The default of `python -m runtime.profile cpu --duration`."""
PROBE_S: Final = 3.0
ENOUGH_NS: Final = 2_000_000_000
"""CPU time in which there are ticks for certain."""
SETTLE_S: Final = 0.02
"""For processes to fall asleep: the CPU clock of one that runs is as of its last tick."""


class CostSizes(NamedTuple):
    """How much of each is done."""

    pairs: int
    waiting: int
    waiting_many: int
    capture_s: float
    probe_s: float
    objects: int
    times: int
    entries: int
    work_ns: int
    work_pairs: int

    @classmethod
    def of(cls, setup: Setup) -> CostSizes:
        """The whole, or for tests."""
        if setup.smoke:
            return cls(2, 32, 200, 0.05, 0.1, 10_000, 1, 1_000, 5_000_000, 2)
        return cls(30, WAITING, WAITING_MANY, CAPTURE_S, PROBE_S, 1_000_000, 5, 100_000, 20_000_000, 500)


class PairedWork(NamedTuple):
    """Of each pair, as `paired_work` says: always on in a worker of each mode, and a capture."""

    process: list[list[float]]
    loop: list[list[float]]
    capture: list[list[float]]


class LoadWindow(NamedTuple):
    """One window of load."""

    tasks: int
    elapsed_ns: int
    cpu_ns: dict[str, int]
    times_ns: list[int]

    @property
    def cpu_ns_per_task(self) -> float:
        """Of engine and workers, which is where the profiler is."""
        return sum(self.cpu_ns.values()) / self.tasks


class ProfileCostScenario(Scenario):
    """The window is that of the load with everything on; p50 and p99 are those of single tasks."""

    name = "profile-cost"
    title = "what the profiler costs, on and off in turns, beside what it may; --tasks of a window"
    tasks_default = 60_000
    tasks_smoke = ROUND
    durability_default = "os"

    def params(self, setup: Setup) -> dict[str, Any]:
        sizes = CostSizes.of(setup)
        return {"workers": max(2, setup.workers), "pairs": sizes.pairs, "waiting": sizes.waiting}

    def run(self, setup: Setup) -> Sample:
        sizes = CostSizes.of(setup)
        loop = NodeType(LOOP, workers=1, mode="asyncio", concurrency=64)
        types = [*session.node_types(max(1, setup.workers - 1)), loop]
        with session.open_runtime(setup, node_types=types) as runtime:
            list(runtime.options(node_type=LOOP).map(increment_async, range(100)))
            load = BusyRuntime(runtime)
            with load.waiting(sizes.waiting):
                pairs, own = always_pairs(load, sizes, setup.tasks)
                demand, own_demand = demand_pairs(load, sizes)
                work = load.work(sizes)
            with load.waiting(sizes.waiting_many):
                quiet, asked = pauses(load, sizes)
            proofs = load.proofs(sizes)
            rings = [facts["ring_bytes"] for facts in load.switch(None).values()]
        ledger = ledger_cost(sizes.entries)
        found = _sample(pairs, demand, (own, own_demand), work, (quiet, asked), proofs, max(rings), ledger)
        return replace(found, missed=()) if setup.smoke else found


class BusyRuntime:
    """What keeps a runtime busy, and switches what is always on."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.on_loop = runtime.options(node_type=LOOP)
        self.quick = runtime.options(priority=Priority.REALTIME)
        self.members = [
            ("workers" if row["role"] == "worker" else row["role"], row["pid"])
            for row in runtime.processes()
            if row["role"] in ("engine", "worker")
        ]
        self.pids = frozenset(pid for _, pid in self.members)

    @contextmanager
    def waiting(self, count: int) -> Iterator[None]:
        """So many tasks wait in the loop."""
        handle = self.on_loop.submit(park, count)
        until = time.monotonic() + SECONDS_MAX
        while not self.on_loop.submit(parked).result(SECONDS_MAX):
            if time.monotonic() > until:
                raise BenchError("tasks that shall wait did not begin")
        try:
            yield
        finally:
            self.on_loop.submit(leave).result(SECONDS_MAX)
            check_equal(handle.result(SECONDS_MAX), count, "tasks that waited")

    def switch(self, on: bool | None) -> dict[int, dict[str, Any]]:
        """Switch what is always on; None: leave it. What there is of it, by pid."""
        answers = ask(self.runtime.state_dir, "always", only=self.pids, on=on)
        found = {process.pid: orjson.loads(content) for process, content in answers.rows}
        if found.keys() != self.pids:
            raise BenchError(f"{len(found)} of {len(self.pids)} processes answered")
        return found

    def round(self) -> list[int]:
        """A round of tasks to their end; the times of single ones among them."""
        handles = [session.submit_soon(self.runtime, increment, value) for value in range(ROUND // 2)]
        handles += [session.submit_soon(self.on_loop, increment_async, value) for value in range(ROUND // 2)]
        clock, times = time.perf_counter_ns, []
        for number in range(SINGLES):
            begun_ns = clock()
            if self.quick.submit_nowait(increment, number).result(SECONDS_MAX) != number + 1:
                raise BenchError("a single task has a wrong result")
            times.append(clock() - begun_ns)
        found = [handle.result(SECONDS_MAX) for handle in handles]
        check_equal(found, [*range(1, ROUND // 2 + 1)] * 2, "a round")
        return times

    def window(self, goes_on: Callable[[int], bool]) -> LoadWindow:
        """Rounds for as long as is said, given how many there were."""
        before = [cpu_ns(pid) for _, pid in self.members]
        opened_ns, times, rounds = time.perf_counter_ns(), list[int](), 0
        while goes_on(rounds):
            times += self.round()
            rounds += 1
        elapsed_ns = time.perf_counter_ns() - opened_ns
        time.sleep(SETTLE_S)
        used = dict[str, int]()
        for (role, pid), was in zip(self.members, before, strict=True):
            used[role] = used.get(role, 0) + cpu_ns(pid) - was
        return LoadWindow(rounds * (ROUND + SINGLES), elapsed_ns, used, times)

    def work(self, sizes: CostSizes) -> PairedWork:
        """What a worker that computes gets done."""
        pairs, ns = sizes.work_pairs, sizes.work_ns
        process = self.runtime.submit(paired_work, pairs, ns, 0.0).result(SECONDS_MAX)
        loop = self.on_loop.submit(paired_work_async, pairs, ns).result(SECONDS_MAX)
        captured = self.runtime.submit(paired_work, pairs, ns, 99.0).result(SECONDS_MAX)
        return PairedWork(process, loop, captured)

    def proofs(self, sizes: CostSizes) -> list[float]:
        """Pauses by proofs in a large heap, in milliseconds for a million objects."""
        found = self.on_loop.submit(prove_here, sizes.objects, sizes.times).result(SECONDS_MAX)
        if any(objects < sizes.objects for _, objects in found):
            raise BenchError("a proof was not made")
        return [pause_ns / objects for pause_ns, objects in found]


# --- what is always on, and what is asked for ---------------------------------------------------------------------


def always_pairs(load: BusyRuntime, sizes: CostSizes, tasks: int) -> tuple[list[tuple[LoadWindow, LoadWindow]], float]:
    """Windows without and with what is always on; and what it says itself, in percent of the CPU time."""
    own_ns = cpu = ticks = 0

    def window(on: bool) -> LoadWindow:
        nonlocal own_ns, cpu, ticks
        before = load.switch(on)
        found = load.window(lambda rounds: rounds * ROUND < tasks)
        after = load.switch(None)
        if not on and _sum(after, "ticks") != _sum(before, "ticks"):
            raise BenchError("there were ticks where they are off")
        if on:
            own_ns += sum(_sum(after, name) - _sum(before, name) for name in ("ticks_ns", "looks_ns"))
            ticks += _sum(after, "ticks") - _sum(before, "ticks")
            cpu += sum(found.cpu_ns.values())
        return found

    try:
        pairs = abba(sizes.pairs, window)
    finally:
        load.switch(True)
    if not ticks and cpu > ENOUGH_NS:
        raise BenchError("there were no ticks where they are on")
    return pairs, 100.0 * own_ns / cpu


def demand_pairs(load: BusyRuntime, sizes: CostSizes) -> tuple[list[tuple[LoadWindow, LoadWindow]], float]:
    """Windows without anything and with a capture; and what that says itself, ticks and answer, in percent."""
    own_ns = cpu = 0

    def window(on: bool) -> LoadWindow:
        nonlocal own_ns, cpu
        record = partial(capture.cpu, load.runtime, sizes.capture_s, pids=load.pids)
        before = load.switch(None)
        thread = threading.Thread(target=record if on else partial(time.sleep, sizes.capture_s))
        thread.start()
        found = load.window(lambda rounds: thread.is_alive() or not rounds)
        thread.join()
        if on:
            own_ns += _sum(load.switch(None), "self_ns") - _sum(before, "self_ns")
            cpu += sum(found.cpu_ns.values())
        return found

    load.switch(False)
    try:
        pairs = abba(max(sizes.pairs // 3, 2), window)
    finally:
        load.switch(True)
    return pairs, 100.0 * own_ns / cpu


def _sum(facts: dict[int, dict[str, Any]], name: str) -> int:
    return sum(int(row[name]) for row in facts.values())


# --- pauses -------------------------------------------------------------------------------------------------------


class LongestPauses(NamedTuple):
    """The longest in a worker of each mode, in nanoseconds: by the wall clock, and without waiting for a core."""

    process: list[float]
    loop: list[float]


def pauses(load: BusyRuntime, sizes: CostSizes) -> tuple[LongestPauses, LongestPauses]:
    """With nothing on, and with everything on and asked for."""
    load.switch(False)
    quiet = _probed(load, sizes, lambda: None)
    load.switch(True)
    asked = [_probed(load, sizes, lambda: _ask_all(load, sizes)) for _ in range(sizes.times)]
    modes = zip(*asked, strict=True)
    return quiet, LongestPauses(*([statistics.median(one) for one in zip(*of, strict=True)] for of in modes))


def _probed(load: BusyRuntime, sizes: CostSizes, meanwhile: Callable[[], None]) -> LongestPauses:
    everyone = [os.getpid(), *(row["pid"] for row in load.runtime.processes())]

    def probed(submitter: Submitter, fn: Callable[[int, list[int]], Any]) -> list[float]:
        handle = submitter.submit(fn, int(sizes.probe_s * 1e9), everyone)
        session.await_running([handle])
        meanwhile()
        return list(handle.result(SECONDS_MAX))

    # one at a time: the others need cores
    return LongestPauses(probed(load.runtime, probe), probed(load.on_loop, probe_async))


def _ask_all(load: BusyRuntime, sizes: CostSizes) -> None:
    where, pids, seconds = load.runtime.state_dir, load.pids, sizes.probe_s / 2
    (recording := threading.Thread(target=capture.cpu, args=(where, seconds), kwargs={"pids": pids})).start()
    until = time.monotonic() + seconds / 2
    capture.live(where, pids=pids)
    capture.held(where, "task", pids=pids)
    capture.flight(where, pids=pids)
    ask(where, "tree", only=pids)
    capture.awaits(where, max(0.1, until - time.monotonic()), pids=pids)
    recording.join()


# --- figures ------------------------------------------------------------------------------------------------------


def _sample(
    pairs: Sequence[tuple[LoadWindow, LoadWindow]],
    demand: Sequence[tuple[LoadWindow, LoadWindow]],
    own: tuple[float, float],
    work: PairedWork,
    paused: tuple[LongestPauses, LongestPauses],
    proofs: Sequence[float],
    ring_bytes: int,
    ledger: dict[str, float],
) -> Sample:
    quiet, asked = paused
    limits = [
        Limit("always on: CPU, mode process", difference(_two(work.process)), 1.0, "%"),
        Limit("always on: CPU, mode asyncio", difference(_two(work.loop)), 1.0, "%"),
        Limit("99 Hz: CPU", difference(_two(work.capture)), 3.0, "%"),
        Limit("always on: p99, mode process", difference(_two(work.process, 2)), 2.0, "%"),
        Limit("always on: p99, mode asyncio", difference(_two(work.loop, 2)), 2.0, "%"),
        Limit("always on: CPU for a short task", difference(_cpu(pairs)), 1.0, "%"),
        Limit("always on: p99 of a short task", quantile_difference(_times(pairs), 0.99), 2.0, "%"),
        Limit("99 Hz: CPU for a short task", difference(_cpu(demand)), 3.0, "%"),
        Limit("longest pause, mode process", point(asked.process[1] / 1e6), 2.0, "ms"),
        Limit("longest pause, mode asyncio", point(asked.loop[1] / 1e6), 2.0, "ms"),
        Limit("proof, a million objects", point(statistics.median(proofs)), 10.0, "ms"),
        Limit("entry and release", point(ledger["pair_ns"] / 1e3), 0.6, "us"),
        Limit("entry", point(ledger["entry_bytes"]), 200.0, "bytes"),
        Limit("rings", point(ring_bytes / (1 << 20)), 16.0, "MiB"),
    ]
    extra: dict[str, float] = {}
    names = ("process_cpu", "asyncio_cpu", "demand_cpu", "process_p99", "asyncio_p99", "task_cpu", "task_p99",
             "demand_task_cpu")  # fmt: skip
    for name, limit in zip(names, limits, strict=False):
        extra |= zip((f"{name}_percent", f"{name}_low", f"{name}_high"), limit.found, strict=True)
    extra |= {"always_own_percent": own[0], "demand_own_percent": own[1]}
    for name, at in (("process", 0), ("asyncio", 1)):
        extra |= {f"pause_{name}_ms": asked[at][1] / 1e6, f"pause_{name}_quiet_ms": quiet[at][1] / 1e6}
        extra |= {f"pause_{name}_wall_ms": asked[at][0] / 1e6, f"pause_{name}_quiet_wall_ms": quiet[at][0] / 1e6}
    extra |= {"proof_ms_per_million": statistics.median(proofs), "rings_bytes": ring_bytes}
    extra |= {"ledger_pair_us": ledger["pair_ns"] / 1e3, "ledger_entry_bytes": ledger["entry_bytes"]}
    times = [time_ns for _, on in pairs for time_ns in on.times_ns]
    used = dict(sum((Counter(on.cpu_ns) for _, on in pairs), Counter[str]()))
    return Sample(
        tasks=sum(on.tasks for _, on in pairs),
        elapsed_ns=sum(on.elapsed_ns for _, on in pairs),
        cpu_ns=used,
        rss_bytes=rss_bytes(os.getpid()),
        p50_ns=percentile(times, 0.5),
        p99_ns=percentile(times, 0.99),
        extra=extra,
        lines=table(limits),
        missed=[limit.name for limit in limits if limit.verdict == MISSED],
    )


def _cpu(pairs: Sequence[tuple[LoadWindow, LoadWindow]]) -> list[tuple[float, float]]:
    return [(off.cpu_ns_per_task, on.cpu_ns_per_task) for off, on in pairs]


def _two(pairs: Sequence[list[float]], at: int = 0) -> list[tuple[float, float]]:
    return undisturbed([(found[at], found[at + 1]) for found in pairs])


def _times(pairs: Sequence[tuple[LoadWindow, LoadWindow]]) -> list[tuple[list[int], list[int]]]:
    return [(off.times_ns, on.times_ns) for off, on in pairs]

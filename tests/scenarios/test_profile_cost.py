"""The profiler itself: it leaves nothing behind and grows nowhere, says what it costs, and can be switched.

Acceptance test 10: its soak, shortened; at full length behind the mark `soak`. How much it costs is measured by
`python -m runtime.bench profile-cost`, which fails where a limit of PROFILER.md 4.6 is missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from runtime import NodeType, Retention, Runtime
from runtime.bench.chart import slope_of
from runtime.bench.measure import descriptors, private_bytes
from runtime.host import kernel
from runtime.profile.captures import capture
from runtime.profile.presence.control import ask, seen_page
from runtime.profile.presence.page import REQUESTS
from runtime.profile.presence.processes import looked
from runtime.profile.sampling.always import ALWAYS
from runtime.profile.sampling.buckets import RING_BYTES_MAX, ROWS_MAX
from runtime.profile.sampling.labels import LABEL_SETS_MAX
from tests.scenarios import handlers_sampling as handlers
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")]
PATIENCE_S = 60.0
TYPES = [NodeType("cpu", workers=1), NodeType("io", workers=1, mode="asyncio", concurrency=50)]
KEPT = Retention(runs=1_000, nodes=1_000)
"""Finished tasks that the engine keeps: fewer than there are before it is warm, so that what it keeps grows no more."""
TENANTS = 100
MIB = 1 << 20


def pids_of(rt: Runtime) -> frozenset[int]:
    return frozenset(row["pid"] for row in rt.processes() if row["role"] in ("engine", "worker"))


def facts_of(rt: Runtime, **options: Any) -> dict[int, dict[str, Any]]:
    """What there is of the profiler in engine and workers."""
    answers = ask(rt.state_dir, "always", only=pids_of(rt), timeout=PATIENCE_S, **options)
    assert (answers.missing, answers.failed) == ([], [])
    return {process.pid: orjson.loads(content) for process, content in answers.rows}


@contextmanager
def opened(state_dir: Path) -> Iterator[Runtime]:
    """A runtime whose workers are all there."""
    with Runtime(state_dir, node_types=TYPES, retention=KEPT) as rt:
        rt.submit(handlers.short, 1).result(timeout=PATIENCE_S)
        rt.options(node_type="io").submit(handlers.part, 1).result(timeout=PATIENCE_S)
        yield rt


def look_all_over(rt: Runtime, number: int) -> None:
    """A round of load, with labels that others do not have, and of everything that can be asked."""
    tenant = f"tenant {number % TENANTS}"
    cpu, io = rt.options(tenant=tenant), rt.options(node_type="io", tenant=tenant)
    tasks = [cpu.submit_nowait(handlers.short, n) for n in range(40)] + [
        io.submit_nowait(handlers.part, 300) for _ in range(40)
    ]
    where, pids = rt.state_dir, pids_of(rt)
    assert capture.cpu(where, 0.02, hz=250, pids=pids).kind == "cpu"
    capture.awaits(where, 0.02, pids=pids)
    capture.live(where, pids=pids)
    capture.flight(where, pids=pids)
    capture.held(where, "task", pids=pids)
    ask(where, "tree", only=pids, timeout=PATIENCE_S)
    ask(where, "left", only=pids, timeout=PATIENCE_S)
    for task in tasks:
        task.wait(timeout=PATIENCE_S)


def assert_bounded(facts: dict[int, dict[str, Any]]) -> None:
    for found in facts.values():
        assert found["askers"] == [ALWAYS]
        assert found["errors"] == 0, found["failure"]
        assert found["rows"] <= 2 * ROWS_MAX
        assert found["ring_bytes"] <= 2 * RING_BYTES_MAX
        assert found["label_sets"] <= 4 * LABEL_SETS_MAX


def held_by(rt: Runtime) -> dict[int, tuple[int, int, int]]:
    """Entries of the books, threads and descriptors of each process: what must not grow."""
    return {pid: (found["entries"], found["threads"], descriptors(pid)) for pid, found in facts_of(rt).items()}


def soak(rt: Runtime, goes_on: Callable[[int], bool], warm_rounds: int) -> dict[int, list[tuple[float, int]]]:
    """Look at everything again and again; memory of each process by time, from when it was warm."""
    memory: dict[int, list[tuple[float, int]]] = {}
    before: dict[int, tuple[int, int, int]] = {}
    number = 0
    while goes_on(number):
        look_all_over(rt, number)
        number += 1
        if number == warm_rounds:
            before = held_by(rt)
        elif number > warm_rounds:
            for pid in before:
                memory.setdefault(pid, []).append((time.monotonic(), private_bytes(pid)))
    assert_bounded(facts_of(rt))

    def more_than_before() -> dict[int, tuple[int, int, int]]:
        now = held_by(rt)
        return {pid: now[pid] for pid in before if any(a > b for a, b in zip(now[pid], before[pid], strict=True))}

    with suppress(AssertionError):
        until(lambda: not more_than_before(), "no process to hold more than when it was warm", PATIENCE_S)
    assert more_than_before() == {}, f"before it was {before}"
    assert not list(Path(rt.state_dir, "profile").glob("ask-*"))
    with seen_page(rt.state_dir) as page:
        assert not any(map(page.number, range(REQUESTS)))
    return memory


def test_looking_again_and_again_leaves_nothing_behind(state_dir: Path) -> None:
    """Acceptance test 10, the soak, shortened: entries, threads, descriptors, rings, requests."""
    with opened(state_dir) as rt:
        memory = soak(rt, lambda number: number < 8, warm_rounds=4)
        assert len(memory) == 3


@pytest.mark.soak
def test_looking_for_ten_minutes_takes_no_more_memory(state_dir: Path) -> None:
    """Acceptance test 10, the soak: besides, the slope of resident memory is none."""
    with opened(state_dir) as rt:
        ends_s = time.monotonic() + 600.0
        memory = soak(rt, lambda _: time.monotonic() < ends_s, warm_rounds=200)
    for pid, readings in memory.items():
        kept = readings[len(readings) // 3 :]
        slope = slope_of([at_s for at_s, _ in kept], [found for _, found in kept])
        grown = slope.per_second * (kept[-1][0] - kept[0][0])
        assert slope.flat or grown < MIB, f"pid {pid} grew by {grown:,.0f} bytes: {slope}"


def test_what_is_always_on_is_switched_in_processes_that_run(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        off = facts_of(rt, on=False)
        assert all(found["askers"] == [] and found["hz"] == 0 for found in off.values())
        list(rt.map(handlers.short, range(2_000)))
        assert {pid: found["ticks"] for pid, found in facts_of(rt).items()} == {
            pid: found["ticks"] for pid, found in off.items()
        }
        fast = facts_of(rt, on=True, hz=250)
        assert all(found["askers"] == [ALWAYS] and found["hz"] == 250 for found in fast.values())

        def tick() -> bool:
            list(rt.map(handlers.short, range(500)))
            return any(found["ticks"] > fast[pid]["ticks"] for pid, found in facts_of(rt).items())

        until(tick, "ticks", PATIENCE_S)
        usual = facts_of(rt, on=True)
        assert all(found["hz"] == 19 for found in usual.values())


def test_each_process_says_what_the_profiler_takes_of_it(state_dir: Path) -> None:
    """PROFILER.md 4.6: self-accounting, ticks included."""
    with opened(state_dir) as rt:
        facts_of(rt, on=True, hz=250)

        def told() -> bool:
            list(rt.map(handlers.short, range(500)))
            rows = {row.process.pid: row for row in looked(state_dir)}
            return all(rows[pid].self_ns > found["ticks_ns"] > 0 for pid, found in facts.items() if found["ticks"] > 1)

        list(rt.map(handlers.short, range(2_000)))
        until(lambda: any(found["ticks"] > 1 for found in facts_of(rt).values()), "ticks", PATIENCE_S)
        facts = facts_of(rt)
        until(told, "the page to show ticks", PATIENCE_S)
        ratios = [row.self_cpu_ratio for row in rt.profile.processes() if row.self_ns]
        assert ratios
        assert all(0 < ratio < 1 for ratio in ratios)

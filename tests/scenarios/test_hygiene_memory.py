"""S47: memory stays flat over a hundred thousand tasks, and workers that leak are replaced without ever stalling."""

from __future__ import annotations

import gc
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from runtime import Flow, NodeType, Retention, Runtime
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.processes import OwnFamily
from tests.scenarios.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is read from /proc"),
]

TASKS: Final = 100_000
SMALL: Final = Retention(runs=100, nodes=2000)
"""Finished runs are kept on purpose; here so few that they are all there after the warm-up."""
FLAT_BYTES: Final = 3 * hygiene.MIB
"""What a process may grow by: less than 32 bytes a task. Measured were 0.4 MiB."""
ROUNDS: Final = 4
LEAK_BYTES: Final = 10 * 1024


def private(pid: int) -> int:
    """Memory of a process that is neither a file's nor shared: rings are counted in neither end."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def work(rt: Runtime, count: int) -> None:
    """All ways to run something, `count` tasks in all."""
    assert sum(1 for _ in rt.map(hygiene.same, range(count * 6 // 10))) == count * 6 // 10
    for start in range(0, count * 2 // 10, 1000):
        handles = [rt.submit_nowait(hygiene.same, number) for number in range(start, start + 1000)]
        assert [handle.result(timeout=60) for handle in handles] == list(range(start, start + 1000))
    for _ in range(count // 1000):
        flow = Flow("flat")
        for number in range(75):
            flow.add(hygiene.same, [flow.add(hygiene.same, number)])
        rt.run(flow, timeout=60)
    failing = [rt.submit_nowait(hygiene.say_and_fail, "words") for _ in range(count // 100)]
    assert all(handle.exception(timeout=60) is not None for handle in failing)
    assert rt.discard(everything=True) == len(failing), "dead letters are kept beside the retention rule"


def test_s47_memory_is_flat_over_a_hundred_thousand_tasks(state_dir: Path) -> None:
    """The program's, the engine's and the workers' own memory, after as many as warm-up.

    A queue that became longer than ever before, as when others need the cores, takes memory once; a leak does again.
    """
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=2)], durability="none", retention=SMALL) as rt:
        family = OwnFamily(rt)
        work(rt, TASKS)
        watched = {"program": psutil.Process().pid, "engine": family.engine}
        watched.update({f"worker {pid}": pid for pid in family.workers})
        growing = dict.fromkeys(watched, 0)
        for _ in range(ROUNDS):
            gc.collect()
            before = {name: private(watched[name]) for name in growing}
            work(rt, TASKS)
            gc.collect()
            grown = {name: private(watched[name]) - before[name] for name in growing}
            growing = {name: bytes_ for name, bytes_ in grown.items() if bytes_ > FLAT_BYTES}
            if not growing:
                break
        assert growing == {}


@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_s47_leaking_tasks_are_outlived_by_recycling_at_a_size(state_dir: Path, mode: Any) -> None:
    """Ten KiB are lost with every task, 200 MiB in all: no worker grows far beyond its limit, no task waits long."""
    fn: Any = hygiene.leak if mode == "process" else hygiene.leak_async
    limit = size_of_a_worker(state_dir.with_name("first"), mode) + 16 * hygiene.MIB
    pool = NodeType("cpu", workers=2, mode=mode, recycle_rss_bytes=limit)
    with Runtime(state_dir, node_types=[pool], durability="none") as rt:
        family = OwnFamily(rt)
        largest, longest, last = 0, 0.0, time.monotonic()
        pids: Counter[int] = Counter()
        for number, pid in enumerate(rt.map(fn, [LEAK_BYTES] * 20_000, window=500)):
            pids[pid] += 1
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
            if not number % 500:
                largest = max([largest, *map(rss_of, family.workers)])
        assert sum(pids.values()) == 20_000
        assert len(pids) >= 4
        assert largest < limit + 48 * hygiene.MIB
        assert longest < 5
        until(lambda: len(family.workers) == 2, "a pool of two")


def size_of_a_worker(state: Path, mode: Any) -> int:
    """Resident bytes of one that has run a task."""
    with Runtime(state, node_types=[NodeType("cpu", workers=1, mode=mode)], durability="none") as rt:
        return rss_of(rt.submit(hygiene.pid).result(timeout=30))


def rss_of(pid: int) -> int:
    """Resident bytes of a process; 0 when it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


@pytest.mark.parametrize(
    ("mode", "every", "tasks"), [("process", 100, 5000), ("asyncio", 100, 5000), ("process", 1, 60)]
)
def test_s47_recycling_after_a_number_of_tasks_never_stalls(state_dir: Path, mode: Any, every: int, tasks: int) -> None:
    """Each task runs once; a worker runs not many more than it may, because what it held ahead is taken back."""
    fn: Any = hygiene.pid if mode == "process" else hygiene.pid_async
    pool = NodeType("cpu", workers=2, mode=mode, recycle_tasks=every)
    with Runtime(state_dir, node_types=[pool], durability="none") as rt:
        family = OwnFamily(rt)
        started = time.monotonic()
        pids = Counter(rt.map(fn, range(tasks)))
        assert sum(pids.values()) == tasks
        assert len(pids) >= 2
        assert time.monotonic() - started < 30
        if mode == "process":
            assert max(pids.values()) == every
        until(lambda: len(family.workers) == 2, "a pool of two")


def test_s47_a_worker_with_a_leaked_thread_is_replaced_too(state_dir: Path) -> None:
    """A thread that never ends does not keep its worker alive."""
    pool = NodeType("cpu", workers=1, recycle_tasks=2)
    with Runtime(state_dir, node_types=[pool], durability="none") as rt:
        family = OwnFamily(rt)
        pids = [rt.submit(hygiene.leak_threads).result(timeout=30) for _ in range(6)]
        assert len(set(pids)) >= 3
        until(lambda: len(family.workers) == 1, "a pool of one")

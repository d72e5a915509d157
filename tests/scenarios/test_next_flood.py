"""S40: a tenant, or a run, that submits a lot before another one that submits little.

Counted in slots of each worker: how many tasks it began up to the last that it had of the few. (Over both workers, what
one begins while the machine does not let the other run would count, too.) Workers hold one task ahead (`prefetch=1`),
the strict choice, so that what they held before the others came is two tasks of the flood and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from runtime import Flow, NodeType, Runtime, Scheduling
from tests.scenarios import handlers, handlers_next
from tests.scenarios.waiting import await_lines, lines, words

pytestmark = pytest.mark.slow

WORKERS: Final = 2
FLOOD: Final = 1_000
FEW: Final = 10
SLOTS_MAX: Final = 2 * FEW + 2 * WORKERS
"""In turn with the flood, behind what each worker runs and holds ahead."""
LOOKED_AT: Final = 400
SHARE_ERROR_MAX: Final = 0.05
PATIENCE_S: Final = 60.0


def strict() -> list[NodeType]:
    """Two workers that hold one task ahead."""
    return [NodeType("default", workers=WORKERS, prefetch=1)]


@contextmanager
def held_workers(rt: Runtime, tmp_path: Path) -> Iterator[None]:
    """All workers are held until the block ends, so that what is submitted in it waits together."""
    gate, held = tmp_path / "gate", tmp_path / "held"
    holding = [rt.submit(handlers.hold, str(held), "held", str(gate)) for _ in range(WORKERS)]
    await_lines(held, WORKERS)
    try:
        yield
    finally:
        gate.touch()
    assert [handle.result(timeout=30) for handle in holding] == ["held"] * WORKERS


def began(runs: Path, count: int) -> list[str]:
    """The words in the order in which tasks began, once so many have."""
    return [line.word for line in await_lines(runs, count, PATIENCE_S)]


def slots_until_last(runs: Path, word: str) -> int:
    """How many a worker began up to the last that it had of these, itself included; of the worker with the most."""
    by_worker: dict[int, list[str]] = {}
    for line in lines(runs):
        by_worker.setdefault(line.pid, []).append(line.word)
    return max(len(found) - found[::-1].index(word) for found in by_worker.values() if word in found)


def marks(name: str, runs: Path, count: int) -> Flow:
    """A run of independent tasks."""
    flow = Flow(name)
    for _ in range(count):
        flow.add(handlers.mark, str(runs), name)
    return flow


def test_s40_a_flood_of_one_tenant_delays_another_by_a_few_slots(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=strict()) as rt:
        flooding, other = rt.options(tenant="a"), rt.options(tenant="b")
        with held_workers(rt, tmp_path):
            for _ in range(FLOOD):
                flooding.submit_nowait(handlers.mark, str(runs), "a")
            few = [other.submit(handlers.mark, str(runs), "b") for _ in range(FEW)]
            assert lines(runs) == []
        assert [handle.result(timeout=30) for handle in few] == ["b"] * FEW
        found = began(runs, FLOOD + FEW)
    assert Counter(found) == {"a": FLOOD, "b": FEW}
    assert slots_until_last(runs, "b") <= SLOTS_MAX


def test_s40_a_large_run_delays_a_small_one_of_the_same_tenant_by_a_few_slots(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=strict()) as rt:
        with held_workers(rt, tmp_path):
            large = rt.submit(marks("large", runs, FLOOD))
            small = rt.submit(marks("small", runs, FEW))
        small.raise_if_failed(timeout=30)
        large.raise_if_failed(timeout=60)
        found = began(runs, FLOOD + FEW)
    assert Counter(found) == {"large": FLOOD, "small": FEW}
    assert slots_until_last(runs, "small") <= SLOTS_MAX


def test_s40_work_of_one_tenant_stays_in_order(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, prefetch=1)]) as rt:
        gate, held = tmp_path / "gate", tmp_path / "held"
        rt.submit_nowait(handlers.hold, str(held), "held", str(gate))
        await_lines(held, 1)
        tenants = [rt.options(tenant=tenant) for tenant in ("a", "b")]
        for i in range(FEW):
            for tenant, submitter in zip("ab", tenants, strict=True):
                submitter.submit(handlers.mark, str(runs), f"{tenant}-{i}")
        gate.touch()
        found = began(runs, 2 * FEW)
    for tenant in "ab":
        assert [word for word in found if word[0] == tenant] == [f"{tenant}-{i}" for i in range(FEW)]


@pytest.mark.parametrize("when", ["before", "while-running"])
def test_s40_weights_hold(state_dir: Path, tmp_path: Path, when: str) -> None:
    runs = tmp_path / "runs"
    scheduling = Scheduling(weights={"b": 3}) if when == "before" else Scheduling()
    with Runtime(state_dir, node_types=strict(), scheduling=scheduling) as rt:
        with held_workers(rt, tmp_path):
            for tenant in ("a", "b"):
                submitter = rt.options(tenant=tenant)
                for _ in range(LOOKED_AT - 1):
                    submitter.submit_nowait(handlers.mark, str(runs), tenant)
                submitter.submit(handlers.mark, str(runs), tenant)
            if when == "while-running":
                rt.set_weight("b", 3)
        found = Counter(began(runs, LOOKED_AT)[:LOOKED_AT])
    assert found["b"] == pytest.approx(LOOKED_AT * 3 / 4, abs=LOOKED_AT * SHARE_ERROR_MAX), found


def test_s40_a_quota_of_the_flooding_tenant_holds_and_leaves_the_other_its_worker(
    state_dir: Path, tmp_path: Path
) -> None:
    runs, others, gate = tmp_path / "runs", tmp_path / "others", tmp_path / "gate"
    with Runtime(state_dir, node_types=strict(), scheduling=Scheduling(quotas={"tenant:a": 1})) as rt:
        flooding, other = rt.options(tenant="a"), rt.options(tenant="b")
        flood = [flooding.submit(handlers_next.around, str(runs), f"a{i}", str(gate)) for i in range(FEW)]
        await_lines(runs, 1)
        few = [other.submit(handlers.mark, str(others), "b") for _ in range(FEW)]
        assert [handle.result(timeout=30) for handle in few] == ["b"] * FEW
        assert words(runs) == {"a0:begin": 1}
        assert "tenant:a" in flood[1].why()
        rt.set_quota("tenant:a", 2)
        await_lines(runs, 2)
        assert words(runs) == {"a0:begin": 1, "a1:begin": 1}
        rt.set_quota("tenant:a", 1)
        gate.touch()
        assert [handle.result(timeout=30) for handle in flood] == [f"a{i}" for i in range(FEW)]
    found = [line.word for line in lines(runs)]
    assert set(found[2:4]) == {"a0:end", "a1:end"}, "the third had to wait for both, the quota was one again"
    assert at_once(found[4:]) == 1


def at_once(found: list[str]) -> int:
    """The most that ran at the same time."""
    running = most = 0
    for word in found:
        running += 1 if word.endswith(":begin") else -1
        most = max(most, running)
    return most

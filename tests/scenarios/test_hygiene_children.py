"""S44, S45: no deadlock for locks that the program's threads hold; no zombie of what tasks and workers leave."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

from runtime import NodeType, Runtime
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.processes import ROOT, Family, OwnFamily
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow

POOLS: Final = [NodeType("cpu", workers=2), NodeType("io", workers=1, mode="asyncio", concurrency=10)]
LEFT: Final = 10_000
CRASHES: Final = 200


def program(name: str, *arguments: object, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A host program under which every warning is an error, in development mode."""
    command = [*before, sys.executable, "-X", "dev", "-W", "error", "-m", f"tests.scenarios.programs.{name}"]
    return subprocess.run([*command, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=120)


def zombies(family: Family) -> list[int]:
    """Zombies among the processes of a runtime."""
    found = []
    for pid in family.all:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


def check_no_zombies(family: Family) -> None:
    """None is left a moment after the last task."""
    until(lambda: not zombies(family), f"no zombies, but there are {len(zombies(family))}", timeout_s=5)


def test_s44_locks_that_threads_hold_while_workers_start(state_dir: Path) -> None:
    """No hang, no warning: processes are forked by one that never had threads."""
    done = program("locks", state_dir)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_s45_ten_thousand_tasks_that_leave_a_child(state_dir: Path) -> None:
    """Nobody waits for it."""
    with Runtime(state_dir, node_types=POOLS[:1], durability="none") as rt:
        family = OwnFamily(rt)
        most = 0
        for number, pid in enumerate(rt.map(hygiene.leave_child, ["spawn"] * LEFT)):
            assert pid
            if not number % 1000:
                most = max(most, len(zombies(family)))
        check_no_zombies(family)
        assert len(family.all) == 1 + 2


@pytest.mark.parametrize("way", ["fork", "popen", "multiprocessing", "daemon"])
@pytest.mark.parametrize("node_type", ["cpu", "io"])
def test_s45_children_left_in_other_ways(state_dir: Path, way: str, node_type: str) -> None:
    with Runtime(state_dir, node_types=POOLS, durability="none") as rt:
        family = OwnFamily(rt)
        pool = rt.options(node_type=node_type)
        assert all(pool.map(hygiene.leave_child, [way] * 200))
        check_no_zombies(family)


def test_s45_children_that_end_when_their_worker_is_idle(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=POOLS, durability="none") as rt:
        family = OwnFamily(rt)
        for node_type in ("cpu", "io"):
            assert rt.options(node_type=node_type).submit(hygiene.leave_many, 20).result(timeout=30) == 20
        until(lambda: len(family.all) == 1 + 3, "the end of the children")
        check_no_zombies(family)


def test_s45_who_waits_for_a_child_gets_its_exit_code(state_dir: Path) -> None:
    """Also while others leave theirs."""
    with Runtime(state_dir, node_types=POOLS, durability="none") as rt:
        left = [rt.submit_nowait(hygiene.leave_child, way) for _ in range(50) for way in ("fork", "popen")]
        codes = list(rt.map(hygiene.wait_for_own_child, range(1, 51)))
        assert codes == list(range(1, 51))
        assert all(handle.result(timeout=30) for handle in left)
        check_no_zombies(OwnFamily(rt))


def test_s45_two_hundred_worker_crashes(state_dir: Path) -> None:
    """With children and grandchildren, living and dead ones: all gone, and the pool is whole."""
    with Runtime(state_dir, node_types=POOLS[:1], durability="none") as rt:
        family = OwnFamily(rt)
        dying = [rt.options(poison=1).submit_nowait(hygiene.die_with_children, 1) for _ in range(CRASHES)]
        assert {handle.exception(timeout=60).kind for handle in dying} == {"crash"}  # type: ignore[union-attr]
        assert rt.submit(hygiene.same, 1).result(timeout=30) == 1
        until(lambda: len(family.all) == 1 + 2, "only spawner, engine and workers")
        check_no_zombies(family)


def unshared() -> tuple[str, ...]:
    """How to make a pid namespace here. Skips where there is no way, and says why."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no program unshare")
    base = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    for command in (base, (*base, "--user", "--map-root-user")):
        done = subprocess.run([*command, "true"], capture_output=True, text=True)
        if done.returncode == 0:
            return command
    pytest.skip(f"pid namespaces are not permitted here: {done.stderr.strip()}")


def test_s45_as_process_1_of_a_container(state_dir: Path) -> None:
    """There everything that loses its parent ends up at the program itself, unless somebody is nearer."""
    done = program("first", state_dir, before=unshared())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["zombies []", "left [1]"]
    assert done.stderr == ""

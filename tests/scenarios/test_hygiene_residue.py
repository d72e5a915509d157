"""S46: whoever is killed, nothing is left in shared memory, no process, no warning; and the folder opens again."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from runtime import NodeType, Retention, Runtime
from runtime.mail.blobs import PART
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.processes import Host, OwnFamily, host_program, kill, send
from tests.scenarios.waiting import await_gone, until

pytestmark = pytest.mark.slow

SHARED: Final = Path("/dev/shm")
PREFIXES: Final = ("mainspring", "psm_", "pym-")
POOL: Final = [NodeType("cpu", workers=2)]
GONE_S: Final = 2.0
"""How long what a killed program leaves may live: rule R4 says a second; a busy machine gets another."""
PATIENCE_S: Final = 60.0
COMPLAINTS: Final = ("resource_tracker", "leaked", "Traceback", "Exception ignored", "Warning")


def shared() -> set[str]:
    """Names in shared memory that could be ours; other programs use the same folder."""
    return {name for name in os.listdir(SHARED) if name.startswith(PREFIXES)} if SHARED.is_dir() else set()


def kill_workers(host: Host) -> None:
    kill(*host.family.workers)


def kill_all(host: Host) -> None:
    everyone = [host.family.spawner, host.family.engine, *host.family.workers]
    kill(host.pid, *everyone)


ENDINGS: Final[dict[str, Callable[[Host], None]]] = {
    "the program": lambda host: kill(host.pid),
    "the program, politely": lambda host: send(host.pid, signal.SIGTERM),
    "the spawner and the program": lambda host: kill(host.family.spawner, host.pid),
    "the engine and the program": lambda host: kill(host.family.engine, host.pid),
    "all workers, then the program": lambda host: (kill_workers(host), kill(host.pid))[0],
    "all at once": kill_all,
}


@pytest.mark.parametrize("who", ENDINGS)
def test_s46_nothing_is_left_after_a_kill(state_dir: Path, who: str) -> None:
    """While large values are being written. What is left in files is swept at the next start."""
    before = shared()
    with host_program("busy", state_dir) as host:
        assert host.read_line() == "busy"
        family = host.family.all
        ENDINGS[who](host)
        host.end()
        killed = time.monotonic()
        await_gone(family, timeout_s=10)
        assert time.monotonic() - killed < GONE_S
        said = host.errors()
    assert [line for line in said.splitlines() if any(word in line for word in COMPLAINTS)] == []
    assert shared() - before == set()
    # What a kill in the middle of a write leaves; the tasks that are run again write files of their own.
    interrupted = [path for path in files_in(state_dir / "blobs") if path.suffix == PART]
    for folder in [path for path in (state_dir / "blobs").iterdir() if path.is_dir()]:
        interrupted.append(folder / f"planted{PART}")
        interrupted[-1].touch()
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        assert rt.submit(hygiene.same, 1).result(timeout=60) == 1
        assert [path for path in interrupted if path.exists()] == []


def test_s46_nothing_is_left_after_an_interrupt(state_dir: Path) -> None:
    """Ctrl-C: the program ends in order, with its own traceback only."""
    before = shared()
    with host_program("busy", state_dir) as host:
        assert host.read_line() == "busy"
        family = host.family.all
        send(host.pid, signal.SIGINT)
        assert host.end() != 0
        await_gone(family, timeout_s=10)
        said = host.errors()
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "resource_tracker" not in said
    assert shared() - before == set()


@pytest.mark.parametrize("who", ["a worker", "the engine", "the spawner"])
def test_s46_nothing_is_left_of_those_that_are_replaced(state_dir: Path, who: str) -> None:
    """The program lives on, and works on."""
    before = shared()
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        family = OwnFamily(rt)
        rounds = 5 if who == "a worker" else 2  # the restart intensity of the engine allows five
        for number in range(rounds):
            assert rt.submit(hygiene.same, number).result(timeout=60) == number
            victims = {"a worker": family.workers[:1], "the engine": [family.engine], "the spawner": [family.spawner]}
            gone = victims[who] if who == "a worker" else [*victims[who], *family.workers]
            kill(*victims[who])
            assert sum(rt.map(hygiene.same, [1] * 500)) == 500
            await_gone(gone)
        assert shared() - before == set()
    assert shared() - before == set()


@pytest.mark.parametrize("number", [1_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_s46_thousands_of_large_values_go_with_their_runs(state_dir: Path, number: int) -> None:
    """Each is a file, removed when the retention rule lets go of its run; whoever holds its handle reads it still."""
    blobs, kept, half = state_dir / "blobs", Retention(runs=10, nodes=10, archive=0), number // 2
    with Runtime(state_dir, node_types=POOL, durability="none", retention=kept) as rt:
        handles = [rt.submit_nowait(hygiene.large_result, 70_000) for _ in range(half)]
        assert sum(len(result) for result in rt.map(hygiene.large_result, [70_000] * half)) == half * 70_000
        until(lambda: len(files_in(blobs)) < half + 100, "most of the files to go", PATIENCE_S)
        assert all(len(handle.result(timeout=PATIENCE_S)) == 70_000 for handle in handles)
        for small in range(12):
            rt.submit(hygiene.same, small).result(timeout=PATIENCE_S)
        until(lambda: not files_in(blobs), "all of the files to go", PATIENCE_S)


def files_in(folder: Path) -> list[Path]:
    """Files below a folder, from which some may just be removed."""
    return [Path(where, name) for where, _, names in os.walk(folder) for name in names]


def test_s46_kills_at_random_moments_leave_no_half_written_file(state_dir: Path) -> None:
    """A worker dies while it writes a large result: what it wrote is not found by anybody, and swept."""
    chance = random.Random(46)
    with Runtime(state_dir, node_types=POOL, durability="none") as rt:
        family = OwnFamily(rt)
        handles = [rt.options(retry=50, poison=50).submit_nowait(hygiene.large_result, 16 << 20) for _ in range(12)]
        for _ in range(6):
            pids = until(lambda: family.workers, "a worker")
            kill(chance.choice(pids))
        assert all(len(handle.result(timeout=60)) == 16 << 20 for handle in handles)
    with Runtime(state_dir, node_types=POOL, durability="none"):
        assert [path for path in files_in(state_dir / "blobs") if path.suffix == PART] == []

"""S08, S12: log, checkpoint, cursors, export and salvage: all killed at random, and on a disk that is full for real.

What was acknowledged is there, what a subscription was given comes at least once and in order, the folder is sound; and
with room again all of it goes on by itself.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Event, NodeType, Runtime
from runtime.cli import transfer
from runtime.cli.exits import Exit
from runtime.errors import DiskFull
from runtime.storage.checkpoint import CHECKPOINT_NAME
from runtime.storage.contents import check_contents
from runtime.storage.rescue import rescue
from runtime.storage.transfer import import_runs
from runtime.storage.verify import verify
from tests.scenarios.disks import small_disk
from tests.scenarios.processes import OwnFamily, host_program, kill
from tests.scenarios.test_log_damage import said
from tests.scenarios.waiting import await_gone, pause, until

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1)]
ROUNDS: Final = int(os.environ.get("CHAOS_ROUNDS", "6"))
SMALL: Final = 8_000
READERS: Final = (["verify"], ["status"], ["replay"], ["events"], ["export"], ["simulate"])


def whole_lines(path: Path) -> list[str]:
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def test_s08_killed_at_random_moments_again_and_again(tmp_path: Path) -> None:
    state, acknowledged, seen = (tmp_path / name for name in ("state", "acknowledged", "seen"))
    chance = random.Random(ROUNDS)
    for _ in range(ROUNDS):
        with host_program("enduring", state, acknowledged, seen) as host:
            assert host.read_line() == "open"
            pause(chance.uniform(0.2, 1.0))
            everybody = [host.pid, *host.family.all]
            kill(*chance.sample(everybody, len(everybody)))
            host.end()
            await_gone(everybody)
        assert verify(state).sound
        assert check_contents(state).problems == ()
    assert (state / CHECKPOINT_NAME).exists()
    ids = whole_lines(acknowledged)
    assert len(set(ids)) == len(ids) > 20
    with Runtime(state, node_types=ONE) as rt:
        with rt.subscribe("audit", "run.succeeded", follow=False) as events:
            rest = list(events)
        assert all(rt.handle(run_id).result(timeout=30) is not None for run_id in ids)
    given = [line.split() for line in whole_lines(seen)]
    assert set(ids) <= {run for _, _, run in given} | {event.run for event in rest}
    places = [(int(lsn), int(place)) for lsn, place, _ in given]
    again = sum(later <= before for before, later in zip(places, places[1:], strict=False))
    assert again <= ROUNDS, "what was not acknowledged comes again, from one place on"


def test_s12_all_that_is_written_waits_for_room(tmp_path: Path) -> None:
    given: list[Event] = []
    with small_disk("tmpfs", tmp_path) as disk:
        state = disk.root / "state"
        with Runtime(state, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
            events = rt.subscribe("audit", "run.succeeded", since="begin")
            reader = threading.Thread(target=events.run, args=(given.append,))
            reader.start()
            taken = lambda: rt.statistics()["checkpoint"]["taken"]  # noqa: E731
            until(lambda: work(rt) and taken(), "a checkpoint")
            disk.fill()
            full = until(lambda: refused(rt), "a disk that is full")
            assert full.retryable
            code, _, words = said(["export", str(state), "--output", str(disk.root / "out.jsonl")])
            assert (code, words[:23]) == (Exit.ENVIRONMENT, "mainspring: [MS206] no ")
            pause(0.3)  # the cursor is tried meanwhile
            assert reader.is_alive()
            disk.free()
            lsn = rt.statistics()["checkpoint"]["lsn"]
            handle = until(lambda: accepted(rt), "room for a task")
            handle.result(timeout=30)
            until(lambda: work(rt) and rt.statistics()["checkpoint"]["lsn"] > lsn, "the next checkpoint")
            until(lambda: any(event.run == handle.run_id for event in given), "the event")
            events.close()
            reader.join()
        assert len({(event.lsn, event.place) for event in given}) == len(given)
        assert verify(state).sound
        disk.fill()
        with pytest.raises(DiskFull):
            rescue(state, disk.root / "new")
        assert not list(disk.root.glob("new*")), "nothing is left that takes room"
        disk.free()
        rescue(state, disk.root / "new")
        assert verify(disk.root / "new").sound


def work(rt: Runtime) -> bool:
    return len(list(rt.map(math.sqrt, range(200)))) == 200


def refused(rt: Runtime) -> DiskFull | None:
    try:
        rt.submit(abs, -1).result(timeout=0.05)
    except DiskFull as full:
        return full
    except TimeoutError:
        pass
    return None


def accepted(rt: Runtime) -> Any:
    try:
        return rt.submit(abs, -1)
    except DiskFull:
        return None


def test_readers_beside_an_engine_under_load_that_is_killed(state_dir: Path) -> None:
    """Whoever looks from outside has an answer or a clear error, at any moment, and the folder never looks damaged."""
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
        over = threading.Event()

        def load() -> None:
            while not over.is_set():
                list(rt.map(math.sqrt, range(300)))

        loading = threading.Thread(target=load)
        loading.start()
        try:
            until(lambda: rt.statistics()["checkpoint"]["taken"], "a checkpoint")
            for turn in range(3):
                for command, *options in READERS:
                    code, _, words = said([command, str(state_dir), *options])
                    overtaken = command == "events" and "[MS151]" in words  # what it read next was cut meanwhile
                    overtaken = overtaken or "[MS222]" in words
                    assert code == 0 or overtaken, (turn, command, words)
                kill(OwnFamily(rt).engine)
        finally:
            over.set()
            loading.join()
    assert verify(state_dir).sound


def test_two_exports_into_one_file_at_the_same_time(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is whole, and the file is that of the last; here one begins and ends in the middle of the other."""
    with Runtime(state_dir, node_types=ONE, durability="os") as rt:
        work(rt)
    out = tmp_path / "out.jsonl"
    real = transfer.export_runs

    def export_runs(path: Path, file: Any, keys: Sequence[str], **more: Any) -> transfer.Transfer:
        monkeypatch.setattr(transfer, "export_runs", real)
        file.write(b"")
        command = [sys.executable, "-m", "runtime", "export", str(state_dir), "--output", str(out)]
        assert subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0
        return real(path, file, keys, **more)

    monkeypatch.setattr(transfer, "export_runs", export_runs)
    code, _, words = said(["export", str(state_dir), "--output", str(out)])
    assert code == 0, words
    assert import_runs(tmp_path / "new", out.read_bytes().splitlines()).nodes == 200
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == ["out.jsonl"]

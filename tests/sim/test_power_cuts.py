"""A crash at every change of the disk: of append, rotation, checkpoint, retention and cursors, and of the recovery.

What is recorded are the calls of the real code on a real folder, SQLite's among them (`recorder`); what a crash leaves
of them is made up (`trace`), written into a folder, and opened by the real code again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from actors.protocol.errors import DiskFull
from runtime.storage import checkpoint
from tests.sim.lives import Life, Promised
from tests.sim.recorder import Recorder
from tests.sim.trace import Disk, Trace, put

pytestmark = pytest.mark.slow

OUTCOMES = 2
"""Power cuts that are tried at each change."""


@pytest.fixture(autouse=True)
def space_comes_back_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that checkpoints of a few pages are vacuumed, too."""
    monkeypatch.setattr(checkpoint, "FREE_PAGES_MIN", 1)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A place for one image after the other."""
    return tmp_path / "image"


def recorded(state_dir: Path) -> tuple[Life, Trace]:
    """A whole life, from a folder that is empty."""
    state_dir.mkdir()
    life = Life(state_dir)
    with Recorder(state_dir) as recorder:
        life.run(recorder.note)
    return life, recorder.trace


def after_crashes(disk: Disk, point: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Some of what a crash at this point may leave."""
    yield f"killed at {point}", disk.after_kill()
    for outcome in range(OUTCOMES):
        yield f"power cut at {point}, outcome {outcome}", disk.after_power_cut(f"{point} {outcome}")


def test_a_crash_at_any_change_loses_nothing_that_was_promised(tmp_path: Path, images: Path) -> None:
    life, trace = recorded(tmp_path / "state")
    kinds = {change[0] for change in trace.changes}
    assert kinds == {"note", "mkdir", "create", "write", "truncate", "sync", "rename", "remove", "sync_folder"}
    assert len(trace.changes) > 300
    for point, disk in enumerate(trace.disks()):
        for what, content in after_crashes(disk, point):
            try:
                life.judge(put(content, images), Promised.by(disk.notes))
            except BaseException as error:
                error.add_note(f"{what}: {trace.changes[max(0, point - 1)][:2]}")
                raise
            shutil.rmtree(images)


def test_a_crash_during_the_recovery_from_a_crash(tmp_path: Path, images: Path) -> None:
    """Above all: SQLite takes back what the journal holds, and is interrupted in that."""
    life, trace = recorded(tmp_path / "state")
    random, second, with_journal = Random(1), tmp_path / "second", 0
    for point, disk in enumerate(trace.disks()):
        if random.random() > 0.06 or not disk.notes:
            continue
        promised = Promised.by(disk.notes)
        put(disk.after_power_cut(point), images)
        with_journal += (images / "checkpoint.db-journal").exists()
        again = Life(images, list(life.history))
        with Recorder(images) as recorder:
            again.run(recorder.note, batches=2)
        for later, after in enumerate(recorder.trace.disks()):
            if (later + point) % 2:
                continue
            content = after.after_power_cut(f"{point} {later}") if later % 3 else after.after_kill()
            try:
                again.judge(put(content, second), Promised.by([*vars(promised).items(), *after.notes]))
            except BaseException as error:
                error.add_note(f"power cut at {point}, then a crash at {later}")
                raise
            shutil.rmtree(second)
        shutil.rmtree(images)
    assert with_journal > 2


def test_a_disk_that_is_full_at_any_write_loses_nothing_and_goes_on_with_room(tmp_path: Path, images: Path) -> None:
    life, _ = recorded(tmp_path / "state")
    whole, full = len(life.history), 0
    for full_at in range(1, 10_000):
        images.mkdir()
        life = Life(images)
        with Recorder(images, full_at=full_at) as recorder:
            try:
                life.run(recorder.note)
                break
            except DiskFull:
                full += 1
            finally:
                recorder.full_at = 0
            promised = Promised.by([change[1] for change in recorder.trace.changes if change[0] == "note"])
            copy = tmp_path / "copy"
            shutil.copytree(images, copy)
            life.judge(copy, promised)
            shutil.rmtree(copy)
            life.run(recorder.note)
        assert len(life.history) >= whole - 1
        life.judge(images, promised)
        shutil.rmtree(images)
    assert full > 100

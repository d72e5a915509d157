"""S08, S12: salvage, import and export, with the power cut or the disk full at every change that they make.

The real code works on real folders, and what it does is recorded; what a power cut leaves of it is made up by the rules
of a bad disk (`tests.sim.trace`), and opened by the real code again.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.errors import DiskFull, StateFolderError
from runtime.cli.console import Console
from runtime.cli.transfer import export_to
from runtime.storage.contents import check_contents
from runtime.storage.recovery import summarise
from runtime.storage.rescue import rescue
from runtime.storage.transfer import export_runs, import_runs
from runtime.storage.verify import verify
from runtime.storage.verify_archive import verify_archive
from tests.sim.recorder import Recorder
from tests.sim.trace import Disk, put
from tests.unit.storage import state_folders
from tests.unit.storage.test_rescue_archive import whole

pytestmark = pytest.mark.slow

OUTCOMES = 3


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "state"
    state_folders.make(path, runs=1)
    return path


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cut behind a checkpoint, with an archive."""
    return whole(tmp_path_factory.mktemp("lived") / "state", up_to=4)


def exported(path: Path, *, archived: bool = False) -> bytes:
    out = io.BytesIO()
    export_runs(path, out, archived=archived)
    return out.getvalue()


def quiet() -> Console:
    return Console(io.StringIO(), io.StringIO())


def images(place: Path, work: Callable[[], Any], outcomes: int = OUTCOMES) -> Iterator[tuple[bool, Path]]:
    """Do some work in a new folder; then whether it had returned, and the folder, after each power cut."""
    folder, image = place / "work", place / "image"
    folder.mkdir()
    with Recorder(folder) as recorder:
        work()
        recorder.note("returned")
    for point, disk in enumerate(recorder.trace.disks()):
        for content in left(disk, point, outcomes):
            yield bool(disk.notes), put(content, image)
            shutil.rmtree(image)


def left(disk: Disk, point: int, outcomes: int) -> Iterator[dict[str, Any]]:
    yield disk.after_kill()
    for outcome in range(outcomes):
        yield disk.after_power_cut(f"{point} {outcome}")


@pytest.mark.parametrize("which", ["state", "lived"])
def test_a_power_cut_leaves_no_half_of_a_salvaged_folder(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    state: Path = request.getfixturevalue(which)
    text, there = exported(state, archived=True), 0
    for returned, image in images(tmp_path, lambda: rescue(state, tmp_path / "work" / "new")):
        new = image / "new"
        assert new.exists() or not returned
        if new.exists():
            there += 1
            assert verify(new).sound
            assert check_contents(new).problems == verify_archive(new).problems == ()
            assert exported(new, archived=True) == text
    assert there > 1


def test_a_power_cut_leaves_all_runs_of_an_import_or_none(state: Path, tmp_path: Path) -> None:
    text = exported(state)
    lines, entered, seen = text.splitlines(), 0, 0
    for returned, image in images(tmp_path, lambda: import_runs(tmp_path / "work" / "new", lines)):
        new = image / "new"
        seen += 1
        if not returned and not (new / "mainspring.json").exists():
            continue
        assert verify(new).sound
        found = bool(summarise(new)["runs"])
        assert found or not returned
        if found:
            entered += 1
            assert check_contents(new).problems == ()
            assert exported(new) == text
    assert 0 < entered < seen


def test_a_power_cut_leaves_a_whole_export_or_none(state: Path, tmp_path: Path) -> None:
    text, there = exported(state), 0
    work = tmp_path / "work"
    for returned, image in images(tmp_path, lambda: export_to(state, (), work / "runs.jsonl", quiet())):
        out = image / "runs.jsonl"
        assert out.exists() or not returned, "it was said to be there"
        if out.exists():
            there += 1
            assert out.read_bytes() == text
    assert there


@pytest.mark.parametrize("what", ["salvage", "import", "export"])
def test_a_disk_that_is_full_at_any_write_is_said_and_it_can_be_done_again(
    state: Path, tmp_path: Path, what: str
) -> None:
    text = exported(state)
    lines = text.splitlines()
    folder = tmp_path / "work"
    new, out = folder / "new", folder / "runs.jsonl"
    work: dict[str, Callable[[], Any]] = {
        "salvage": lambda: rescue(state, new),
        "import": lambda: import_runs(new, lines),
        "export": lambda: export_to(state, (), out, quiet()),
    }
    full = 0
    while True:
        folder.mkdir()
        with Recorder(folder, full_at=full + 1) as recorder:
            try:
                work[what]()
                break
            except DiskFull:
                full += 1
            recorder.full_at = 0
            if what != "import":
                assert list(folder.iterdir()) == [], "nothing is left that takes room"
            work[what]()
            assert (out.read_bytes() if what == "export" else exported(new)) == text
        shutil.rmtree(folder)
    assert full > {"export": 1}.get(what, 5)
    with pytest.raises(StateFolderError):
        rescue(state, tmp_path)

"""What is missing, damaged or referred to by nobody in a folder that an engine left, found by corrupting it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.protocol.errors import StateFolderError, StateFolderInUse
from runtime import NodeType, Runtime
from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.storage import rescue as module
from runtime.storage.contents import Contents, check_contents
from runtime.storage.folder import StateFolder
from runtime.storage.rescue import rescue
from runtime.storage.segment import RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES
from tests.unit.storage import state_folders

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "state"
    state_folders.make(path)
    return path


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "state")


def blobs(state: Path) -> list[Path]:
    return sorted(path for path in (state / "blobs").rglob("*") if path.is_file())


def contents(state: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in state.rglob("*") if file.is_file()}


def record_at(state: Path, record_type: int, which: int) -> tuple[Path, int]:
    """The file with the log, and the offset of a record of this type in it."""
    (file,) = (state / "log").glob("*.seg")
    data, at, found = file.read_bytes(), SEGMENT_HEADER_BYTES, []
    while at < len(data):
        if data[at + 12] == record_type:
            found.append(at)
        at += RECORD_HEADER_BYTES + int.from_bytes(data[at + 8 : at + 12], "little")
    return file, found[which]


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)


def test_a_folder_as_an_engine_left_it_is_whole(state: Path) -> None:
    before = contents(state)
    found = check_contents(state)
    assert found.problems == ()
    assert found.notes == ()
    assert (found.runs_open, found.runs_lost, found.records_dropped) == (2, 0, 0)
    assert found.blobs_referred == len(blobs(state)) > 5
    assert contents(state) == before


@pytest.mark.parametrize("which", range(4))
def test_a_missing_blob_is_named_with_its_place(state: Path, which: int) -> None:
    gone = blobs(state)[which]
    gone.unlink()
    found = check_contents(state)
    name = str(gone.relative_to(state / "blobs"))
    assert found.blobs_missing == (name,)
    (problem,) = found.problems
    assert problem.startswith(f"blob {name} is missing: ")
    assert "of run" in problem


@pytest.mark.parametrize("how", [lambda p: flip(p, 100), lambda p: p.write_bytes(p.read_bytes()[:-1])])
def test_a_damaged_blob_is_named(state: Path, how: Callable[[Path], None]) -> None:
    how(blobs(state)[0])
    found = check_contents(state)
    assert found.blobs_damaged == (str(blobs(state)[0].relative_to(state / "blobs")),)


def test_files_that_nobody_refers_to_are_harmless(state: Path) -> None:
    (state / "blobs" / "nobody").mkdir()
    (state / "blobs" / "nobody" / "0-1.abc.bytes").write_bytes(b"123")
    (blobs(state)[0].parent / "9-1.abc.bytes.part").write_bytes(b"4567")
    found = check_contents(state)
    assert found.problems == ()
    assert (found.blobs_orphaned, found.bytes_orphaned) == (2, 7)
    assert "2 files of 7 bytes, 1 of them written by half" in found.notes[0]


def test_beside_a_running_engine_nothing_is_missing(tmp_path: Path) -> None:
    with Runtime(tmp_path / "state", node_types=[NodeType("default", workers=1)], durability="os") as rt:
        for _ in range(20):
            rt.submit(state_folders.echo, state_folders.LARGE).result(timeout=30)
            assert check_contents(tmp_path / "state").problems == ()


def same_but(found: Contents, **other: object) -> dict[str, object]:
    return {**found.to_json(), "notes": [], "blobs_orphaned": 0, "bytes_orphaned": 0, **other}


def test_a_sound_folder_is_salvaged_whole(state: Path, tmp_path: Path) -> None:
    before = contents(state)
    report = rescue(state, tmp_path / "new")
    assert contents(state) == before
    assert same_but(report.contents) == same_but(check_contents(state))
    assert [path.relative_to(tmp_path / "new") for path in blobs(tmp_path / "new")] == [
        path.relative_to(state) for path in blobs(state)
    ]
    with Runtime(tmp_path / "new", node_types=[NodeType("default", workers=1)], durability="os") as rt:
        assert rt.recovery["clean"]
        handle = rt.handle(state_folders.FLOW_RUN)
        assert handle.result(timeout=30)
        assert handle.node("first").result() == state_folders.LARGE
        rt.close(drain=False)
    json.dumps(report.to_json())


@pytest.mark.parametrize("record_type", [2, 3, 4])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_what_can_be_kept_of_a_damaged_log_opens_and_the_old_folder_is_as_it_was(
    state: Path, tmp_path: Path, record_type: int, which: int
) -> None:
    whole = check_contents(state)
    file, at = record_at(state, record_type, which if record_type != 4 else 0)
    flip(file, at + RECORD_HEADER_BYTES + 2)
    before = contents(state)
    told = check_contents(state)
    report = rescue(state, tmp_path / "new")
    assert contents(state) == before
    assert len(report.lost.gaps) == 1
    kept = report.contents
    assert (kept.runs_open, kept.runs_finished) == (told.runs_open, told.runs_finished)
    assert kept.runs_open + kept.runs_finished == whole.runs_open + whole.runs_finished - (record_type == 2)
    assert kept.problems == ()
    assert main(["verify", str(tmp_path / "new")]) == Exit.OK
    with Runtime(tmp_path / "new", node_types=[NodeType("default", workers=1)], durability="os") as rt:
        assert rt.recovery["clean"]
        for status in list(rt.runs()):
            if not status.counts.ready:
                rt.handle(status.run_id).wait(timeout=30)
        rt.close(drain=False)


def test_a_run_whose_blob_is_gone_is_kept_and_its_loss_told(state: Path, tmp_path: Path) -> None:
    blobs(state)[0].unlink()
    report = rescue(state, tmp_path / "new")
    assert report.contents.blobs_missing == check_contents(state).blobs_missing
    assert report.contents.runs_finished == check_contents(state).runs_finished


def test_the_new_folder_must_be_new_and_nobody_may_have_the_old_one_open(state: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(StateFolderError, match="not empty"):
        rescue(state, tmp_path / "taken")
    with pytest.raises(StateFolderError, match="cannot become"):
        rescue(state, tmp_path / "taken" / "file")
    with StateFolder.open(state), pytest.raises(StateFolderInUse):
        rescue(state, tmp_path / "new")
    (tmp_path / "empty").mkdir()
    rescue(state, tmp_path / "empty")
    assert check_contents(tmp_path / "empty").problems == ()


def test_a_fault_leaves_nothing_behind(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise OSError(28, "no space")

    monkeypatch.setattr(module, "copy_blobs", broken)
    with pytest.raises(module.DiskFull):
        rescue(state, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_the_command_tells_and_salvages(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(state)]) == Exit.OK
    assert "sound: opens as it is" in capsys.readouterr().out
    flip(*record_at(state, 2, 0)[:1], record_at(state, 2, 0)[1] + RECORD_HEADER_BYTES)
    assert main(["verify", str(state)]) == Exit.ENVIRONMENT
    text = capsys.readouterr().out
    assert "1 lost" in text
    assert "--salvage NEW" in text
    assert main(["verify", str(state), "--salvage", str(tmp_path / "new")]) == Exit.OK
    assert f"salvaged into {tmp_path / 'new'}" in capsys.readouterr().out
    assert main(["verify", str(state), "--json"]) == Exit.ENVIRONMENT
    data = json.loads(capsys.readouterr().out)
    assert not data["sound"]
    assert not data["opens"]
    assert data["contents"]["runs_lost"] == 1
    assert main(["verify", str(state), "--salvage", str(tmp_path / "new")]) == Exit.ENVIRONMENT

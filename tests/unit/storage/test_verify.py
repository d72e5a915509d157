"""verify: says whether a folder is sound, changes nothing, and works beside its owner."""

from __future__ import annotations

import json
import os
import shutil
import threading
from contextlib import closing
from pathlib import Path

import pytest

from actors.protocol.errors import NotAStateFolder, StateFolderError
from actors.protocol.records import Record, RecordType
from runtime.storage.cursors import Cursor, CursorFile
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.report import Gap, gap_text
from runtime.storage.salvage import mend_log
from runtime.storage.verify import verify
from runtime.storage.wal import LogWriter
from tests.unit.storage.logs import records_from

FILES = DiskFiles()


def fill(path: Path, batches: int = 6) -> None:
    """A state folder with a few segments."""
    with StateFolder.open(path) as folder:
        log = read_log(folder.log, FILES)
        list(log)
        writer = LogWriter(folder.log, FILES, log.report(), segment_bytes=200)
        for _ in range(batches):
            writer.write(records_from(writer.next_lsn, 3), sync=True)
        writer.close()


def segments(path: Path) -> list[Path]:
    return sorted((path / "log").glob("*.seg"))


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_sound_folder(tmp_path: Path) -> None:
    fill(tmp_path)
    before = contents(tmp_path)
    report = verify(tmp_path)
    assert report.sound
    assert report.problems == report.notes == ()
    assert report.log.records == sum(report.record_types.values()) == 18
    assert report.record_types["KIND"] == 2
    assert json.loads(json.dumps(report.to_json()))["log"]["next_lsn"] == 20
    assert contents(tmp_path) == before


def test_an_empty_folder_is_sound(tmp_path: Path) -> None:
    StateFolder.open(tmp_path).close()
    assert verify(tmp_path).sound
    (tmp_path / "log").rmdir()
    with pytest.raises(FileNotFoundError):
        os.listdir(tmp_path / "log")
    assert verify(tmp_path).notes == ("there is no log yet",)


def test_damage_is_located(tmp_path: Path) -> None:
    fill(tmp_path)
    flip(segments(tmp_path)[0], 100)
    report = verify(tmp_path)
    assert not report.sound
    assert "00000001.seg" in report.problems[0]
    assert "1 record lost, LSN 2" in report.problems[1]
    assert report.log.records == 17
    json.dumps(report.to_json())


def test_a_torn_tail_is_a_note(tmp_path: Path) -> None:
    fill(tmp_path)
    last = segments(tmp_path)[-1]
    last.write_bytes(last.read_bytes() + b"\0" * 10)
    report = verify(tmp_path)
    assert report.sound
    assert "10 bytes" in report.notes[0]


def test_leftovers_and_strangers_are_noted(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "log" / "00000009.seg.aside").touch()
    (tmp_path / "log" / "notes.txt").touch()
    assert verify(tmp_path).notes == (
        "00000009.seg.aside: left over by a crash or salvage",
        "notes.txt: left over by someone else",
    )


def test_what_salvage_gave_up_is_remembered(tmp_path: Path) -> None:
    fill(tmp_path)
    flip(segments(tmp_path)[0], 100)
    with StateFolder.open(tmp_path) as folder:
        log = read_log(folder.log, FILES, salvage=True)
        list(log)
        mend_log(folder.log, FILES, log.report())
    report = verify(tmp_path)
    assert report.sound
    assert "1 record lost" in report.notes[0]


def test_unknown_record_types_are_noted(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as folder:
        log = read_log(folder.log, FILES)
        list(log)
        writer = LogWriter(folder.log, FILES, log.report())
        writer.write([Record(1, 200, b"from the future"), Record(2, RecordType.OPENED, b"")], sync=True)
        writer.close()
    report = verify(tmp_path)
    assert report.sound
    assert report.record_types == {"OPENED": 1, "type 200": 1}
    assert "[200]" in report.notes[0]


def test_beside_its_owner(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as folder:
        log = read_log(folder.log, FILES)
        list(log)
        writer = LogWriter(folder.log, FILES, log.report(), segment_bytes=200)
        for _ in range(6):
            writer.write(records_from(writer.next_lsn, 3), sync=False)
            report = verify(tmp_path)
            assert report.sound
            assert report.log.next_lsn == writer.next_lsn
        writer.remove_below(2)
        assert verify(tmp_path).sound
        writer.close()


def test_what_is_no_state_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotAStateFolder):
        verify(tmp_path)
    with pytest.raises(StateFolderError):
        verify(tmp_path / "missing")


@pytest.mark.slow
def test_beside_an_owner_that_writes_and_removes_all_the_time(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path) as folder:
        log = read_log(folder.log, FILES)
        assert list(log) == []
        writer = LogWriter(folder.log, FILES, log.report(), segment_bytes=30_000)
        done = threading.Event()

        def work() -> None:
            while not done.is_set():
                writer.write(records_from(writer.next_lsn, 50), sync=False)
                writer.remove_below(writer.active.no - 2)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            reports = [verify(tmp_path) for _ in range(40)]
            while reports[-1].log.next_lsn == reports[0].log.next_lsn:  # on a busy machine the thread comes later
                reports.append(verify(tmp_path))
        finally:
            done.set()
            thread.join()
        writer.close()
        assert [report.problems for report in reports] == [()] * len(reports)


def test_a_subscription_that_keeps_the_log_from_being_cut_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    kept = len(segments(tmp_path)) - 1
    with closing(CursorFile(str(tmp_path), "mail")) as file:
        file.save(Cursor(1))
        (note,) = verify(tmp_path).notes
        assert f"'mail' goes on with LSN 1, so {kept} closed segments of the log stay" in note
        file.save(Cursor(19))
        assert verify(tmp_path).notes == ()


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        (Gap("1.seg", 64, 532, 15, 14), "gap in 1.seg at offset 64: 532 bytes damaged, no record lost that"),
        (Gap("2.seg", 0, 0, 15, 17), "gap before 2.seg: bytes are missing, 3 records lost, LSN 15 to 17"),
        (Gap("2.seg", 0, 0, 15, 15), "gap before 2.seg: bytes are missing, 1 record lost, LSN 15"),
    ],
)
def test_a_gap_in_words(gap: Gap, text: str) -> None:
    assert gap_text(gap).startswith(text)


def test_a_missing_shard_is_not_a_folder_without_a_log(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path, log_shards=2) as folder:
        log = read_log(folder.log, FILES)
        list(log)
        writer = LogWriter(folder.log, FILES, log.report())
        writer.write(records_from(1, 3), sync=True)
        writer.close()
        shutil.rmtree(folder.log.parts()[1].folder)
    report = verify(tmp_path)
    assert "there is no log yet" not in report.notes
    assert any("is missing" in note for note in report.notes)

"""Logs of released formats still open, give the same records, and can be written further."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.verify import verify
from runtime.storage.wal import LogWriter
from tests.compat import make_log

HERE = Path(__file__).parent
RELEASED = sorted(path.name for path in HERE.glob("log_v*"))
LSNS = [1, 2, *range(4, 11), 12, 13, 14]
"""Of the records: 3 was lost, 11 and 15 are the marks of an orderly close."""


def expected() -> list[object]:
    return [record for record in make_log.records(1, 14) if record.lsn in LSNS]


def test_there_is_a_released_format() -> None:
    assert "log_v1" in RELEASED


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_log_opens(name: str, tmp_path: Path) -> None:
    state = shutil.copytree(HERE / name, tmp_path / "state")
    files = DiskFiles()
    assert verify(state).sound
    with StateFolder.open(state) as folder:
        assert str(folder.uuid) == make_log.UUID_TEXT
        assert folder.created == make_log.CREATED
        log = read_log(folder.log, files)
        assert list(log) == expected()
        report = log.report()
        assert (report.next_lsn, report.known_gaps, report.bytes_cut) == (16, 1, len(make_log.TORN))
        writer = LogWriter(folder.log, files, report)
        writer.write(make_log.records(16, 3), sync=True)
        writer.close()
        assert list(read_log(folder.log, files)) == [*expected(), *make_log.records(16, 3)]


@pytest.mark.parametrize("name", RELEASED)
def test_reading_a_released_log_changes_nothing(name: str) -> None:
    before = {path: path.read_bytes() for path in (HERE / name).rglob("*") if path.is_file()}
    verify(HERE / name)
    assert {path: path.read_bytes() for path in (HERE / name).rglob("*") if path.is_file()} == before


def test_this_version_still_writes_the_format_it_released(tmp_path: Path) -> None:
    make_log.main(str(tmp_path / "made"))
    made = {path.name: path.read_bytes() for path in (tmp_path / "made").rglob("*") if path.is_file()}
    kept = {path.name: path.read_bytes() for path in (HERE / RELEASED[-1]).rglob("*") if path.is_file()}
    assert made == kept

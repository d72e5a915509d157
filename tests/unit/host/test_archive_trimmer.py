"""The process that trims: what it says, and that it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.archived import ArchiveRule
from actors.saved import SavedPart
from runtime.host import archive_trimmer
from runtime.host.archive_trimmer import trim
from runtime.storage.archive import ArchiveFile
from runtime.storage.archive_rows import ArchiveEntry
from runtime.storage.folder import StateFolder
from tests.unit.storage.test_archive import row

HOUR_NS = 3_600 * 10**9


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    with StateFolder.open(tmp_path / "state") as made:
        return made


def fill(folder: StateFolder) -> None:
    """Three runs that ended in 1970, and one in the year 2200."""
    with ArchiveFile.write(folder.path, folder.uuid) as archive:
        for no in range(1, 5):
            ended_ns = no if no < 4 else 7_258_118_400 * 10**9
            archive.put([ArchiveEntry(row(no, ended_ns=ended_ns), None, [SavedPart(no, "run", 0, b"x" * 50)])])


def test_nothing_is_made_where_nothing_is(folder: StateFolder) -> None:
    assert trim(folder, ArchiveRule(HOUR_NS)) == {"runs": 0, "due_ns": None}
    assert ArchiveFile.read(folder.path, folder.uuid) is None


def test_what_is_over_goes_and_the_next_time_is_said(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_trimmer, "REST_FACTOR", 0.0)
    fill(folder)
    assert trim(folder, ArchiveRule(HOUR_NS)) == {"runs": 3, "due_ns": 7_258_118_400 * 10**9 + HOUR_NS}
    assert trim(folder, ArchiveRule(None)) == {"runs": 0, "due_ns": None}


def test_when_its_time_is_over_the_next_one_goes_on(folder: StateFolder) -> None:
    fill(folder)
    assert trim(folder, ArchiveRule(HOUR_NS), run_s=0.0) == {"runs": 3, "due_ns": 0}

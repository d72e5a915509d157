"""The file of the archive: what was put comes back, putting twice is putting once, damage is found."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from actors.archived import ArchivedRun, ArchiveRule
from actors.protocol.archive_errors import ArchiveUnusable
from actors.protocol.errors import DiskFull, MainspringError, NewerFormat, StateFolderError
from actors.saved import SavedPart
from runtime.storage import archive as module
from runtime.storage import sqlite_file
from runtime.storage.archive import ArchiveFile
from runtime.storage.archive_rows import ArchiveEntry
from runtime.storage.folder import ARCHIVE_NAME
from runtime.storage.private_copy import PREFIX

OWN = UUID(int=5)
DAY = 86_400 * 10**9


def row(no: int, **more: Any) -> ArchivedRun:
    base = ArchivedRun(
        no, f"s-{no}", "f", "task", "", "normal", "succeeded", "s", no, 1, no, no, 100 + no, 1, 1, 0, 0, 0, ("default",)
    )
    return base._replace(**more)


def entry(no: int, size: int = 10, blobs: tuple[str, ...] = (), **more: Any) -> ArchiveEntry:
    parts = [SavedPart(no, "run", 0, b"head %d" % no), SavedPart(no, "state", 0, bytes([no % 256]) * size)]
    return ArchiveEntry(row(no, **more), more.pop("expires_ns", None), parts, blobs)


def put(path: Path, *entries: ArchiveEntry) -> None:
    with ArchiveFile.write(str(path), OWN) as archive:
        archive.put(entries)


def opened(path: Path) -> ArchiveFile:
    found = ArchiveFile.read(str(path), OWN)
    assert found is not None
    return found


def execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path / ARCHIVE_NAME) as database:
        database.execute(statement)
    database.close()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    put(tmp_path, entry(1, 1000), entry(2, state="failed"), entry(3, blobs=("s-3/a", "s-3/b")))
    return tmp_path


def test_what_was_put_comes_back(made: Path) -> None:
    with opened(made) as archive:
        assert list(archive.summaries()) == [row(3), row(2, state="failed"), row(1)]
        assert archive.run(1) == list(entry(1, 1000).parts)
        assert archive.run(4) == []
        assert archive.blobs(3) == ["s-3/a", "s-3/b"]
        assert archive.blobs(1) == archive.blobs(4) == []
        runs, nodes, size = archive.totals()
        assert (runs, nodes) == (3, 3)
        assert 0 < size < 1000, "the thousand bytes were packed"


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert ArchiveFile.read(str(tmp_path), OWN) is None


def test_rows_are_chosen(made: Path) -> None:
    with opened(made) as archive:
        assert [run.no for run in archive.summaries(state="failed")] == [2]
        assert [run.no for run in archive.summaries(run_id="s-1")] == [1]
        assert [run.no for run in archive.summaries(before_no=3)] == [2, 1]
        assert list(archive.summaries(run_id="s-1", state="failed")) == []


def test_many_rows_come_by_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_ROWS", 3)
    put(tmp_path, *(entry(no) for no in range(1, 11)))
    with opened(tmp_path) as archive:
        listing = archive.summaries()
        assert next(listing).no == 10
        with ArchiveFile.write(str(tmp_path), OWN) as other:  # nobody waits for a listing
            other.forget(5)
        assert [run.no for run in listing] == [9, 8, 7, 6, 4, 3, 2, 1]


def test_one_task_of_a_bundle_is_found(tmp_path: Path) -> None:
    put(tmp_path, entry(1, seq=1, covers=3), entry(2, seq=4, covers=2))
    with opened(tmp_path) as archive:
        for key, no in (("s-1", 1), ("s-3", 1), ("s-4", 2), ("s-5", 2)):
            run = archive.find(key)
            assert run is not None
            assert run.no == no
        for key in ("s-6", "t-1", "s-", "-1", "s", "s-²", "s-" + "9" * 40):
            assert archive.find(key) is None


def test_an_id_that_was_used_again_is_that_of_the_latest_run(tmp_path: Path) -> None:
    put(tmp_path, entry(1, run_id="daily"), entry(7, run_id="daily"))
    with opened(tmp_path) as archive:
        run = archive.find("daily")
        assert run is not None
        assert run.no == 7
        assert [run.no for run in archive.summaries(run_id="daily")] == [7, 1]


def test_putting_twice_is_putting_once(made: Path) -> None:
    put(made, entry(1, 500, state="failed"), entry(2, state="failed"))
    with opened(made) as archive:
        assert [run.no for run in archive.summaries()] == [3, 2, 1]
        assert archive.run(1) == list(entry(1, 500).parts)


def test_a_transaction_is_all_or_nothing(made: Path) -> None:
    def entries() -> Any:
        yield entry(9)
        raise KeyboardInterrupt

    with ArchiveFile.write(str(made), OWN) as archive, pytest.raises(KeyboardInterrupt):
        archive.put(entries())
    with opened(made) as archive:
        assert [run.no for run in archive.summaries()] == [3, 2, 1]


def test_how_far_it_goes_is_kept(made: Path) -> None:
    with ArchiveFile.write(str(made), OWN) as archive:
        archive.settle(77, ArchiveRule(DAY))
    with opened(made) as archive:
        assert archive.lsn == 77


def test_a_new_rule_holds_for_what_is_there(made: Path) -> None:
    def expiry() -> list[int | None]:
        with sqlite3.connect(made / ARCHIVE_NAME) as database:
            found = [value for (value,) in database.execute("SELECT expires_ns FROM run ORDER BY no")]
        database.close()
        return found

    with ArchiveFile.write(str(made), OWN) as archive:
        archive.obey(ArchiveRule(DAY, {"state:failed": 2 * DAY}))
        assert expiry() == [101 + DAY, 102 + 2 * DAY, 103 + DAY]
        archive.obey(ArchiveRule(None, {"state:failed": DAY}))
        assert expiry() == [None, 102 + DAY, None]
    with opened(made) as archive:
        assert len(list(archive.summaries())) == 3


def test_what_is_forgotten_by_hand_is_gone_at_once_and_does_not_come_again(made: Path) -> None:
    with ArchiveFile.write(str(made), OWN) as archive:
        assert archive.forget(3)
        assert not archive.forget(3)
        assert not archive.forget(99)
        assert not archive.forget(98)
        assert archive.forgotten() == {3, 98, 99}
        archive.put([entry(3), entry(99, blobs=("s-99/a",)), entry(4)])
        assert archive.run(3) == archive.run(99) == []
        archive.settle(5, ArchiveRule(DAY))
        assert archive.forgotten() == {98}, "the others have passed"
        with archive.transaction() as database:
            assert ("s-99/a",) in database.execute("SELECT name FROM leaving").fetchall()
    with opened(made) as archive:
        assert [run.no for run in archive.summaries()] == [4, 2, 1]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE part SET body = x'00' WHERE col = 'run'", "column 'run' of run 3"),
        ("UPDATE part SET body = x'00' WHERE packed", "damaged"),
        ("UPDATE part SET body = NULL", "damaged"),
        ("DELETE FROM part WHERE col = 'state'", "not whole"),
        ("UPDATE run SET nodes = 9", "row of run"),
        ("UPDATE run SET node_types = '['", "row of run"),
        ("UPDATE run SET parts = NULL", "row of run"),
        ("UPDATE meta SET value = 'x' WHERE name = 'uuid'", "another state folder"),
        ("DELETE FROM meta WHERE name = 'lsn'", "does not say what it is"),
        ("DROP TABLE part", "no such table"),
    ],
)
def test_damage_is_found(made: Path, statement: str, message: str) -> None:
    execute(made, statement)
    with pytest.raises(ArchiveUnusable, match=message), opened(made) as archive:
        for run in archive.summaries():
            archive.run(run.no)


@pytest.mark.slow
def test_bytes_that_flipped_never_give_another_answer(made: Path) -> None:
    path = made / ARCHIVE_NAME
    content, refused = path.read_bytes(), 0
    with opened(made) as archive:
        known = {run: archive.run(run.no) for run in archive.summaries()}
    for at in range(100, len(content), 211):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
        try:
            with opened(made) as archive:
                for run in archive.summaries():
                    assert archive.run(run.no) == known[run]
        except MainspringError:
            refused += 1
    assert refused


def test_a_newer_one_is_refused(made: Path) -> None:
    execute(made, "UPDATE meta SET value = 2 WHERE name = 'format'")
    with pytest.raises(NewerFormat, match="format 2"):
        opened(made)
    with pytest.raises(NewerFormat):
        put(made, entry(9))


def test_without_room_it_stays_as_it_was(made: Path) -> None:
    with ArchiveFile.write(str(made), OWN) as archive:
        with archive.transaction() as database:
            pages = database.execute("PRAGMA page_count").fetchone()[0]
        archive._database.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(DiskFull, match="archive"):
            archive.put(
                ArchiveEntry(row(no), None, [SavedPart(no, "state", 0, bytes(range(127)) * 1)]) for no in range(4, 999)
            )
    with opened(made) as archive:
        assert len(list(archive.summaries())) == 3


def test_a_writer_waits_for_another_one(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.0)
    with ArchiveFile.write(str(made), OWN) as one, one.transaction(), pytest.raises(StateFolderError, match="BUSY"):
        put(made, entry(9))
    put(made, entry(9))


def copy_half_written(made: Path, copy: Path) -> None:
    """What a writer leaves that is killed in the middle of a transaction: the file, and the journal that undoes it."""
    with ArchiveFile.write(str(made), OWN) as archive:
        archive._database.execute("PRAGMA cache_size=1")  # so that what is not committed is in the file
        with archive.transaction() as database:
            database.execute("UPDATE run SET nodes = 5")
            database.execute("UPDATE part SET body = zeroblob(100000)")
            for name in (ARCHIVE_NAME, ARCHIVE_NAME + "-journal"):
                (copy / name).write_bytes((made / name).read_bytes())


@pytest.mark.parametrize("first", ["rows", "parts"])
def test_a_reader_reads_on_when_a_writer_is_killed(made: Path, tmp_path: Path, first: str) -> None:
    """It must not put the journal right itself."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ARCHIVE_NAME).write_bytes((made / ARCHIVE_NAME).read_bytes())
    with opened(copy) as reader:
        copy_half_written(made, copy)
        before = (copy / ARCHIVE_NAME).read_bytes()
        if first == "parts":
            assert reader.run(1)
        assert list(reader.summaries())[-1] == row(1)
        assert reader.run(1)
        assert reader._copied
        assert not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(PREFIX)]
    assert (copy / ARCHIVE_NAME).read_bytes() == before


def test_a_reader_that_may_not_write_reads_what_a_crash_left(made: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_half_written(made, copy)
    copy.chmod(0o500)
    (copy / ARCHIVE_NAME).chmod(0o400)
    try:
        with opened(copy) as archive:
            assert list(archive.summaries())[-1] == row(1)
    finally:
        copy.chmod(0o700)

"""Runs that memory let go of: in the archive, on their way there, gone from it in the middle of a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.protocol.errors import StateFolderError
from actors.protocol.records import Record, RecordType
from actors.run import Run
from actors.saved import SavedPart
from actors.saved_run import save_run
from runtime.sql.archive_source import ArchiveSource
from runtime.sql.budget import Budget
from runtime.sql.folder import FolderQueries, SqlQuery
from runtime.sql.rows import QueryRows
from runtime.sql.run_columns import RUN_COLUMNS, RunRow
from runtime.sql.snapshot import Snapshot
from runtime.sql.sources import StoredRun
from runtime.sql.statement import run_statement
from tests.unit.sql.test_views import bundle
from tests.unit.sql.told import fold, run_rows, runs_of, task_rows
from tests.unit.storage.states import busy_log, make_folder
from tests.unit.storage.worlds import records_of


class FakeArchive:
    """An archive in memory, as the storage's is read."""

    def __init__(self, runs: list[tuple[Run, int]], lsn: int) -> None:
        self.lsn = lsn
        self.read: list[int] = []
        self.hidden: set[int] = set()
        self.moves = 0
        self._rows = [self._row(run, ended_ns) for run, ended_ns in runs]
        self._parts = {run.no: [SavedPart(run.no, *piece) for piece in save_run(run)] for run, _ in runs}

    @staticmethod
    def _row(run: Run, ended_ns: int) -> Any:
        counts = run.counts()
        run.tally = None
        single = not (run.is_graph or run.is_map)
        row = RunRow(StoredRun(run.no, ended_ns, lambda: run))
        said = {column.name: column.of(row) for column in RUN_COLUMNS}
        names = ("name", "state", "session", "submitted_ns", "started_ns", "form")
        return SimpleNamespace(
            no=run.no, run_id=run.key, seq=run.seq, covers=run.base_size if single else 1, nodes=run.size,
            ended_ns=ended_ns, succeeded=counts[3], failed=counts[4], cancelled=counts[5], skipped=counts[6],
            **{name: said[name] for name in names},
        )  # fmt: skip

    def summaries(
        self, run_id: str | None = None, state: str | None = None, before_no: int | None = None
    ) -> Iterator[Any]:
        for row in sorted(self._rows, key=lambda row: -row.no):
            if (run_id is None or row.run_id == run_id) and (before_no is None or row.no < before_no):
                yield row

    def find(self, key: str) -> Any:
        for row in self._rows:
            if key == row.run_id or key in {f"{row.session}-{row.seq + place}" for place in range(row.covers)}:
                return row
        return None

    def run(self, no: int) -> list[SavedPart]:
        self.read.append(no)
        if self.moves:
            self.moves -= 1
            return []
        return self._parts[no]

    def totals(self) -> tuple[int, int, int]:
        return len(self._rows), sum(row.nodes for row in self._rows), 0

    def forgotten(self) -> set[int]:
        return self.hidden

    def close(self) -> None:
        pass


def ended(records: tuple[Record, ...] | list[Record]) -> list[tuple[Run, int]]:
    scheduler = fold(records)
    return [(run, scheduler.ended_ns.get(run.no, 7)) for run in runs_of(scheduler) if not run.open]


@pytest.mark.parametrize("records", [records_of(8), tuple(bundle(ends=True))], ids=["world", "bundle"])
def test_archived_runs_are_rows_as_others_are(records: tuple[Record, ...]) -> None:
    scheduler = fold(records)
    archive = FakeArchive(ended(records), 0)
    done = {run.no for run, _ in ended(records)}
    for view, rows in (("runs", run_rows(scheduler)), ("tasks", task_rows(scheduler))):
        wanted = [{**row, "archived": 1} for row in rows if row["run_no"] in done]
        sql = f"SELECT {', '.join(wanted[0])} FROM {view}"
        source = ArchiveSource(archive, 1 << 40)
        assert _asked(sql, source).dicts() == wanted
        for row in wanted[::5]:
            narrowed = _asked(f"{sql} WHERE run_id = ?", ArchiveSource(archive, 1 << 40), [row["run_id"]])
            assert narrowed.dicts() == [one for one in wanted if one["run_id"] == row["run_id"]]


def _asked(sql: str, source: ArchiveSource, params: Any = ()) -> QueryRows:
    return run_statement(Snapshot(1, 0, fold([])), sql, params, 100_000, Budget(None), [source])


def test_a_listing_reads_rows_and_not_runs() -> None:
    archive = FakeArchive([one for one in ended(records_of(8)) if one[0].is_graph or one[0].is_map], 0)
    found = _asked("SELECT state, sum(tasks), max(ended_at) FROM runs GROUP BY state", ArchiveSource(archive, 1 << 40))
    assert len(found) > 0
    assert archive.read == []


def test_what_was_submitted_later_is_left_out() -> None:
    runs = ended(records_of(8))
    source = ArchiveSource(FakeArchive(runs, 0), runs[3][0].no)
    assert list(source.numbers()) == [run.no for run, _ in runs[:3]]
    assert source.get(runs[3][0].no) is None
    assert ArchiveSource(FakeArchive(runs, 0), runs[3][0].no).get(runs[2][0].no) is not None


class Folder:
    """A folder in which the first runs are let go of, and its archive."""

    def __init__(self, path: Path) -> None:
        self.records = busy_log()
        lsn = self.records[-1].lsn
        self.records += [Record(lsn + 1, RecordType.RELEASED, b"[1,2]"), Record(lsn + 2, RecordType.RELEASED, b"[3]")]
        make_folder(path, self.records)
        self.lsn = lsn
        self.whole = fold(self.records[:-2])
        self.archive: FakeArchive | None = None
        self.queries = FolderQueries(path, lambda state_dir: self.archive)

    def put(self, count: int, lsn: int) -> None:
        runs = [(run, self.whole.ended_ns[run.no]) for run in runs_of(self.whole)[:count]]
        self.archive = FakeArchive(runs, lsn)

    def numbers(self, archived: int, **more: Any) -> list[int]:
        sql = "SELECT run_no FROM runs WHERE archived = ? ORDER BY run_no"
        query = SqlQuery(sql, [archived], more.get("at"), None, 100)
        return [row.run_no for row in self.queries.answer(query, lambda: self.records[-1].lsn)]


def test_every_run_is_seen_at_every_step_on_its_way_to_the_archive(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert (folder.numbers(0), folder.numbers(1)) == ([4, 5, 6, 7, 8], []), "there is no archive"
    folder = Folder(tmp_path / "second")
    for count, lsn in ((0, 0), (2, folder.lsn + 1), (3, folder.lsn + 1), (3, folder.lsn + 2)):
        folder.put(count, lsn)
        assert (folder.numbers(0), folder.numbers(1)) == ([4, 5, 6, 7, 8], [1, 2, 3])
    folder.put(1, folder.lsn + 2)
    assert folder.numbers(1) == [1], "what was trimmed is gone"
    folder.put(3, folder.lsn + 2)
    assert folder.numbers(1, at=folder.lsn) == [], "it was in memory then"
    assert folder.numbers(0, at=folder.lsn) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_what_was_forgotten_by_hand_on_its_way_is_gone(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put(0, 0)
    assert folder.archive is not None
    folder.archive.hidden = {2}
    assert folder.numbers(1) == [1, 3]


def test_a_run_that_goes_in_the_middle_of_a_query_lets_it_begin_anew(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put(3, folder.lsn + 2)
    assert folder.archive is not None
    query = SqlQuery("SELECT count(*) FROM tasks", (), None, None, 10)
    folder.archive.moves = 2
    assert folder.queries.answer(query).scalar() == 8
    folder.archive.moves = 1000
    with pytest.raises(StateFolderError, match="faster than they can be read"):
        folder.queries.answer(query)

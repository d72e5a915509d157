"""What goes from the archive, in which steps, and what comes back of its space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.archived import ArchiveRule
from actors.saved import SavedPart
from runtime.storage import archive_trim as module
from runtime.storage.archive import ArchiveFile
from runtime.storage.archive_rows import ArchiveEntry
from runtime.storage.archive_trim import Trimmer
from runtime.storage.folder import ARCHIVE_NAME
from tests.unit.storage.test_archive import OWN, opened, row


def entry(no: int, *, pieces: int = 1, ended_ns: int = 0, **more: Any) -> ArchiveEntry:
    bodies = [bytes((no * 7 + at + i * i) % 251 for i in range(90)) for at in range(pieces)]
    parts = [SavedPart(no, "state", at, body) for at, body in enumerate(bodies)]
    return ArchiveEntry(row(no, ended_ns=ended_ns, **more), None, parts, more.get("blobs", ()))


def trimmed(path: Path, rule: ArchiveRule, now_ns: int, steps_max: int = 1000) -> int:
    """Trim to the end; returns how many steps it took."""
    with ArchiveFile.write(str(path), OWN) as archive:
        trimmer = Trimmer(archive, str(path), rule)
        for step in range(steps_max):
            if not trimmer.step(now_ns).more:
                return step
    return steps_max


def numbers(path: Path) -> list[int]:
    with opened(path) as archive:
        return sorted(run.no for run in archive.summaries())


def leftovers(path: Path) -> list[int]:
    """Rows of all other tables."""
    with ArchiveFile.write(str(path), OWN) as archive, archive.transaction() as database:
        tables = ("part", "going", "leaving")
        return [database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]


def test_what_is_over_goes_and_the_rest_stays(tmp_path: Path) -> None:
    with ArchiveFile.write(str(tmp_path), OWN) as archive:
        archive.put(entry(no, ended_ns=no) for no in range(1, 11))
    trimmed(tmp_path, ArchiveRule(100), 105)
    assert numbers(tmp_path) == [6, 7, 8, 9, 10]
    assert leftovers(tmp_path) == [5, 0, 0]
    with ArchiveFile.write(str(tmp_path), OWN) as archive:
        assert Trimmer(archive, str(tmp_path), ArchiveRule(100)).due_ns() == 106


def test_the_oldest_go_where_all_take_too_much(tmp_path: Path) -> None:
    with ArchiveFile.write(str(tmp_path), OWN) as archive:
        archive.put(entry(no, ended_ns=100 - no) for no in range(1, 11))
        each = archive.totals()[2] // 10
    trimmed(tmp_path, ArchiveRule(None, {}, 3 * each), 10**18)
    assert numbers(tmp_path) == [1, 2, 3]


def test_a_large_run_goes_in_steps_and_is_not_listed_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_PARTS", 10)
    with ArchiveFile.write(str(tmp_path), OWN) as archive:
        archive.put([entry(1, pieces=95), entry(2, ended_ns=50)])
        trimmer = Trimmer(archive, str(tmp_path), ArchiveRule(10))
        parts = [trimmer.step(20).parts]
        assert numbers(tmp_path) == [2]
        while (done := trimmer.step(20)).parts:
            parts.append(done.parts)
        assert parts == [10] * 9 + [5]
        assert archive.run(2)


def test_bytes_bound_a_step_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_BYTES", 1000)
    with ArchiveFile.write(str(tmp_path), OWN) as archive:
        archive.put([entry(1, pieces=95)])
        assert Trimmer(archive, str(tmp_path), ArchiveRule(10)).step(20).parts == 12


@pytest.mark.slow
def test_space_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_PAGES", 4)
    with ArchiveFile.write(str(tmp_path), OWN) as archive:
        archive.put(entry(no, pieces=500, ended_ns=no) for no in range(1, 11))
    before = (tmp_path / ARCHIVE_NAME).stat().st_size
    assert trimmed(tmp_path, ArchiveRule(10), 10**18) > 10, "a few pages at once"
    assert numbers(tmp_path) == []
    assert (tmp_path / ARCHIVE_NAME).stat().st_size < before / 10


def test_files_go_with_their_runs(tmp_path: Path) -> None:
    for name in ("one/a", "one/b", "two/c"):
        path = tmp_path / "archive" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    with ArchiveFile.write(str(tmp_path), OWN) as archive:
        one = entry(1)._replace(blobs=["one/a", "one/b", "one/gone"])
        archive.put([one, entry(2, ended_ns=50)._replace(blobs=["two/c"])])
    trimmed(tmp_path, ArchiveRule(10), 20)
    assert sorted(path.name for path in (tmp_path / "archive").rglob("*")) == ["c", "two"]


def test_a_run_that_is_put_again_keeps_its_files(tmp_path: Path) -> None:
    """The checkpoint after a crash puts what is going already."""
    again = entry(1)._replace(blobs=["one/a"])
    path = tmp_path / "archive" / "one" / "a"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    with ArchiveFile.write(str(tmp_path), OWN) as archive:
        archive.put([again])
        with archive.transaction() as database:
            assert ArchiveFile.let_go(database, [1, 2]) == 1
        archive.put([again])
    trimmed(tmp_path, ArchiveRule(None), 0)
    assert numbers(tmp_path) == [1]
    assert path.exists()


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["failed", "succeeded"]), st.integers(1, 30)), max_size=12),
    st.one_of(st.none(), st.integers(0, 60)),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(0, 120),
    st.integers(0, 4),
)
def test_after_any_number_of_steps_what_is_listed_is_whole(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[tuple[int, str, int]],
    ttl: int | None,
    of_failed: int | None,
    now_ns: int,
    steps: int,
) -> None:
    path = tmp_path_factory.mktemp("archive")
    rule = ArchiveRule(ttl, {"state:failed": of_failed})
    with ArchiveFile.write(str(path), OWN) as archive:
        archive.put(entry(no, ended_ns=end, state=state, pieces=n) for no, (end, state, n) in enumerate(runs, 1))
    trimmed(path, rule, now_ns, steps)
    with opened(path) as archive:
        for run in archive.summaries():
            assert len(archive.run(run.no)) == runs[run.no - 1][2]
    trimmed(path, rule, now_ns)
    stay = [
        no
        for no, (end, state, _) in enumerate(runs, 1)
        if (kept := of_failed if state == "failed" else ttl) is None or end + kept > now_ns
    ]
    assert numbers(path) == stay
    assert leftovers(path)[1:] == [0, 0]

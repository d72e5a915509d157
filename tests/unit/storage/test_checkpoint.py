"""The file of a checkpoint: what was put comes back, what did not change stays, damage is found."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol.errors import CheckpointUnusable, DiskFull, NewerFormat, StateFolderError
from actors.saved import SavedPart
from actors.saved_again import Unchanged
from runtime.storage import checkpoint as module
from runtime.storage import packing, sqlite_file
from runtime.storage.checkpoint import CHECKPOINT_NAME, CheckpointFile
from tests.sim.parts import KeptParts

OWN = UUID(int=5)
ENGINE = SavedPart(0, "engine", 0, b"{}")
ONE = [
    SavedPart(1, "run", 0, b"head"),
    SavedPart(1, "state", 0, b"\1" * 1000),
    SavedPart(1, "state", 1000, b"\2" * 1000),
]
TWO = [SavedPart(2, "run", 0, b"two")]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    put(tmp_path, 10, [ENGINE, *ONE, *TWO], [1, 2])
    return tmp_path


def put(path: Path, lsn: int, parts: Sequence[SavedPart | Unchanged], kept: list[int]) -> int:
    with CheckpointFile.write(str(path), OWN) as checkpoint:
        return checkpoint.put(lsn, parts, kept)


def found(path: Path) -> tuple[int, list[SavedPart]]:
    checkpoint = CheckpointFile.read(str(path), OWN)
    assert checkpoint is not None
    with checkpoint:
        return checkpoint.lsn, list(checkpoint.parts())


def execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path / CHECKPOINT_NAME) as database:
        database.execute(statement)
    database.close()


def test_what_was_put_comes_back_in_order(made: Path) -> None:
    assert found(made) == (10, [ENGINE, *ONE, *TWO])


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert CheckpointFile.read(str(tmp_path), OWN) is None
    CheckpointFile.write(str(tmp_path), OWN).close()
    assert CheckpointFile.read(str(tmp_path), OWN) is None


def test_parts_that_did_not_change_are_not_written_again(made: Path) -> None:
    changed = SavedPart(1, "state", 1000, b"\3" * 1000)
    first = put(made, 11, [ENGINE, ONE[0], ONE[1], changed], [1, 2])
    assert 0 < first < 100
    assert found(made) == (11, [ENGINE, ONE[0], ONE[1], changed, *TWO])
    assert put(made, 12, [ENGINE, ONE[0], ONE[1], changed], [1, 2]) == 0


def test_what_stays_need_not_be_given(made: Path) -> None:
    put(made, 11, [ENGINE, Unchanged(1), SavedPart(1, "change", 0, b"first")], [1, 2])
    first = SavedPart(1, "change", 0, b"first")
    assert found(made) == (11, [ENGINE, first, *ONE, *TWO])
    changed = SavedPart(1, "state", 1000, b"\3" * 1000)
    put(made, 12, [ENGINE, Unchanged(1, "state", 0, 1000), SavedPart(1, "run", 0, b"new"), changed], [1, 2])
    assert found(made) == (12, [ENGINE, SavedPart(1, "run", 0, b"new"), ONE[1], changed, *TWO])


def test_what_comes_to_parts_that_stay_is_not_there_yet(made: Path) -> None:
    with pytest.raises(CheckpointUnusable, match="UNIQUE"):
        put(made, 11, [ENGINE, Unchanged(1), ONE[1]], [1, 2])
    assert found(made) == (10, [ENGINE, *ONE, *TWO])


RUN_PARTS = st.dictionaries(
    st.tuples(st.sampled_from(["run", "state", "change"]), st.integers(0, 3)), st.binary(max_size=3), max_size=6
)
UNCHANGED = st.one_of(
    st.tuples(), st.tuples(st.sampled_from(["run", "state", "change"]), st.integers(0, 3), st.integers(0, 4))
)
PUTS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(1, 3), st.tuples(st.lists(UNCHANGED, max_size=2), RUN_PARTS), max_size=3),
        st.sets(st.integers(1, 3)),
        st.sampled_from(["go on", "open", "open and read"]),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(puts=PUTS)
def test_whatever_is_put_is_what_a_plain_account_has(puts: list[Any]) -> None:
    """By one writer or by others that have read what is there or not: the sum of digests is right each time."""
    plain = KeptParts()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        checkpoint = stack.enter_context(CheckpointFile.write(folder, OWN))
        for lsn, (runs, kept, before) in enumerate(puts, 1):
            if before != "go on":
                checkpoint.close()
                checkpoint = stack.enter_context(CheckpointFile.write(folder, OWN))
            if before == "open and read" and lsn > 1:
                assert list(checkpoint.parts()) == plain.all()
            parts: list[SavedPart | Unchanged] = [ENGINE]
            for run, (unchanged, given_parts) in runs.items():
                if run in kept:
                    stays = [Unchanged(run, *each) for each in unchanged]
                    there = [p[1:3] for p in plain.all() if p.run == run and any(u.covers(*p[1:3]) for u in stays)]
                    parts += stays
                    parts += [SavedPart(run, *key, body) for key, body in given_parts.items() if key not in there]
            checkpoint.put(lsn, parts, kept)
            plain.put(parts, kept)
            assert found(Path(folder)) == (lsn, plain.all())


def grown(rounds: int) -> list[SavedPart]:
    """A run of which a little changed so often."""
    body = bytearray(Random(7).randbytes(6000))
    for at in range(rounds):
        body[50 * at] ^= 0xFF
    return [ENGINE, SavedPart(1, "run", 0, bytes(body)), *TWO]


@pytest.mark.slow
def test_of_a_part_that_changed_a_little_only_the_difference_is_written(tmp_path: Path) -> None:
    whole = put(tmp_path, 1, grown(0), [1, 2])
    sizes = []
    for lsn in range(2, 110):
        sizes.append(put(tmp_path, lsn, grown(lsn), [1, 2]))
        assert found(tmp_path) == (lsn, grown(lsn))
    assert sizes[0] < whole / 50
    fulls = [at for at, size in enumerate(sizes) if size > whole / 2]
    assert fulls, "a whole one now and then"
    assert sum(sizes[: fulls[0]]) <= whole, "differences do not come to more than the part"


def test_a_part_goes_with_its_difference(tmp_path: Path) -> None:
    put(tmp_path, 1, grown(0), [1, 2])
    put(tmp_path, 2, grown(1), [1, 2])
    put(tmp_path, 3, [ENGINE, *TWO], [2])
    assert found(tmp_path) == (3, [ENGINE, *TWO])
    with sqlite3.connect(tmp_path / CHECKPOINT_NAME) as database:
        assert database.execute("SELECT count(*) FROM delta").fetchone() == (0,)
    database.close()
    put(tmp_path, 4, [ENGINE, SavedPart(1, "run", 0, b"again"), *TWO], [1, 2])
    assert found(tmp_path) == (4, [ENGINE, SavedPart(1, "run", 0, b"again"), *TWO])


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM delta", "parts of it are missing"),
        ("UPDATE delta SET body = x'00'", "damaged"),
        ("UPDATE delta SET body = NULL", "damaged"),
        ("UPDATE delta SET digest = x'00'", "column 'run' of run 1"),
        ("UPDATE part SET body = x'00' WHERE run = 1", "damaged"),
        ("UPDATE part SET packed = 9 WHERE run = 1", "damaged"),
        ("DROP TABLE delta", "no such table"),
        ("UPDATE meta SET value = 0 WHERE name = 'format'", "does not say what it is"),
        ("UPDATE meta SET value = 1 WHERE name = 'format'", "damaged"),
    ],
)
def test_damage_of_differences_is_found(tmp_path: Path, statement: str, message: str) -> None:
    put(tmp_path, 1, grown(0), [1, 2])
    put(tmp_path, 2, grown(1), [1, 2])
    execute(tmp_path, statement)
    with pytest.raises(CheckpointUnusable, match=message):
        found(tmp_path)


def test_a_part_that_is_damaged_where_it_is_written_next_is_written_whole(tmp_path: Path) -> None:
    put(tmp_path, 1, grown(0), [1, 2])
    execute(tmp_path, "UPDATE part SET body = zeroblob(6000) WHERE run = 1")
    put(tmp_path, 2, grown(1), [1, 2])
    assert found(tmp_path) == (2, grown(1))


def test_runs_that_are_gone_and_columns_that_became_shorter_go(made: Path) -> None:
    put(made, 11, [ENGINE, *ONE[:2]], [1])
    assert found(made) == (11, [ENGINE, *ONE[:2]])


def test_a_crash_before_the_end_leaves_the_checkpoint_before(made: Path) -> None:
    def parts() -> Iterator[SavedPart]:
        yield ENGINE._replace(body=b"new")
        raise KeyboardInterrupt

    with CheckpointFile.write(str(made), OWN) as checkpoint, pytest.raises(KeyboardInterrupt):
        checkpoint.put(11, parts(), [])
    assert found(made) == (10, [ENGINE, *ONE, *TWO])


def test_a_reader_sees_one_state(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.0)
    reader = CheckpointFile.read(str(made), OWN)
    assert reader is not None
    with reader, pytest.raises(StateFolderError, match="BUSY"):
        put(made, 11, [ENGINE], [])
    put(made, 11, [ENGINE], [])
    assert found(made) == (11, [ENGINE])


def test_space_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PACK_BYTES_MIN", 1 << 30)
    monkeypatch.setattr(module, "FREE_PAGES_MIN", 64)
    put(tmp_path, 1, [ENGINE, *(SavedPart(1, "state", at, bytes(100_000)) for at in range(10))], [1])
    before = (tmp_path / CHECKPOINT_NAME).stat().st_size
    with CheckpointFile.write(str(tmp_path), OWN) as checkpoint:
        checkpoint.put(2, [ENGINE], [])
        checkpoint.give_back()
    assert (tmp_path / CHECKPOINT_NAME).stat().st_size < before / 10


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE part SET body = x'00' WHERE col = 'run'", "column 'run' of run 1"),
        ("UPDATE part SET run = 3 WHERE run = 2", "column 'run' of run 3"),
        ("UPDATE part SET body = x'00' WHERE packed", "damaged"),
        ("UPDATE part SET body = NULL WHERE run = 2", "damaged"),
        ("DELETE FROM part WHERE at = 1000", "parts of it are missing"),
        ("UPDATE meta SET value = 11 WHERE name = 'lsn'", "damaged"),
        ("DELETE FROM meta WHERE name = 'lsn'", "does not say what it is"),
        ("UPDATE meta SET value = 'x' WHERE name = 'uuid'", "another state folder"),
        ("DROP TABLE part", "no such table"),
    ],
)
def test_damage_is_found(made: Path, statement: str, message: str) -> None:
    execute(made, statement)
    with pytest.raises(CheckpointUnusable, match=message):
        found(made)


def test_bytes_that_flipped_are_found(made: Path) -> None:
    """Wherever they are, but for those that nobody reads."""
    path = made / CHECKPOINT_NAME
    content, refused = path.read_bytes(), 0
    for at in range(100, len(content), 97):
        if content[at]:
            path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
            try:
                assert found(made) == (10, [ENGINE, *ONE, *TWO])
            except (CheckpointUnusable, NewerFormat):
                refused += 1
    assert refused


def test_what_is_no_database_is_damaged(made: Path) -> None:
    (made / CHECKPOINT_NAME).write_bytes(b"x" * 5000)
    with pytest.raises(CheckpointUnusable):
        found(made)
    with pytest.raises(CheckpointUnusable):
        CheckpointFile.write(str(made), OWN)


def test_a_newer_format_is_refused(made: Path) -> None:
    execute(made, "UPDATE meta SET value = 99 WHERE name = 'format'")
    with pytest.raises(NewerFormat, match="99"):
        found(made)


def test_no_room_is_said(made: Path) -> None:
    with CheckpointFile.write(str(made), OWN) as checkpoint:
        checkpoint._database.execute("PRAGMA max_page_count=8")
        with pytest.raises(DiskFull):
            checkpoint.put(11, [ENGINE, SavedPart(3, "run", 0, Random(1).randbytes(100_000))], [3])
    assert found(made) == (10, [ENGINE, *ONE, *TWO])


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_old_one_or_the_new_one(made: Path, tmp_path: Path) -> None:
    """The files as they are at each step of SQLite, which is what a killed process leaves."""
    old = (10, [ENGINE, *ONE, *TWO])
    noise = [SavedPart(3, "state", at, Random(at).randbytes(3000)) for at in range(40)]
    new = (11, [ENGINE, *TWO, *noise])
    seen: list[tuple[bytes, bytes | None]] = []

    def look() -> int:
        journal = made / (CHECKPOINT_NAME + "-journal")
        left = journal.read_bytes() if journal.exists() else None
        seen.append(((made / CHECKPOINT_NAME).read_bytes(), left))
        return 0

    with CheckpointFile.write(str(made), OWN) as checkpoint:
        checkpoint._database.execute("PRAGMA cache_size=4")  # so that pages are written before the end
        checkpoint._database.set_progress_handler(look, 40)
        checkpoint.put(11, [ENGINE, *TWO, *noise], [2, 3])
    look()
    states, again = [], tmp_path / "again"
    again.mkdir()
    for content, journal in seen:
        for old_file in again.iterdir():
            old_file.unlink()
        (again / CHECKPOINT_NAME).write_bytes(content)
        if journal is not None:
            (again / (CHECKPOINT_NAME + "-journal")).write_bytes(journal)
        states.append(found(again))
        assert [path.name for path in again.iterdir() if path.name == CHECKPOINT_NAME], "a reader changed something"
        with CheckpointFile.write(str(again), OWN) as checkpoint:  # and the next one goes on from there
            assert checkpoint.lsn == states[-1][0]
    assert len({content for content, _ in seen}) > 5
    assert [state for state in states if state not in (old, new)] == []
    assert (states[0], states[-1]) == (old, new)

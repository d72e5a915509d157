"""Runs in the middle of their lives: both forms tell of the same, and nothing ends before its parents."""

from __future__ import annotations

import pytest

from actors.state_column import READY, SUCCEEDED
from runtime.bench.encodings import ENCODINGS, RowEncoding
from runtime.bench.figures import BenchError
from runtime.bench.lives import Lives, check_rows


def test_runs_move_on_and_keep_their_invariants() -> None:
    lives = Lives(8, 100)
    done = [life.run.state.count(SUCCEEDED) for life in lives.lives]
    assert len(set(done)) == 8, "each at another place of its life"
    for _ in range(12):
        lives.move_on(7, 5_000_000_000)
        for life in lives.lives:
            life.run.check_invariants()
            assert len(life.changed) == len(set(life.changed))
            states = [{"succeeded": SUCCEEDED, "ready": READY}.get(row["state"], 0) for row in life.rows]
            assert states == list(life.run.state)
    assert all(not life.run.open for life in lives.lives[4:])


@pytest.mark.parametrize("kind", ENCODINGS, ids=lambda kind: kind.name)
def test_an_encoding_is_read_again(kind: type[RowEncoding]) -> None:
    if kind.missing():
        pytest.skip(f"{kind.missing()} is not installed")
    lives, encoding = Lives(2, 60), kind()
    life, other = lives.lives
    encoding.prepare(lives.lives)
    whole, changes = encoding.whole(life), []
    for _ in range(3):
        lives.move_on(5, 1_000_000_000)
        encoding.prepare(lives.lives)
        changes.append(encoding.changes(life))
    check_rows(encoding.rows(whole, changes), life, kind.name)
    with pytest.raises(BenchError, match=kind.name):
        check_rows(encoding.rows(whole, changes[:-1]), life, kind.name)
    with pytest.raises(BenchError):
        check_rows(encoding.rows(whole, changes), other, kind.name)

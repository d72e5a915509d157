"""Whose runs are that memory lets go of, over any row of openings."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.owed import ALL_RUNS, owed_below, said

OPENINGS = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=8)


@given(OPENINGS)
def test_owed_is_what_was_there_when_an_archive_was_last_left(openings: list[tuple[bool, int]]) -> None:
    """Whoever comes after: the oracle remembers the run that an engine with an archive knew last."""
    opened: dict[str, Any] = {}
    next_no, oracle, archived = 1, 0, False
    for archives, runs in openings:
        if not archives and archived:
            oracle = next_no
        below = ALL_RUNS if archives else owed_below(opened, next_no, archives=False)
        assert below == (ALL_RUNS if archives else oracle)
        opened, archived = said(archives, below), archives
        next_no += runs


def test_an_opening_that_does_not_say_is_what_it_is_believed_to_be() -> None:
    assert owed_below({"pid": 3}, 7, archives=True) == 7
    assert owed_below({"pid": 3}, 7, archives=False) == 0
    assert owed_below({"archives": False, "owed_below": 3}, 7, archives=True) == 3

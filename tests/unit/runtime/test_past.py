"""Runs of the engine and of the past as one list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.states import RunState
from runtime.past import Merged
from runtime.views import Counts, RunStatus


def status(moment: int) -> RunStatus:
    return RunStatus(f"run-{moment}", "", RunState.SUCCEEDED, Counts(), moment, moment)


def cut(runs: list[RunStatus], size: int) -> list[list[RunStatus]]:
    return [runs[at : at + size] for at in range(0, len(runs), size)]


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_latest_first_and_each_once(
    recent: set[int], older: set[int], recent_page: int, older_page: int, empty_page: bool
) -> None:
    """Whatever the pages are; a run that is in both went to the archive while it was asked for."""
    both = recent & older
    recent_pages = cut([status(moment) for moment in sorted(recent, reverse=True)], recent_page)
    older_pages = cut([status(moment) for moment in sorted(older, reverse=True)], older_page)
    if empty_page:
        recent_pages.insert(len(recent_pages) // 2, [])
    merged, found = Merged(), list[RunStatus]()
    while not merged.over:
        assert merged.wanted
        if "recent" in merged.wanted:
            page = recent_pages.pop(0) if recent_pages else []
            merged.feed_recent(page, more=bool(recent_pages))
        if "older" in merged.wanted:
            merged.feed_older(older_pages.pop(0) if older_pages else None)
        found += merged.take()
    moments = [run.created_ns for run in found]
    assert moments == sorted(recent | older, reverse=True)
    assert len(both) == len(recent) + len(older) - len(moments)

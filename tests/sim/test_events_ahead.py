"""Events of simulated lives whose log was cut behind a checkpoint: those that reading all of the log would tell."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from actors.event_ahead import Late
from actors.event_fold import EventFold
from actors.event_names import key_of
from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from actors.saved import load, save
from actors.scheduler import Scheduler
from tests.sim.test_events import ALL, TOLD, events_of, records_of, told_of

pytestmark = pytest.mark.slow


def submissions(records: list[Record]) -> dict[int, Record]:
    found: dict[int, Record] = {}
    for record in records:
        if record.type == RecordType.SUBMITTED:
            probe = EventFold(TOLD)
            probe.events(record)
            found[next(iter(probe.scheduler.book.live))] = record
    return found


def cut_fold(records: list[Record], first: int, saved: Replay, wanted: frozenset[str]) -> EventFold:
    """A fold that sees the log from index `first` on, and a checkpoint."""
    logged = submissions(records[first:])

    def base(replay: Replay, upto_lsn: int | None) -> int:
        lsn = saved.scheduler.lsn
        if not first or (upto_lsn is not None and lsn > upto_lsn):
            return 0
        load(replay, save(saved))
        return lsn

    def history(lsn: int) -> list[Record]:
        return [record for record in records[first:] if record.lsn < lsn]

    return EventFold(wanted, lambda no, lsn: logged.get(no), history, base=base)


def told_exactly(records: list[Record], first: int, saved: Replay) -> set[str]:
    """Public ids of the runs of a checkpoint that are told as if all of the log were there."""
    book = saved.scheduler.book
    again = Late(record for record in records[first:] if record.lsn <= saved.scheduler.lsn).again
    cancels = [json.loads(r.payload) for r in records if r.type == RecordType.CANCEL]
    by_itself = {no for no, node, *_ in cancels if node is not None}
    return {
        key_of(run, node)
        for run in [*book.live.values(), *book.finished.values()]
        for node in range(run.size)
        if not (run.no in again or run.no in by_itself or run.rare.callers)
    }


def compared(seed: int, wanted: frozenset[str]) -> Counter[str]:
    """Compare, and count what was told of runs that are older than the log."""
    records = records_of(seed)
    whole = [event for event in events_of(records, EventFold(ALL, begins=True)) if event.kind in wanted]
    size, counted = len(records), Counter[str]()
    for taken in range(size // 5, size, max(1, size // 4)):
        saved = Replay(Scheduler(["default", "io"]))
        for record in records[:taken]:
            saved.fold(record)
        saved.scheduler.taken()
        for first in range(taken // 2, taken + 1, max(1, taken // 8)):
            known = told_exactly(records, first, saved)
            older = {event.run for event in whole if event.lsn < records[first].lsn} - {None}
            for start in sorted({first, (first + taken) // 2, taken}):
                found = events_of(records[start:], cut_fold(records, first, saved, wanted))
                since = [event for event in whole if event.lsn >= records[start].lsn]
                rest = older - known
                assert [told_of(event) for event in found if event.run not in rest] == [
                    told_of(event) for event in since if event.run not in rest
                ], (taken, first, start)
                counted.update(event.kind for event in since if event.run in older & known)
    return counted


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("wanted", [ALL, TOLD], ids=["folded", "told"])
def test_events_of_a_log_that_was_cut_are_those_of_the_whole_one(seed: int, wanted: frozenset[str]) -> None:
    compared(seed, wanted)


def test_that_compared_something() -> None:
    counted = sum((compared(seed, ALL) for seed in range(4)), Counter[str]())
    assert {"node.skipped", "run.failed", "node.succeeded", "run.succeeded"} <= counted.keys()

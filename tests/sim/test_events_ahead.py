"""Events of simulated lives whose log was cut behind a checkpoint: those that reading all of the log would tell."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from actors.event_ahead import Late
from actors.event_fold import EventFold
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
    logged, begins = submissions(records[first:]), records[first].lsn

    def base(replay: Replay, upto_lsn: int | None) -> int:
        lsn = saved.scheduler.lsn
        if begins == 1 or begins > lsn + 1 or (upto_lsn is not None and lsn > upto_lsn):
            return 0
        load(replay, save(saved))
        return lsn

    def history(lsn: int) -> list[Record]:
        return [record for record in records[first:] if record.lsn < lsn]

    return EventFold(wanted, lambda no, lsn: logged.get(no), history, base=base)


def cancelled_twice(records: list[Record], first: int) -> set[str]:
    """Runs of which a node was cancelled by itself before reading began."""
    early = [json.loads(r.payload) for r in records[:first] if r.type == RecordType.CANCEL]
    return {str(no) for no, node, _ in early if node is not None}


COMPARED: Counter[str] = Counter()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("wanted", [ALL, TOLD], ids=["folded", "told"])
def test_events_of_a_log_that_was_cut_are_those_of_the_whole_one(seed: int, wanted: frozenset[str]) -> None:
    records = records_of(seed)
    whole = [event for event in events_of(records, EventFold(ALL, begins=True)) if event.kind in wanted]
    size = len(records)
    for taken in range(size // 5, size, max(1, size // 4)):
        saved = Replay(Scheduler(["default", "io"]))
        for record in records[:taken]:
            saved.fold(record)
        saved.scheduler.taken()
        lsn, book = saved.scheduler.lsn, saved.scheduler.book
        numbers = {run.key: run.no for run in [*book.live.values(), *book.finished.values()]}
        for first in range(taken // 2, min(taken + 2, size), max(1, taken // 8)):
            window = records[first:taken]
            excused = {str(no) for no in Late(window).again} | cancelled_twice(records, first)
            known = {key for key, no in numbers.items() if str(no) not in excused}
            early = {event.run for event in whole if event.lsn < records[first].lsn} - known
            for start in {first, (first + taken) // 2, min(taken, size - 1)} & set(range(first, size)):
                fold = cut_fold(records, first, saved, wanted)
                found = [told_of(event) for event in events_of(records[start:], fold) if event.run not in early]
                since = [event for event in whole if event.lsn >= records[start].lsn and event.run not in early]
                assert found == [told_of(event) for event in since], (taken, first, start)
                COMPARED.update(event.kind for event in since if event.lsn <= lsn and event.run in known)


def test_that_compared_something() -> None:
    assert {"node.skipped", "run.failed", "node.succeeded", "run.succeeded"} <= COMPARED.keys()

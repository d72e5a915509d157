"""The sieve: a whole log passes whole; of one with holes, what passes is something that an engine can go on with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import orjson
import pytest

from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from actors.state_column import TERMINAL_FIRST, TERMINAL_LAST
from runtime.host.calendar import ZoneCalendar
from runtime.storage.sieve import Sieve
from tests.unit.storage.worlds import records_midway, records_of

pytestmark = pytest.mark.slow

HOUR_NS = 3_600_000_000_000


def sifted(records: Iterable[Record], lost_lsns: frozenset[int] = frozenset()) -> tuple[Sieve, list[Record]]:
    """Sift, as if these records had been damaged."""
    sieve = Sieve(lambda name: pytest.fail(f"there is no blob {name}"))
    kept, lost = [], 0
    for record in records:
        if record.lsn in lost_lsns:
            lost += 1
            continue
        passed = sieve.take(record, lost)
        if passed is not None:
            kept.append(passed)
    return sieve, kept


def opened(records: Sequence[Record]) -> Scheduler:
    """What an engine knows that has opened a log of these records; everything was checked."""
    scheduler = Scheduler(["default", "io"])
    scheduler.schedules.calendar = ZoneCalendar()
    replay = Replay(scheduler)
    for record in records:
        replay.fold(record)
    replay.finish(HOUR_NS, 1_700_000_000_000_000_000 + HOUR_NS, {"pid": 1}, len(records) + 1)
    scheduler.check_invariants()
    for run in scheduler.book.finished.values():
        run.check_invariants()
    return scheduler


@pytest.mark.parametrize("seed", range(24))
def test_a_whole_log_passes_whole(seed: int) -> None:
    records = records_of(seed)
    sieve, kept = sifted(records)
    assert kept == list(records)
    assert (sieve.stopped, sieve.nodes_again, sieve.misfits) == (0, 0, [])


@pytest.mark.parametrize("seed", range(24))
def test_what_passes_of_a_log_with_holes_opens_and_fits(seed: int) -> None:
    random = Random(seed)
    records = records_of(seed) if seed % 3 else records_midway(seed, 300)
    for _ in range(6):
        at = random.randrange(len(records))
        hole = frozenset(record.lsn for record in records[at : at + random.choice((1, 1, 3, 20))])
        more = frozenset(random.choice(records).lsn for _ in range(random.choice((0, 0, 4))))
        sieve, kept = sifted(records, hole | more)
        assert not sieve.misfits
        again, twice = sifted(kept)
        assert twice == kept
        assert not again.stopped
        opened(kept)


def graph_log() -> tuple[Record, ...]:
    """A graph in which results were entered one after the other."""
    for seed in range(60):
        records = records_of(seed)
        if any(r.type == RecordType.SPAWNED for r in records) and any(r.type == RecordType.LENT for r in records):
            return records
    raise AssertionError("no world adds nodes and calls tasks")


def test_a_run_whose_submission_is_lost_is_lost_and_named() -> None:
    records = graph_log()
    first = next(record for record in records if record.type == RecordType.SUBMITTED)
    sieve, kept = sifted(records, frozenset({first.lsn}))
    whole, _ = sifted(records)
    gone = {run.key for run in runs_of(whole)} - {run.key for run in runs_of(sieve)}
    assert len(gone) == 1
    assert len(sieve.lost_runs()) == 1
    opened(kept)


def runs_of(sieve: Sieve) -> list:  # type: ignore[type-arg]
    book = sieve.scheduler.book
    return [*book.live.values(), *book.finished.values()]


def test_who_rests_on_a_lost_result_goes_again_and_what_ended_elsewhere_does_not() -> None:
    """Whatever single record with results is lost: no node is ended whose parents are not."""
    records = graph_log()
    again = 0
    for lost in (record for record in records if record.type == RecordType.COMPLETED):
        sieve, kept = sifted(records, frozenset({lost.lsn}))
        again += sieve.nodes_again
        for run in runs_of(sieve):
            if run.rare.revived or run.special or run.cancel_asked:
                continue
            for node, state in enumerate(run.state):
                if state == 3:
                    parents = [run.state[parent] for parent in run.parents(node)]
                    assert all(TERMINAL_FIRST <= parent <= TERMINAL_LAST for parent in parents), (run.key, node)
        opened(kept)
    assert again


def test_a_record_that_cannot_be_read_is_dropped_and_told() -> None:
    records = list(records_of(0))
    at = next(i for i, record in enumerate(records) if record.type == RecordType.SUBMITTED)
    records[at] = records[at]._replace(payload=orjson.dumps({"no": "submission"}))
    sieve, kept = sifted(records)
    assert [lsn for lsn, _ in sieve.misfits] == [records[at].lsn]
    opened(kept)

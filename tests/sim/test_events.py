"""Events of simulated lives: they tell what became of every node and run, wherever reading begins.

The oracle is the state that recovery folds from the same records: a second way from the log to what is so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from actors.event_fold import EventFold
from actors.event_kinds import BY_RECORD, EVENT_KINDS, FOLDED_KINDS, TIMED_KINDS, Event
from actors.event_names import key_of
from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from actors.state_column import TERMINAL_FIRST, TERMINAL_LAST
from runtime.storage.reader import read_log
from tests.sim.world import PLACE, World

pytestmark = pytest.mark.slow

ALL = frozenset(EVENT_KINDS)
TOLD = ALL - FOLDED_KINDS
_NODE_ENDS = {"node.succeeded": 3, "node.failed": 4, "node.cancelled": 5, "node.skipped": 6}
_RUN_ENDS = {"run.succeeded", "run.failed", "run.cancelled"}


@cache
def records_of(seed: int) -> list[Record]:
    world = World(seed)
    world.checkpoints.off = True  # the whole log is wanted
    world.run()
    return list(read_log(PLACE, world.disk.after_kill()))


def events_of(records: Iterable[Record], fold: EventFold) -> list[Event]:
    return [event for record in records for event in fold.events(record)]


def folded(records: Iterable[Record]) -> Scheduler:
    scheduler = Scheduler(["default", "io"])
    replay = Replay(scheduler)
    for record in records:
        replay.fold(record)
    return scheduler


def told_of(event: Event) -> tuple[Any, ...]:
    """What does not depend on where reading began."""
    return event._replace(at_ns=0, name="")


@pytest.mark.parametrize("seed", range(24))
def test_events_tell_what_became_of_every_node_and_run(seed: int) -> None:
    records = records_of(seed)
    nodes: dict[tuple[str, int], int] = {}
    runs: dict[str, str] = {}
    for event in events_of(records, EventFold(ALL, begins=True)):
        assert event.kind in BY_RECORD[RecordType(records[event.lsn - records[0].lsn].type)]
        if event.kind in _NODE_ENDS:
            assert event.run is not None
            assert event.node is not None
            assert nodes.setdefault((event.run, event.node), _NODE_ENDS[event.kind]) == _NODE_ENDS[event.kind], event
            nodes[event.run, event.node] = _NODE_ENDS[event.kind]
        elif event.kind == "node.replayed":
            del nodes[event.run, event.node]
            runs.pop(event.run, None)
        elif event.kind in _RUN_ENDS:
            assert event.run not in runs, event
            runs[event.run] = event.kind
    scheduler = folded(records)
    book = scheduler.book
    for run in [*book.live.values(), *book.finished.values()]:
        for node, state in enumerate(run.state):
            single = not (run.is_graph or run.is_map) and node < run.base_size
            ended = TERMINAL_FIRST <= state <= TERMINAL_LAST
            assert nodes.get((key_of(run, node), 0 if single else node)) == (state if ended else None), (run.key, node)
        if run.is_graph or run.is_map:
            assert runs.get(run.key) == (None if run.open else f"run.{run.run_state()}")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("wanted", [ALL, TOLD], ids=["folded", "told"])
def test_events_are_the_same_wherever_reading_begins(seed: int, wanted: frozenset[str]) -> None:
    records = records_of(seed)
    whole = [told_of(event) for event in events_of(records, EventFold(ALL, begins=True)) if event.kind in wanted]
    submitted: dict[int, Record] = {}
    for record in records:
        if record.type == RecordType.SUBMITTED:
            probe = EventFold(TOLD)
            probe.events(record)
            submitted[next(iter(probe.scheduler.book.live))] = record
    for start in range(0, len(records), max(1, len(records) // 40)):
        fold = EventFold(
            wanted,
            lambda no, lsn: submitted.get(no),
            lambda lsn: [record for record in records if record.lsn < lsn],
        )
        found = [told_of(event) for event in events_of(records[start:], fold)]
        assert found == [event for event in whole if event[0] >= records[start].lsn]


@pytest.mark.parametrize("seed", range(6))
def test_whoever_wants_little_is_told_the_same_of_it(seed: int) -> None:
    """Also where results are not even looked at; and the times are the same, too. What a run got has no name then."""
    records = records_of(seed)
    whole = [event._replace(name="") for event in events_of(records, EventFold(ALL, begins=True))]
    for wanted in (TIMED_KINDS, frozenset({"node.failed"}), frozenset({"node.failed", "run.cancel_asked"})):
        found = [event._replace(name="") for event in events_of(records, EventFold(wanted, begins=True))]
        assert found == [event for event in whole if event.kind in wanted]


def test_worlds_have_events_of_most_kinds() -> None:
    """Otherwise the tests above say little."""
    seen = Counter(
        event.kind for seed in range(24) for event in events_of(records_of(seed), EventFold(ALL, begins=True))
    )
    rare = {"node.reprioritised", "policy.changed", "run.imported", "run.released", "schedule.removed"}
    assert ALL - seen.keys() <= rare

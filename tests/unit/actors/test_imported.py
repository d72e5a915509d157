"""Runs as lines and back: what is exported, imported and exported again is the same, and goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from actors.event_fold import EventFold
from actors.exported import BY_FLAG, BY_NODE, LEFT_OUT, OTHERWISE, lines_of
from actors.imported import commit_payload, lines_payload
from actors.protocol.errors import ProtocolError
from actors.protocol.records import Record, RecordType
from actors.rare import Rare
from actors.replay import Replay
from actors.run import Run
from actors.saved import ENGINE, kept_runs, save_touched
from actors.saved_again import Touched
from actors.scheduler import Scheduler
from runtime.host.calendar import ZoneCalendar
from tests.unit.storage.worlds import records_midway, records_of

Lines = list[dict[str, Any]]
NOW_NS = 10**12


def folded(records: Sequence[Record]) -> Replay:
    scheduler = Scheduler(["default", "io"])
    scheduler.schedules.calendar = ZoneCalendar()
    replay = Replay(scheduler)
    for record in records:
        replay.fold(record)
    return replay


def runs_of(scheduler: Scheduler) -> list[Run]:
    book = scheduler.book
    return [run for _, run in sorted({**book.live, **book.finished}.items())]


def exported(scheduler: Scheduler) -> list[Lines]:
    keys = scheduler.keys.by_run()
    return [orjson.loads(orjson.dumps([*lines_of(scheduler, run, keys)])) for run in runs_of(scheduler)]


def records_from(runs: list[Lines], *, first_no: int = 1, part: int = 7, commit: bool = True) -> list[Record]:
    """The records that an import writes."""
    payloads: list[bytes] = []
    for no, lines in enumerate(runs, first_no):
        parts = [lines[at : at + part] for at in range(0, len(lines), part)]
        payloads += [lines_payload(no, not at, [*map(orjson.dumps, piece)]) for at, piece in enumerate(parts)]
    if commit:
        payloads.append(commit_payload(first_no, first_no + len(runs) - 1))
    return [Record(lsn, RecordType.IMPORTED, payload) for lsn, payload in enumerate(payloads, 1)]


def logs(seed: int) -> tuple[Record, ...]:
    return records_of(seed) if seed % 2 else records_midway(seed, 50 * (seed % 9))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(48))
def test_what_is_exported_imported_and_exported_again_is_the_same(seed: int) -> None:
    before = folded(logs(seed))
    lines = exported(before.scheduler)
    after = folded(records_from(lines))
    assert exported(after.scheduler) == lines
    for replay in (before, after):
        replay.finish(NOW_NS, NOW_NS + 1_700_000_000_000_000_000, {"pid": 1}, replay.scheduler.lsn + 1)
        replay.scheduler.check_invariants()
    names = {run[0]["run"] for run in lines}  # schedules are not exported, and may start others
    went_on = [[facts(run) for run in runs_of(r.scheduler) if run.key in names] for r in (before, after)]
    assert went_on[0] == went_on[1]
    if not before.scheduler.schedules.by_name:
        waiting = [{name: queue.size for name, queue in r.scheduler.ready.items()} for r in (before, after)]
        assert waiting[0] == waiting[1]


def facts(run: Run) -> list[Any]:
    """What an engine that goes on with the run looks at."""
    columns = run.columns
    edges = [] if columns is None else [sorted(columns.succ[a:b]) for a, b in spans(columns.succ_off)]
    open_ = [node for node, state in enumerate(run.state) if state not in (3, 4, 5, 6)]
    waits = [run.waits[node] for node in open_] if run.waits else []
    return [run.key, bytes(run.state), run.results, run.open, waits, edges, run.cancel_asked, run.special, run.seq]


def spans(offsets: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(offsets, offsets[1:], strict=False))


def test_every_fact_of_few_nodes_is_exported_or_left_out_on_purpose() -> None:
    assert {*BY_NODE, *BY_FLAG, *OTHERWISE, *LEFT_OUT} == {*Rare.__slots__}
    assert len(BY_NODE) + len(BY_FLAG) + len(OTHERWISE) + len(LEFT_OUT) == len(Rare.__slots__)


def test_nothing_is_known_before_the_commit() -> None:
    lines = exported(folded(records_of(1)).scheduler)
    records = records_from(lines, commit=False)
    assert runs_of(folded(records).scheduler) == []
    again = [record._replace(lsn=record.lsn + len(records)) for record in records_from(lines, part=3)]
    assert exported(folded([*records, *again]).scheduler) == lines


def test_runs_that_were_imported_are_saved_by_the_next_checkpoint() -> None:
    replay = folded([])
    replay.touched = Touched()
    for record in records_from(exported(folded(logs(1)).scheduler)):
        replay.fold(record)
    there = kept_runs(replay)
    assert there
    assert {part.run for part in save_touched(replay, replay.touched)} == {ENGINE, *there}


def change(runs: list[Lines], at: int, **fields: Any) -> list[Lines]:
    found = orjson.loads(orjson.dumps(runs))
    found[-1][at] |= fields
    return found


def test_a_run_that_is_not_whole_in_the_log_is_lost_alone() -> None:
    lines = exported(folded(records_of(1)).scheduler)
    *records, commit = records_from(lines, part=10_000)
    replay = folded([*records[:1], *records[2:], commit])
    assert exported(replay.scheduler) == [lines[0], *lines[2:]]
    assert replay.incoming.lost == [2]
    assert replay.scheduler.book.next_run_no == len(lines) + 1


@pytest.mark.parametrize(
    ("at", "fields"),
    [
        (0, {"size": 99}),
        (0, {"kinds": []}),
        (0, {"kinds": [{"handler": 1}]}),
        (1, {"kind": 99}),
        (1, {"state": "elsewhere"}),
        (1, {"parents": [99]}),
        (1, {"parents": [0]}),
        (1, {"node": 7}),
        (-1, {"nodes": 0}),
        (-1, {"type": "node"}),
    ],
)
def test_lines_that_make_no_run_are_refused_and_enter_nothing(at: int, fields: dict[str, Any]) -> None:
    lines = exported(folded(records_of(1)).scheduler)
    graphs = [run for run in lines if run[0]["form"] == "graph"]
    *records, commit = records_from(change(graphs, at, **fields), part=10_000)
    replay = folded(())
    replay.incoming.refuses = True
    with pytest.raises(ProtocolError):
        for record in (*records, commit):
            replay.fold(record)
    assert runs_of(replay.scheduler) == []


def test_runs_that_were_imported_are_told_and_what_becomes_of_them() -> None:
    lines = exported(folded(logs(1)).scheduler)
    fold = EventFold(frozenset({"run.imported"}), begins=True)
    told = [event for record in records_from(lines) for event in fold.events(record)]
    assert [event.run for event in told] == [run[0]["run"] for run in lines]

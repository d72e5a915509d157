"""Records to events, on logs that the core wrote. Random lives are in `tests/sim/test_events.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from actors.event_fold import EventFold
from actors.event_kinds import BY_RECORD, EVENT_KINDS, FOLDED_KINDS, Event
from actors.imported import commit_payload
from actors.protocol import messages as msg
from actors.protocol.errors import NewerFormat, ProtocolError
from actors.protocol.records import Record, RecordType
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, kind, rig_with_clock

ALL = frozenset(EVENT_KINDS)
GONE = 77
"""A run that the log knows nothing of."""


def events_of(records: list[Record], wanted: frozenset[str] = ALL) -> list[Event]:
    fold = EventFold(wanted, begins=True)
    return [event for record in records for event in fold.events(record)]


def short(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(event.kind, event.run, event.node) for event in events if event.kind != "engine.opened"]


def test_single_tasks_are_runs_of_their_own() -> None:
    rig = Rig()
    rig.submit(2)
    (worker, serial, node), *_ = rig.leases()
    rig.succeed(worker, serial, node)
    assert short(events_of(rig.records)) == [
        ("run.submitted", "s-1", None),
        ("run.submitted", "s-2", None),
        ("node.succeeded", "s-1", 0),
        ("run.succeeded", "s-1", None),
    ]


def test_a_change_of_the_policy_is_told_with_who_paused_what() -> None:
    rig = Rig()
    rig.ask("policy", change={"pause": ["tenant:t"], "by": "ann", "reason": "fire"})
    rig.ask("policy", change={"quotas": {"key:a": 1}})
    first, second = events_of(rig.records, frozenset({"policy.changed"}))
    assert first.cause == "tenant:t paused by ann: fire"
    assert first.data is not None
    assert first.data["pauses"] == [["ann", "fire", rig.core.scheduler.policy.pauses["tenant:t"].at_ns, ["tenant:t"]]]
    assert second.cause == "quota of key:a 1"


def test_what_follows_from_a_failure_is_told_with_its_cause() -> None:
    rig = Rig()
    rig.submit_graph([[], [0], [1], []])
    first, second = rig.leases()
    rig.fail(*first)
    rig.succeed(*second)
    events = events_of(rig.records)
    assert short(events) == [
        ("run.submitted", "s-1", None),
        ("node.failed", "s-1", 0),
        ("node.skipped", "s-1", 1),
        ("node.skipped", "s-1", 2),
        ("node.succeeded", "s-1", 3),
        ("run.failed", "s-1", None),
    ]
    assert [event.cause for event in events] == [
        "",
        "ValueError: no",
        "node 0 ended failed",
        "node 0 ended failed",
        "",
        "node 0: failed",
    ]
    assert events[-1].data == {"succeeded": 1, "failed": 1, "cancelled": 0, "skipped": 2}
    assert events[1].data == {"attempt": 1, "failure": "error", "type": "builtins.ValueError"}
    assert [event.name for event in events] == ["graph", "f", "f", "f", "f", "graph"]
    assert [(event.lsn, event.place) for event in events] == sorted((event.lsn, event.place) for event in events)


def test_an_event_has_one_place_whatever_else_is_wanted() -> None:
    rig = Rig()
    rig.submit_graph([[], [0], [1]])
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    whole = events_of(rig.records)
    for name in {event.kind for event in whole}:
        assert events_of(rig.records, frozenset({name})) == [event for event in whole if event.kind == name]


def test_a_cancelled_run() -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    rig.leases()
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    assert short(events_of(rig.records)) == [
        ("run.submitted", "s-1", None),
        ("run.cancel_asked", "s-1", None),
        ("node.cancelled", "s-1", 1),
    ]


def test_what_somebody_does_is_told_with_the_time_at_which_it_was_done() -> None:
    """Not that of the record before, which may be hours old."""
    rig = rig_with_clock()
    rig.submit(1)
    (lease,) = rig.leases()
    done: dict[str, int] = {}

    def hour_later(kind: str, do: Callable[[], object]) -> None:
        rig.now_ns += 3600 * 10**9
        do()
        done[kind] = rig.wall_ns

    hour_later("policy.changed", lambda: rig.ask("policy", change={"pause": ["tenant:t"], "by": "ann"}))
    hour_later("node.cancel_asked", lambda: rig.say(msg.CancelAsked("s", 5, "s-1", None)))
    rig.fail(*lease, failure_kind="cancelled")
    hour_later("run.released", lambda: rig.ask("forget", run="s-1"))
    told = {event.kind: event for event in events_of(rig.records)}
    for name, at_ns in done.items():
        assert at_ns - 100 <= told[name].at_ns <= at_ns, name
    assert told["node.cancel_asked"].cause == "by s"


def test_a_retried_node_says_when_it_goes_again() -> None:
    rig = Rig()
    rig.submit_graph([[]], retry={"max_attempts": 2, "base_ns": 10**8, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    (event,) = (event for event in events_of(rig.records) if event.kind == "node.retried")
    assert event.data is not None
    assert event.data["due_ns"] - rig.wall_ns == pytest.approx(10**8, abs=100)


def test_runs_that_are_not_kept_any_longer() -> None:
    scheduler = Scheduler(["default"], retention={"runs": 1, "nodes": 100})
    rig = Rig(scheduler=scheduler)
    for seq in (1, 2, 3):
        rows = [[seq, 1, 0]]
        rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
        ((worker, serial, node),) = rig.leases()
        rig.succeed(worker, serial, node, run=seq)
        rig.say(msg.Told(rig.core.scheduler.lsn))
    gone = [event.run for event in events_of(rig.records) if event.kind == "run.released"]
    assert gone == ["s-1", "s-2"]


PAYLOADS: dict[RecordType, list[tuple[bytes, list[str]]]] = {
    RecordType.KIND: [(b"x", [])],
    RecordType.MARK: [(b"x", [])],
    RecordType.RATES: [(b'{"wall_ns":1,"busy_ns":{}}', [])],
    RecordType.SUBMITTED: [(b'T["q",5,9,[[1,%s]],[[1,1,0]]]' % orjson.dumps(kind()), ["run.submitted"])],
    RecordType.COMPLETED: [
        (b"[1,[[1,1,[0],[7],5,[2]]]]", ["node.succeeded", "run.succeeded"]),
        (b"[1,[[1,%d,[0],[7],5,[2]]]]" % GONE, []),
    ],
    RecordType.ATTEMPT: [
        (b'[1,0,"failed",1,{"kind":"error","type":"x","message":"m"},0,9,[0,0,0]]', ["node.failed", "run.failed"]),
        (b'[%d,0,"failed",1,{"kind":"error","type":"x","message":"m"},0,9,[0,0,0]]' % GONE, []),
    ],
    RecordType.CANCEL: [
        (b"[1,0,[]]", ["node.cancel_asked", "node.cancelled", "run.cancelled"]),
        (b"[%d,null,[]]" % GONE, []),
    ],
    RecordType.SPAWNED: [
        (b'[1,1,0,{"kinds":[%s],"n":1,"kind_of":null}]' % orjson.dumps(kind()), ["node.spawned"]),
        (b"[1,%d,0,{}]" % GONE, []),
    ],
    RecordType.RELEASED: [(b"[%d]" % GONE, [])],
    RecordType.OPENED: [(b'{"now_ns":1,"wall_ns":9,"next_run_no":9,"pid":3}', ["engine.opened"])],
    RecordType.POLICY: [(orjson.dumps({"policy": {}, "given": {}}), ["policy.changed"])],
    RecordType.KEYS: [(b'{"again":["s",4,"r","k"]}', ["run.joined"]), (b'{"kept":[]}', [])],
    RecordType.PRIORITY: [
        (b'[1,null,0,9,"me"]', ["run.reprioritised"]),
        (b'[1,0,0,9,"me"]', ["node.reprioritised"]),
        (b'[%d,0,0,9,"me"]' % GONE, []),
    ],
    RecordType.SCHEDULE: [
        (b'{"gone":"n"}', ["schedule.removed"]),
        (b'{"judged":["n",1,[],false,null]}', ["schedule.judged"]),
    ],
    RecordType.DEAD: [(b'[1,1,[0],9,"me"]', ["node.discarded"]), (b'[0,%d,null,9,"me"]' % GONE, [])],
    RecordType.LENT: [(b"[%d,0,9,1,1,1]" % GONE, [])],
    RecordType.DEBOUNCE: [],
    RecordType.CHECKPOINT: [(b"[5]", [])],
    RecordType.IMPORTED: [(commit_payload(5, 4), []), (commit_payload(5, 6), [])],
}
"""Of each type of record some payloads, and the kinds of their events, on a log with one open task, run 1."""


@pytest.mark.parametrize("type_", RecordType, ids=lambda type_: type_.name)
def test_every_type_of_record_is_told(type_: RecordType) -> None:
    rig = Rig()
    rig.submit(1)
    for payload, kinds in PAYLOADS[type_]:
        fold = EventFold(ALL, begins=True)
        for record in rig.records:
            fold.events(record)
        found = fold.events(Record(rig.records[-1].lsn + 1, int(type_), payload))
        assert [event.kind for event in found] == kinds
        assert {event.kind for event in found} <= BY_RECORD[type_]


def test_the_table_of_records_names_every_kind() -> None:
    assert set(BY_RECORD) == set(RecordType)
    assert frozenset().union(*BY_RECORD.values()) == ALL
    assert FOLDED_KINDS < ALL


def test_unknown_types_of_records_are_refused() -> None:
    with pytest.raises(NewerFormat, match="200"):
        EventFold(ALL, begins=True).events(Record(1, 200, b"from a newer version"))


def test_a_record_that_does_not_fit_is_named() -> None:
    with pytest.raises(ProtocolError, match="record 1 of type 2"):
        EventFold(ALL, begins=True).events(Record(1, int(RecordType.SUBMITTED), b"T[1]"))


def test_history_is_read_once_and_only_for_runs_that_came_before() -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    start = len(rig.records)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    read: list[int] = []

    def history(lsn: int) -> list[Record]:
        read.append(lsn)
        return [record for record in rig.records if record.lsn < lsn]

    fold = EventFold(ALL, history=history)
    found = [event for record in rig.records[start:] for event in fold.events(record)]
    assert short(found) == [("node.succeeded", "s-1", 0), ("node.succeeded", "s-1", 1), ("run.succeeded", "s-1", None)]
    assert read == [rig.records[start].lsn]


def test_nothing_is_kept_of_what_is_over_but_the_runs_that_the_log_keeps() -> None:
    """A subscriber reads for weeks."""
    fold = EventFold(ALL, begins=True)
    for lsn, type_ in enumerate((RecordType.OPENED, RecordType.KEYS, RecordType.KEYS, RecordType.OPENED), 1):
        fold.events(Record(lsn, int(type_), PAYLOADS[type_][0][0]))
    scheduler = fold.scheduler
    assert (scheduler.keys.again, scheduler.book.sessions, scheduler.taken()) == ({}, {}, [])


def test_runs_that_are_looked_up_are_forgotten_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.event_teller.RUNS_KNOWN_MAX", 3)
    text = orjson.dumps(kind())
    logged = {no: Record(no, 2, b'T["q",%d,9,[[1,%s]],[[%d,1,0]]]' % (no, text, no)) for no in range(1, 9)}
    fold = EventFold(frozenset({"node.succeeded"}), lambda no, lsn: logged.get(no))
    for no in (5, 1, 8, 2, 7, 1, 5):
        (event,) = fold.events(Record(100 + no, 3, b"[1,[[1,%d,[0],[7],5,[2]]]]" % no))
        assert event.run == f"q-{no}"
        assert len(fold.scheduler.book.live) <= 3

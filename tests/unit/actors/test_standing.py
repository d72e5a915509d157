"""The policy as it stands: answered when durable, kept over restarts and over the removal of the log's beginning."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors import scheduler as scheduler_module
from actors.protocol import messages as msg
from actors.protocol.errors import ProtocolError
from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, kind, recovered


def reopened(records: list[Record], given: dict[str, Any] | None = None) -> Scheduler:
    return recovered(records, policy=given, log=records)


def policies(records: list[Record]) -> list[int]:
    return [record.lsn for record in records if record.type == RecordType.POLICY]


def test_the_answer_waits_for_the_disk() -> None:
    rig = Rig()
    rig.disk_held = True
    rig.say(msg.Queried("s", 1, "policy", {"change": {"quotas": {"key:a": 2}}}))
    assert rig.told("Q") == []
    rig.disk_held = False
    rig.write()
    ((_, answer, error),) = rig.told("Q")
    assert error is None
    assert answer["policy"]["quotas"] == {"key:a": 2}
    assert policies(rig.records) == [rig.records[-1].lsn]


def test_a_look_changes_nothing_and_counts_what_waits() -> None:
    rig = Rig(boot=False)
    rig.submit(3, priority="low")
    answer = rig.ask("policy")
    assert answer["waiting"] == {"realtime": 0, "high": 0, "normal": 0, "low": 3}
    assert answer["policy"] == Scheduler(["default"]).policy.to_json()
    assert policies(rig.records) == []


def test_a_change_that_changes_nothing_is_not_logged() -> None:
    rig = Rig()
    rig.ask("policy", change={"resume": ["key:a"], "quotas": {"key:b": None}})
    assert policies(rig.records) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"quotas": {"key:a": 0}, "weights": {"t": 0}}, "'t'"),
        ({"quotas": {"type:gpu": 1}}, "no node type 'gpu'; there are 'default'"),
        ([1], "must be a dictionary"),
    ],
)
def test_a_wrong_change_changes_nothing(change: Any, word: str) -> None:
    rig = Rig()
    rig.ask("policy", change={"quotas": {"key:a": 7}})
    error = rig.ask("policy", change=change)
    assert error["code"] == "MS101"
    assert word in error["message"]
    assert rig.ask("policy")["policy"]["quotas"] == {"key:a": 7}
    assert len(policies(rig.records)) == 1


def test_a_change_holds_over_restarts() -> None:
    rig = Rig()
    rig.ask("policy", change={"quotas": {"key:a": 7}, "pause": ["tenant:t", "type:default"]})
    for _ in range(2):
        policy = reopened(rig.records).policy
        assert policy.quotas == {"key:a": 7}
        assert policy.paused == {"tenant:t", "type:default"}


def test_who_paused_what_holds_over_restarts_and_is_told_as_the_cause() -> None:
    rig = Rig(wall_ns=50)
    rig.ask("policy", change={"pause": ["tenant:t"], "by": "ann", "reason": "fire"})
    noted = rig.core.scheduler.policy.pauses
    assert 50 < noted["tenant:t"].at_ns <= rig.wall_ns
    for _ in range(2):
        assert reopened(rig.records).policy.pauses == noted
    (record,) = (record for record in rig.records if record.type == RecordType.POLICY)
    assert orjson.loads(record.payload)["cause"] == "tenant:t paused by ann: fire"
    logged = len(policies(rig.records))
    rig.ask("policy", change={"pause": ["tenant:t"], "by": "bob"})
    assert len(policies(rig.records)) == logged, "it was paused, and still is"


def test_a_record_of_before_there_were_notes_is_read() -> None:
    payload = orjson.dumps({"policy": {"paused": ["tenant:t"]}, "given": {}})
    policy = reopened([Record(1, RecordType.POLICY, payload)]).policy
    assert (policy.paused, policy.pauses) == ({"tenant:t"}, {})


def test_the_programs_new_setting_counts_for_its_entry_and_goes_on_to_count() -> None:
    given = {"quotas": {"key:a": 1, "key:b": 1}}
    rig = Rig(scheduler=Scheduler(["default"], policy=given))
    rig.ask("policy", change={"quotas": {"key:a": 7, "key:b": 7}})
    assert reopened(rig.records, given).policy.quotas == {"key:a": 7, "key:b": 7}
    logged = len(policies(rig.records))
    edited = {"quotas": {"key:a": 2, "key:b": 1}}
    assert reopened(rig.records, edited).policy.quotas == {"key:a": 2, "key:b": 7}
    assert len(policies(rig.records)) == logged + 1, "what the program means now is known at the next opening"
    assert reopened(rig.records, given).policy.quotas == {"key:a": 1, "key:b": 7}


def test_what_only_the_program_sets_is_not_in_the_log() -> None:
    records: list[Record] = []
    assert reopened(records, {"quotas": {"key:a": 1}}).policy.quotas == {"key:a": 1}
    assert reopened(records, {"quotas": {"key:a": 2}}).policy.quotas == {"key:a": 2}
    assert policies(records) == []


def test_a_node_type_that_is_gone_does_not_stop_an_opening() -> None:
    rig = Rig(scheduler=Scheduler(["default", "gpu"]))
    rig.ask("policy", change={"quotas": {"type:gpu": 1}})
    assert reopened(rig.records).policy.quotas == {"type:gpu": 1}


def test_its_record_is_written_again_before_the_floor_passes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "FLOOR_EVERY_RECORDS", 1)
    rig = Rig(scheduler=Scheduler(["default"], retention={"runs": 1, "nodes": 1}))
    rig.ask("policy", change={"quotas": {"key:a": 7}})
    scheduler = rig.core.scheduler
    first, floors = scheduler.standing.lsn, []
    for seq in range(1, 7):
        rows = [[seq, 1, 0]]
        rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
        ((worker, serial, node),) = rig.leases()
        rig.succeed(worker, serial, node, run=seq)
        rig.later(1, msg.Told(scheduler.lsn))
        floors.append(scheduler._floor_lsn)
        kept = [record for record in rig.records if record.lsn >= floors[-1]]
        assert reopened(kept).policy.quotas == {"key:a": 7}
    assert first < floors[-1]
    assert 1 < len(policies(rig.records)) < len(set(floors)), "not with every step of the floor"


@pytest.mark.parametrize(
    "payload", [b"{", b"[]", b'{"policy":{}}', b'{"policy":{"quotas":{"x":1}},"given":{}}', b'{"policy":5,"given":{}}']
)
def test_a_malformed_record_is_a_protocol_error(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        Replay(Scheduler(["default"])).fold(Record(1, RecordType.POLICY, payload))


def test_a_record_holds_both_policies() -> None:
    rig = Rig(scheduler=Scheduler(["default"], policy={"quotas": {"key:a": 1}}))
    rig.ask("policy", change={"quotas": {"key:a": 2}})
    data = orjson.loads(rig.records[-1].payload)
    assert data["policy"]["quotas"] == {"key:a": 2}
    assert data["given"]["quotas"] == {"key:a": 1}


def test_openings_alone_do_not_write_it_again() -> None:
    rig = Rig()
    rig.ask("policy", change={"quotas": {"key:a": 7}})
    for _ in range(3):
        reopened(rig.records)
    assert len(policies(rig.records)) == 1

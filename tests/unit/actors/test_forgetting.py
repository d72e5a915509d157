"""Forgetting a run by hand."""

from __future__ import annotations

from actors.protocol import effects as fx
from actors.protocol.records import RecordType
from actors.record_times import RecordTimes
from actors.released import released
from actors.replay import Replay
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig


def finished(count: int) -> Rig:
    rig = Rig()
    rig.let_hold(9)
    rig.submit(count)
    for lease in rig.leases():
        rig.succeed(*lease)
    return rig


def test_a_finished_run_is_gone_and_the_log_says_so() -> None:
    rig = finished(1)
    assert rig.ask("forget", run="s-1") == {"no": 1}
    assert rig.core.scheduler.book.finished == {}
    assert rig.core.scheduler.ended_ns == {}
    assert [effect.run_key for effect in rig.taken(fx.ForgetRun)] == ["s-1"]
    record = rig.records[-1]
    assert (record.type, released(record.payload)) == (RecordType.RELEASED, [1])
    assert RecordTimes().at(record) == rig.wall_ns - 1, "the turn before the disk had it"
    seen = []
    replay = Replay(Scheduler(["default"]))
    replay.let_go = lambda run, ended_ns: seen.append(run.key)
    for record in rig.records:
        replay.fold(record)
    assert seen == ["s-1"]
    assert replay.scheduler.book.finished == {}


def refused(rig: Rig, key: str) -> str:
    code: str = rig.ask("forget", run=key)["code"]
    return code


def test_what_cannot_be_forgotten() -> None:
    rig = Rig()
    rig.submit(1)
    assert refused(rig, "s-9") == "MS121"
    assert refused(rig, "s-1") == "MS127"
    assert refused(finished(2), "s-2") == "MS113", "one task of two"

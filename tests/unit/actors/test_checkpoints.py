"""When checkpoints are taken, and what the log does behind them."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from actors import checkpoints as module
from actors.checkpoints import HOLD_BYTES_MAX, HOLD_OWED_BYTES_MAX, REST_FACTOR, RETRY_MAX_NS, RETRY_NS, Checkpoints
from actors.persister import Persister
from actors.protocol import log_messages as log
from actors.protocol import messages as msg
from actors.protocol.records import Record, RecordType
from tests.unit.actors.rig import Rig, kind

S = 1_000_000_000


def test_none_are_taken_unless_somebody_wants_them() -> None:
    checkpoints = Checkpoints()
    checkpoints.closed(10, 1 << 40)
    assert not checkpoints.due


def test_enough_was_closed() -> None:
    checkpoints = Checkpoints(100)
    checkpoints.closed(10, 60)
    assert not checkpoints.due
    checkpoints.closed(20, 60)
    assert checkpoints.due
    assert checkpoints.look(3, 21, 5) == log.TakeCheckpoint(20, 3)
    assert checkpoints.statistics().running


def test_what_was_closed_before_the_start_counts_but_for_what_is_in_the_checkpoint() -> None:
    assert Checkpoints(100, 0, ((10, 60), (20, 60))).due
    assert not Checkpoints(100, 10, ((10, 60), (20, 60))).due


def test_never_two_at_once_and_then_a_rest() -> None:
    checkpoints = Checkpoints(100)
    checkpoints.closed(10, 100)
    checkpoints.look(2, 11, 1 * S)
    checkpoints.closed(20, 100)
    assert not checkpoints.due
    checkpoints.ended(log.CheckpointTaken(10, 5), 3 * S)
    assert checkpoints.due
    again_ns = 3 * S + REST_FACTOR * 2 * S
    assert checkpoints.look(3, 21, 4 * S) == log.RetryAt(again_ns)
    assert checkpoints.look(3, 21, 5 * S) is None
    assert checkpoints.look(3, 21, again_ns) == log.TakeCheckpoint(20, 3)
    assert checkpoints.statistics() == module.CheckpointStatistics(10, True, 1, 0, "", 100, 5, 0)


def test_failures_are_told_and_waited_out() -> None:
    checkpoints, now_ns, waits = Checkpoints(100), 0, []
    checkpoints.closed(10, 100)
    for _ in range(12):
        assert isinstance(checkpoints.look(2, 11, now_ns), log.TakeCheckpoint)
        checkpoints.ended(log.CheckpointFailed("no room"), now_ns)
        effect = checkpoints.look(2, 11, now_ns)
        assert isinstance(effect, log.RetryAt)
        waits.append(effect.at_ns - now_ns)
        now_ns = effect.at_ns
    assert waits[:3] == [RETRY_NS, 2 * RETRY_NS, 4 * RETRY_NS]
    assert waits[-1] == RETRY_MAX_NS
    assert checkpoints.statistics().trouble == "no room"
    checkpoints.look(2, 11, now_ns)
    checkpoints.ended(log.CheckpointTaken(10, 0), now_ns)
    assert checkpoints.statistics().trouble == ""


@given(st.lists(st.one_of(st.integers(1, 200), st.sampled_from(["taken", "failed", "time"]))))
def test_what_is_not_in_the_checkpoint_is_bounded(steps: list[Any]) -> None:
    """Whatever happens: one at a time, and when none runs and the rest is over, less than enough is behind."""
    checkpoints, lsn, running, now_ns = Checkpoints(100), 0, 0, 0
    for step in steps:
        if step == "time":
            now_ns += RETRY_MAX_NS
        elif isinstance(step, int):
            lsn += 1
            checkpoints.closed(lsn, step)
        elif running:
            event = log.CheckpointTaken(running, 1) if step == "taken" else log.CheckpointFailed("no")
            checkpoints.ended(event, now_ns)
            running = 0
        effect = checkpoints.look(lsn + 1, lsn + 1, now_ns) if checkpoints.due else None
        if isinstance(effect, log.TakeCheckpoint):
            assert not running
            running = effect.lsn
        assert running or isinstance(effect, log.RetryAt) or now_ns == 0 or _calm(checkpoints)


def _calm(checkpoints: Checkpoints) -> bool:
    return checkpoints.statistics().bytes_behind < 100 or checkpoints.due


def test_the_persister_counts_what_it_closes_and_asks() -> None:
    actor = Persister("os", 1, [(1, 1)], checkpoints=Checkpoints(100))
    actor.receive([log.Append([Record(1, 2, b"x" * 150)])], 0)
    assert actor.receive([log.Written(1, 1, 1)], 0) == [log.Durable(1)]
    actor.receive([log.Append([Record(2, 2, b"x")])], 0)
    assert actor.receive([log.Written(2, 2, 2)], 0) == [log.Durable(2), log.TakeCheckpoint(1, 2)]


def test_what_the_log_let_go_of_is_not_counted() -> None:
    actor = Persister("os", 1, [(1, 1), (2, 11), (3, 21)], checkpoints=Checkpoints(100, 0, ((10, 90), (20, 5))))
    actor.receive([log.Append([Record(1, 2, b"x")]), log.FloorRaised(11)], 0)
    actor.receive([log.Written(1, 3, 21)], 0)
    assert actor.checkpoints.statistics().bytes_behind == 5


def test_what_is_behind_is_all_that_a_recovery_reads() -> None:
    actor = Persister("os", 1, [(1, 1)], checkpoints=Checkpoints(100), active_bytes=64)
    assert actor.checkpoint_statistics().bytes_behind == 64
    actor.receive([log.Append([Record(1, 2, b"x" * 30)])], 0)
    actor.receive([log.Written(1, 1, 1)], 0)
    assert actor.checkpoint_statistics().bytes_behind == 94
    actor.receive([log.Append([Record(2, 2, b"x" * 7)])], 0)
    actor.receive([log.Written(2, 2, 2)], 0)
    assert actor.checkpoint_statistics().bytes_behind == 101
    actor.checkpoints.ended(log.CheckpointTaken(1, 5), 0)
    assert actor.checkpoint_statistics().bytes_behind == 7


def test_a_floor_is_not_forgotten_for_a_lower_one() -> None:
    actor = Persister("os", 1, [(1, 1), (2, 11), (3, 21)])
    actor.receive([log.Append([Record(1, 2, b"x")]), log.FloorRaised(2), log.FloorRaised(22), log.FloorRaised(5)], 0)
    assert log.RemoveSegments(3) in actor.receive([log.Written(1, 3, 21)], 0)


def test_when_one_was_taken_the_log_says_so_and_is_cut_behind_it() -> None:
    rig = Rig()
    rig.core.persister._segments.clear()
    rig.core.persister._segments.extend([(1, 1), (2, 2), (3, 3)])
    rig.submit(3)
    rig.disk_held = True
    rig.say(log.CheckpointTaken(2, 7))
    assert rig.taken(log.RemoveSegments) == []  # not before the record is written
    write = rig.held.pop(0)
    assert [(r.type, orjson.loads(r.payload)) for r in write.records] == [(RecordType.CHECKPOINT, [2])]
    rig.say(log.Written(write.records[-1].lsn, 3, 3))
    assert rig.taken(log.RemoveSegments) == [log.RemoveSegments(3)]


def test_statistics_tell_of_it() -> None:
    rig = Rig()
    rig.say(log.CheckpointFailed("no room"), msg.KindDefined("s", 1, kind()))
    assert rig.ask("engine")["checkpoint"]["trouble"] == "no room"


def test_the_log_is_kept_for_the_archive_until_a_checkpoint_has_passed_it() -> None:
    without, archiving = Checkpoints(100), Checkpoints(100, archives=True)
    assert without.floor(50) == 50
    assert archiving.floor(50) == 1
    archiving.ended(log.CheckpointTaken(30, 5), S)
    assert archiving.floor(50) == 31
    assert archiving.floor(20) == 20


def test_but_not_for_ever() -> None:
    archiving = Checkpoints(100, archives=True)
    archiving.closed(40, HOLD_BYTES_MAX)
    assert archiving.floor(50) == 1
    archiving.closed(45, 1)
    assert archiving.floor(50) == 50


def test_without_checkpoints_what_the_next_engine_archives_is_held_for_less_long() -> None:
    owing = Checkpoints(None, archives=True)
    owing.closed(40, HOLD_OWED_BYTES_MAX)
    assert owing.floor(50) == 1
    owing.closed(45, 1)
    assert owing.floor(50) == 50

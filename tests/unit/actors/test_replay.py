"""Replay: folding the log gives the state that wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.protocol import messages as msg
from actors.protocol.errors import NewerFormat, ProtocolError
from actors.protocol.records import Record, RecordType
from actors.replay import Replay, where
from actors.run import TALLY_NODES_MIN
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, folded


def states(scheduler: Scheduler) -> dict[str, Any]:
    runs = [*scheduler.book.live.values(), *scheduler.book.finished.values()]
    return {run.key: (bytes(run.state), list(run.results), run.open, list(run.waits)) for run in runs}


def busy_rig() -> Rig:
    rig = Rig()
    rig.submit_graph([[], [0], [0], [1, 2]], retry={"max_attempts": 2, "base_ns": 10**8, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node, 5)
    (_, first, one), (_, second, two) = rig.leases()
    rig.fail(worker, first, one)
    rig.succeed(worker, second, two, 6)
    return rig


def test_folding_twice_gives_the_same_state() -> None:
    rig = busy_rig()
    assert states(folded(rig.records).scheduler) == states(folded(rig.records).scheduler)


def test_the_folded_state_is_the_live_one() -> None:
    rig = busy_rig()
    assert states(folded(rig.records).scheduler) == states(rig.core.scheduler)


def test_the_story_of_failed_attempts_is_told_alike_after_a_restart() -> None:
    rig = busy_rig()
    stories = [
        [event[1:4] for event in scheduler.book.live[1].rare.events if event[2].startswith("attempt")]
        for scheduler in (rig.core.scheduler, folded(rig.records).scheduler)
    ]
    assert stories[0] == stories[1] == [(1, "attempt 1 failed", "ValueError: no; attempt 2 starts in 0.100 s")]


def test_finished_nodes_do_not_run_again_and_open_ones_do() -> None:
    rig = busy_rig()
    scheduler = folded(rig.records).scheduler
    found, _ = Replay(scheduler).finish(rig.now_ns + 10**9, rig.now_ns + 10**9, {"pid": 1})
    assert found["nodes_open"] == 2
    again = Rig(scheduler=scheduler)
    again.later(10**9)
    assert [node for _, _, node in again.leases()] == [1]


def test_a_large_run_is_counted_from_where_it_goes_on() -> None:
    rig = Rig()
    rig.submit_graph([[] if node < 2 else [node - 2] for node in range(TALLY_NODES_MIN)])
    leases = rig.leases()
    for worker, serial, node in leases[:2]:
        rig.succeed(worker, serial, node)
    scheduler = folded(rig.records).scheduler
    Replay(scheduler).finish(1, 1, {"pid": 1})
    scheduler.check_invariants()
    (run,) = scheduler.book.live.values()
    assert run.counts() == [TALLY_NODES_MIN - 4, 2, 0, 2, 0, 0, 0]
    assert run.tally is not None


def test_a_cancel_of_a_running_node_is_finished_by_the_recovery() -> None:
    rig = Rig()
    rig.submit(1)
    rig.leases()
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    scheduler = folded(rig.records).scheduler
    Replay(scheduler).finish(1, 1, {"pid": 1})
    (run,) = scheduler.book.finished.values()
    assert str(run.run_state()) == "cancelled"


def test_retired_runs_are_forgotten_by_the_log_too() -> None:
    scheduler = Scheduler(["default"], retention={"runs": 1, "nodes": 100})
    rig = Rig(scheduler=scheduler)
    for seq in (1, 2, 3):
        rows = [[seq, 1, 0]]
        rig.say(msg.KindDefined("s", 1, {"handler": "m:f", "node_type": "default", "shape": "one"}))
        rig.say(msg.TasksSubmitted("s", rows, b"[[%d,1,0]]" % seq))
        ((worker, serial, node),) = rig.leases()
        rig.succeed(worker, serial, node, run=seq)
        rig.say(msg.Told(rig.core.scheduler.lsn))
    assert list(rig.core.scheduler.book.finished) == [3]
    assert list(folded(rig.records).scheduler.book.finished) == [3]


def test_a_record_that_does_not_fit_is_named() -> None:
    with pytest.raises(ProtocolError, match="record 1 of type 2"):
        folded([Record(1, int(RecordType.SUBMITTED), b"T[1]")])


def test_a_record_of_an_unknown_type_is_refused_rather_than_lost() -> None:
    with pytest.raises(NewerFormat, match="record 1 has type 200"):
        folded([Record(1, 200, b"from a newer version")])
    assert folded([Record(1, RecordType.KIND, b"of an older one")]).scheduler.lsn == 1


def test_where() -> None:
    assert where(bytearray(b"\0\2\2\1\2"), 2) == [1, 2, 4]


def test_marks_that_the_log_keeps_for_itself_take_numbers() -> None:
    """The log ends with a mark of its own: the next record follows that, not the last one that was folded."""
    scheduler = Scheduler(["default"])
    replay = Replay(scheduler)
    _, effects = replay.finish(1, 1, {"pid": 1}, next_lsn=7)
    assert [effect.lsn for effect in effects if isinstance(effect, Record)] == [7]

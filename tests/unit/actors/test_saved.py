"""What a checkpoint holds beside its runs, what it forgets, and what it refuses. See also tests/sim."""

from __future__ import annotations

import orjson
import pytest

from actors import books, keys
from actors.protocol.errors import ProtocolError
from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from actors.saved import kept_runs, load, save, save_touched
from tests.states import differences
from tests.unit.actors.clocked import Clocked
from tests.unit.actors.rig import Rig, folded


def fresh() -> Replay:
    return folded([])


def through(replay: Replay) -> Replay:
    again = fresh()
    load(again, list(save(replay)))
    return again


def test_an_empty_log() -> None:
    assert differences(fresh(), through(fresh())) == []
    assert kept_runs(fresh()) == []


def test_schedules_and_a_policy_come_back() -> None:
    rig = Clocked()
    rig.put("nightly", cron="0 3 * * *")
    rig.put("often", every_ns=10**9)
    rig.ask("policy", change={"pause": ["schedule:nightly"]})
    rig.later(5 * 10**9)
    replay = folded(rig.records)
    assert replay.scheduler.schedules.by_run
    assert replay.scheduler.standing.lsn
    assert differences(replay, through(replay)) == []


def test_a_state_of_a_later_version_is_refused() -> None:
    (part,) = save(fresh())
    later = {**orjson.loads(part.body), "version": 99}
    with pytest.raises(ProtocolError, match="version 99"):
        load(fresh(), [part._replace(body=orjson.dumps(later))])


def test_a_state_that_says_nothing_of_itself_is_refused() -> None:
    with pytest.raises(ProtocolError):
        load(fresh(), [])


def test_a_state_without_a_run_that_it_names_is_refused() -> None:
    rig = Rig()
    rig.submit(3)
    parts = [part for part in save(folded(rig.records)) if part.run == 0]
    with pytest.raises(ProtocolError):
        load(fresh(), parts)


def test_a_run_in_the_place_of_another_is_refused() -> None:
    rig = Rig()
    rig.submit(3)
    parts = [part._replace(run=2) if part.run else part for part in save(folded(rig.records))]
    with pytest.raises(ProtocolError, match="in the place of run 2"):
        load(fresh(), parts)


def test_runs_that_changed_are_named() -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    rig.submit_graph([[], [0]])
    replay = fresh()
    replay.touched = load(replay, list(save(folded(rig.records))))
    rig.records.clear()
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    for record in rig.records:
        replay.fold(record)
    assert replay.touched.nodes == {1: {0}}
    assert {part.run for part in save_touched(replay, replay.touched)} == {0, 1}
    assert {part.run for part in save_touched(replay, replay.touched)} == {0}


def test_sessions_that_are_long_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "SESSIONS_IDLE_MAX", 2)
    replay = fresh()
    for name in "abcd":
        replay.scheduler.book.session(name).seq_last = 5
    assert list(through(replay).scheduler.book.sessions) == ["c", "d"]


def test_keys_whose_windows_are_over_are_forgotten() -> None:
    replay = fresh()
    kept = [["old", "s-1", 100, "x"], ["new", "s-2", 10**18, "x"]]
    replay.fold(Record(1, RecordType.KEYS, orjson.dumps({"kept": kept})))
    replay.scheduler.set_time(0, 1000)
    assert len(through(replay).scheduler.keys) == 1


def test_repeated_submissions_of_runs_that_ended_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "AGAIN_SAVED_MAX", 2)
    rig = Rig()
    rig.submit_graph([[], [0]])
    replay = folded(rig.records)
    for lsn, run in enumerate(["s-1", "gone", "s-1", "gone", "gone"], len(rig.records) + 1):
        replay.fold(Record(lsn, RecordType.KEYS, orjson.dumps({"again": ["s", lsn, run, "k"]})))
    assert [run for _, run, _ in through(replay).scheduler.keys.again["s"]] == ["s-1", "s-1", "gone", "gone"]

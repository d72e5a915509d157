"""Idempotency keys: what a repeated submission is told, for how long, over restarts and retired runs."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.keys import Claim, Keys
from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.errors import KeyConflict, ProtocolError, TooManyKeys
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record, RecordType
from actors.scheduler import Scheduler
from tests.unit.actors.rig import WALL, Rig, S, kind, recovered, rig_with_clock


def submit(rig: Rig, seq: int, key: str = "k", window_s: float = 100, digest: str = "d", session: str = "s") -> None:
    builder = GraphBuilder()
    builder.add(0, item=b"7")
    raw = encode(builder.finish(), {"kinds": [kind()], "name": "f", "key": [key, int(window_s * S), digest]})
    header, columns = decode(raw)
    rig.say(msg.GraphSubmitted(session, seq, header, columns, raw))


def runs(rig: Rig) -> list[str]:
    book = rig.core.scheduler.book
    return [run.key for run in (*book.finished.values(), *book.live.values())]


def test_a_repeated_submission_stands_for_the_first_and_hears_of_its_end() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1)
    assert rig.told("A") == [[1]]
    submit(rig, 2)
    assert rig.told("D") == [[2, "s-1", None]]
    submit(rig, 3, session="other")
    assert rig.told("D") == [[3, "s-1", None]]
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    assert sorted(body[0][1:3] for body in rig.told("N")) == [["s-1", "succeeded"]] * 2
    submit(rig, 4)
    ((seq, run, ending),) = rig.told("D")
    assert (seq, run, ending[1:3]) == (4, "s-1", ["s-1", "succeeded"])
    assert rig.leases() == []
    assert runs(rig) == ["s-1"]


def test_the_answer_waits_until_the_first_submission_is_durable() -> None:
    rig = rig_with_clock(slots=5)
    rig.disk_held = True
    submit(rig, 1)
    submit(rig, 2)
    assert rig.told("D") == []
    rig.disk_held = False
    rig.write()
    assert rig.told("D") == [[2, "s-1", None]]


def test_a_failure_is_an_answer_and_a_window_of_zero_runs_again() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1)
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    submit(rig, 2)
    ((_, _, ending),) = rig.told("D")
    assert (ending[2], ending[4][2]["kind"]) == ("failed", "error")
    submit(rig, 3, window_s=0)
    submit(rig, 4)
    assert rig.told("D") == []
    assert runs(rig) == ["s-1", "s-3", "s-4"]


def test_a_window_begins_with_the_first_submission_and_ends() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1)
    rig.later(60 * S)
    submit(rig, 2)
    assert rig.told("D") == [[2, "s-1", None]]
    rig.later(40 * S)
    submit(rig, 3)
    assert rig.told("D") == []
    assert runs(rig) == ["s-1", "s-3"]
    rig.later(60 * S)
    submit(rig, 4)
    assert rig.told("D") == [[4, "s-3", None]]


def test_what_is_different_is_refused() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1)
    submit(rig, 2, digest="other")
    ((seq, answer),) = rig.told("J")
    assert (seq, answer["code"]) == (2, KeyConflict.code)
    assert runs(rig) == ["s-1"]


def test_more_keys_than_are_kept_are_refused_until_a_window_is_over() -> None:
    rig = rig_with_clock(slots=5)
    rig.core.scheduler.keys = Keys(keys_max=2)
    submit(rig, 1, "a", window_s=10)
    submit(rig, 2, "b")
    submit(rig, 3, "c")
    ((seq, answer),) = rig.told("J")
    assert (seq, answer["code"]) == (3, TooManyKeys.code)
    submit(rig, 4, "a")
    assert rig.told("D") == [[4, "s-1", None]]
    rig.later(10 * S)
    submit(rig, 5, "c")
    assert runs(rig) == ["s-1", "s-2", "s-5"]


def test_a_key_outlives_the_engine_but_not_its_window() -> None:
    first = rig_with_clock(slots=5)
    submit(first, 1)
    wall_ns = first.wall_ns
    rig = rig_with_clock(recovered(first.records, wall_ns=wall_ns), slots=5)
    submit(rig, 1, session="later")
    assert rig.told("D") == [[1, "s-1", None]]
    rig = rig_with_clock(recovered(first.records, wall_ns=wall_ns), slots=5)
    rig.later(101 * S)
    submit(rig, 1, session="later")
    assert rig.told("D") == []
    assert runs(rig) == ["s-1", "later-1"]


def test_who_stands_for_a_run_is_told_again_by_the_next_engine() -> None:
    first = rig_with_clock(slots=5)
    submit(first, 1, session="x")
    submit(first, 1)
    submit(first, 2)
    scheduler = recovered(first.records, wall_ns=first.wall_ns)
    told = scheduler.receive([msg.SessionOpened("s", 2)], 2, first.wall_ns)
    assert [(tell.frame, tell.body) for tell in told] == [("H", {"acked_seq": 2}), ("D", [2, "x-1", None])]
    rig = rig_with_clock(recovered(first.records, wall_ns=first.wall_ns), slots=5)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    assert [tell.session for tell in rig.taken(fx.Tell) if tell.frame == "N"] == ["s", "x"]


def test_keys_outlive_their_runs_in_few_bytes() -> None:
    rig = rig_with_clock(Scheduler(["default"], retention={"runs": 4}), slots=5)
    count = 20
    for seq in range(1, count + 1):
        submit(rig, seq, f"k{seq}", window_s=1 if seq == 1 else 1000)
        ((worker, serial, node),) = rig.leases()
        rig.succeed(worker, serial, node, run=seq)
        rig.say(msg.Told(rig.core.scheduler.lsn))
    rig.later(2 * S)
    rig.core.scheduler._floor_look_lsn = 0
    submit(rig, count + 1, "last")
    floor = rig.core.scheduler._floor_lsn
    kept = [record for record in rig.records if record.lsn >= floor]
    assert floor > rig.records[0].lsn
    assert "s-2" not in runs(rig)
    wall_ns = rig.wall_ns
    again = rig_with_clock(recovered(kept, wall_ns=wall_ns), slots=5)
    for seq in range(2, count + 1):
        submit(again, seq, f"k{seq}", session="later")
    told = {body[1] for body in again.told("D")} | {body[1]["message"].split("'")[3] for body in again.told("J")}
    assert told == {f"s-{seq}" for seq in range(2, count + 1)}
    submit(again, count + 1, "k1", session="later")
    assert runs(again)[-1] == f"later-{count + 1}"


def test_a_key_whose_run_is_gone_starts_nothing() -> None:
    rig = rig_with_clock(Scheduler(["default"], retention={"runs": 1}), slots=5)
    for seq in (1, 2, 3):
        submit(rig, seq, f"k{seq}")
        ((worker, serial, node),) = rig.leases()
        rig.succeed(worker, serial, node, run=seq)
        rig.say(msg.Told(rig.core.scheduler.lsn))
    submit(rig, 4, "k1")
    ((seq, answer),) = rig.told("J")
    assert (seq, answer["code"]) == (4, "MS121")
    assert rig.leases() == []


def test_carrying_writes_each_key_once_for_each_floor() -> None:
    keys, scheduler = Keys(), Scheduler(["default"])
    scheduler.set_time(0, WALL)
    for number in range(2500):
        keys.enter(Claim(str(number), 100 * S, "d"), f"s-{number}", WALL, number + 1)
    scheduler.lsn = 2500
    keys.carry(scheduler, 2001)
    written = [r for r in scheduler.taken() if isinstance(r, Record) and r.type == RecordType.KEYS]
    assert [len(orjson.loads(record.payload)["kept"]) for record in written] == [1000, 1000]
    keys.carry(scheduler, 2001)
    assert scheduler.taken() == []
    keys.carry(scheduler, 2501)
    assert [len(orjson.loads(record.payload)["kept"]) for record in scheduler.taken()] == [500]


@pytest.mark.parametrize("data", [["k", 1], ["", 1, "d"], ["k", -1, "d"], ["k", 1.5, "d"], [7, 1, "d"], "kkk", 5])
def test_a_malformed_claim(data: Any) -> None:
    with pytest.raises(ProtocolError):
        Claim.of({"key": data})
    assert Claim.of({}) is None

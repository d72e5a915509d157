"""Admission: what is refused, and that a refusal harms nobody else."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from tests.unit.actors.rig import Rig, kind


def submit(rig: Rig, seq: int, number: int) -> None:
    row = [seq, number, 1]
    rig.say(msg.TasksSubmitted("s", [row], orjson.dumps([row])))


def submit_graph(rig: Rig, seq: int, kinds: list[dict[str, Any]]) -> None:
    """A graph with a node of each of these kinds."""
    builder = GraphBuilder()
    for number in range(len(kinds)):
        builder.add(number)
    raw = encode(builder.finish(), {"kinds": kinds, "name": "graph"})
    header, columns = decode(raw)
    rig.say(msg.GraphSubmitted("s", seq, header, columns, raw))


def test_a_session_with_too_many_kinds_is_refused_and_the_engine_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 2)
    rig = Rig()
    for number, name in enumerate(("m:f", "m:g", "m:h"), 1):
        rig.say(msg.KindDefined("s", number, kind(handler=name)))
    submit(rig, 1, 3)
    ((seq, refusal),) = rig.told("J")
    assert (seq, refusal["code"]) == (1, "MS100")
    assert "more than 2 different functions and options" in refusal["message"]
    submit(rig, 2, 1)
    assert rig.told("J") == []
    assert len(rig.leases()) == 1


@pytest.mark.parametrize("more", [{"node_type": "nowhere"}, {"shape": "round"}])
def test_tasks_of_a_kind_that_cannot_be_are_refused(more: dict[str, Any]) -> None:
    rig = Rig()
    rig.say(msg.KindDefined("s", 1, {**kind(), **more}))
    submit(rig, 1, 1)
    assert [row[0] for row in rig.told("J")] == [1]


def test_kinds_of_runs_that_are_gone_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 2)
    rig = Rig()
    rig.core.scheduler.book.runs_max = 1
    for seq in range(1, 10):
        rig.say(msg.KindDefined("s", 1, kind(handler=f"m:f{seq}")))
        submit(rig, seq, 1)
        assert rig.told("J") == []
        ((worker, serial, node),) = rig.leases()
        rig.succeed(worker, serial, node, run=seq)
        rig.say(msg.Told(rig.core.scheduler.lsn))
        for replacement in rig.taken(fx.StartWorker):
            rig.say(msg.WorkerHello(replacement.worker, 1))
    assert len(rig.core.scheduler.kinds) <= 2


def test_kinds_that_only_ended_runs_have_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are kept for long, and keys may be ever new ones."""
    monkeypatch.setattr(limits, "KINDS_MAX", 2)
    rig = Rig()
    for seq in range(1, 10):
        rig.say(msg.KindDefined("s", seq, kind(concurrency_key=f"order-{seq}")), msg.KindsGivenUp("s", seq))
        submit(rig, seq, seq)
        assert rig.told("J") == []
        ((worker, serial, node),) = rig.leases()
        rig.succeed(worker, serial, node, run=seq)
        for replacement in rig.taken(fx.StartWorker):
            rig.say(msg.WorkerHello(replacement.worker, 1))
    assert len(rig.core.scheduler.kinds) <= 2
    assert len(rig.core.scheduler.session_kinds) == 1
    assert rig.ask("status", run="s-1")["state"] == "succeeded"


def test_what_a_session_gave_up_it_can_no_longer_name() -> None:
    rig = Rig()
    rig.say(msg.KindDefined("s", 1, kind()), msg.KindDefined("s", 2, kind()), msg.KindDefined("t", 1, kind()))
    rig.say(msg.KindDefined("s", 0, kind(node_type="nowhere")), msg.KindsGivenUp("s", 2))
    assert rig.core.scheduler.session_kinds.keys() == {("s", 2), ("t", 1)}
    assert rig.core.scheduler.kinds_refused == {}
    submit(rig, 1, 1)
    assert [row[0] for row in rig.told("J")] == [1]


def test_a_kind_that_found_no_room_is_defined_again_at_its_next_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 2)
    rig = Rig()
    rig.core.scheduler.book.runs_max = 1
    graph = [kind("parents", handler="m:f"), kind("parents", handler="m:g")]
    submit_graph(rig, 1, graph)
    rig.say(msg.KindDefined("s", 1, kind(handler="m:h")))
    for seq in (2, 3):
        submit(rig, seq, 1)
        assert [row[0] for row in rig.told("J")] == [seq], "the run still needs both kinds"
    for worker, serial, node in rig.leases():
        rig.succeed(worker, serial, node)
    submit_graph(rig, 4, graph[:1])
    for worker, serial, node in rig.leases():
        rig.succeed(worker, serial, node, run=2)
    rig.say(msg.Told(rig.core.scheduler.lsn))
    submit(rig, 5, 1)
    assert rig.told("J") == []
    assert rig.core.scheduler.kinds_refused == {}
    assert len(rig.leases()) == 1


def test_a_full_table_is_looked_through_once_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 1)
    rig = Rig()
    rig.say(*(msg.KindDefined("s", number, kind(handler=f"m:f{number}")) for number in range(5)))
    looks = 0
    in_use = rig.core.scheduler._kinds_in_use

    def counted(more: Any) -> Any:
        nonlocal looks
        looks += 1
        return in_use(more)

    monkeypatch.setattr(rig.core.scheduler, "_kinds_in_use", counted)
    for turn in range(3):
        rows = [[4 * turn + number, number, 1] for number in range(1, 5)]
        rig.say(msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
        assert len(rig.told("J")) == 4
        assert looks == turn + 1


def test_the_intake_is_closed_while_what_was_submitted_takes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BYTES_OPEN_MAX", 100)
    rig = Rig()
    row = [1, 1, "x" * 100]
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", [row], orjson.dumps([row])))
    assert not rig.core.intake_open
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    assert rig.core.intake_open

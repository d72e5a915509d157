"""Admission: what is refused, and that a refusal harms nobody else."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from tests.unit.actors.rig import Rig, kind


def submit(rig: Rig, seq: int, number: int) -> None:
    row = [seq, number, 1]
    rig.say(msg.TasksSubmitted("s", [row], orjson.dumps([row])))


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


def test_the_intake_is_closed_while_what_was_submitted_takes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BYTES_OPEN_MAX", 100)
    rig = Rig()
    row = [1, 1, "x" * 100]
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", [row], orjson.dumps([row])))
    assert not rig.core.intake_open
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    assert rig.core.intake_open

"""Commands of an operator: dead letters, reruns, draining, priority and why, from a second process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from actors.policy.policy import Policy
from runtime import Flow, NodeType, RunHandle, RunState, Runtime
from runtime.cli import main, operations
from runtime.cli.exits import Exit
from runtime.errors import EngineUnavailable, TaskFailed
from runtime.storage.folder import StateFolder
from tests.scenarios import handlers_next
from tests.scenarios.waiting import await_lines


def opened(state: Path) -> Runtime:
    return Runtime(state, node_types=[NodeType("default", workers=1)], durability="os")


def broken_run(rt: Runtime, tmp_path: Path) -> RunHandle:
    """A run the first node of which calls a service that is down."""
    flow = Flow("calls")
    called = flow.add(handlers_next.call_service, str(tmp_path / "runs"), "called", str(tmp_path / "up"), id="call")
    flow.add(len, called)
    run = rt.submit(flow, run_id="morning")
    assert run.wait(60) == RunState.FAILED
    return run


@pytest.mark.slow
def test_dead_letters_are_seen_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    with opened(state) as rt:
        broken_run(rt, tmp_path)
        assert main(["dead", str(state)]) == Exit.OK
        table = capsys.readouterr().out.splitlines()
        assert table[0].split() == ["letter", "node", "task", "tenant", "how", "tries", "when", "message"]
        assert re.fullmatch(
            r"morning/0 +call +call_service +– +error +1 +\S+ \S+ +ConnectionError: the service is down", table[1]
        )
        assert main(["dead", str(state), "morning/0"]) == Exit.OK
        text = capsys.readouterr().out
        assert "failed     2" in text
        assert "in call_service" in text
        assert f'"{tmp_path / "up"}"' in text
        (tmp_path / "up").touch()
        assert main(["redrive", str(state), "morning/0"]) == Exit.OK
        assert capsys.readouterr().out == "1 letter runs again\n"
        again = rt.handle("morning")
        assert again.wait(60) == RunState.SUCCEEDED
        assert again.result() == len("called")
        assert main(["replay", str(state), "--all", "--json"]) == Exit.OK
        assert json.loads(capsys.readouterr().out) == {"count": 0}
        assert main(["dead", str(state)]) == Exit.OK
        assert capsys.readouterr().out == "no dead letters\n"


@pytest.mark.slow
def test_without_an_engine_letters_are_read_from_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    with opened(state) as rt:
        broken_run(rt, tmp_path)
        for _ in range(3):
            assert isinstance(rt.submit(int, "no", tenant="acme").exception(60), TaskFailed)
    assert main(["dead", str(state), "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert [letter["tenant"] for letter in found["letters"]] == ["acme"] * 3 + [""]
    assert not found["more"]
    assert main(["dead", str(state), "--limit", "2", "--tenant", "acme"]) == Exit.OK
    assert "--limit" in capsys.readouterr().out
    assert main(["dead", str(state), "morning/0", "--json"]) == Exit.OK
    letter = json.loads(capsys.readouterr().out)
    assert (letter["id"], letter["kind"], letter["item"][1]) == ("morning/0", "error", "called")
    assert "ConnectionError" in letter["traceback"]
    assert main(["dead", str(state), "--since", "1h", "--handler", "*:call_*"]) == Exit.OK
    assert "morning/0" in capsys.readouterr().out
    assert main(["dead", str(state), "--since", "2100-01-01"]) == Exit.OK
    assert capsys.readouterr().out == "no dead letters\n"
    assert main(["dead", str(state), "--run", "evening"]) == Exit.USAGE


@pytest.mark.slow
def test_while_an_engine_starts_letters_are_read_from_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Any:
        raise EngineUnavailable("Connection refused")

    monkeypatch.setattr("runtime.host.command_socket.ask", refuse)
    with opened(tmp_path / "state") as rt:
        letter = rt.submit(int, "no")
        assert isinstance(letter.exception(60), TaskFailed)
        assert main(["dead", str(tmp_path / "state")]) == Exit.OK
        assert letter.run_id in capsys.readouterr().out


@pytest.mark.slow
def test_letters_are_discarded_and_runs_rerun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    with opened(state) as rt:
        broken_run(rt, tmp_path)
        assert main(["discard", str(state), "--kind", "error", "--run", "morning"]) == Exit.OK
        assert capsys.readouterr().out == "1 letter discarded\n"
        (tmp_path / "up").touch()
        assert main(["rerun", str(state), "morning"]) == Exit.OK
        assert capsys.readouterr().out == "2 nodes run again\n"
        assert rt.handle("morning").wait(60) == RunState.SUCCEEDED


@pytest.mark.slow
def test_a_scope_is_drained_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, runs, gate = tmp_path / "state", tmp_path / "runs", tmp_path / "gate"
    with opened(state) as rt:
        running = rt.submit(handlers_next.around, str(runs), "first", str(gate), tenant="acme")
        held = rt.submit(handlers_next.around, str(runs), "second", tenant="acme")
        await_lines(runs, 1)
        assert main(["drain", str(state), "tenant:acme", "--timeout", "0.1"]) == Exit.RUN_FAILED
        assert "1 task of tenant:acme still ran" in capsys.readouterr().err
        assert main(["why", str(state), running.run_id]) == Exit.OK
        assert capsys.readouterr().out.startswith("it runs at worker")
        assert main(["why", str(state), held.run_id, "--json"]) == Exit.OK
        assert "tenant:acme is paused by" in json.loads(capsys.readouterr().out)["text"]
        assert main(["why", str(state), held.run_id, "other"]) == Exit.USAGE
        assert "name a node by the id" in capsys.readouterr().err
        assert main(["priority", str(state), held.run_id, "high"]) == Exit.OK
        assert capsys.readouterr().out == f"{held.run_id} is of class high now\n"
        gate.touch()
        assert main(["drain", str(state), "tenant:acme"]) == Exit.OK
        assert "paused     tenant:acme" in capsys.readouterr().out
        assert running.result(60) == "first"
        assert not held.done()
        assert main(["priority", str(state), running.run_id, "high"]) == Exit.OK
        assert "had ended before" in capsys.readouterr().out
        rt.resume("tenant:acme")
        assert held.result(60) == "second"


@pytest.mark.slow
def test_what_cannot_be_said_is_refused_before_the_engine_hears_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = str(tmp_path / "state")
    with opened(tmp_path / "state"):
        for argv in (["why"], ["rerun"], ["dead"], ["replay"], ["unschedule"]):
            assert main([argv[0], state, "\udcff"]) == Exit.USAGE
            assert "this cannot be asked" in capsys.readouterr().err
        assert main(["pause", state, *(f"key:{number}" for number in range(20_000))]) == Exit.USAGE
        assert "bytes are too long" in capsys.readouterr().err


def test_a_drain_waits_for_the_engine_that_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stands = {"policy": Policy().to_json(), "waiting": {}}
    answers = iter([stands, {"held": 1}, EngineUnavailable("it ended"), EngineUnavailable("none runs"), {"held": 0}])

    def ask(what: str, args: dict[str, Any]) -> Any:
        answer = next(answers)
        if isinstance(answer, EngineUnavailable):
            raise answer
        return answer

    monkeypatch.setattr(operations, "engine_of", lambda state: ask)
    assert main(["drain", str(tmp_path), "class:low"]) == Exit.OK
    assert next(answers, None) is None
    assert "paused" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["dead"], Exit.USAGE, "required: STATE"),
        (["dead", "STATE", "--since", "soon"], Exit.USAGE, "neither an age"),
        (["dead", "STATE", "--limit", "0"], Exit.USAGE, "must be 1 or more"),
        (["dead", "STATE", "--kind", "bad"], Exit.USAGE, "invalid choice: 'bad'"),
        (["dead", "STATE", "nobody"], Exit.USAGE, "no dead letter 'nobody'"),
        (["redrive", "STATE"], Exit.USAGE, "one of the three"),
        (["replay", "STATE", "s-1", "--all"], Exit.USAGE, "--all); one of the three"),
        (["replay", "STATE", "--all"], Exit.ENVIRONMENT, "no engine runs on"),
        (["rerun", "STATE", "s-1"], Exit.ENVIRONMENT, "no engine runs on"),
        (["drain", "STATE", "acme"], Exit.USAGE, "MS101"),
        (["drain", "STATE", "tenant:a", "--timeout", "-1"], Exit.USAGE, "must be 0 or more"),
        (["priority", "STATE", "s-1", "urgent"], Exit.USAGE, "invalid choice: 'urgent'"),
        (["why", "MISSING", "s-1"], Exit.ENVIRONMENT, "MS201"),
        (["forget", "STATE", "s-1"], Exit.ENVIRONMENT, "MS208"),
    ],
)
def test_what_cannot_be_is_refused(
    argv: list[str], code: Exit, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    StateFolder.open(state).close()
    where = {"STATE": str(state), "MISSING": str(tmp_path / "missing")}
    assert main([where.get(word, word) for word in argv]) == code
    printed = capsys.readouterr()
    assert message in printed.err


@pytest.mark.slow
def test_a_run_is_cancelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    with opened(state) as rt:
        waits = rt.submit(pow, 2, 3, delay=3600.0)
        assert main(["cancel", str(state), waits.run_id]) == Exit.OK
        assert "is cancelled" in capsys.readouterr().out
        assert waits.wait(30) == RunState.CANCELLED
        assert any(event.text == "by a command" for event in waits.story())
        assert main(["cancel", str(state), waits.run_id, "--json"]) == Exit.OK
        assert json.loads(capsys.readouterr().out) == {"cancelled": False}
        assert main(["cancel", str(state), "nix"]) == Exit.USAGE
    assert main(["cancel", str(state), waits.run_id]) == Exit.ENVIRONMENT

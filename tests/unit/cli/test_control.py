"""Commands that change who runs next: from a second process, in force at once, refused without an engine."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from runtime import NodeType, Rate, Runtime, Scheduling, Share
from runtime.cli import main
from runtime.cli.control import policy_lines
from runtime.cli.exits import Exit
from runtime.scheduling import asker
from runtime.storage.folder import StateFolder


@pytest.mark.slow
def test_a_running_engine_is_changed_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    options = {"node_types": [NodeType("default", workers=1)], "durability": "os"}
    with Runtime(state, scheduling=Scheduling(weights={"acme": 3}), **options) as rt:  # type: ignore[arg-type]
        assert main(["pause", str(state), "tenant:acme", "class:low"]) == Exit.OK
        assert rt.scheduling().paused == ("class:low", "tenant:acme")
        assert rt.scheduling().pauses["class:low"].by == asker()
        assert main(["pause", str(state), "class:low", "--by", "ann", "--reason", "fire"]) == Exit.OK
        assert rt.scheduling().pauses["class:low"][:2] == ("ann", "fire")
        assert "class:low by ann since" in capsys.readouterr().out
        assert main(["pause", str(state), "class:low", "--by", ""]) == Exit.USAGE
        assert main(["resume", str(state), "class:low"]) == Exit.OK
        assert main(["quota", str(state), "key:printer", "2"]) == Exit.OK
        assert main(["weight", str(state), "acme", "none"]) == Exit.OK
        assert main(["rate", str(state), "api", "10", "5"]) == main(["rate", str(state), "mail", "0.5"]) == Exit.OK
        assert main(["share", str(state), "low", "0.1", "0.4"]) == main(["share", str(state), "high", "0.2"]) == Exit.OK
        assert main(["share", str(state), "realtime", "none"]) == Exit.OK
        capsys.readouterr()
        assert main(["weight", str(state), "", "0.5", "--json"]) == Exit.OK
        told = json.loads(capsys.readouterr().out)
        assert told["policy"]["weights"] == {"": 0.5}
        stands = rt.scheduling()
        assert (stands.paused, stands.quotas, stands.weights) == (("tenant:acme",), {"key:printer": 2}, {"": 0.5})
        assert stands.rates == {"api": Rate(10.0, burst=5), "mail": Rate(0.5)}
        assert stands.shares == {"low": Share(0.1, 0.4), "high": Share(0.2)}
        assert main(["share", str(state), "low", "0.9"]) == Exit.USAGE
        assert main(["pause", str(state), "type:gpu"]) == Exit.USAGE
        assert "no node type 'gpu'" in capsys.readouterr().err
    assert not (state / "commands").exists()
    assert main(["pause", str(state), "tenant:acme"]) == Exit.ENVIRONMENT
    said = capsys.readouterr().err
    assert "no engine runs on" in said
    assert "opening the folder with Runtime(...) starts an engine" in said


@pytest.mark.slow
def test_the_engine_that_follows_one_that_was_killed_takes_commands(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Runtime(state, node_types=[NodeType("default", workers=1)], durability="os") as rt:
        assert main(["pause", str(state), "tenant:acme"]) == Exit.OK
        (engine,) = (found["pid"] for found in rt.processes() if found["role"] == "engine")
        os.kill(engine, signal.SIGKILL)
        assert rt.submit(abs, -1).result(60) == 1
        assert main(["pause", str(state), "class:low"]) == Exit.OK
        assert rt.scheduling().paused == ("class:low", "tenant:acme")


def test_what_stands_is_printed() -> None:
    from_engine = {
        "policy": Scheduling(quotas={"key:a": 2000}, weights={"": 0.5}).to_wire() | {"paused": ["tenant:acme"]},
        "waiting": {"realtime": 0, "low": 3},
    }
    assert policy_lines(from_engine) == [
        "paused     tenant:acme",
        "quotas     key:a 2,000",
        "weights    (default tenant) 0.5",
        "rates      none",
        "shares     realtime 20% to 100%",
        "waiting    low 3",
    ]


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["pause"], Exit.USAGE, "required: STATE, SCOPE"),
        (["quota", "STATE", "key:a", "many"], Exit.USAGE, "'many' is neither a number nor none"),
        (["quota", "STATE", "key:a", "1.5"], Exit.USAGE, "whole number"),
        (["quota", "STATE", "printer", "0"], Exit.USAGE, "'printer' is none of class:NAME"),
        (["weight", "STATE", "acme", "nan"], Exit.USAGE, "above 0"),
        (["weight", "STATE", "tenant:acme", "2"], Exit.USAGE, "name the tenant alone: 'acme'"),
        (["pause", "STATE", "tenant:acme"], Exit.ENVIRONMENT, "no engine runs on"),
        (["pause", "MISSING", "tenant:acme"], Exit.ENVIRONMENT, "MS201"),
    ],
)
def test_what_cannot_be_is_refused(
    argv: list[str], code: Exit, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    StateFolder.open(tmp_path / "STATE").close()
    named = [str(tmp_path / part) if part in ("STATE", "MISSING") else part for part in argv]
    assert main(named) == code
    assert message in capsys.readouterr().err

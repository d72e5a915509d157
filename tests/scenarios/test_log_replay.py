"""Time travel over real folders: beside a running engine, after a SIGKILL of it, and across several openings."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from runtime import Flow, NodeType, RunState, Runtime
from runtime.cli import main
from runtime.cli.exits import Exit
from tests.scenarios import handlers_next

pytestmark = pytest.mark.slow


def opened(state: Path) -> Runtime:
    return Runtime(state, node_types=[NodeType("default", workers=2)], durability="os")


def replayed(state: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert main(["replay", str(state), "--json", *options]) == Exit.OK
    return json.loads(capsys.readouterr().out)


def test_history_goes_back_over_a_kill_and_an_opening(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    with opened(state) as rt:
        flow = Flow("sums")
        flow.add(sum, [flow.add(abs, -number) for number in range(20)])
        first = rt.submit(flow, run_id="first")
        assert first.wait(60) == RunState.SUCCEEDED
        beside = replayed(state, capsys)
        assert [run["run_id"] for run in beside["runs"]] == ["first"]
        os.kill(rt.statistics()["pid"], signal.SIGKILL)
        second = rt.submit(handlers_next.call_service, str(tmp_path / "runs"), 1, str(tmp_path / "up"))
        assert second.exception(60) is not None
    now = replayed(state, capsys)
    then = replayed(state, capsys, "--until", str(beside["as_of"]["lsn"]))
    assert then["as_of"]["digest"] == beside["as_of"]["digest"], "what came later changes nothing of what was"
    assert then["as_of"]["digest"] != now["as_of"]["digest"]
    story = replayed(state, capsys, "--run", second.run_id)["story"]
    assert [event["event"] for event in story][:2] == ["submitted", "failed"]
    diff = replayed(state, capsys, "--until", str(beside["as_of"]["lsn"]), "--diff")["diff"]
    assert diff["came"] == [second.run_id]
    with opened(state):
        assert replayed(state, capsys, "--until", str(now["as_of"]["lsn"]))["as_of"]["digest"] == now["as_of"]["digest"]

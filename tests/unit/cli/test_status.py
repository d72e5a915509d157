"""What `status` says of a folder, from plain data and from a folder without runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime import Flow, NodeType, Runtime
from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.cli.status import RUNS_SHOWN_MAX, bytes_text, status_json, status_lines
from runtime.registry import Task
from runtime.storage.folder import StateFolder


def run(number: int, state: str, **more: Any) -> dict[str, Any]:
    return {"run_id": f"r{number}", "name": "etl", "state": state, "counts": [1, 2, 3, 4, 5, 0, 0], **more}


def summary(*runs: dict[str, Any], **more: Any) -> dict[str, Any]:
    log = {"records": 12, "segments": 1, "shards": 1, "bytes": 3456, "bytes_cut": 0}
    return {"runs": list(runs), "owner_pid": None, "durability": "fsync", "log": log, **more}


def test_runs_are_a_table_with_unfinished_ones_first() -> None:
    lines = status_lines(
        Path("/state"),
        summary(run(1, "succeeded", created_ns=10**18, ended_ns=10**18 + 2_000_000_000), run(2, "running")),
    )
    assert "engine         none is running" in lines
    assert "log            12 records in 1 segment, 3.5 kB" in lines
    assert "runs           1 unfinished, 1 finished" in lines
    assert "               they go on when the folder is opened again" in lines
    header, first, second = lines[-3:]
    assert header.split()[:3] == ["run", "flow", "state"]
    assert first.split()[:8] == ["r2", "etl", "running", "15", "9", "5", "5", "1"], "what runs counts as ready"
    assert second.split()[0] == "r1"
    assert second.endswith("2.00 s")


def test_where_the_log_ends_and_what_is_counted_of_it() -> None:
    found = summary()
    found["log"] |= {"checkpoint_lsn": 1472, "last_lsn": 1501}
    line = "log            12 records behind the checkpoint (LSN 1,472) in 1 segment, 3.5 kB, up to LSN 1,501"
    assert line in status_lines(Path("/state"), found)


def test_shards_are_told_where_there_are_several() -> None:
    found = summary()
    found["log"] |= {"segments": 2, "shards": 4}
    assert "log            12 records in 2 segments of 4 shards, 3.5 kB" in status_lines(Path("/state"), found)


def test_a_running_engine_is_named() -> None:
    text = "\n".join(status_lines(Path("/state"), summary(run(1, "running"), owner_pid=77)))
    assert "process 77 has it open" in text
    assert "they go on" not in text
    assert "what runs now counts as ready" in text


def test_what_waits_for_the_end_of_a_pause_is_not_called_running() -> None:
    rows = [run(1, "running", paused=5), run(2, "running", paused=4), run(3, "running")]
    lines = status_lines(Path("/state"), summary(*rows, paused=["class:low", "tenant:acme"]))
    assert "paused         class:low, tenant:acme" in lines
    assert [line.split()[2] for line in lines[-3:]] == ["paused", "running", "running"], "all that is ready, or not all"
    notes = {"tenant:acme": {"by": "ann", "reason": "fire", "at_ns": 0}}
    lines = status_lines(Path("/state"), summary(*rows, paused=["class:low", "tenant:acme"], pauses=notes))
    assert "paused         class:low; tenant:acme by ann since 1970-01-01 00:00:00 UTC (fire)" in lines


def test_what_workers_have_of_a_paused_scope_runs_on() -> None:
    rows = [run(1, "running", paused=5, live=True), run(2, "running", paused=5)]
    lines = status_lines(Path("/state"), summary(*rows, paused=["class:low"], owner_pid=77))
    assert [line.split()[2] for line in lines[-2:]] == ["running", "paused"]


def test_what_an_engine_shows_of_its_runs_has_a_column() -> None:
    shown = run(2, "running", live=True, progress="load: 3 of 4")
    lines = status_lines(Path("/state"), summary(run(1, "running"), shown, owner_pid=77))
    header, first, second, report = lines[-4:]
    assert header.split()[3:9] == ["nodes", "done", "failed", "held", "ready", "pending"]
    assert first.split()[3:9] == ["15", "9", "5", "–", "5", "1"]
    assert second.split()[3:9] == ["15", "9", "5", "3", "2", "1"]
    assert report == "r2: load: 3 of 4"
    assert any("ready where held is not known" in line for line in lines)
    assert not any("not of starts" in line for line in status_lines(Path("/s"), summary(shown, owner_pid=77)))
    live, other = json.loads(status_json(summary(shown, run(1, "running"), owner_pid=77)))["runs"]
    assert live["counts"]["held"] == other["counts"]["running"] == 3, "workers hold more than they run"
    assert "running" not in live["counts"]


@pytest.mark.slow
def test_a_pause_shows_in_what_the_log_tells(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        rt.pause("tenant:acme")
        flow = Flow("both")
        flow.add(Task(abs).options(tenant="acme"), -1)
        flow.add(abs, -2)
        handle = rt.submit(flow)
        held = [rt.submit(abs, -number, tenant="acme", run_id=f"held-{number}") for number in range(3)]
        assert main(["status", str(state_dir), "--json"]) == Exit.OK
        said = json.loads(capsys.readouterr().out)
        assert said["paused"] == ["tenant:acme"]
        assert {row["run_id"]: row["paused"] for row in said["runs"]} == {
            handle.run_id: 1,
            **{h.run_id: 1 for h in held},
        }
        rt.resume("tenant:acme")


def test_long_lists_are_cut() -> None:
    lines = status_lines(Path("/state"), summary(*(run(number, "failed") for number in range(RUNS_SHOWN_MAX + 9))))
    assert lines[-1] == "… and 9 more; --json has them all"


def test_what_is_not_acknowledged_is_said() -> None:
    log = {"records": 1, "segments": 2, "shards": 1, "bytes": 12, "bytes_cut": 7}
    lines = status_lines(Path("/state"), summary(log=log))
    assert "log            1 record in 2 segments, 12 bytes; at its end 7 bytes that nobody was told of" in lines


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1_500, "1.5 kB"), (2_000_000, "2.0 MB"), (3 * 10**9, "3.0 GB")]
)
def test_sizes(size: int, text: str) -> None:
    assert bytes_text(size) == text


def test_a_folder_without_runs(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    StateFolder.open(state_dir).close()
    assert main(["status", str(state_dir)]) == Exit.OK
    text = capsys.readouterr().out
    assert "runs           0 unfinished, 0 finished" in text
    assert "durability     as the first engine that opens it says; none has yet" in text, "as after an import"
    assert main(["status", str(state_dir), "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["runs"] == []

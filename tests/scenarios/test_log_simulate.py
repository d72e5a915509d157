"""Capacity planning over real runs: with nothing changed the simulation takes what was recorded; with changes it says
what theory says."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runtime import Flow, NodeType, Retry, Runtime, Scheduling, TaskHandle
from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.errors import TaskCancelled
from runtime.planning.figures import recorded_figures, simulated_figures
from runtime.planning.recording import read_recording
from runtime.planning.setting import Setting
from runtime.planning.world import Simulation
from runtime.storage.folder import StateFolder
from tests.scenarios import handlers_batch, handlers_calls, handlers_graphs
from tests.scenarios.waiting import until, words

pytestmark = pytest.mark.slow

NAP_S = 0.04
FIT = 0.05
"""What the model may be off."""
TRIES = 4
"""Recordings of which one has to fit: what other programs took from the machine meanwhile is in no model."""


def nap(seconds: float, *_: object) -> float:
    """Runs in a worker."""
    time.sleep(seconds)  # sleep: runs in a worker
    return seconds


def fail_once(path: str) -> str:
    """Fails the first time; runs in a worker."""
    time.sleep(NAP_S)  # sleep: runs in a worker
    mark = Path(path)
    if not mark.exists():
        mark.touch()
        raise ValueError("the first time")
    return "done"


def layered(layers: int, width: int) -> Flow:
    flow = Flow("layers")
    before: list[Any] = []
    for _ in range(layers):
        before = [flow.add(nap, NAP_S, *before) for _ in range(width)]
    return flow


def simulated(state: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert main(["simulate", str(state), "--json", *options]) == Exit.OK
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("recorded") / "state")


def recorded(path: Path) -> Path:
    """A folder with layers of naps, single ones of two tenants, one that failed and was tried again."""
    types = [NodeType("default", workers=3)]
    with Runtime(path, node_types=types, durability="os", scheduling=Scheduling(quotas={"tenant:slow": 2})) as rt:
        for first in [rt.submit(nap, 2 * NAP_S) for _ in range(9)]:
            first.result(60)  # all three workers have imported this module
        run = rt.submit(layered(6, 6), run_id="layers")
        singles = [rt.submit(nap, NAP_S, tenant="slow", priority="low") for _ in range(12)]
        retried = rt.options(retry=Retry(2, base=0.05, jitter=False))
        again = retried.submit(fail_once, str(path.parent / "mark"))
        run.wait(60)
        assert again.result(60) == "done"
        for single in singles:
            single.result(60)
    return path


def test_with_nothing_changed_it_takes_what_was_recorded(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, fits = simulated(state, capsys), []
    for number in range(TRIES):
        fits.append(found["fit"])
        if abs(found["fit"] - 1.0) <= FIT:
            break
        (tmp_path / str(number)).mkdir()
        found = simulated(recorded(tmp_path / str(number) / "state"), capsys)
    assert fits[-1] == pytest.approx(1.0, abs=FIT), f"none of {fits} fits"
    assert found["changes"] == []
    was, would = found["recorded"], found["simulated"]
    assert (was["tasks"], would["tasks"]) == (58, 58)
    assert would["busy_ns"] == pytest.approx(was["busy_ns"], rel=0.001), "the retry, too"
    assert [line for line in found["unknown"] if "how many workers" in line] == [], "the opening logs that"


def test_more_workers_make_it_shorter_as_far_as_the_graph_lets_them(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    was = simulated(state, capsys)["simulated"]
    one = simulated(state, capsys, "--workers", "1")["simulated"]
    many = simulated(state, capsys, "--workers", "default=64")["simulated"]
    assert one["makespan_ns"] > was["makespan_ns"] > many["makespan_ns"]
    assert one["makespan_ns"] >= one["busy_ns"], "one after the other"
    assert many["makespan_ns"] >= 6 * NAP_S * 10**9, "six layers follow each other"
    used = [found["pools"][0]["utilisation"] for found in (one, was, many)]
    assert used == sorted(used, reverse=True)


def test_a_quota_is_kept_and_one_that_is_taken_away_is_not(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    was = simulated(state, capsys, "--workers", "64")["simulated"]["tenants"]["slow"]
    single = simulated(state, capsys, "--workers", "64", "--quota", "low=1")["simulated"]["tenants"]["slow"]
    free = simulated(state, capsys, "--workers", "64", "--quota", "tenant:slow=none")["simulated"]["tenants"]["slow"]
    assert single["max_ns"] >= 8 * NAP_S * 10**9 > was["max_ns"] >= 3 * NAP_S * 10**9 > free["max_ns"]


def test_it_only_reads_and_writes_the_page_that_was_asked_for(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.read_bytes() for file in state.rglob("*") if file.is_file()}
    out = tmp_path / "out.html"
    assert main(["simulate", str(state), "--workers", "5", "--report", str(out)]) == Exit.OK
    text = capsys.readouterr().out
    assert "changed        workers 5" in text
    assert "model          with nothing changed it takes" in text
    page = out.read_text()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert "<polyline" in page
    assert {file: file.read_bytes() for file in state.rglob("*") if file.is_file()} == before
    assert main(["simulate", str(state), "--report", str(tmp_path)]) == Exit.ENVIRONMENT
    assert "cannot write" in capsys.readouterr().err


def test_what_cannot_be_is_refused_with_all_problems(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(state), "--workers", "gpu=2", "--workers", "0", "--slots", "default=3"]) == Exit.USAGE
    text = capsys.readouterr().err
    assert "[MS101]" in text
    assert "there is no node type 'gpu'" in text
    assert "workers must be 1 to" in text
    assert "slots: 'default' runs one task at a time" in text
    assert main(["simulate", str(state), "--quota", "low=x", "--rate", "api", "--workers", "many"]) == Exit.USAGE
    text = capsys.readouterr().err
    assert "'low=x'" in text
    assert "'api'" in text
    assert "'many' is not a whole number" in text
    assert main(["simulate", str(state), "--quota", "nix:low=2"]) == Exit.USAGE


def test_a_folder_without_submissions_has_nothing_to_simulate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StateFolder.open(tmp_path / "empty"):
        pass
    assert main(["simulate", str(tmp_path / "empty")]) == Exit.USAGE
    assert "nothing to simulate" in capsys.readouterr().err


def test_every_kind_of_run_ends_as_it_did(tmp_path: Path) -> None:
    """Calls, nodes that were added, failures, skips, batches, delays, two openings, two node types, a cancel."""
    state, notes, gate = tmp_path / "state", str(tmp_path / "notes"), tmp_path / "gate"
    types = [NodeType("default", workers=2), NodeType("io", workers=1, mode="asyncio", concurrency=5)]
    with Runtime(state, node_types=types, durability="os") as rt:
        flow = Flow("all")
        skipped = flow.add(handlers_graphs.skip)
        flow.add(nap, 0.01, skipped)
        failed = flow.add(handlers_graphs.fail)
        flow.add(nap, 0.01, after=[failed])
        flow.add(handlers_graphs.grow_tree, 3, 4)
        flow.add(handlers_calls.fib, 4)
        whole = rt.submit(flow, run_id="all")
        runs: list[TaskHandle[Any]] = []
        runs += [rt.submit(handlers_calls.fib, 5), rt.submit(handlers_calls.fails_after_its_call, notes)]
        runs += [rt.submit(handlers_calls.spawns_and_calls, notes), rt.submit(nap, 0.01, delay=0.1)]
        runs += [rt.submit(handlers_batch.double, [number, notes]) for number in range(7)]
        runs += [rt.submit(handlers_batch.double_async, [number, notes]) for number in range(7)]
        runs += [rt.submit(nap, 0.01, debounce=0.05, debounce_key="one") for _ in range(3)]
        runs += [rt.submit(nap, 0.01, unique="one"), rt.submit(nap, 0.01, idempotency_key="k")]
        assert sum(rt.map(nap, [0.0] * 300)) == 0.0
        held = rt.submit(handlers_calls.calls_slow, notes, str(gate))
        until(lambda: words(Path(notes))["slow"] or None, "the call that waits")
        held.cancel()
        whole.wait(60)
        for run in [*runs, held]:
            with suppress(TaskCancelled):
                run.exception(60)
    with Runtime(state, node_types=types, durability="os") as rt:
        assert rt.submit(nap, 0.01).result(60) == 0.01
    recording = read_recording(state)
    assert recording.down_ns > 0
    simulation = Simulation(recording, Setting()).run()
    assert simulation.lost == 0
    ends = {}
    for no, recorded in recording.runs.items():
        lived = simulation.runs[no].run
        assert (lived.key, lived.size) == (recorded.run.key, recorded.run.size)
        ends[lived.key] = (str(lived.run_state()), lived.counts(), str(recorded.run.run_state()), recorded.run.counts())
    assert [key for key, (state, counts, *was) in ends.items() if [state, counts] != was] == []
    was, would = recorded_figures(recording), simulated_figures(simulation)
    assert would.tasks == pytest.approx(was.tasks, abs=2)
    assert {pool.name for pool in would.pools} == {"default", "io"}

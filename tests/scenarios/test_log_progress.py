"""How far runs are, read from shared memory: beside a busy, a stopped and a killed engine, and from other processes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import AsyncRuntime, Flow, NodeType, Progress, RunProgress, Runtime
from runtime.mail.board import BoardReader
from tests.scenarios import handlers
from tests.scenarios.processes import ROOT, OwnFamily, kill, send
from tests.scenarios.waiting import await_gone, await_lines, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="other processes find the board by /proc"),
]

PATIENCE_S: Final = 60.0
AT_ONCE_S: Final = 1.0
"""Of a busy machine; an engine that is asked and stopped would take for ever."""


def opened(state_dir: Path, workers: int = 2, **options: Any) -> Runtime:
    return Runtime(state_dir, node_types=[NodeType("default", workers=workers, prefetch=1)], **options)


def gated(runs: Path, gate: Path, quick: int, held: int) -> Flow:
    flow = Flow("gated")
    first = [flow.add(handlers.mark, str(runs), "quick") for _ in range(quick)]
    for _ in range(held):
        flow.add(handlers.hold, str(runs), "held", str(gate), after=first)
    return flow


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing until the block ends."""
    send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send(pid, signal.SIGCONT)


def took_s(call: Callable[[], object]) -> float:
    begun = time.monotonic()
    call()
    return time.monotonic() - begun


def status_of(state_dir: Path) -> dict[str, Any]:
    """What the command says in a process of its own."""
    command = [sys.executable, "-m", "runtime", "status", str(state_dir), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_stopped_engine_does_not_keep_who_asks_for_progress(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with opened(state_dir, 5) as rt:
        run = rt.submit(gated(runs, gate, 5, 4))
        other = rt.submit(handlers.report_and_hold, 3.0, 8.0, "three", str(gate), run_id="single")
        await_lines(runs, 9)
        until(lambda: run.progress().counts[2:4] == (4, 5), "what runs is shown")
        until(lambda: other.progress() == Progress(3, 8, "three"), "its report is shown")
        engine = OwnFamily(rt).engine
        with stopped(engine):
            found: list[Any] = []
            assert took_s(lambda: found.append(run.progress())) < AT_ONCE_S
            assert took_s(lambda: found.append(rt.progress(run.run_id))) < AT_ONCE_S
            assert took_s(lambda: found.append(other.progress())) < AT_ONCE_S
            assert found[:2] == [Progress(5, 9), Progress(5, 9)]
            assert found[2] == Progress(3, 8, "three")
            told = status_of(state_dir)
            (row,) = (row for row in told["runs"] if row["run_id"] == run.run_id)
            assert row["live"]
            assert list(row["counts"].values()) == list(found[0].counts), "held is what is called running in a program"
        gate.touch()
        assert run.result(timeout=PATIENCE_S)
        assert run.progress() == Progress(9, 9)


def test_what_handlers_report_is_read_of_runs_and_single_tasks(state_dir: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    flow = Flow("reporting")
    flow.add(handlers.report_and_hold, 3.0, 8.0, "three", str(gate), id="part")
    flow.add(abs, -1)
    with opened(state_dir) as rt:
        run = rt.submit(flow)
        task = rt.submit(handlers.report_and_hold, 1.0, 4.0, "one", str(gate))
        until(lambda: task.progress() == Progress(1, 4, "one"), "the task's report is shown")
        until(lambda: run.progress().text == "part: three, 3 of 8", "the run's report is shown")
        with stopped(OwnFamily(rt).engine):
            assert task.progress() == Progress(1, 4, "one")
            assert run.progress().text == "part: three, 3 of 8"
            shown = {row.get("progress") for row in status_of(state_dir)["runs"]}
            assert {"part: three, 3 of 8", "one, 1 of 4"} <= shown
        gate.touch()
        assert task.result(PATIENCE_S) == "one"
        assert task.progress() == Progress(1, 1)
        assert run.wait(PATIENCE_S)


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_what_was_shown_is_true_after_the_engine_was_killed(state_dir: Path, durability: Any) -> None:
    """Ends that are shown are in the log, so they never become fewer; a new engine sweeps and shows again."""
    flow = Flow("many")
    for number in range(2_000):
        flow.add(handlers.mark_slowly, str(state_dir.parent / "runs"), str(number), 0.001)
    with opened(state_dir, durability=durability) as rt:
        run = rt.submit(flow)
        board = rt._client.board
        assert board is not None
        done = kills = 0
        while not run.done():
            found = run._shown()
            if found is None:  # it is asked for: not shown yet, or a new engine reads the log
                continue
            assert found.total == found.counts.total == 2_000
            assert found.done >= done, "an end that was shown was lost"
            done = int(found.done)
            if kills < 3 and done > 300 * (kills + 1):
                kills += 1
                engine = OwnFamily(rt).engine
                kill(engine)
                assert run.progress().done >= done
                await_gone([engine])
        assert kills == 3
        assert board.incarnation() == 4
        assert run.progress() == Progress(2_000, 2_000)


def test_others_see_a_board_only_while_its_program_has_the_folder_open(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with opened(state_dir, 5) as rt:
        run = rt.submit(gated(runs, gate, 1, 2))
        bundle = [rt.submit(handlers.hold, str(runs), "held", str(gate)) for _ in range(3)]
        await_lines(runs, 6)
        until(lambda: run.progress().counts[2:4] == (2, 1), "they run")
        rows = {row["run_id"]: row for row in status_of(state_dir)["runs"]}
        assert rows[run.run_id]["counts"]["held"] == 2
        assert sum(sum(row["counts"].values()) for row in rows.values() if row["live"]) == 3 + len(bundle)
        rt.close(drain=False)
    assert not any(row.get("live") for row in status_of(state_dir)["runs"])
    with opened(state_dir, 5) as rt:
        again = rt.handle(run.run_id)
        until(lambda: again.progress().counts.running == 2, "they run again")
        gate.touch()
        again.wait(PATIENCE_S)
        assert rt.progress(run.run_id) == Progress(3, 3)


def test_more_runs_than_are_shown_are_asked_for(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    count = 4_300
    with opened(state_dir, durability="os") as rt:
        flows = [rt.submit(gated(runs, gate, 0, 2)) for _ in range(count)]
        board = rt._client.board
        assert board is not None
        until(lambda: len(list(board.rows())) == 4_096, "the board is full", PATIENCE_S)
        for run in (flows[0], flows[-1], flows[count // 2]):
            assert run.progress().total == 2
        assert board.run(flows[-1].run_id) is None
        gate.touch()
        for run in flows:
            run.wait(PATIENCE_S)
        assert all(run.progress() == Progress(2, 2) for run in flows)


def runs_two(board: BoardReader, run_id: str) -> bool:
    row = board.run(run_id)
    return row is not None and row.counts[2:4] == (2, 2)


def test_asyncio_reads_the_same(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"

    async def main() -> None:
        async with AsyncRuntime(state_dir, node_types=[NodeType("default", workers=3, prefetch=1)]) as rt:
            run = await rt.submit(gated(runs, gate, 2, 2))
            task = await rt.submit(handlers.report_and_hold, 1.0, 4.0, "one", str(gate))
            board = rt._client.board
            assert board is not None
            await asyncio.to_thread(until, partial(runs_two, board, run.run_id), "what runs is shown")
            await asyncio.to_thread(until, lambda: board.task(task.run_id) is not None, "its report is shown")
            engine = next(found["pid"] for found in await rt.processes() if found["role"] == "engine")
            with stopped(engine):
                for found in (await run.progress(), await rt.progress(run), await rt.progress(run.run_id)):
                    assert isinstance(found, RunProgress)
                    assert found == Progress(2, 4)
                assert await rt.progress(task) == Progress(1, 4, "one")
            gate.touch()
            assert await task.result(PATIENCE_S) == "one"
            await run.wait(PATIENCE_S)

    asyncio.run(main())

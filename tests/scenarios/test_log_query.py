"""History in SQL with real processes: under load, over a killed engine, over checkpoints that cut the log."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import AsyncRuntime, Flow, NodeType, QueryRows, Runtime, query
from runtime.errors import QueryRefused, QueryTooLong, RuntimeClosed, UnknownMoment
from runtime.views import StoryEvent
from tests.scenarios import handlers
from tests.scenarios.processes import OwnFamily, kill, send
from tests.scenarios.waiting import await_gone, await_lines, until

pytestmark = pytest.mark.slow

PATIENCE_S: Final = 60.0
STATES: Final = ("pending", "ready", "backoff", "cancelling", "succeeded", "failed", "cancelled", "skipped")
AGREE: Final = f"""
    SELECT count(*) AS runs, sum(t.tasks) AS tasks, sum({" OR ".join(f"r.{s} <> t.{s}" for s in STATES)}) AS differ
    FROM runs r JOIN (
        SELECT run_id, count(*) AS tasks, {", ".join(f"sum(state = '{s}') AS {s}" for s in STATES)}
        FROM tasks GROUP BY run_id
    ) t USING (run_id)
"""
"""Both views in one query: what tasks add up to is what their runs say."""
ENDLESS: Final = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def opened(state_dir: Path, **options: Any) -> Runtime:
    return Runtime(state_dir, node_types=[NodeType("default", workers=2)], **options)


@contextmanager
def load(rt: Runtime) -> Iterator[threading.Event]:
    """Tasks, maps and flows without a pause; the event says that some have ended."""
    stop, some = threading.Event(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            handles = [rt.submit(abs, -number) for number in range(20)]
            list(rt.map(math.sqrt, range(200)))
            flow = Flow("sums")
            flow.add(sum, [flow.add(abs, -number) for number in range(5)])
            rt.submit(flow).wait(PATIENCE_S)
            for handle in handles:
                handle.result(PATIENCE_S)
            some.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert some.wait(PATIENCE_S)
        yield some
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def agreed(found: QueryRows) -> int:
    """What the two views say agrees; returns how many tasks there are."""
    row = found[0]
    assert row.differ == 0
    tasks: int = row.tasks
    return tasks


@pytest.mark.parametrize("durability", ["fsync", "os", "none"])
def test_what_was_told_is_in_the_next_query(state_dir: Path, durability: Any) -> None:
    with opened(state_dir, durability=durability) as rt:
        lsn = 0
        for number in range(20):
            handle = rt.submit(math.sqrt, number * number)
            assert handle.result(PATIENCE_S) == number
            found = rt.query(
                "SELECT r.state, t.result, t.run_id FROM runs r JOIN tasks t USING (run_id) WHERE run_id = ?",
                [handle.run_id],
            )
            assert list(found) == [("succeeded", f"{number}.0", handle.run_id)]
            assert found.lsn > lsn
            lsn = found.lsn
        bad = rt.submit(math.sqrt, -1)
        assert bad.exception(PATIENCE_S)
        (row,) = rt.query("SELECT * FROM tasks WHERE state = 'failed'")
        assert (row.task_id, row.failure_type, row.dead_letter) == (bad.run_id, "ValueError", 1)


def test_queries_under_load_are_consistent_and_of_ascending_lsns(state_dir: Path) -> None:
    with opened(state_dir) as rt, load(rt):
        tasks = lsn = 0
        for _ in range(30):
            found = rt.query(AGREE)
            assert agreed(found) >= tasks
            assert found.lsn >= lsn
            tasks, lsn = agreed(found), found.lsn
            assert rt.query(AGREE, at=lsn)[0] == found[0], "the same at the same LSN"


def test_queries_go_on_while_the_engine_is_killed(state_dir: Path) -> None:
    with opened(state_dir) as rt, load(rt) as some:
        lsn = 0
        for _ in range(3):
            engine = OwnFamily(rt).engine
            kill(engine)
            found = rt.query(AGREE)
            agreed(found)
            assert found.lsn >= lsn
            await_gone([engine])
            some.clear()
            assert some.wait(PATIENCE_S)
            found = rt.query(AGREE)
            assert found.lsn > lsn
            lsn = found.lsn
        rows = rt.query("SELECT run_id, state FROM runs ORDER BY run_id")
    again = query(state_dir, "SELECT run_id, state FROM runs ORDER BY run_id", at=rows.lsn)
    assert list(again) == list(rows), "without an engine the folder says the same"


def test_a_stopped_engine_holds_no_query_up_for_long(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.query_calls.FIRST_WORD_S", 0.3)
    with opened(state_dir) as rt:
        list(rt.map(abs, range(50)))
        before = rt.query(AGREE)
        engine = OwnFamily(rt).engine
        send(engine, signal.SIGSTOP)
        try:
            stopped = rt.query(AGREE)
            assert (stopped.lsn, agreed(stopped)) == (before.lsn, 50)
        finally:
            send(engine, signal.SIGCONT)
        rt.submit(abs, -1).result(PATIENCE_S)
        assert agreed(rt.query(AGREE)) == 51


def test_checkpoints_that_cut_the_log_cut_no_query(state_dir: Path) -> None:
    with opened(state_dir, durability="os", checkpoint_bytes=20_000) as rt:
        first = rt.query(AGREE).lsn
        with load(rt):
            tasks = 0
            until(lambda: agreed(rt.query(AGREE)) and rt.statistics()["checkpoint"]["taken"] >= 3, "checkpoints")
            for _ in range(10):
                found = rt.query(AGREE)
                assert agreed(found) >= tasks
                tasks = agreed(found)
        assert min(int(path.stem) for path in (state_dir / "log").glob("*.seg")) > 1
        with pytest.raises(UnknownMoment):
            rt.query(AGREE, at=first)
        assert agreed(query(state_dir, AGREE)) >= tasks


def test_the_past_is_as_it_was_then(state_dir: Path, tmp_path: Path) -> None:
    gate, runs = tmp_path / "gate", tmp_path / "runs"
    sql = "SELECT state, ready, succeeded FROM runs WHERE run_id = 'half'"
    with opened(state_dir) as rt:
        flow = Flow("half")
        flow.add(handlers.hold, str(runs), "held", str(gate), after=[flow.add(abs, -1)])
        half = rt.submit(flow, run_id="half")
        await_lines(runs, 1)
        then = until(lambda: (found := rt.query(sql))[0].succeeded and found, "the first result in the log")
        moment = datetime.now(UTC)
        gate.touch()
        half.wait(PATIENCE_S)
        now = rt.query(sql)
        assert [tuple(then[0]), tuple(now[0])] == [("running", 1, 1), ("succeeded", 0, 2)]
        assert rt.query(sql, at=then.lsn) == then
        assert rt.query(sql, at=moment)[0] == then[0]
        with pytest.raises(UnknownMoment):
            rt.query(sql, at=now.lsn + 1000)
    assert query(state_dir, sql, at=then.lsn) == then


def test_asyncio_asks_the_same_and_a_cancel_ends_it(state_dir: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
            for number in range(5):
                await (await rt.submit(abs, -number))
                assert (await rt.query("SELECT count(*) FROM runs WHERE state = 'succeeded'")).scalar() == number + 1
            both = await asyncio.gather(*(rt.query(AGREE) for _ in range(4)))
            assert [agreed(found) for found in both] == [5] * 4
            asking = asyncio.ensure_future(rt.query(ENDLESS, timeout=None))
            ticks = 0
            while ticks < 20:  # the loop goes on meanwhile
                await asyncio.sleep(0)
                ticks += 1
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert agreed(await rt.query(AGREE)) == 5
            with pytest.raises(QueryTooLong):
                await rt.query(ENDLESS, timeout=0.2)
            with pytest.raises(QueryRefused):
                await rt.query("DELETE FROM runs")

    asyncio.run(main())


def test_threads_ask_at_once_and_a_closed_runtime_says_so(state_dir: Path) -> None:
    found: list[int] = []
    with opened(state_dir) as rt:
        list(rt.map(abs, range(1000)))
        threads = [threading.Thread(target=lambda: found.append(agreed(rt.query(AGREE)))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert found == [1000] * 8
    with pytest.raises(RuntimeClosed):
        rt.query(AGREE)


def test_a_fork_of_the_program_is_refused_and_the_parent_goes_on(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        rt.submit(abs, -1).result(PATIENCE_S)
        assert agreed(rt.query(AGREE)) == 1
        child = os.fork()
        if child == 0:
            try:
                rt.query(AGREE)
            except RuntimeClosed:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert agreed(rt.query(AGREE)) == 1


def test_a_shell_asks_a_folder_under_load(state_dir: Path) -> None:
    with opened(state_dir) as rt, load(rt):
        for _ in range(3):
            command = [sys.executable, "-m", "runtime", "query", str(state_dir), AGREE, "--json"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
            answer = json.loads(done.stdout)
            assert answer["rows"][0]["differ"] == 0
            assert answer["rows"][0]["tasks"] > 0
            assert rt.query("SELECT 1").lsn >= answer["lsn"] - 1000


def _cancels(story: list[StoryEvent]) -> list[tuple[int, str, str]]:
    words = ("cancel asked", "cancelled")
    return [(event.at_ns, event.event, event.text) for event in story if event.event in words]


def test_what_never_started_has_an_end_and_a_story_also_over_a_kill(state_dir: Path) -> None:
    """Cancelled while a pause held it: by itself, and with its run. Told by the log alone."""
    flow = Flow("held")
    first = flow.add(abs, -1)
    flow.add(abs, first)
    with opened(state_dir) as rt:
        rt.pause("type:default", by="ann")
        single, run = rt.submit(abs, -1), rt.submit(flow, run_id="held")
        before_ns = time.time_ns()
        assert single.cancel()
        assert run.cancel()
        single.wait(PATIENCE_S)
        run.wait(PATIENCE_S)
        after_ns = time.time_ns()
        live = [_cancels(handle.story()) for handle in (single, run)]
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        again = [_cancels(rt.handle(handle.run_id).story()) for handle in (single, run)]
        rows = rt.query("SELECT run_id, started_ns, ended_ns, ended_at FROM tasks WHERE state = 'cancelled'")
    assert live == again, "a recovery tells the same"
    assert [[event for _, event, _ in told] for told in live] == [["cancel asked", "cancelled"]] * 2
    assert len(rows) == 3
    spread_ns = 10**9  # the engine's wall clock is the monotonic one and an offset
    for row in rows:
        assert row.started_ns is None
        assert before_ns - spread_ns <= row.ended_ns <= after_ns + spread_ns
        assert row.ended_at

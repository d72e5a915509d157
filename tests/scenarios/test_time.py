"""S08, S37, S39: tasks that wait for their time survive crashes, clocks that are set, and being many."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import psutil
import pytest

from runtime import NodeState, NodeType, Retry, Runtime
from runtime.errors import TaskFailed
from tests.scenarios import handlers
from tests.scenarios.processes import OwnFamily, kill, send
from tests.scenarios.set_clock import engines_with_clock
from tests.scenarios.waiting import await_gone, await_lines, lines, pause, until, words

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1, prefetch=1)]
HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0
MB: Final = 1_000_000


# --- S08 ----------------------------------------------------------------------------------------------------------


def test_s08_moving_due_tasks_to_the_queue_loses_none_of_them(state_dir: Path, tmp_path: Path) -> None:
    runs, count = tmp_path / "runs", 503
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        sent = [rt.submit_nowait(handlers.mark, str(runs), str(i), delay=0.6 + i * 0.001) for i in range(count)]
        for moved in (50, 250):
            await_lines(runs, moved)
            engine = OwnFamily(rt).engine
            kill(engine)
            await_gone([engine])
        assert [handle.result(timeout=60) for handle in sent] == [str(i) for i in range(count)]
    assert set(words(runs)) == {str(i) for i in range(count)}


# --- S37 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_s", [-HOUR_S, DAY_S], ids=["an-hour-back", "a-day-on"])
def test_s37_intervals_take_their_time_whatever_the_wall_clock_says(
    state_dir: Path, tmp_path: Path, jump_s: float
) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with engines_with_clock(tmp_path) as clock, Runtime(state_dir, node_types=ONE) as rt:
        busy = rt.submit(handlers.hold, str(runs), "busy", str(gate))
        queued = rt.submit(handlers.mark, str(runs), "queued", expires=600)
        await_lines(runs, 1)
        began_ns = time.monotonic_ns()
        delayed = rt.submit(handlers.mark, str(runs), "delayed", delay=2)
        appointed = rt.submit(handlers.mark, str(runs), "appointed", due=datetime.now(UTC) + timedelta(hours=2))
        workers = OwnFamily(rt).workers
        clock.set(jump_s)
        gate.touch()
        assert (busy.result(timeout=30), queued.result(timeout=30)) == ("busy", "queued")
        assert delayed.result(timeout=30) == "delayed"
        took_s = (next(line.at_ns for line in lines(runs) if line.word == "delayed") - began_ns) / 1e9
        assert 1.9 < took_s < 10
        if jump_s < 0:
            assert appointed.status().state == NodeState.BACKOFF
            assert "(in 107" in appointed.why() or "(in 108" in appointed.why()  # three hours: 10,800 s
            clock.set(HOUR_S * 2 + 1)
        assert appointed.result(timeout=30) == "appointed"
        assert OwnFamily(rt).workers == workers
    assert set(words(runs).values()) == {1}


def test_s37_a_retry_takes_its_time_whatever_the_wall_clock_says(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with engines_with_clock(tmp_path) as clock, Runtime(state_dir, node_types=ONE) as rt:
        retry = Retry(max_attempts=2, base=1.5, jitter=False)
        handle = rt.options(retry=retry).submit(handlers.fail, str(runs), "fails")
        until(lambda: handle.status().state == NodeState.BACKOFF, "the retry to be planned")
        clock.set(-HOUR_S)
        with pytest.raises(TaskFailed):
            handle.result(timeout=30)
    first, second = lines(runs)
    assert 1.4 < (second.at_ns - first.at_ns) / 1e9 < 10


def test_s37_an_engine_that_slept_goes_on_without_a_storm(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with engines_with_clock(tmp_path) as clock, Runtime(state_dir, node_types=ONE) as rt:
        family = OwnFamily(rt)
        sent = [rt.submit(handlers.mark, str(runs), str(i), delay=0.5 + i / 100) for i in range(20)]
        sleepers = [family.engine, *family.workers]
        for pid in sleepers:
            send(pid, signal.SIGSTOP)
        clock.set(HOUR_S)
        pause(1.5)
        for pid in sleepers:
            send(pid, signal.SIGCONT)
        assert [handle.result(timeout=30) for handle in sent] == [str(i) for i in range(20)]
        assert [line.word for line in lines(runs)] == [str(i) for i in range(20)]
        assert [family.engine, *family.workers] == sleepers


# --- S39 ----------------------------------------------------------------------------------------------------------


def test_s39_a_hundred_thousand_tasks_of_tomorrow(state_dir: Path, tmp_path: Path) -> None:
    runs, near, far = tmp_path / "runs", 300, 100_000
    times = random.Random(39).sample(range(10_000), near)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with engines_with_clock(tmp_path) as clock:
        with Runtime(state_dir, node_types=ONE) as rt:
            assert rt.submit(handlers.mark, str(runs), "warm").result(timeout=30) == "warm"
            (worker,) = OwnFamily(rt).workers
            before = psutil.Process(worker).memory_info().rss
            for second in times:
                rt.submit_nowait(handlers.mark, str(runs), str(second), due=tomorrow - timedelta(seconds=second))
            for _ in range(far):
                rt.submit_nowait(handlers.mark, str(runs), "far", due=tomorrow + timedelta(hours=12))
            last = rt.submit(handlers.mark, str(runs), "far", delay=2 * DAY_S)
            assert last.why().startswith("it waits for its time: ")
            assert psutil.Process(worker).memory_info().rss - before < 4 * MB
            rt.close(drain=False)
        with Runtime(state_dir, node_types=ONE) as rt:
            assert rt.recovery["nodes_open"] == near + far + 1
            clock.set(DAY_S + 60)
            found = await_lines(runs, 1 + near, 60)
            assert rt.submit(handlers.mark, str(runs), "now").result(timeout=30) == "now"
            rt.close(drain=False)
    assert [line.word for line in found][1:] == [str(second) for second in sorted(times, reverse=True)]
    assert words(runs) == Counter({"warm": 1, "now": 1, **{str(second): 1 for second in times}})


# --- expiry, and what a restart makes of it -----------------------------------------------------------------------


def test_what_nobody_starts_in_time_fails_and_what_runs_goes_on(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, prefetch=5)]) as rt:
        runs_on = rt.submit(handlers.hold, str(runs), "runs", str(gate), expires=1.0)
        await_lines(runs, 1)
        held = [rt.submit(handlers.mark, str(runs), f"held {i}", expires=1.0) for i in range(10)]
        named = rt.submit(handlers.mark, str(runs), "named", run_id="named", expires=1.0)
        kept = rt.submit(handlers.mark, str(runs), "kept")
        for handle in (*held, named):
            with pytest.raises(TaskFailed, match="no attempt had started by") as failed:
                handle.result(timeout=30)
            assert failed.value.kind == "expired"
        gate.touch()
        assert (runs_on.result(timeout=30), kept.result(timeout=30)) == ("runs", "kept")
    assert words(runs) == {"runs": 1, "kept": 1}


def test_a_delay_and_an_expiry_outlive_the_program(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=ONE) as rt:
        delayed = rt.submit(handlers.mark, str(runs), "delayed", delay=1.0, run_id="delayed")
        expiring = rt.submit(handlers.mark, str(runs), "expiring", delay=0.2, expires=0.4)
        cancelled = rt.submit(handlers.mark, str(runs), "cancelled", delay=1.0)
        assert cancelled.cancel()
        rt.close(drain=False)
    pause(0.5)
    with Runtime(state_dir, node_types=ONE) as rt:
        with pytest.raises(TaskFailed, match="no attempt had started by"):
            rt.handle(expiring.run_id).result(timeout=30)
        assert rt.handle(delayed.run_id).result(timeout=30) == "delayed"
    assert words(runs) == {"delayed": 1}

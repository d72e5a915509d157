"""Total deadlines for real: what runs is stopped whatever it does, retries end, and a killed engine forgets none."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import AsyncRuntime, NodeType, Retry, Runtime
from runtime.errors import TaskFailed
from tests.scenarios import handlers, handlers_next
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.set_clock import engines_with_clock
from tests.scenarios.waiting import await_gone, await_lines, pause, words

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1, prefetch=1, grace=0.2)]
SLACK_S: Final = 5.0


def kind_of(handle: Any) -> str:
    with pytest.raises(TaskFailed) as failed:
        handle.result(timeout=30)
    return failed.value.kind


@pytest.mark.parametrize(
    ("handler", "mode"),
    [
        (handlers.sleep_in_c, "process"),
        (handlers.swallow_and_ignore_sigterm, "process"),
        (handlers.sleep_async, "asyncio"),
    ],
)
def test_what_runs_is_stopped_at_the_deadline_and_not_tried_again(
    state_dir: Path, tmp_path: Path, handler: Any, mode: Any
) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, mode=mode, grace=0.2)]) as rt:
        rt.submit(handlers.mark, str(runs), "warm").result(timeout=30)
        began = time.monotonic()
        handle = rt.options(retry=5).submit(handler, str(runs), "long", deadline=1.0)
        await_lines(runs, 2)
        assert "it must have ended in " in handle.why()
        assert kind_of(handle) == "deadline"
        assert 0.9 < time.monotonic() - began < 1.0 + 0.4 + SLACK_S
        assert rt.submit(handlers.mark, str(runs), "behind").result(timeout=30) == "behind"
    assert words(runs) == {"warm": 1, "long": 1, "behind": 1}


def test_all_attempts_and_waits_together_have_the_time_of_one_deadline(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=ONE) as rt:
        rt.submit(handlers.mark, str(runs), "warm").result(timeout=30)
        retry = Retry(max_attempts=1000, base=0.2, factor=1.0, jitter=False)
        began = time.monotonic()
        handle = rt.options(retry=retry).submit(handlers.fail, str(runs), "fails", deadline=1.0)
        with pytest.raises(TaskFailed, match="and the next would start after") as failed:
            handle.result(timeout=30)
        assert failed.value.kind == "deadline"
        assert time.monotonic() - began < 1.0 + SLACK_S
        assert 2 <= words(runs)["fails"] <= 5
        tasks = [rt.submit(handlers_next.time_left, timeout=timeout, deadline=20.0) for timeout in (5.0, 500.0)]
        near, far = (handle.result(timeout=30) for handle in tasks)
        assert (near <= 5.0, far <= 20.0, far > 10.0) == (True, True, True)


def test_a_deadline_survives_the_engine_and_the_program(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=ONE) as rt:
        rt.submit(handlers.mark, str(runs), "warm").result(timeout=30)
        runs_on = rt.submit(handlers.hold, str(runs), "holds", str(gate), deadline=2.5)
        queued = [rt.submit(handlers.mark, str(runs), f"queued-{i}", deadline=2.0) for i in range(3)]
        await_lines(runs, 2)
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        assert {kind_of(handle) for handle in (runs_on, *queued)} == {"deadline"}
        rt.pause("class:normal")
        last = rt.submit(handlers.mark, str(runs), "last", deadline=0.5)
        rt.close(drain=False)
    pause(0.6)
    with Runtime(state_dir, node_types=ONE) as rt:
        rt.resume("class:normal")
        assert kind_of(rt.handle(last.run_id)) == "deadline"
    assert set(words(runs)) == {"warm", "holds"}


def test_a_deadline_that_is_a_time_of_day_follows_the_clock_and_another_does_not(
    state_dir: Path, tmp_path: Path
) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with engines_with_clock(tmp_path) as clock, Runtime(state_dir, node_types=ONE) as rt:
        rt.submit(handlers.mark, str(runs), "warm").result(timeout=30)
        moment = rt.submit(
            handlers.hold, str(runs), "moment", str(gate), deadline=datetime.now(UTC) + timedelta(hours=1)
        )
        interval = rt.submit(handlers.mark, str(runs), "interval", deadline=600.0)
        await_lines(runs, 2)
        clock.set(7200.0)
        assert kind_of(moment) == "deadline"
        assert interval.result(timeout=30) == "interval"


def test_the_same_with_asyncio(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"

    async def main() -> str:
        async with AsyncRuntime(state_dir, node_types=ONE) as rt:
            handle = await rt.submit(handlers.sleep_in_c, str(runs), "long", deadline=0.3)
            with pytest.raises(TaskFailed) as failed:
                await handle
            return failed.value.kind

    assert asyncio.run(main()) == "deadline"

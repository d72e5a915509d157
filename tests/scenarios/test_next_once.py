"""Unique tasks and debounced calls for real: threads, killed engines, killed programs."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import AsyncRuntime, NodeType, Runtime
from tests.scenarios import handlers, handlers_next
from tests.scenarios.processes import OwnFamily, host_program, kill
from tests.scenarios.waiting import await_gone, await_lines, lines, words

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1, prefetch=1)]


def test_after_everything_was_killed_the_unique_task_and_the_last_call_are_there(
    state_dir: Path, tmp_path: Path
) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with host_program("joining", state_dir, runs, gate) as host:
        unique, debounced = host.read_line(), host.read_line()
        await_lines(runs, 1)
        everybody = [host.pid, *host.family.all]
        kill(*everybody)
        host.end()
        await_gone(everybody)
    with Runtime(state_dir, node_types=ONE) as rt:
        again = rt.submit(handlers.hold, str(runs), "another", str(gate), unique="report")
        assert again.run_id == unique
        gate.touch()
        assert again.result(timeout=30) == "unique"
        assert rt.handle(debounced).result(timeout=30) == "call-2"
        anew = rt.submit(handlers.mark, str(runs), "anew", unique="report")
        assert anew.run_id != unique
        assert anew.result(timeout=30) == "anew"
    assert set(words(runs)) == {"unique", "call-2", "anew"}
    assert words(runs)["call-2"] == 1


def test_unique_tasks_of_many_threads_never_overlap_while_the_engine_dies(state_dir: Path, tmp_path: Path) -> None:
    runs, threads_count, rounds = tmp_path / "runs", 4, 25
    results: list[str] = []

    def submit_all(rt: Runtime) -> None:
        for _ in range(rounds):
            results.append(rt.submit(handlers.mark_slowly, str(runs), "tick", 0.01, unique=True).result(timeout=60))

    with Runtime(state_dir, node_types=[NodeType("default", workers=4)]) as rt:
        threads = [threading.Thread(target=submit_all, args=(rt,)) for _ in range(threads_count)]
        for thread in threads:
            thread.start()
        for count in (5, 15):
            await_lines(runs, count)
            engine = OwnFamily(rt).engine
            kill(engine)
            await_gone([engine])
        for thread in threads:
            thread.join()
    assert results == ["tick"] * (threads_count * rounds)
    noted = lines(runs)
    assert rounds <= len(noted) < threads_count * rounds
    gaps_ms = [(after.at_ns - before.at_ns) / 1e6 for before, after in zip(noted, noted[1:], strict=False)]
    assert min(gaps_ms) > 9


def test_handles_of_debounced_calls_outlive_the_engine(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=ONE) as rt:
        calls = []
        for i in range(6):
            calls.append(rt.submit(handlers.mark, str(runs), f"call-{i}", debounce=600.0))
            if i in (1, 4):
                engine = OwnFamily(rt).engine
                kill(engine)
                await_gone([engine])
        assert "6 calls so far" in calls[2].why()
        last = time.monotonic_ns()
        calls.append(rt.submit(handlers.mark, str(runs), "call-6", debounce=1.0))
        assert [call.result(timeout=30) for call in calls] == ["call-6"] * 7
        assert len({call.run_id for call in calls}) == 1
    (line,) = lines(runs)
    assert line.word == "call-6"
    assert (line.at_ns - last) / 1e9 > 0.9


def test_large_arguments_of_debounced_calls_are_kept_until_a_later_call_is_durable(
    state_dir: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"

    def large(number: int) -> str:
        return f"{number}-{'x' * 400_000}"

    def folders() -> int:
        return len(list((state_dir / "blobs").iterdir()))

    with Runtime(state_dir, node_types=ONE) as rt:
        calls = [rt.submit(handlers_next.note_beginning, str(runs), large(i), debounce=600.0) for i in range(4)]
        assert 2 <= folders() <= 4
        rt.close(drain=False)
    with Runtime(state_dir, node_types=ONE) as rt:
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        again = rt.submit(handlers_next.note_beginning, str(runs), large(4), debounce=600.0)
        assert again.run_id == calls[0].run_id
        last = rt.submit(handlers_next.note_beginning, str(runs), large(5), debounce=0.5)
        assert last.result(timeout=30) == "5-x"
        assert rt.handle(calls[0].run_id).result(timeout=30) == "5-x"
    assert words(runs) == {"5-x": 1}


def test_calls_that_never_pause_start_at_the_latest_after_the_bound(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=ONE) as rt:
        rt.submit(handlers.mark, str(runs), "warm").result(timeout=30)
        calls: list[Any] = []
        began = time.monotonic()
        while time.monotonic() - began < 2.0:
            word = f"call-{len(calls)}"
            calls.append(rt.submit(handlers.mark, str(runs), word, debounce=0.5, debounce_max=0.6))
        results = [call.result(timeout=30) for call in calls]
    ran = [line.word for line in lines(runs)][1:]
    assert 2 <= len(ran) <= 5
    assert list(dict.fromkeys(results)) == ran
    for i, result in enumerate(results):
        assert int(result.removeprefix("call-")) >= i


def test_the_same_with_asyncio(state_dir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")

    async def main() -> list[str]:
        async with AsyncRuntime(state_dir, node_types=ONE) as rt:
            uniques = [await rt.submit(handlers.mark_slowly, runs, "unique", 0.5, unique=True) for _ in range(3)]
            calls = [await rt.submit(handlers.mark, runs, f"call-{i}", debounce=0.3) for i in range(3)]
            assert len({handle.run_id for handle in (*uniques, *calls)}) == 2
            return list(await asyncio.gather(*uniques, *calls))

    assert asyncio.run(main()) == ["unique"] * 3 + ["call-2"] * 3
    assert words(tmp_path / "runs") == {"unique": 1, "call-2": 1}

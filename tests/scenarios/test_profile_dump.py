"""Looking inside a runtime: who is there, what each thread and task is at, and what a stuck process is stuck in.

Acceptance test 11 (a wedge is named), and 12 in part (a process that is killed leaves no slot).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from runtime import AsyncRuntime, NodeType, Runtime
from runtime.host import kernel
from runtime.profile.captures.live import dump
from runtime.profile.model import Profile, StackSample
from runtime.profile.presence.control import ask, page_of_folder, rows_of, seen_page
from tests.scenarios import handlers_profile as handlers
from tests.scenarios.waiting import await_lines, until
from tests.tidy.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")]
PATIENCE_S = 60.0


def titles(rt: Runtime) -> list[str]:
    return sorted(row.process.title for row in rows_of(rt.state_dir))


def main_threads(profile: Profile) -> dict[str, StackSample]:
    """Samples of main threads by process."""
    return {sample.process.title: sample for sample, _ in profile if sample.process and sample.thread == "MainThread"}


def names(sample: StackSample) -> list[str]:
    return [frame.name for frame in sample.stack]


def test_every_process_is_there_and_is_called_what_it_is(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=[NodeType("http", workers=2)]) as rt:
        until(lambda: len(titles(rt)) == 5, "all processes to have a slot")
        assert titles(rt) == ["engine", "face", "spawner", "worker 1 [http]", "worker 2 [http]"]
        answers = ask(rt.state_dir, "count", timeout=PATIENCE_S)
        assert len(answers.rows) == 5
        assert not answers.missing
        books = {process.role: orjson.loads(content) for process, content in answers.rows}
        assert books["spawner"]["process"][0] == 3
        assert all(book["descriptor"][0] > 3 for book in books.values())
        for process, _ in answers.rows:
            if process.role != "face":
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes().rstrip(b"\0")
                assert line == f"mainspring: {process.title}".encode()
        profile = dump(rt.state_dir, patience=PATIENCE_S)
        assert set(main_threads(profile)) == set(titles(rt))
        threads = {sample.thread for sample, _ in profile if sample.process and sample.process.role == "engine"}
        assert "mainspring-log" in threads


def test_a_task_that_spins_is_named(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 11: in Python."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        handle = rt.submit(handlers.spin_until, str(path), str(gate))
        await_lines(path, 1)
        found = main_threads(dump(rt.state_dir, patience=PATIENCE_S))["worker 1 [cpu]"]
        assert names(found)[-1] == "spin_until"
        gate.touch()
        assert handle.result(timeout=PATIENCE_S) == "done"


@pytest.mark.parametrize("mode", ["process"])
def test_a_task_that_hangs_in_c_is_named(state_dir: Path, tmp_path: Path, mode: str) -> None:
    """Acceptance test 11: in C. The others are asked as ever."""
    path = tmp_path / "runs"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        rt.submit(handlers.sum_without_end, str(path))
        await_lines(path, 1)
        profile = dump(rt.state_dir)
        found = main_threads(profile)["worker 1 [cpu]"]
        assert names(found)[-1] == "sum_without_end"
        assert dict(found.labels)["state"] == "in C"
        rt.close(drain=False)


def test_tasks_of_handlers_are_in_the_books_and_gone_afterwards(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("io", workers=1, mode="asyncio")]) as rt:
        handle = rt.submit(handlers.wait_for_parts, str(path), str(gate))
        await_lines(path, 1)

        def books() -> list[int]:
            answers = ask(rt.state_dir, "count", timeout=PATIENCE_S)
            (found,) = [orjson.loads(content) for process, content in answers.rows if process.role == "worker"]
            return list(found["task"])

        assert books()[0] == 3
        profile = dump(rt.state_dir, patience=PATIENCE_S)
        tasks = [sample for sample, _ in profile if sample.thread == "tasks"]
        parts = [sample for sample in tasks if dict(sample.labels)["task"].startswith("part ")]
        assert [names(sample)[0] for sample in parts] == ["part", "part"]
        sites = {dict(sample.labels)["created"].rpartition(" ")[2] for sample in parts}
        assert {site.removesuffix(".<locals>.<listcomp>") for site in sites} == {"wait_for_parts"}
        (whole,) = [sample for sample in tasks if "wait_for_parts" in names(sample)]
        created = dict(whole.labels)["created"]
        assert created == f"{handlers.__file__}:{handlers.wait_for_parts.__code__.co_firstlineno} wait_for_parts"
        gate.touch()
        assert handle.result(timeout=PATIENCE_S) == 2
        until(lambda: books()[0] == 0, "the tasks to be released")
        live, created_count, released, _ = books()
        assert (live, created_count) == (0, released)


def test_a_worker_that_is_killed_leaves_no_slot(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        until(lambda: len(titles(rt)) == 4, "all processes to have a slot")
        (pid,) = [row["pid"] for row in rt.processes() if row["role"] == "worker"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: "worker 2 [cpu]" in titles(rt), "another worker")
        assert titles(rt) == ["engine", "face", "spawner", "worker 2 [cpu]"]


def test_the_engine_shows_what_it_counts(state_dir: Path, tmp_path: Path) -> None:
    """Runs and leases, also from a worker that does not answer; and who is between them by a title of its own."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        handles = [rt.submit(handlers.spin_until, str(path), str(gate)) for _ in range(3)]
        await_lines(path, 1)

        def engine() -> dict[str, list[int]]:
            answers = ask(rt.state_dir, "count", timeout=PATIENCE_S)
            (found,) = [orjson.loads(content) for process, content in answers.rows if process.role == "engine"]
            return dict(found)

        assert engine()["run"][0] == 3
        assert engine()["lease"][0] >= 1
        answers = ask(rt.state_dir, "count", timeout=PATIENCE_S)
        (face,) = [orjson.loads(content) for process, content in answers.rows if process.role == "face"]
        assert face["run"][0] == 3
        gate.touch()
        assert [handle.result(timeout=PATIENCE_S) for handle in handles] == ["done"] * 3
        until(lambda: engine()["run"][0] == 0 and engine()["lease"][0] == 0, "all to be over")


def test_two_runtimes_of_one_program_have_a_page_each(tmp_path: Path) -> None:
    with Runtime(tmp_path / "one", node_types=[NodeType("a", workers=1)]) as one:
        with Runtime(tmp_path / "two", node_types=[NodeType("b", workers=1)]) as two:
            until(lambda: len(titles(one)) == len(titles(two)) == 4, "all processes to have a slot")
            assert "worker 1 [a]" in titles(one)
            assert "worker 1 [b]" in titles(two)
            assert len(ask(two.state_dir, "count", timeout=PATIENCE_S).rows) == 4
        assert page_of_folder(tmp_path / "two") is None
        assert len(ask(one.state_dir, "count", timeout=PATIENCE_S).rows) == 4


ASKS = """
import sys
from runtime.profile.captures.live import dump
for sample, _ in dump(sys.argv[1], patience=60.0):
    if sample.thread == "MainThread":
        print(sample.process.title, sample.stack[-1].name if sample.stack else "", sep=":")
"""
"""Another program asks: the face is told by the spawner."""


def test_another_program_sees_the_face_while_its_main_thread_spins(state_dir: Path) -> None:
    """It has no handler of ours: the thread that reads what the engine says has it answer."""
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        until(lambda: len(titles(rt)) == 4, "all processes to have a slot")
        asking = subprocess.Popen([sys.executable, "-c", ASKS, str(state_dir)], stdout=subprocess.PIPE, cwd=ROOT)
        while asking.poll() is None:
            pass  # in Python, without a rest
        said = asking.communicate()[0].decode().splitlines()
    assert sorted(line.partition(":")[0] for line in said) == ["engine", "face", "spawner", "worker 1 [cpu]"]


def test_another_program_sees_an_asyncio_face(state_dir: Path) -> None:
    async def main() -> bytes:
        async with AsyncRuntime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
            await (await rt.submit(handlers.nothing))
            asking = await asyncio.create_subprocess_exec(
                sys.executable, "-c", ASKS, str(state_dir), stdout=subprocess.PIPE, cwd=ROOT
            )
            return (await asking.communicate())[0]

    said = asyncio.run(main()).decode().splitlines()
    assert sorted(line.partition(":")[0] for line in said) == ["engine", "face", "spawner", "worker 1 [cpu]"]


def test_a_checkpointer_has_a_slot_while_it_lives(state_dir: Path) -> None:
    """Errands too: whoever is forked by the spawner is there."""
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)], checkpoint_bytes=1 << 20) as rt:
        seen = set()
        with seen_page(rt.state_dir) as page:
            for _ in range(40):
                assert len(list(rt.map(handlers.same, ["x" * 2000] * 1000))) == 1000
                slots = [page.row(slot) for slot in range(8)]
                seen |= {row.process.role for row in slots if row is not None}
                if "checkpointer" in seen:
                    break
        assert "checkpointer" in seen

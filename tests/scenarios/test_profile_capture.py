"""One picture of all processes, from the program itself, the command line and over HTTP.

Acceptance test 8 (who is in the picture: born and dying ones included), 9 in part (protobuf over HTTP, read by an
independent decoder) and 12 in part (a process that is killed while it is recorded).
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from runtime import AsyncRuntime, NodeType, Runtime
from runtime.host import kernel
from runtime.profile.captures import capture
from runtime.profile.cli import main
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.doctor import py_spy
from runtime.profile.formats import flame, pprof
from runtime.profile.model import CPU, Profile
from tests.scenarios import handlers_capture as handlers
from tests.scenarios import handlers_sampling
from tests.scenarios.processes import is_denied
from tests.scenarios.waiting import await_lines, until
from tests.unit.profile.web.test_server import get

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")]
PATIENCE_S = 60.0


def titles(profile: Profile) -> set[str]:
    return {sample.process.title for sample in profile.samples if sample.process is not None}


def leaves(profile: Profile, role: str) -> set[str]:
    return {
        sample.stack[-1].name
        for sample in profile.samples
        if sample.process is not None and sample.process.role == role and sample.stack
    }


def worker_pids(rt: Runtime) -> list[int]:
    return [row.process.pid for row in rt.profile.processes() if row.process.role == "worker"]


class Put(NamedTuple):
    """What a process had put at a time: how often so far, and the last of it."""

    times: set[int]
    content: Profile


def test_one_picture_has_all_processes_who_was_born_and_who_was_killed(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 8. The capture ends when all of it has happened, not after a time."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    types = [NodeType("cpu", workers=3), NodeType("io", workers=1, mode="asyncio")]
    puts: dict[int, Put] = {}

    def put_by(pid: int, times: int = 1) -> bool:
        """Whether it has put something so often, which is looked at meanwhile."""
        parts = [one.read_bytes() for one in state_dir.glob(f"profile/ask-*/{pid}-*") if one.suffix[1:].isdecimal()]
        content = Profile().merge(*(Profile.from_json(part.partition(b"\n")[2]) for part in parts))
        if content.samples:
            seen = puts[pid].times if pid in puts else set()
            puts[pid] = Put({*seen, content.total().value}, content)
        return pid in puts and len(puts[pid].times) >= times

    with Runtime(state_dir, node_types=types) as rt:
        handles = [rt.submit(handlers.compute, str(path), str(gate)) for _ in range(2)]
        handles.append(rt.submit(handlers.start_child, str(path), str(gate)))
        handles.append(rt.options(node_type="io").submit(handlers_sampling.compute_in_tasks, str(path), str(gate)))
        noted = await_lines(path, 4)
        until(lambda: len(worker_pids(rt)) == 4, "four workers to have a slot")
        over = threading.Event()
        found: list[Profile] = []
        recording = threading.Thread(
            target=lambda: found.append(capture.cpu(rt, PATIENCE_S, stop=over.is_set)), name="recording"
        )
        recording.start()
        before = worker_pids(rt)
        until(lambda: all(put_by(pid) for pid in before), "each worker to have put something", PATIENCE_S)
        io = {row.process.pid for row in rt.profile.processes() if row.process.node_type == "io"}
        victim = next(row.pid for row in noted if row.word == "computes" and row.pid not in io)
        until(lambda: put_by(victim, 2), "the victim to have put something again", PATIENCE_S)
        kept = puts[victim].content
        os.kill(victim, signal.SIGKILL)
        until(lambda: set(worker_pids(rt)) - set(before), "another worker", PATIENCE_S)
        (born,) = set(worker_pids(rt)) - set(before)
        until(lambda: put_by(born), "the one that was born to have put something", PATIENCE_S)
        over.set()
        recording.join()
        gate.touch()
        for handle in handles:
            handle.wait(PATIENCE_S)
    (profile,) = found
    _check_who_is_there(profile, {*before, born})
    assert any("ended meanwhile" in note and str(victim) in note for note in profile.notes)
    of_victim = profile.filter(lambda sample: sample.process is not None and sample.process.pid == victim)
    assert of_victim.total().value >= kept.total().value, "only what came after the last flush is lost"
    again = pprof.decode(pprof.encode(profile))
    assert again.samples == profile.samples
    page = flame.page(profile)
    shown = [*titles(profile), "compute", "pack", "child: python", "MainThread", "part", "<task>"]
    missing = [
        name for name in shown if name.replace("<", "\\u003c").encode() not in page and name.encode() not in page
    ]
    assert not missing, "in one page"


def _check_who_is_there(profile: Profile, workers: set[int]) -> None:
    """Processes, threads and tasks."""
    assert workers <= {sample.process.pid for sample in profile.samples if sample.process is not None}
    assert {"face", "spawner", "engine"} <= titles(profile), "who supervises is there, too"
    assert "compute" in leaves(profile, "worker")
    assert any(name.startswith("child: python") for name in leaves(profile, "worker"))
    executor = profile.filter(lambda sample: sample.stack[-1].name == "pack")
    assert executor.samples
    assert "MainThread" not in {sample.thread for sample in executor.samples}
    assert any({"<task>", "part"} <= {frame.name for frame in sample.stack} for sample in profile.samples)


def test_the_command_line_shows_a_runtime(state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    state = str(state_dir)

    def shown(*argv: str, code: int = ProfileExit.OK) -> str:
        assert main(list(argv)) == code
        return capsys.readouterr().out

    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        handle = rt.submit(handlers.compute, str(path), str(gate))
        await_lines(path, 1)
        rows = orjson.loads(shown("ps", state, "--json"))
        assert {"face", "spawner", "engine", "worker 1 [cpu]"} <= {row["process"]["title"] for row in rows["processes"]}
        assert any(frame["name"] == "compute" for one in rows["stacks"] for frame in one["stack"])
        assert "worker 1 [cpu]" in shown("ps", state)
        assert "=== worker 1 [cpu]" in shown("dump", state)
        assert "engine" in shown("ps", state, "--kind", "lease")
        tree = shown("tree", state)
        assert f"run {handle.run_id}" in tree
        assert "in thread MainThread, " in tree or "in thread MainThread  (worker 1 [cpu])" in tree
        (row,) = [row for row in orjson.loads(shown("top", state, "-n", "1", "-d", "0.1", "--json")) if row["cpu"] > 0][
            -1:
        ]
        assert row["process"]["title"]
        assert "worker 1 [cpu]" in shown("top", state, "-n", "1", "-d", "0.1")
        assert any(fact["name"] == "processes" for fact in orjson.loads(shown("doctor", state, "--json")))
        out = tmp_path / "cpu.folded"
        assert "compute" in shown("cpu", state, "-d", "0.5", "-o", str(out))
        assert "compute" in out.read_text()
        shown("await", state, "-d", "0.5", "-o", str(tmp_path / "await.html"))
        shown("flight", state, "-o", str(tmp_path / "flight.pb.gz"))
        gate.touch()
        handle.result(timeout=PATIENCE_S)
    shown("ps", state, code=ProfileExit.ENVIRONMENT)


def test_go_urls_give_what_go_has_there(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        handle = rt.submit(handlers.compute, str(path), str(gate))
        await_lines(path, 1)
        server = rt.profile.serve()
        status, headers, content = get(server, "/debug/pprof/profile?seconds=0.5")
        assert (status, headers["Content-Type"]) == (200, "application/octet-stream")
        found = pprof.decode(content)
        assert found.kind == CPU
        assert "compute" in leaves(found, "worker")
        _, _, content = get(server, "/debug/pprof/goroutine")
        assert "worker 1 [cpu]" in titles(pprof.decode(content))
        assert get(server, "/debug/pprof/goroutine?debug=1")[2].startswith(b"goroutine profile: total ")
        assert b"compute(...)" in get(server, "/debug/pprof/goroutine?debug=2")[2]
        status, headers, _ = get(server, "/debug/pprof/goroutine?debug=2")
        assert status == 429
        assert 1 <= int(headers["Retry-After"]) <= 61
        for name in ("block", "mutex", "threadcreate", "process", "shm", "fd", "lease", "message", "task"):
            assert get(server, f"/debug/pprof/{name}")[0] == 200, name
        assert b"lease profile: total 1" in get(server, "/debug/pprof/lease?debug=1")[2]
        pid = worker_pids(rt)[0]
        assert titles(pprof.decode(get(server, f"/debug/pprof/goroutine?proc={pid}")[2])) == {"worker 1 [cpu]"}
        assert get(server, "/debug/pprof/process?seconds=0.1&debug=1")[2] == b"process profile: total 0\n"
        assert get(server, "/debug/pprof/heap")[0] == 404
        assert str(state_dir).encode() in get(server, "/debug/pprof/")[2]
        assert get(server, "/debug/runtime/flame?kind=live")[2].startswith(b"<!doctype html>")
        gate.touch()
        handle.result(timeout=PATIENCE_S)
    assert server.closing, "it ends with its runtime"


def test_an_event_loop_goes_on_while_it_records(state_dir: Path) -> None:
    async def run() -> Any:
        async with AsyncRuntime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
            recording = asyncio.create_task(rt.profile.cpu(PATIENCE_S))
            tasks = await rt.profile.tasks()
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)
            return tasks

    assert {"face", "engine"} <= titles(asyncio.run(run()))


def test_a_deadlock_is_a_cycle_in_the_tree_and_a_finding_for_the_command_line(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = tmp_path / "runs", str(state_dir)
    with Runtime(state_dir, node_types=[NodeType("io", workers=1, mode="asyncio")]) as rt:
        assert main(["leaks", state, "-d", "0.2", "--fail-on", "leak"]) == ProfileExit.OK
        rt.submit(handlers.deadlock, str(path))
        await_lines(path, 1)
        capsys.readouterr()
        tree = until(lambda: (main(["tree", state]), capsys.readouterr().out)[1], "a tree")
        assert tree.startswith("cycle of 2: part ")
        assert main(["leaks", state, "-d", "4", "--prove", "--fail-on", "info", "--json"]) != ProfileExit.OK
        found = orjson.loads(capsys.readouterr().out)["findings"]
        assert any(one["kind"] == "task" and one["site"][-1]["name"].startswith("deadlock") for one in found)
        rt.close(drain=False)


def test_the_real_py_spy_is_run_on_all_processes(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if py_spy() is None:
        pytest.skip("py-spy is not installed (it comes with the extra 'test')")
    path, gate, out = tmp_path / "runs", tmp_path / "gate", tmp_path / "spy.folded"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        handle = rt.submit(handlers.compute, str(path), str(gate))
        await_lines(path, 1)
        code = main(["py-spy", str(state_dir), "-d", "2", "-o", str(out)])
        gate.touch()
        handle.result(timeout=PATIENCE_S)
    said = capsys.readouterr()
    if code == ProfileExit.ENVIRONMENT and is_denied(said.err):
        pytest.skip(f"this system does not let py-spy look at processes: {said.err.splitlines()[0]}")
    assert code == ProfileExit.OK, said.err
    assert "compute (" in out.read_text()
    assert "worker 1 [cpu]" in said.out

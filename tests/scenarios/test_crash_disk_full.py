"""S12: the disk of the state folder is full, for real, and then it is not."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from runtime import NodeType, Runtime
from runtime.errors import DiskFull, QueueFull, TaskCancelled
from tests.scenarios import handlers
from tests.scenarios.disks import small_disk
from tests.scenarios.processes import OwnFamily, host_program, kill
from tests.scenarios.record import log_of
from tests.scenarios.waiting import await_gone, await_lines, pause, words

pytestmark = pytest.mark.slow

ONE = [NodeType("default", workers=1)]
PIECE = "x" * 20_000
PROMPT_NS = 3_000_000_000


class Scarce(NamedTuple):
    """A place for a state folder, how its space is taken, and how it is given back."""

    state_dir: Path
    take: Callable[..., None]
    give: Callable[..., None]


@contextmanager
def scarce(kind: str, tmp_path: Path) -> Iterator[Scarce]:
    """A small disk, or (for whom mounting is not permitted) a limit on the size of files."""
    if kind == "limit":
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

        def limit(rt: Runtime, limits: tuple[int, int]) -> None:
            psutil.Process(OwnFamily(rt).engine).rlimit(psutil.RLIMIT_FSIZE, limits)

        yield Scarce(tmp_path / "state", lambda rt: limit(rt, (300_000, -1)), lambda rt: limit(rt, unlimited))
        return
    with small_disk(kind, tmp_path) as disk:
        yield Scarce(disk.root / "state", lambda *_: disk.fill(300_000), lambda *_: disk.free())


@pytest.mark.parametrize("kind", ["tmpfs", "ext4", "limit"])
def test_s12_a_full_disk_is_said_and_survived(tmp_path: Path, kind: str) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with scarce(kind, tmp_path) as disk, Runtime(disk.state_dir, node_types=ONE) as rt:
        held = rt.submit(handlers.hold, str(runs), "held", str(gate))
        await_lines(runs, 1)
        disk.take(rt)
        acknowledged = []
        with pytest.raises(DiskFull) as full:
            for i in range(1_000):
                acknowledged.append(rt.submit(handlers.mark, str(runs), str(i) + PIECE))
        assert full.value.retryable
        assert acknowledged
        begun_ns = time.monotonic_ns()
        with pytest.raises(DiskFull):  # and so does the next one, at once
            rt.submit(handlers.mark, str(runs), "refused")
        with pytest.raises((DiskFull, QueueFull)):
            rt.submit_nowait(handlers.mark, str(runs), "refused")
        assert time.monotonic_ns() - begun_ns < PROMPT_NS
        assert rt.statistics()["log"]["state"] in ("full", "writing")
        gate.touch()  # what runs goes on while the disk is full
        await_lines(runs, 2)
        disk.give(rt)
        assert held.result(timeout=30) == "held"
        assert [h.result(timeout=30)[:5] for h in acknowledged] == [
            (str(i) + PIECE)[:5] for i in range(len(acknowledged))
        ]
        assert rt.submit(handlers.mark, str(runs), "after").result(timeout=30) == "after"
        counted = words(runs)
        assert all(counted[str(i) + PIECE] == 1 for i in range(len(acknowledged)))
        assert counted["after"] == 1
        rt.close()
        assert set(log_of(disk.state_dir).endings().values()) == {1}


@pytest.mark.parametrize("durability", ["fsync", "os", "none"])
def test_s12_questions_and_closing_work_while_the_disk_is_full(tmp_path: Path, durability: Any) -> None:
    runs = tmp_path / "runs"
    with scarce("tmpfs", tmp_path) as disk:
        with Runtime(disk.state_dir, node_types=ONE, durability=durability) as rt:
            before = rt.submit(handlers.mark, str(runs), "before")
            before.result(timeout=30)
            disk.take(rt)
            acknowledged = submit_until_full(rt, runs)
            begun_ns = time.monotonic_ns()
            assert rt.statistics()["log"]["state"] in ("full", "writing")
            told = answer_or_refusal(lambda: before.status().state.name)
            assert told in ("SUCCEEDED", "MS206")
            assert answer_or_refusal(acknowledged[-1].why)
            rt.close(timeout=5)
            assert time.monotonic_ns() - begun_ns < 2 * PROMPT_NS
        disk.give(rt)
        with Runtime(disk.state_dir, node_types=ONE, durability=durability) as rt:
            for handle in acknowledged if durability != "none" else []:
                rt.handle(handle.run_id).wait(timeout=30)
            assert rt.handle(before.run_id).result(timeout=30) == "before"
    counted = words(runs)
    assert durability == "none" or all(counted[str(i) + PIECE] for i in range(len(acknowledged)))


def test_s12_a_program_that_starts_on_a_full_disk_is_told_at_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with small_disk("tmpfs", tmp_path) as disk:
        with pytest.raises(DiskFull):
            disk.fill()
            Runtime(disk.root / "state", node_types=ONE)
        disk.free()
        with Runtime(disk.root / "state", node_types=ONE) as rt:
            handle = rt.submit(handlers.mark, str(runs), "task")
            handle.result(timeout=30)
        disk.fill()
        begun_ns = time.monotonic_ns()
        with pytest.raises(DiskFull):
            Runtime(disk.root / "state", node_types=ONE)
        assert time.monotonic_ns() - begun_ns < PROMPT_NS
        disk.free()
        with Runtime(disk.root / "state", node_types=ONE) as rt:
            assert rt.handle(handle.run_id).result(timeout=30) == "task"


def test_s12_a_program_is_told_at_once_that_the_log_has_no_room(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=ONE, checkpoint_bytes=None) as rt:
        handle = rt.submit(handlers.mark, str(runs), "task")
        for _ in rt.map(handlers.size_of, ["x" * 60_000] * 400):
            pass  # the log is larger than the shared memory of a start, which the limit below counts too
    (log,) = (state_dir / "log").iterdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (log.stat().st_size, before[1])
    )  # processes started from here have it too
    try:
        begun_ns = time.monotonic_ns()
        with pytest.raises(DiskFull):
            Runtime(state_dir, node_types=ONE, checkpoint_bytes=None)
        assert time.monotonic_ns() - begun_ns < PROMPT_NS
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with Runtime(state_dir, node_types=ONE) as rt:
        assert rt.handle(handle.run_id).result(timeout=30) == "task"


def test_s12_everything_killed_while_the_disk_is_full(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with scarce("tmpfs", tmp_path) as disk:
        with host_program("filling", disk.state_dir, runs) as host:
            assert host.read_line() == "open"
            disk.take()
            host.tell("go")
            acknowledged = int(host.read_line())
            family = host.family.all
            kill(host.pid, *family)
            host.end()
            await_gone(family)
        disk.give()
        with Runtime(disk.state_dir, node_types=ONE) as rt:
            found = [status.run_id for status in rt.runs()]
            for run_id in found:
                rt.handle(run_id).wait(timeout=30)
        assert set(log_of(disk.state_dir).endings().values()) == {1}
    assert set(words(runs)) >= {str(i) for i in range(acknowledged)}


def test_s12_a_large_argument_is_refused_clearly_while_there_is_no_room(tmp_path: Path) -> None:
    with scarce("tmpfs", tmp_path) as disk, Runtime(disk.state_dir, node_types=ONE) as rt:
        disk.take(rt)
        with pytest.raises(DiskFull):
            rt.submit(handlers.size_of, b"x" * 1_000_000)
        disk.give(rt)
        assert rt.submit(handlers.size_of, b"x" * 1_000_000).result(timeout=30) == 1_000_000


@pytest.mark.parametrize("handler", [handlers.large, handlers.large_text, handlers.large_texts])
@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_s12_a_large_result_waits_for_room(tmp_path: Path, mode: Any, handler: Any) -> None:
    runs = tmp_path / "runs"
    pools = [NodeType("default", workers=1, mode=mode)]
    with scarce("tmpfs", tmp_path) as disk, Runtime(disk.state_dir, node_types=pools) as rt:
        disk.take(rt)
        handle = rt.submit(handler, str(runs), "large", 1_000_000)
        given_up = rt.submit(handler, str(runs), "given up", 1_000_000)
        await_lines(runs, 1 if mode == "process" else 2)
        pause(0.2)
        assert not handle.done()
        if mode == "asyncio":
            assert given_up.cancel()
            with pytest.raises(TaskCancelled):
                given_up.result(timeout=30)
        disk.give(rt)
        result = handle.result(timeout=30)
        assert len(result[0] if isinstance(result, list) else result) == 1_000_000
        assert handle.status().attempts == 1
        del handle, given_up  # who holds a handle holds the file of its result, and the disk could not be taken away
    assert words(runs)["large"] == 1


def submit_until_full(rt: Runtime, runs: Path) -> list[Any]:
    """Submit until the disk is full; the handles of what was acknowledged."""
    acknowledged = []
    with pytest.raises(DiskFull):
        for i in range(1_000):
            acknowledged.append(rt.submit(handlers.mark, str(runs), str(i) + PIECE))
    return acknowledged


def answer_or_refusal(ask: Callable[[], str]) -> str:
    """What is answered, or the code of the error. Never nothing."""
    try:
        return ask()
    except DiskFull as full:
        return full.code

"""S08: history that outlives memory. Finished runs in the archive: found, listed, trimmed, over restarts and kills."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime import AsyncRuntime, Flow, NodeType, Retention, RunState, Runtime, export_runs, import_runs
from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.errors import ArchiveUnusable, MissingNode, PayloadError, RunArchived, RunNotEnded, TaskFailed, UnknownRun
from runtime.storage.archive import ArchiveFile
from runtime.storage.folder import ARCHIVE_NAME, StateFolder
from runtime.storage.verify_archive import verify_archive
from tests.scenarios import handlers, handlers_payloads
from tests.scenarios.processes import OwnFamily, kill, send
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow

ONE = [NodeType("default", workers=1)]
SMALL = 20_000
"""Of log, after which there is a checkpoint."""
ROUND = 500
FEW = Retention(runs=3)


def opened(state_dir: Path, **more: Any) -> Runtime:
    options = {"node_types": ONE, "durability": "os", "checkpoint_bytes": SMALL, "retention": FEW}
    return Runtime(state_dir, **{**options, **more})


def work(rt: Runtime, rounds: int = 1) -> None:
    """Some kilobytes of log, and as many runs."""
    for _ in range(rounds):
        assert len(list(rt.map(math.sqrt, range(ROUND)))) == ROUND


def archived(state_dir: Path) -> set[str]:
    with StateFolder.open(state_dir, create=False, owner=False) as folder:
        archive = ArchiveFile.read(folder.path, folder.uuid)
        if archive is None:
            return set()
        with archive:
            return {row.run_id for row in archive.summaries()}


def until_archived(rt: Runtime, *keys: str) -> None:
    """Work until these are in the archive."""

    def there() -> bool:
        work(rt)
        return archived(Path(rt.state_dir)) >= set(keys)

    until(there, f"an archive with {keys}")


def a_flow() -> Flow:
    flow = Flow("sums")
    left = flow.add(math.sqrt, 16.0, id="left")
    flow.add(math.pow, left, 2.0, id="right")
    return flow


def check_run(rt: Runtime, run_id: str) -> None:
    """All that can be asked of the run of `a_flow` has its answer."""
    handle = rt.handle(run_id)
    assert handle.done()
    assert handle.wait() == RunState.SUCCEEDED
    assert handle.result() == 16.0
    assert handle.results() == {"left": 4.0, "right": 16.0}
    assert handle.exception() is None
    status = handle.status()
    assert (status.run_id, status.name, status.counts.succeeded) == (run_id, "sums", 2)
    assert status.ended_ns is not None
    assert status.ended_ns >= status.created_ns
    assert [node.id for node in handle.nodes()] == ["left", "right"]
    assert handle.node("right").status().parents == (0,)
    assert handle.story()[0].event == "submitted"
    assert [event.event for event in handle.story()].count("run succeeded") == 1
    assert handle.node("left").output().text == ""
    assert "succeeded" in handle.node("left").why()
    counted = "(SELECT count(*) FROM tasks WHERE run_id = ?1)"
    rows = rt.query(f"SELECT state, tasks, {counted} FROM runs WHERE run_id = ?1", [run_id])
    assert list(rows) == [("succeeded", 2, 2)]
    with pytest.raises(MissingNode):
        handle.result("middle")


def test_a_run_is_found_in_memory_in_the_log_and_in_the_archive(state_dir: Path) -> None:
    """With every answer the same, in this program and in the next one."""
    with opened(state_dir) as rt:
        rt.submit(a_flow(), run_id="mine").wait(30)
        check_run(rt, "mine")
        for number in range(5):  # let go of, and no checkpoint yet
            rt.submit(math.sqrt, float(number)).result(timeout=30)
        until(lambda: "mine" not in {run.run_id for run in rt.runs(archived=False)}, "a memory that let go of it")
        assert "mine" not in archived(state_dir)
        check_run(rt, "mine")
        until_archived(rt, "mine")
        check_run(rt, "mine")
    with opened(state_dir) as rt:
        check_run(rt, "mine")
        with pytest.raises(UnknownRun):
            rt.handle("yours")


def test_single_tasks_and_failures_are_what_they_were(state_dir: Path, tmp_path: Path) -> None:
    with opened(state_dir) as rt:
        failed = rt.submit(handlers.fail, str(tmp_path / "runs"), "failed")
        before = failed.exception(timeout=30)
        assert before is not None
        rt.discard(everything=True)  # else it stays in memory for its letter
        squares = [rt.submit(math.sqrt, float(i)) for i in range(20)]
        assert [handle.result(timeout=30) for handle in squares] == [math.sqrt(i) for i in range(20)]
        until_archived(rt, failed.run_id)
        found = rt.handle(failed.run_id)
        assert found.wait() == RunState.FAILED
        with pytest.raises(TaskFailed) as again:
            found.result()
        assert (again.value.kind, again.value.message) == (before.kind, before.message)
        assert rt.handle(squares[3].run_id).result() == math.sqrt(3)


def test_the_list_is_of_all_that_is_kept_latest_first(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        names = [f"run-{number}" for number in range(12)]
        for name in names:
            rt.submit(a_flow(), run_id=name).wait(30)
        until_archived(rt, *names[:6])
        listed = [run.run_id for run in rt.runs() if run.run_id in names]
        assert listed == names[::-1]
        assert len({run.run_id for run in rt.runs(archived=False)} & set(names)) < len(names)


def test_the_same_for_asyncio(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        rt.submit(a_flow(), run_id="mine").wait(30)
        until_archived(rt, "mine")

    async def ask() -> None:
        async with AsyncRuntime(
            state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL, retention=FEW
        ) as rt:
            handle = await rt.handle("mine")
            assert await handle == 16.0
            assert await handle.results() == {"left": 4.0, "right": 16.0}
            assert (await handle.status()).name == "sums"
            assert (await handle.story())[0].event == "submitted"
            listed = [run.run_id async for run in rt.runs()]
            assert "mine" in listed
            assert len(set(listed)) == len(listed)
            assert "mine" not in [run.run_id async for run in rt.runs(archived=False)]
            with pytest.raises(UnknownRun):
                await rt.handle("yours")

    asyncio.run(ask())


def test_large_values_are_kept_with_their_run_and_go_with_it(state_dir: Path) -> None:
    blobs, kept = state_dir / "blobs", state_dir / "archive"
    with opened(state_dir) as rt:
        handle = rt.submit(handlers_payloads.make_array, 1 << 17, run_id="large")
        handle.result(timeout=60)
        del handle
        until_archived(rt, "large")
        until(lambda: not (blobs / "large").exists(), "the engine's own name of the file to go")
        found = rt.handle("large").result()
        assert isinstance(found, np.ndarray)
        assert float(found[-1]) == (1 << 17) - 1
        assert list((kept / "large").iterdir())
    with opened(state_dir, retention=Retention(runs=3, archive=0.001)) as rt:
        until(lambda: not kept.exists() or not list(kept.iterdir()), "the archive's files to go", 60)
        with pytest.raises(UnknownRun):
            rt.handle("large")


def test_what_is_over_goes_by_itself_and_space_returns(state_dir: Path) -> None:
    """While the engine works on; a size is a bound, too."""
    with opened(state_dir, retention=Retention(runs=3, archive=None)) as rt:
        for number in range(400):
            rt.submit(handlers_payloads.echo, [number] * 400, run_id=f"run-{number}")
        until_archived(rt, *(f"run-{number}" for number in range(390)))
        before = (state_dir / ARCHIVE_NAME).stat().st_size
    assert before > 300_000
    with opened(state_dir, retention=Retention(runs=3, archive=None, archive_bytes=before // 4)) as rt:

        def smaller() -> bool:
            work(rt)
            return (state_dir / ARCHIVE_NAME).stat().st_size < before // 2

        until(smaller, "an archive that shrinks", 60)
        assert rt.statistics()["archive"]["trouble"] == ""
        assert "run-0" not in archived(state_dir)
    with opened(state_dir, retention=Retention(runs=3, archive=0.1)) as rt:

        def empty() -> bool:
            work(rt)
            return not archived(state_dir) & {f"run-{number}" for number in range(400)}

        until(empty, "an archive without what is over", 60)


def test_kills_of_all_processes_lose_no_run(state_dir: Path) -> None:
    """Checkpointers, trimmers and engines: each run that ended is found afterwards, once."""
    names = [f"run-{number}" for number in range(40)]
    with opened(state_dir, durability="fsync") as rt:
        family = OwnFamily(rt)
        for number, name in enumerate(names):
            rt.submit(a_flow(), run_id=name).wait(60)
            work(rt)
            for process in ("ms-checkpointer", "ms-archive"):
                for pid in family.named(process) if number % 3 else ():
                    send(pid, signal.SIGKILL)
            if number % 16 == 9:
                kill(family.engine)
        until_archived(rt, *names[:30])
        listed = [run.run_id for run in rt.runs() if run.run_id in names]
        assert listed == names[::-1]
        for name in names[::5]:
            check_run(rt, name)
    with opened(state_dir) as rt:
        assert [run.run_id for run in rt.runs() if run.run_id in names] == names[::-1]


def test_without_checkpoints_there_is_none(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", retention=FEW, checkpoint_bytes=None) as rt:
        rt.submit(a_flow(), run_id="mine").wait(30)
        work(rt, 3)
        with pytest.raises(UnknownRun):
            rt.handle("mine")
    assert not (state_dir / ARCHIVE_NAME).exists()


def test_what_went_while_there_was_no_archive_has_lost_its_large_values_only(state_dir: Path) -> None:
    """The engine that let go of it removed their files; that is no damage."""
    work_of = {"node_types": ONE, "durability": "os", "retention": FEW}
    with Runtime(state_dir, **work_of, checkpoint_bytes=None) as rt:
        rt.submit(handlers_payloads.make_array, 1 << 17, run_id="large").result(timeout=60)
        rt.submit(a_flow(), run_id="mine").wait(30)
        for number in range(5):
            rt.submit(math.sqrt, float(number)).result(timeout=30)
        until(lambda: not (state_dir / "blobs" / "large").exists(), "its file to go")
    with opened(state_dir) as rt:
        until_archived(rt, "mine", "large")
        check_run(rt, "mine")
        assert rt.handle("large").wait() == RunState.SUCCEEDED
        with pytest.raises(PayloadError):
            rt.handle("large").result()
    found = verify_archive(state_dir)
    assert found.problems == ()
    assert "1 archived run without" in found.notes[0]


def test_a_run_is_forgotten_by_hand_wherever_it_is(state_dir: Path, tmp_path: Path) -> None:
    with opened(state_dir) as rt:
        for name in ("archived", "let-go", "remembered"):
            rt.submit(a_flow(), run_id=name).wait(30)
            if name == "archived":
                until_archived(rt, name)
            if name == "let-go":
                for number in range(3):
                    rt.submit(math.sqrt, float(number)).result(timeout=30)
        for name in ("archived", "let-go", "remembered"):
            check_run(rt, name)
            rt.forget(name)
            for gone in (rt.handle, rt.forget):
                with pytest.raises(UnknownRun):
                    gone(name)
        several = [rt.submit_nowait(math.sqrt, float(number)) for number in range(2)]
        assert [handle.result(timeout=30) for handle in several] == [0.0, 1.0]
        flow = Flow("held")
        flow.add(handlers.hold, str(tmp_path / "runs"), "held", str(tmp_path / "gate"))
        held = rt.submit(flow, run_id="open")
        with pytest.raises(RunNotEnded):
            rt.forget(held)
        (tmp_path / "gate").touch()
        held.wait(30)
        rt.submit(a_flow(), run_id="last").wait(30)
        until_archived(rt, "last")
        listed = {run.run_id for run in rt.runs()}
        assert not listed & {"archived", "let-go", "remembered"}
        command = [sys.executable, "-m", "runtime", "forget", str(state_dir)]
        for name in ("last", rt.submit(a_flow(), run_id="memory").run_id):
            rt.handle(name).wait(30)
            said = subprocess.run([*command, name], capture_output=True, check=True).stdout
            assert said.decode().split() == ["forgot", "run", name]
        rt.submit(a_flow(), run_id="left").wait(30)
        until_archived(rt, "left")
    with opened(state_dir) as rt:
        assert not {run.run_id for run in rt.runs()} & {"archived", "let-go", "remembered", "last", "memory"}
    assert subprocess.run([*command, "left"], capture_output=True, check=False).returncode == 0
    assert b"MS208" in subprocess.run([*command, "left"], capture_output=True, check=False).stderr


def test_what_cannot_be_done_with_an_archived_run_is_said(state_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By both faces and from a shell: it is known, it has ended, and it is read where reading is enough."""
    with opened(state_dir) as rt:
        rt.submit(a_flow(), run_id="old").wait(30)
        until_archived(rt, "old")
        handle = rt.handle("old")
        assert "ended: succeeded" in handle.why()
        assert handle.cancel() is handle.node("left").cancel() is False
        assert handle.set_priority("low") is rt.set_priority("old", "low") is False
        assert list(rt.dead(run="old")) == []
        for ask in (rt.rerun, handle.rerun, rt.discard, rt.replay):
            with pytest.raises(RunArchived, match="run 'old' is in the archive only"):
                ask("old") if ask != handle.rerun else handle.rerun()  # type: ignore[operator]
        with pytest.raises(UnknownRun):
            rt.rerun("never")
        for command, code, text in (
            (["why"], Exit.OK, "ended: succeeded"),
            (["priority"], Exit.OK, "had ended before"),
            (["dead", "--run"], Exit.OK, "no dead letters"),
            (["rerun"], Exit.USAGE, "MS135"),
        ):
            more = ["low"] if command == ["priority"] else []
            assert main([command[0], str(state_dir), *command[1:], "old", *more]) == code, command
            said = capfd.readouterr()
            assert text in said.out + said.err

    async def awaited() -> None:
        async with AsyncRuntime(
            state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL, retention=FEW
        ) as rt:
            handle = await rt.handle("old")
            assert "ended: succeeded" in await handle.why()
            assert await handle.cancel() is False
            assert await rt.set_priority("old", "low") is False
            for call in (rt.rerun("old"), handle.rerun(), rt.replay("old/0")):
                with pytest.raises(RunArchived):
                    await call

    asyncio.run(awaited())


def test_export_takes_archived_runs_where_it_is_asked_to(state_dir: Path, tmp_path: Path) -> None:
    with opened(state_dir) as rt:
        rt.submit(a_flow(), run_id="mine").wait(30)
        rt.submit(handlers_payloads.make_array, 1 << 17, run_id="large").result(timeout=60)
        until_archived(rt, "mine", "large")
        lines = subprocess.run(
            [
                sys.executable,
                "-m",
                "runtime",
                "export",
                str(state_dir),
                "--archived",
                "--run",
                "mine",
                "--run",
                "large",
            ],
            capture_output=True,
            check=True,
        ).stdout
        without = subprocess.run(
            [sys.executable, "-m", "runtime", "export", str(state_dir), "--run", "mine"],
            capture_output=True,
            check=False,
        )
        assert b"MS121" in without.stderr
    with (tmp_path / "file").open("wb") as file:
        everything = export_runs(state_dir, file, archived=True)
    assert everything.missing == ()
    assert import_runs(tmp_path / "copy", lines.splitlines()).runs == 2
    with Runtime(tmp_path / "copy", node_types=ONE, durability="os") as rt:
        check_run(rt, "mine")
        assert float(rt.handle("large").result()[-1]) == (1 << 17) - 1


def test_verify_looks_into_the_archive(state_dir: Path) -> None:
    def verified() -> tuple[int, Any]:
        said = subprocess.run(
            [sys.executable, "-m", "runtime", "verify", str(state_dir), "--json"], capture_output=True, check=False
        )
        return said.returncode, json.loads(said.stdout)

    with opened(state_dir) as rt:
        rt.submit(handlers_payloads.make_array, 1 << 17, run_id="large").result(timeout=60)
        until_archived(rt, "large")
    code, report = verified()
    assert code == 0
    assert report["archive"]["runs"] > 0
    assert report["archive"]["problems"] == []
    (blob,) = (state_dir / "archive" / "large").iterdir()
    blob.unlink()
    code, report = verified()
    assert code
    assert report["opens"]
    assert "large" in report["archive"]["problems"][0]
    with sqlite3.connect(state_dir / ARCHIVE_NAME) as database:
        database.execute("UPDATE part SET body = x'00'")
    database.close()
    assert "damaged" in str(verified()[1]["archive"]["problems"])
    with opened(state_dir) as rt:
        with pytest.raises(ArchiveUnusable):
            rt.handle("large")
        work(rt)

"""Runtime: opening, closing, forks, workers, signals, and what it says of itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from runtime import Flow, NodeType, Runtime
from runtime.errors import (
    ConfigurationError,
    EngineUnavailable,
    NestedRuntime,
    NotAStateFolder,
    RuntimeClosed,
    StateFolderInUse,
    TaskFailed,
    WaitTimeout,
)
from runtime.host.handlers import ROLE
from runtime.storage.folder import StateFolder
from runtime.testing import InlineStarter
from tests.unit.runtime import handlers
from tests.unit.runtime.fake_engine import FakeEngine
from tests.unit.runtime.handlers import add_one, fail, through_gate


def opened(folder: Path, **options: Any) -> Runtime:
    return Runtime(folder, starter=InlineStarter(folder, ["default"]), durability="none", **options)


# --- opening ----------------------------------------------------------------------------------------------------------


def test_opening_makes_the_folder(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        assert rt.state_dir == str(state_dir)
        assert (state_dir / "mainspring.json").is_file()
        assert "open" in repr(rt)
        assert rt.recovery == {}
    assert "closed" in repr(rt)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NotAStateFolder):
        Runtime(tmp_path)


def test_a_folder_in_use_is_refused_with_the_pid(state_dir: Path) -> None:
    with StateFolder.open(state_dir, holder_pid=os.getppid()), pytest.raises(StateFolderInUse) as refused:
        Runtime(state_dir)
    assert refused.value.pid == os.getppid()


def test_settings_are_checked(state_dir: Path) -> None:
    with pytest.raises(ConfigurationError):
        Runtime(state_dir, durability="sometimes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        Runtime(state_dir, node_types=[NodeType("a"), NodeType("a")])
    assert not state_dir.exists()


def test_a_runtime_inside_a_worker_is_refused(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ROLE, "worker", True)
    with pytest.raises(NestedRuntime):
        Runtime(state_dir)


def test_an_engine_that_cannot_start_leaves_nothing(state_dir: Path) -> None:
    engine = FakeEngine()
    engine.refuse_start = EngineUnavailable("no processes left")
    with pytest.raises(EngineUnavailable):
        Runtime(state_dir, starter=engine)
    assert engine.stopped


# --- closing ----------------------------------------------------------------------------------------------------------


def test_closing_twice_is_harmless(state_dir: Path) -> None:
    rt = opened(state_dir)
    rt.close()
    rt.close()
    with pytest.raises(RuntimeClosed):
        rt.submit(add_one, 1)


def test_closing_makes_durable_what_was_submitted(state_dir: Path) -> None:
    rt = opened(state_dir)
    handles = [rt.submit_nowait(add_one, i) for i in range(500)]
    rt.close()
    assert rt._client.outbox.acked == 500
    for handle in handles:
        if handle.done() and handle._state < 4:
            assert handle.result(0)


def test_leaving_with_ctrl_c_does_not_wait(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drains: list[bool] = []
    for error in (KeyboardInterrupt, ValueError, SystemExit, None):
        rt = opened(state_dir)
        close = rt._client.close
        monkeypatch.setattr(
            rt._client, "close", lambda drain, timeout, close=close: (drains.append(drain), close(drain, timeout))
        )
        with pytest.raises(error) if error else nullcontext(), rt:
            if error is not None:
                raise error
    assert drains == [False, True, True, True]


def test_a_runtime_that_was_not_closed_warns(state_dir: Path) -> None:
    rt = opened(state_dir)
    client = rt._client
    at_exit = rt._at_exit
    holder = [rt]
    del rt
    with pytest.warns(ResourceWarning, match="was not closed"):
        holder.clear()
    at_exit()  # what Python calls at its end
    assert client.closed


def test_the_end_of_the_program_closes(state_dir: Path) -> None:
    rt = opened(state_dir)
    rt._at_exit()
    assert rt._client.closed


# --- inside a program -------------------------------------------------------------------------------------------------


def test_any_thread_may_submit(rt: Runtime) -> None:
    totals: list[int] = []

    def work(start: int) -> None:
        handles = [rt.submit_nowait(add_one, i) for i in range(start, start + 200)]
        totals.append(sum(h.result(30) for h in handles) + rt.submit(add_one, 0).result(30))

    threads = [threading.Thread(target=work, args=(i * 200,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(totals) == sum(range(1, 1201)) + 6


def test_a_fork_refuses_at_once(rt: Runtime) -> None:
    pid = os.fork()
    if pid == 0:  # the child must not return into pytest
        code = 1
        try:
            try:
                rt.submit(add_one, 1)
            except RuntimeClosed as refused:
                code = 0 if "another process" in str(refused) else 2
            rt.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert rt.submit(add_one, 1).result(10) == 2


def test_run_waits_and_raises(rt: Runtime) -> None:
    flow = Flow("f")
    flow.add(add_one, 1)
    assert rt.run(flow).result() == 2
    sad = Flow("sad")
    sad.add(fail, "broken")
    with pytest.raises(TaskFailed, match="broken"):
        rt.run(sad)
    slow = Flow("slow")
    slow.add(through_gate, 1)
    with pytest.raises(WaitTimeout):
        rt.run(slow, timeout=0.01)
    handlers.GATE.set()


def test_run_shows_progress_when_asked(rt: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow("shown")
    flow.add(add_one, 1)
    rt.run(flow, progress=True)
    assert "shown" in capsys.readouterr().err
    rt.run(flow)
    assert capsys.readouterr().err == ""


def test_the_engine_restarts_under_open_handles(state_dir: Path) -> None:
    starter = InlineStarter(state_dir, ["default"])
    with Runtime(state_dir, starter=starter, durability="none") as rt:
        handlers.GATE.set()
        before = [rt.submit_nowait(through_gate, i) for i in range(300)]
        starter.crash()
        after = [rt.submit(add_one, i) for i in range(10)]
        assert [h.result(30) for h in before] == list(range(300))
        assert [h.result(30) for h in after] == list(range(1, 11))


def test_questions_of_a_thread_are_answered_while_another_closes(state_dir: Path) -> None:
    rt = opened(state_dir)
    handle = rt.submit(add_one, 1)
    handle.result(10)
    found: list[Any] = []

    def ask() -> None:
        try:
            while True:
                found.append(handle.status().name)
        except RuntimeClosed:
            found.append("closed")

    thread = threading.Thread(target=ask)
    thread.start()
    rt.close()
    thread.join(20)
    assert found[-1] == "closed"


SIGTERM = """
import os, signal, sys, threading
from runtime.engine import Runtime
from runtime.testing import InlineStarter

folder, mode = sys.argv[1:]
told = []
if mode == "chained":
    signal.signal(signal.SIGTERM, lambda *_: told.append("before"))
with Runtime(folder, starter=InlineStarter(folder, ["default"]), durability="none", handle_sigterm=True) as rt:
    rt.submit(abs, -1).result(10)
    os.kill(os.getpid(), signal.SIGTERM)
    print("went on", told)
print("restored", signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
"""


@pytest.mark.slow
def test_sigterm_ends_in_order_or_is_chained(state_dir: Path, tmp_path: Path) -> None:
    def play(mode: str) -> tuple[int, list[str]]:
        command = [sys.executable, "-c", SIGTERM, str(tmp_path / mode), mode]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    assert play("alone") == (128 + signal.SIGTERM, [])
    assert play("chained") == (0, ["went on ['before']", "restored True"])

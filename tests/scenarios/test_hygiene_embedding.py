"""S49, S50, S51: inside other people's programs: their signals, their event loops, their forked web workers."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from runtime import NodeState, NodeType, Runtime, errors
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.processes import ROOT, Host
from tests.scenarios.waiting import await_gone, until

pytestmark = pytest.mark.slow

POOL: Final = [NodeType("cpu", workers=1)]


@contextmanager
def strict_program(name: str, *arguments: object) -> Iterator[Host]:
    """A host program of its own session, in development mode, with warnings as errors."""
    process = subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-m", f"tests.scenarios.programs.{name}", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    host = Host(process)
    try:
        yield host
    finally:
        host.kill_all()
        process.communicate()


# --- S49 -------------------------------------------------------------------------------------------------------------


def test_s49_no_handler_unless_asked(state_dir: Path) -> None:
    with strict_program("signals", "untouched", state_dir) as host:
        assert host.read_line() == "True"
        assert host.end() == 0
        assert host.errors() == ""


@pytest.mark.parametrize("name", ["in a thread", "after close"])
def test_s49_ctrl_c_is_not_dead_afterwards(state_dir: Path, name: str) -> None:
    """Also when the runtime lived in a thread that is not the main one, or had asked for SIGTERM."""
    with strict_program("signals", name, state_dir) as host:
        if name == "in a thread":
            assert host.read_line() == "[1] True"
        assert host.read_line() == "waiting"
        os.kill(host.pid, signal.SIGINT)
        assert host.read_line() == "interrupted"
        assert host.end() == 0
        assert host.errors() == ""


def test_s49_ctrl_c_while_a_result_is_waited_for(state_dir: Path) -> None:
    """The wait ends at once, the engine with it, and the task runs again when the folder is opened."""
    with strict_program("signals", "while waiting", state_dir) as host:
        assert host.read_line() == "waiting"
        family = host.family.all
        os.kill(host.pid, signal.SIGINT)
        assert host.read_line() == "interrupted"
        assert host.end(timeout_s=5) == -signal.SIGINT
        await_gone(family, timeout_s=5)
        assert host.errors().rstrip().endswith("KeyboardInterrupt")
    Path(f"{state_dir}.never").touch()
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        assert rt.handle("held").wait(timeout=30) == "succeeded"


def test_s49_ctrl_c_on_a_terminal_reaches_the_program_only(state_dir: Path) -> None:
    """A terminal signals its whole foreground group; engine and workers are not in it."""
    with strict_program("signals", "group", state_dir) as host:
        assert host.read_line() == "waiting"
        assert all(os.getpgid(pid) != host.pid for pid in host.family.all)
        os.killpg(host.pid, signal.SIGINT)
        assert host.read_line() == "True 1"
        assert host.end() == 0
        assert host.errors() == ""


def test_s49_old_handlers_are_chained_and_restored(state_dir: Path) -> None:
    with strict_program("signals", "chained", state_dir) as host:
        assert host.read_line() == "['second', 'first']"
        assert host.read_line() == "True"
        assert host.read_line() == "['second', 'first', 'second', 'first']"
        assert host.read_line() == "True"
        assert host.end() == 0
        assert host.errors() == ""


def test_s49_sigterm_drains_when_asked(state_dir: Path) -> None:
    with strict_program("signals", "drained", state_dir) as host:
        assert host.read_line() == "waiting"
        os.kill(host.pid, signal.SIGTERM)
        Path(f"{state_dir}.gate").touch()
        assert host.end(timeout_s=15) == 128 + signal.SIGTERM
        assert host.errors() == ""
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        status = rt.handle("held").node(0).status()
        assert (status.state, status.attempts) == (NodeState.SUCCEEDED, 1)


def test_s49_sigterm_in_another_thread_is_refused_and_nothing_is_left(state_dir: Path) -> None:
    """Python allows handlers in the main thread only: said before anything is started."""
    found: list[BaseException] = []

    def work() -> None:
        try:
            Runtime(state_dir, node_types=POOL, handle_sigterm=True)
        except errors.ConfigurationError as refused:
            found.append(refused)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "main thread only" in str(found[0])
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        assert rt.submit(hygiene.same, 1).result(timeout=30) == 1


@pytest.mark.skipif(importlib.util.find_spec("uvicorn") is None, reason="uvicorn is not installed")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_s49_inside_uvicorn(state_dir: Path, kind: str, loop: str, signum: signal.Signals) -> None:
    """It takes the signals for itself, shuts down in order, and nothing is left."""
    with strict_program("web", state_dir, kind, loop) as host:
        port = host.read_line()
        for word in ("one", "two"):
            assert fetch(port, word) == f"/{word}"
        family = host.family.all
        os.kill(host.pid, signum)
        assert host.read_line() == "closed"
        assert host.end() in (0, -signum)  # uvicorn lets the signal take its course, once it has shut down
        await_gone(family)
        said = host.errors().rstrip()
    assert said == "" if signum == signal.SIGTERM else said.endswith("KeyboardInterrupt")


def fetch(port: str, word: str) -> str:
    """GET a path; the server may just be starting."""

    def get() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{word}", timeout=30) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    return until(get, "an answer")


# --- S50 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_s50_where_a_loop_is_running_already(state_dir: Path, loop: str) -> None:
    """The blocking face in a coroutine and in cells; the asyncio face beside it, in the same loop."""
    with strict_program("loops", state_dir, loop) as host:
        assert host.read_line() == "done"
        assert host.end() == 0
        assert host.errors() == ""


# --- S51 -------------------------------------------------------------------------------------------------------------


def test_s51_of_forked_web_workers_one_owns_the_folder(state_dir: Path) -> None:
    """The others fail at once, with the owner's pid; when it has gone, another one can open."""
    with strict_program("prefork", state_dir, 4, "each") as host:
        host.read_line()
        lines = [host.read_line().split() for _ in range(4)]
        (owner,) = [words[1] for words in lines if words[0] == "owner"]
        refused = [words for words in lines if words[0] == "refused"]
        assert len({words[1] for words in refused}) == 3
        assert [words[2:] for words in refused] == [[owner, "True", "True"]] * 3
        with pytest.raises(errors.StateFolderInUse) as used:
            Runtime(state_dir, node_types=POOL)
        assert used.value.pid == int(owner)
        Path(f"{state_dir}.gate").touch()
        assert host.read_line() == "ended [0, 0, 0, 0]"
        assert host.end() == 0
        assert host.errors() == ""
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        assert rt.submit(hygiene.same, 1).result(timeout=30) == 1


def test_s51_workers_forked_after_the_engine_was_started_are_told_so(state_dir: Path) -> None:
    """Their master's runtime is not theirs, closing it does nothing to the master's, and their ends harm nobody."""
    with strict_program("prefork", state_dir, 1, "before") as host:
        host.read_line()
        assert host.read_line().split()[0] == "refused"
        assert host.read_line() == "ended [0]"
        assert host.read_line() == "result 2"
        assert host.end() == 0
        assert host.errors() == ""


def test_s51_a_fork_that_outlives_its_master_does_not_keep_the_engine(state_dir: Path) -> None:
    """It holds copies of the master's sockets; the engine ends with the master all the same."""
    with strict_program("prefork", state_dir, 2, "before") as host:
        until(lambda: len(host.family.workers) == 1, "a worker")
        engine, spawner, workers = host.family.engine, host.family.spawner, host.family.workers
        while host.read_line() != "survivor":
            pass
        assert host.end() == -signal.SIGKILL
        await_gone([engine, spawner, *workers], timeout_s=3)
        with Runtime(state_dir, node_types=POOL, durability="os") as rt:
            assert rt.submit(hygiene.same, 1).result(timeout=30) == 1
        Path(f"{state_dir}.gate").touch()

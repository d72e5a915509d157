"""The spawner with real processes: who dies with whom, and that nothing stays."""

from __future__ import annotations

import ast
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.protocol.errors import EngineUnavailable
from runtime.host.launch import Launcher

ENTRIES = "tests.unit.host.spawner_entries"
DEADLINE_S = 20.0
pytestmark = pytest.mark.slow
PROMPT_S = 1.0


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    launcher = Launcher()
    launcher.start()
    yield launcher
    launcher.stop()


class Talk:
    """An engine of `spawner_entries`, and what it writes."""

    def __init__(self, launcher: Launcher, folder: Path, then: str, workers: int = 0, entry: str = "engine") -> None:
        self.launcher = launcher
        self.pids_path = folder / "pids"
        self.events: list[dict[str, Any]] = []
        read_fd, write_fd = os.pipe()
        config = {"pids": str(self.pids_path), "workers": workers, "then": then}
        launcher.start_engine(config, [write_fd], entry=f"{ENTRIES}:{entry}")
        os.close(write_fd)
        self.file = os.fdopen(read_fd)

    def event(self, did: str) -> dict[str, Any]:
        """The first event of this name."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            for event in self.events:
                if event["did"] == did:
                    return event
            assert time.monotonic() < deadline, f"{did} did not come: {self.events}"
            select.select([self.launcher.fileno()], [], [], 1.0)
            self.events += self.launcher.receive()

    def pids(self) -> list[int]:
        """Pids that the workers wrote."""
        return [int(line) for line in self.pids_path.read_text().split()]


def exists(pid: int) -> bool:
    """Whether there is such a process. A zombie of process 1 does not count: we are not there to reap it."""
    try:
        process = psutil.Process(pid)
        return not (process.status() == psutil.STATUS_ZOMBIE and process.ppid() == 1)
    except psutil.NoSuchProcess:
        return False


def wait_gone(pids: list[int], within_s: float = PROMPT_S) -> None:
    """All of these processes are gone within so many seconds."""
    deadline = time.monotonic() + within_s
    while left := [pid for pid in pids if exists(pid)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        select.select([], [], [], 0.005)


def test_an_engine_starts_and_its_exit_is_told(launcher: Launcher, tmp_path: Path) -> None:
    talk = Talk(launcher, tmp_path, "exit")
    started = talk.event("engine_started")
    ended = talk.event("engine_exited")
    assert ended["pid"] == started["pid"]
    assert os.waitstatus_to_exitcode(ended["status"]) == 7
    talk.file.close()


def test_the_workers_are_gone_before_the_engines_exit_is_told(launcher: Launcher, tmp_path: Path) -> None:
    talk = Talk(launcher, tmp_path, "exit", workers=2)
    talk.event("engine_exited")
    wait_gone(talk.pids(), 0.0)
    talk.file.close()


def test_a_new_engine_can_follow(launcher: Launcher, tmp_path: Path) -> None:
    for round_ in range(3):
        folder = tmp_path / str(round_)
        folder.mkdir()
        talk = Talk(launcher, folder, "exit", workers=1)
        talk.event("engine_exited")
        talk.file.close()


def test_a_second_engine_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    talk = Talk(launcher, tmp_path, "wait")
    assert talk.file.readline() == "ready\n"
    launcher.start_engine({}, [1], entry=f"{ENTRIES}:engine")
    assert "already" in talk.event("refused")["text"]
    talk.file.close()


def test_an_entry_that_cannot_be_imported_ends_as_an_exit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    launcher = Launcher()
    launcher.start()
    talk = Talk(launcher, tmp_path, "exit", entry="absent")
    assert os.waitstatus_to_exitcode(talk.event("engine_exited")["status"]) != 0
    talk.file.close()
    launcher.stop()
    assert "absent" in capfd.readouterr().err


def test_killing_a_worker_takes_all_that_it_started(launcher: Launcher, tmp_path: Path) -> None:
    talk = Talk(launcher, tmp_path, "kill a worker", workers=1)
    assert ast.literal_eval(talk.file.readline()) == ["spawned", "exited"]
    wait_gone(talk.pids())
    talk.file.close()


def test_stop_ends_everything(tmp_path: Path) -> None:
    launcher = Launcher()
    launcher.start()
    talk = Talk(launcher, tmp_path, "wait", workers=2)
    assert talk.file.readline() == "ready\n"
    pids = [launcher.pid, *(child.pid for child in psutil.Process(launcher.pid).children(recursive=True))]
    launcher.stop()
    launcher.stop()
    wait_gone([*pids, *talk.pids()], 0.0)
    talk.file.close()
    with pytest.raises(EngineUnavailable):
        launcher.start_engine({}, [])


def test_the_death_of_the_spawner_is_told_and_nothing_stays(launcher: Launcher, tmp_path: Path) -> None:
    talk = Talk(launcher, tmp_path, "wait", workers=1)
    assert talk.file.readline() == "ready\n"
    children = [child.pid for child in psutil.Process(launcher.pid).children()]
    os.kill(launcher.pid, signal.SIGKILL)
    assert talk.event("spawner_exited")["status"] == -signal.SIGKILL
    wait_gone([*children, *talk.pids()])
    talk.file.close()


@pytest.mark.parametrize("forked", [False, True])
def test_the_host_killed_takes_everything_with_it(tmp_path: Path, forked: bool) -> None:
    pids_path = tmp_path / "pids"
    command = [sys.executable, "-m", "tests.unit.host.face_program", str(pids_path), "2", *(["fork"] if forked else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as host:
        assert host.stdout is not None
        while "ready" not in host.stdout.readline():
            pass
        spawner = next(c for c in psutil.Process(host.pid).children() if c.name().startswith("ms-"))
        pids = [spawner.pid, *(child.pid for child in spawner.children(recursive=True))]
        host.kill()
        host.wait()
        wait_gone([*pids, *[int(line) for line in pids_path.read_text().split()]])
        for stray in psutil.process_iter(["cmdline"]):
            if forked and stray.pid != os.getpid() and str(pids_path) in " ".join(stray.info["cmdline"] or ()):
                stray.kill()
    assert len(pids) >= 9


def test_children_inherit_nothing_but_what_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    launcher = Launcher()
    try:
        launcher.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    talk = Talk(launcher, tmp_path, "", entry="descriptors")
    more, blocked, leader, folder, argv, stdin = ast.literal_eval(talk.file.readline())
    assert (more, blocked, leader, folder, argv, stdin) == ([], [], True, str(tmp_path), sys.argv, "/dev/null")
    talk.file.close()
    launcher.stop()


def test_it_works_from_any_thread_and_installs_no_signal_handler(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    failures: list[BaseException] = []

    def use() -> None:
        try:
            launcher = Launcher()
            launcher.start()
            talk = Talk(launcher, tmp_path, "exit")
            talk.event("engine_exited")
            talk.file.close()
            launcher.stop()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert not failures
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)] == before


def test_the_spawner_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    launcher = Launcher()
    thread = threading.Thread(target=launcher.start)
    thread.start()
    thread.join()
    talk = Talk(launcher, tmp_path, "exit", workers=1)
    talk.event("engine_exited")
    talk.file.close()
    launcher.stop()


def test_two_hundred_crashes_leave_no_zombie(launcher: Launcher, tmp_path: Path) -> None:
    for _ in range(40):
        talk = Talk(launcher, tmp_path, "exit")
        talk.event("engine_exited")
        talk.file.close()
    assert psutil.Process(launcher.pid).children() == []

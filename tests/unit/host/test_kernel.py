"""What the kernel tells about processes."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import psutil
import pytest

from runtime.host import kernel


def test_a_process_is_named_by_pid_and_start() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        started = kernel.start_time(child.pid)
        assert started > 0
        assert kernel.start_time(child.pid) == started
        child.kill()
        child.wait()
        assert kernel.start_time(child.pid) == 0


@pytest.mark.skipif(not kernel.LINUX, reason="other systems have no clock of another process")
def test_cpu_time_of_a_process_is_told_from_outside() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        first = kernel.cpu_time_ns(child.pid)
        assert first is not None
        while (kernel.cpu_time_ns(child.pid) or 0) < first + 50_000_000:
            pass
        times = psutil.Process(child.pid).cpu_times()
        assert abs((kernel.cpu_time_ns(child.pid) or 0) / 1e9 - times.user - times.system) < 0.5
        child.kill()
        child.wait()
        assert kernel.cpu_time_ns(child.pid) is None


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_children_are_listed() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        assert child.pid in kernel.child_pids(os.getpid())
        child.kill()


@pytest.mark.skipif(not shutil.which("setsid"), reason="there is no program setsid")
def test_marked_processes_are_killed_wherever_they_are() -> None:
    mark = f"MAINSPRING_TEST_MARK={secrets.token_hex(8)}"
    script = "setsid sleep 60 & sleep 60 & wait"
    environment = dict(os.environ, **dict([mark.split("=", 1)]))
    with subprocess.Popen(["sleep", "60"]) as other:
        with subprocess.Popen(["sh", "-c", script], env=environment, start_new_session=True) as shell:
            while len(children := kernel.descendants(shell.pid)) < 2:
                pass
            assert kernel.kill_marked(mark) == 3
            assert shell.wait() == -signal.SIGKILL
        assert kernel.kill_marked(mark) == 0
        assert not any(_runs(pid) for pid in children)
        assert other.poll() is None
        other.kill()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Lets `kill_marked` see one process, 77, as it is told; the signals it gets are listed."""

    def show(*states: list[bytes] | None) -> list[int]:
        left, signals = list(states), []
        monkeypatch.setattr(kernel, "_pids", lambda: [77])
        monkeypatch.setattr(kernel, "_environment", lambda pid: left.pop(0) if left else [])
        monkeypatch.setattr(kernel, "_ROUND_S", 0.0)
        monkeypatch.setattr(os, "kill", lambda pid, number: signals.append(pid))
        return signals

    return show


def test_a_process_that_takes_its_time_to_die_counts_once(looks: Callable[..., list[int]]) -> None:
    signals = looks(*[[b"A=1"]] * 5)
    assert kernel.kill_marked("A=1") == 1
    assert signals == [77] * 5


def test_a_process_is_waited_for_that_is_inside_exec(looks: Callable[..., list[int]]) -> None:
    signals = looks(*[None] * 30, [b"A=1"])
    assert kernel.kill_marked("A=1") == 1
    assert signals == [77]


def test_nobody_is_waited_for_without_end(looks: Callable[..., list[int]]) -> None:
    looks(*[None] * 10_000)
    assert kernel.kill_marked("A=1") == 0


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_a_process_inside_exec_is_told_from_one_without_an_environment() -> None:
    script = "while :; do sh -c 'exec sh -c \"exec true\"'; done"
    seen: set[bool] = set()
    with subprocess.Popen(["sh", "-c", script], env={"A": "1", "PATH": os.environ["PATH"]}) as shell:
        while len(seen) < 2:
            for pid in kernel.child_pids(shell.pid):
                entries = kernel._environment(pid)
                seen |= {entries is None} if entries is None or b"A=1" in entries else set()
        shell.kill()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={}) as bare:
        while (entries := kernel._environment(bare.pid)) is None:
            pass
        assert entries == [] or entries == [b""]
        bare.kill()


def _runs(pid: int) -> bool:
    """Whether it is there and no zombie, which its new parent has not reaped yet."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_signalling_who_is_gone_is_no_error() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    kernel.signal_group(child.pid, signal.SIGKILL)


@pytest.mark.parametrize("niceness", [0, 7])
def test_a_process_that_steps_back_comes_after_others_and_so_does_what_it_starts(niceness: int) -> None:
    program = f"import os; from runtime.host import kernel; kernel.step_back({niceness}); os.system('nice')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, start_new_session=True, check=True)
    assert int(ran.stdout) == min(19, os.nice(0) + niceness)


def test_a_group_that_may_not_step_back_yet_does_so_later(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [False, False, True]
    asked: list[int] = []

    def steps_back(niceness: int) -> bool:
        asked.append(niceness)
        return answers.pop(0)

    monkeypatch.setattr(kernel, "LINUX", True)  # where there are such groups
    monkeypatch.setattr(kernel, "_group_steps_back", steps_back)
    monkeypatch.setattr(kernel, "_GROUP_ROUND_S", 0)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    kernel.step_back(7)
    for thread in threading.enumerate():
        if thread.name == "mainspring-step-back":
            thread.join()
    assert (asked, answers) == ([7, 7, 7], [])


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/autogroup"), reason="this kernel does not group processes")
def test_several_groups_that_step_back_at_once_all_do() -> None:
    """Without the rights of an administrator, of whom alone the kernel takes as many changes as they like."""
    program = (
        "import ctypes, os, threading; from runtime.host import kernel\n"
        "if os.getuid() == 0: os.setuid(65534); kernel._prctl(4, 1)  # PR_SET_DUMPABLE: /proc/self is its own again\n"
        "kernel.step_back(7)\n"
        "[each.join() for each in threading.enumerate() if each is not threading.main_thread()]\n"
        "print(open('/proc/self/autogroup').read())"
    )
    command = [sys.executable, "-c", program]
    ran = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) for _ in range(3)]
    assert [each.communicate()[0].split()[1:] for each in ran] == [["nice", "7"]] * 3


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_threads_since_leaves_out_whom_it_is_told() -> None:
    before, gate = kernel.start_time(os.getpid()), threading.Event()
    threads = [threading.Thread(target=gate.wait) for _ in range(2)]
    there = kernel.threads_since(before)
    for thread in threads:
        thread.start()
    try:
        assert kernel.threads_since(before) == there + 2
        assert kernel.threads_since(before, [threads[0].native_id]) == there + 1
    finally:
        gate.set()
        for thread in threads:
            thread.join()

"""What the kernel tells about processes."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess

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


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_children_are_listed() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        assert child.pid in kernel.child_pids(os.getpid())
        child.kill()


def test_marked_processes_are_killed_wherever_they_are() -> None:
    mark = f"MAINSPRING_TEST_MARK={secrets.token_hex(8)}"
    script = "setsid sleep 60 & sleep 60 & wait"
    environment = dict(os.environ, **dict([mark.split("=", 1)]))
    with subprocess.Popen(["sleep", "60"]) as other:
        with subprocess.Popen(["sh", "-c", script], env=environment, start_new_session=True) as shell:
            while len(children := kernel.child_pids(shell.pid)) < 2:
                pass
            assert kernel.kill_marked(mark) >= 3
            assert shell.wait() == -signal.SIGKILL
        assert kernel.kill_marked(mark) == 0
        assert not any(_runs(pid) for pid in children)
        assert other.poll() is None
        other.kill()


def test_one_that_takes_its_time_to_die_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([[b"MARK=1"]] * 3)
    monkeypatch.setattr(kernel, "_pids", lambda: [7])
    monkeypatch.setattr(kernel, "_environment", lambda pid: next(looks, []))
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(kernel.os, "kill", lambda *signalled: sent.append(signalled))
    assert kernel.kill_marked("MARK=1") == 1
    assert sent == [(7, signal.SIGKILL)] * 3


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

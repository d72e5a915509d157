"""Proofs take turns on a host, whoever is killed meanwhile, and leave no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.host import kernel
from runtime.profile.proof import one_proof
from tests.tidy.tree import ROOT

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0
Taken = Callable[[], Callable[[], None] | None]
WAYS: dict[str, Taken] = {"lock": one_proof._locked} | ({"name": one_proof._bound} if kernel.LINUX else {})


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Each way to take a turn; its own turns here, beside those of proofs that go on elsewhere on this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(one_proof, "NAME", f"mainspring-test-{os.getpid()}")
    monkeypatch.setattr(one_proof, "taken", WAYS[request.param])
    yield request.param
    assert not list(tmp_path.iterdir())


def holder(way: str, then: str) -> subprocess.Popen[str]:
    """Another process that has the turn, and then does this."""
    code = f"""
import os, sys, tempfile
from runtime.profile.proof import one_proof
from tests.tidy.tree import ROOT
tempfile.tempdir, one_proof.NAME = {tempfile.tempdir!r}, {one_proof.NAME!r}
give_back = one_proof.{WAYS[way].__name__}()
assert give_back is not None
{then}
"""
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=PATIENCE_S)


def test_a_second_one_waits_for_the_first(way: str) -> None:
    turns_taken: list[str] = []
    with one_proof.one_at_a_time(0.0):
        with pytest.raises(TimeoutError, match="another proof of this process"), one_proof.one_at_a_time(0.0):
            turns_taken.append("never")
        assert one_proof.taken() is None
        other = threading.Thread(target=lambda: _one(turns_taken))
        other.start()
        turns_taken.append("first")
    other.join(PATIENCE_S)
    assert turns_taken == ["first", "second"]


def _one(turns_taken: list[str]) -> None:
    with one_proof.one_at_a_time(time.monotonic() + PATIENCE_S):
        turns_taken.append("second")


def test_a_process_that_was_killed_holds_up_nobody(way: str) -> None:
    other = holder(way, "print('mine', flush=True); sys.stdin.read()")
    assert other.stdout is not None
    assert other.stdout.readline() == "mine\n"
    with pytest.raises(TimeoutError, match="other processes of this host"), one_proof.one_at_a_time(0.0):
        pass
    other.send_signal(signal.SIGKILL)
    end(other)
    with one_proof.one_at_a_time(time.monotonic() + PATIENCE_S):
        pass


def test_a_fork_that_was_made_meanwhile_holds_up_nobody(way: str) -> None:
    """It lives on when its parent has given the turn back."""
    other = holder(
        way,
        "pid = os.fork()\nif pid:\n    give_back()\n    print('given back', flush=True)\nsys.stdin.read(); os._exit(0)",
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "given back\n"
    with one_proof.one_at_a_time(time.monotonic() + PATIENCE_S):
        pass
    end(other)


def test_a_fork_outlives_a_holder_that_was_killed(way: str) -> None:
    """And holds up nobody. A lock is of whoever has its descriptor: there the next one waits until the fork ends."""
    other = holder(way, "pid = os.fork()\nif pid:\n    print(pid, flush=True)\nsys.stdin.read(); os._exit(0)")
    assert other.stdout is not None
    assert other.stdout.readline()
    other.send_signal(signal.SIGKILL)
    other.wait(PATIENCE_S)
    if way == "lock":
        with pytest.raises(TimeoutError, match="other processes of this host"), one_proof.one_at_a_time(0.0):
            pass
        end(other)
    with one_proof.one_at_a_time(time.monotonic() + PATIENCE_S):
        pass
    end(other)


def test_a_fork_itself_can_give_back_nothing(way: str) -> None:
    """It has no turn, and ends the block without harm to its parent's."""
    other = holder(
        way,
        "pid = os.fork()\nif not pid:\n    give_back(); os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\nprint('still mine', flush=True); sys.stdin.read()",
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "still mine\n"
    if way == "name":
        assert one_proof.taken() is None
    end(other)

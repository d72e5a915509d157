"""What handlers started has no sampler, and its CPU time is in the picture all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.host import kernel
from runtime.profile.captures import others
from runtime.profile.captures.others import OtherProcesses, others_of
from runtime.profile.model import CPU, Process, Profile
from runtime.profile.presence.here import HERE
from tests.scenarios.waiting import until
from tests.unit.profile.pages import Child, opened_page

pytestmark = pytest.mark.slow
by_proc = pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
WORKER = Process(11, 1, "worker", 1, "http")
SPAWNER = Process(10, 1, "spawner")
FACE = Process(9, 1, "face")


def test_what_was_used_meanwhile_is_a_sample_of_who_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what was there before only what came since; of what was born meanwhile all."""
    used = {(7, 1): (WORKER, "ffmpeg", 500), (10, 1): (SPAWNER, "", 50)}
    monkeypatch.setattr(others, "others_of", lambda state_dir: [(one, *rest) for one, rest in used.items()])
    looks = OtherProcesses("state")
    used[7, 1] = (WORKER, "ffmpeg", 800)
    used[8, 1] = (WORKER, "cc", 70)
    used[10, 1] = (SPAWNER, "", 51)
    used[9, 1] = (FACE, "", 20)
    profile = Profile(CPU)
    looks.add_to(profile)
    told = {(one.stack[-1].name, one.thread, one.process): weight.value for one, weight in profile}
    assert told == {
        ("child: ffmpeg", "child 7", WORKER): 300,
        ("child: cc", "child 8", WORKER): 70,
        ("not sampled", "MainThread", SPAWNER): 1,
        ("not sampled", "all threads", FACE): 20,
    }


def test_only_what_named_processes_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [((7, 1), WORKER, "ffmpeg", 0)]
    monkeypatch.setattr(others, "others_of", lambda state_dir: list(used))
    looks = OtherProcesses("state", {12})
    used[0] = ((7, 1), WORKER, "ffmpeg", 800)
    profile = Profile(CPU)
    looks.add_to(profile)
    assert list(profile) == []


def test_it_looks_now_and_then_while_something_else_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(others, "others_of", lambda state_dir: looked.append(state_dir) or [])
    monkeypatch.setattr(others, "LOOK_NS", 0)
    stop = OtherProcesses("state").stepped(lambda: len(looked) > 2)
    assert [stop(), stop(), stop()] == [False, True, True]


@by_proc
def test_a_child_of_a_worker_is_found_with_what_it_used(state_dir: Path) -> None:
    """Also one of its children; not what the program itself started."""

    def starts_one() -> None:
        subprocess.run([sys.executable, "-c", "while True: pass"])

    with opened_page(state_dir) as page:
        child = Child(page, starts_one)
        mine = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            found = until(lambda: [row for row in others_of(str(state_dir)) if row[3] > 0], "a child at work")
            ((pid, _), owner, name, _) = found[0]
            assert owner.pid == child.pid
            assert name.startswith("python")
            assert pid not in (mine.pid, child.pid)
            os.kill(pid, 9)
        finally:
            child.end()
            mine.communicate(b"\n")


@by_proc
def test_the_program_itself_is_counted(state_dir: Path) -> None:
    with opened_page(state_dir) as page:
        presence = HERE.begin(page, "face", relayed=True)
        try:
            ((_, owner, name, used_ns),) = others_of(str(state_dir))
        finally:
            presence.end()
    assert (owner.pid, owner.role, name) == (os.getpid(), "face", "")
    assert used_ns > 0

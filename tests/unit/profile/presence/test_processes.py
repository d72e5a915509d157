"""Processes as the page and the kernel know them, and what happened between two looks."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.host import kernel
from runtime.profile.ledger.books import Count
from runtime.profile.model import Process
from runtime.profile.presence.processes import Looked, changes, kernel_facts, looked, order
from runtime.storage.folder import StateFolder
from tests.unit.profile.pages import Child, opened_page

S = 1_000_000_000


def row(role: str = "worker", number: int = 1, node_type: str = "", at_s: float = 10.0, **more: int) -> Looked:
    """A process at a moment."""
    known = {"cpu_ns": 0, "wait_ns": 0, "rss_bytes": 0, "threads": 1, "self_ns": 0, **more}
    created = known.pop("created", 0)
    process = Process(number + 100, 1, role, number, node_type)
    counts = {"task": Count(0, created, created, 0)}
    return Looked(process, counts, int(at_s * S), 9 * S, 0, **known, state="S", answers=True)


def test_the_program_comes_first_and_workers_by_type() -> None:
    rows = [row("trimmer"), row("worker", 2, "b"), row("worker", 3, "a"), row("engine"), row("face"), row("spawner")]
    found = [(one.process.role, one.process.node_type) for one in sorted(rows, key=order)]
    workers = [("worker", "a"), ("worker", "b")]
    assert found == [("face", ""), ("spawner", ""), ("engine", ""), *workers, ("trimmer", "")]


def test_what_happened_is_by_the_second() -> None:
    before = row(cpu_ns=S, wait_ns=0, self_ns=S // 100, created=100)
    after = row(at_s=12.0, cpu_ns=2 * S, wait_ns=S, self_ns=3 * S // 100, created=300)
    (found,) = changes([before], [after])
    assert (found.cpu, found.wait, found.self_cpu) == (0.5, 0.5, 0.01)
    assert found.created == {"task": 100.0}


def test_one_that_was_born_meanwhile_counts_since_then() -> None:
    (found,) = changes([], [row(at_s=11.0, cpu_ns=S)])
    assert found.cpu == 0.5


def test_clocks_that_went_back_are_nothing() -> None:
    """Threads that ended take their clocks with them."""
    (found,) = changes([row(cpu_ns=2 * S, created=5)], [row(at_s=11.0, cpu_ns=S, created=1)])
    assert (found.cpu, found.created) == (0.0, {"task": 0.0})


def test_what_is_not_there_is_zero() -> None:
    assert kernel_facts(0) == {"cpu_ns": 0, "wait_ns": 0, "rss_bytes": 0, "threads": 0, "state": ""}
    assert row().live("nonsense") == 0


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_the_kernel_knows_this_process() -> None:
    before = kernel_facts(os.getpid())
    until_ns = time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < until_ns:
        pass
    after = kernel_facts(os.getpid())
    assert after["cpu_ns"] - before["cpu_ns"] >= 10_000_000
    assert after["rss_bytes"] > 1 << 20
    assert after["threads"] >= 1
    assert after["state"] == "R"


def sleep_here() -> None:
    while True:
        signal.pause()


@pytest.mark.slow
@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_processes_of_a_folder_are_looked_at(state_dir: Path) -> None:
    with opened_page(state_dir) as page:
        child = Child(page, sleep_here)
        try:
            (found,) = looked(state_dir)
            assert found.process.title == "worker 1 [http]"
            assert found.answers
            assert found.beat_ns, "it sleeps, and was asked for its books"
            assert found.live("thread") >= 1
        finally:
            child.end()


def test_a_folder_that_nobody_has_open_is_said(state_dir: Path) -> None:
    StateFolder.open(state_dir).close()
    with pytest.raises(ProfileUnavailable, match="no program of this user has"):
        looked(state_dir, fresh=False)

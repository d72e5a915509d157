"""Measuring: CPU and memory of this and other processes, windows, percentiles."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from runtime.bench import measure
from runtime.bench.handlers import burn

GONE = 2**22 + 1
"""Above the largest pid that Linux gives."""


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 50), (0.505, 51), (0.99, 99), (0.995, 100), (1.0, 100)]
)
def test_percentile_is_a_value_that_occurred(share: float, expected: int) -> None:
    assert measure.percentile(list(range(100, 0, -1)), share) == expected


def test_percentile_of_one_value() -> None:
    assert measure.percentile([7], 0.99) == 7


def test_own_cpu_time_counts_what_was_burnt() -> None:
    before = measure.cpu_ns(os.getpid())
    burn(20_000_000)
    assert measure.cpu_ns(os.getpid()) - before >= 10_000_000


def test_cpu_time_of_another_process() -> None:
    program = "import time\nwhile time.process_time() < 0.02: pass\nprint(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert measure.cpu_ns(child.pid) >= 10_000_000
        assert measure.rss_bytes(child.pid) > 1_000_000
        assert 0 < measure.pss_bytes(child.pid) <= measure.rss_bytes(child.pid) * 1.1
        assert 0 < measure.private_bytes(child.pid) <= measure.pss_bytes(child.pid)
        child.communicate(b"\n")


def test_a_process_that_is_gone_costs_nothing() -> None:
    assert measure.cpu_ns(GONE) == 0
    assert measure.rss_bytes(GONE) == 0
    assert measure.pss_bytes(GONE) == 0


def test_window_sums_cpu_by_role() -> None:
    members = [measure.Member("face", os.getpid()), measure.Member("workers", GONE)]
    with measure.MeasuredWindow(lambda: members) as window:
        burn(10_000_000)
    sample = window.sample(4, [30, 10, 20, 40], depth=2.0)
    assert sample.tasks == 4
    assert sample.elapsed_ns >= 10_000_000
    assert sample.cpu_ns["face"] >= 5_000_000
    assert sample.cpu_ns["workers"] == 0
    assert sample.rss_bytes > 1_000_000
    assert (sample.p50_ns, sample.p99_ns) == (20, 40)
    assert sample.extra == {"depth": 2.0}


def test_window_lets_errors_through() -> None:
    with pytest.raises(ZeroDivisionError), measure.MeasuredWindow(list):
        raise ZeroDivisionError


def test_members_of_a_runtime_by_role() -> None:
    class Face:
        def processes(self) -> list[dict[str, Any]]:
            return [
                {"role": "spawner", "pid": 11, "node_type": None},
                {"role": "engine", "pid": 12, "node_type": None},
                {"role": "worker", "pid": 13, "node_type": "cpu"},
                {"role": "worker", "pid": 14, "node_type": "cpu"},
            ]

    found = measure.members_of(Face())
    assert found[0] == ("face", os.getpid())
    assert found[1:] == [("spawner", 11), ("engine", 12), ("workers", 13), ("workers", 14)]


def test_children_count_as_workers() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert ("workers", child.pid) in measure.members_with_children()
        child.communicate(b"\n")


def test_idle_cost_of_a_process_that_waits() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        idle = measure.idle_cost([child.pid], 0.01)
        child.communicate(b"\n")
    assert 0 <= idle.cpu_percent <= 100
    assert idle.rss_bytes > 1_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="told by thread on Linux only")
def test_cpu_time_of_the_other_threads() -> None:
    before = measure.threads_cpu_ns(os.getpid())
    over = threading.Event()
    thread = threading.Thread(target=lambda: (burn(20_000_000), over.wait()))
    thread.start()
    try:
        burn(20_000_000)
        until = time.monotonic() + 10
        while measure.threads_cpu_ns(os.getpid()) - before < 10_000_000:
            assert time.monotonic() < until
    finally:
        over.set()
        thread.join()
    assert measure.threads_cpu_ns(GONE) == 0


def test_open_descriptors_are_counted() -> None:
    before = measure.descriptors(os.getpid())
    with open(os.devnull):
        assert measure.descriptors(os.getpid()) == before + 1
    assert measure.descriptors(GONE) == 0

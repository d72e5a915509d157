"""CPU shares against the truth of threads' clocks.

Acceptance test 6, shortened: pure Python, C that keeps the interpreter and C that lets it go, by function and by label.
"""

from __future__ import annotations

import json
import signal
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable

import pytest

from runtime.profile.labels import labels
from runtime.profile.sampler import CpuSampler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no interval timers"),
]
CPU_S = 15.0
DATA = bytes(range(256)) * 1_500
TEXT = json.dumps([{"n": n, "text": "x" * 20} for n in range(800)])


def in_python() -> None:
    total = 0
    for number in range(30_000):
        total += number * number


def in_json() -> None:
    for _ in range(4):
        json.loads(TEXT)


def in_zlib() -> None:
    zlib.compress(DATA, 6)


def pack_on(stop: threading.Event, used: list[int]) -> None:
    while not stop.is_set():
        in_zlib()
    used.append(time.thread_time_ns())


KINDS: tuple[tuple[Callable[[], None], str, int], ...] = (
    (in_python, "checkout", 2), (in_json, "refund", 3), (in_zlib, "report", 1),
)  # fmt: skip


def test_shares_are_those_of_the_clocks() -> None:
    truth: Counter[str] = Counter()
    by_label: Counter[str] = Counter()
    stop, used = threading.Event(), list[int]()
    thread = threading.Thread(target=pack_on, args=(stop, used))
    before_ns = time.process_time_ns()
    sampler = CpuSampler(250).start()
    thread.start()
    until = time.process_time() + CPU_S
    while time.process_time() < until:
        for work, workflow, turns in KINDS:
            with labels(workflow=workflow):
                begun_ns = time.thread_time_ns()
                for _ in range(turns):
                    work()
                took_ns = time.thread_time_ns() - begun_ns
            truth[work.__name__] += took_ns
            by_label[workflow] += took_ns
    stop.set()
    thread.join()
    profile = sampler.stop()
    whole_ns = time.process_time_ns() - before_ns
    assert profile.total().value == pytest.approx(whole_ns, rel=0.01)
    assert sum(weight.seen for sample, weight in profile if sample.stack[-1].name == "<profiler>") > CPU_S * 50
    truth["in_zlib"] += used[0]
    found: Counter[str] = Counter()
    labelled: Counter[str] = Counter()
    for sample, weight in profile:
        name = next((frame.name for frame in sample.stack if frame.name in truth), "")
        found[name] += weight.value
        if sample.thread == "MainThread":
            labelled[dict(sample.labels).get("workflow", "")] += weight.value
    for name, true_ns in truth.items():
        assert found[name] / whole_ns == pytest.approx(true_ns / whole_ns, abs=0.03), (name, found, truth)
    total = by_label.total()
    for name, true_ns in by_label.items():
        assert labelled[name] / total == pytest.approx(true_ns / total, abs=0.03), (name, labelled, by_label)

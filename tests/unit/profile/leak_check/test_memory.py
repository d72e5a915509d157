"""Whose memory grows is named by the line that took it; what is given back, or came once, is not."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from runtime.profile.captures.snapshot import FrameCache
from runtime.profile.leak_check.grading import SUSPECT, Finding, Series
from runtime.profile.leak_check.memory import FRAMES, LOOKS, TRACER, MemoryGrowth, growth_here
from runtime.profile.model import Process

S = 1_000_000_000
KIB = 1 << 10
HERE = Process(11, 12, "worker", 3, "http")
KEPT: list[object] = []


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """What tests leak is let go of."""
    yield
    KEPT.clear()


class Client:
    """As programs have them."""

    def remember(self, size: int) -> None:
        """It keeps what it was given."""
        KEPT.append(bytearray(size))


def handler(client: Client) -> None:
    """Leaks 10 KB, and takes more that it gives back."""
    client.remember(10 * KIB)
    sorted(bytearray(100 * KIB))


def grown(work: Callable[[], object], looks: int = LOOKS) -> list[Finding]:
    """What grows while this is done ten times a second, a look each second."""
    growth = MemoryGrowth(HERE)
    with TRACER.on():
        for second in range(looks):
            for _ in range(10):
                work()
            growth.look(1000 * S + second * S)
    return growth.findings()


def test_the_line_that_keeps_memory_is_named() -> None:
    client = Client()
    (found,) = grown(lambda: handler(client))
    assert (found.grade, found.kind, found.process) == (SUSPECT, "bytes", HERE)
    assert [frame.name for frame in found.site[-2:]] == ["handler", "Client.remember"]
    assert found.site[-1].file == __file__
    assert found.site[-1].line == Client.remember.__code__.co_firstlineno + 2
    assert found.slope_per_min == pytest.approx(10 * 10 * KIB * 60, rel=0.1)
    assert found.count == pytest.approx(LOOKS * 10 * 10 * KIB, rel=0.1)
    assert "MiB a minute" in found.proof
    assert dict(found.labels) == {"node_type": "http"}


def test_what_the_profiler_takes_itself_is_not_the_programs() -> None:
    """Also by constructors that are made of text: `__new__` of a named tuple stands in "<string>"."""

    def look_again() -> None:
        KEPT.extend(Series(0) for _ in range(40))
        KEPT.extend(FrameCache().frames([(Client.remember.__code__, line) for line in range(100)]))

    found = {one.site[-1].file for one in grown(look_again)}
    assert found <= {__file__}, "the list that keeps it all is this test's"


def test_what_came_once_or_goes_again_does_not_grow() -> None:
    cache: dict[int, bytes] = {}

    def fills_a_cache() -> None:
        number = len(cache) % 16
        cache.setdefault(number, b"x" * 100 * KIB)
        cache.setdefault(0, b"")

    KEPT.append(bytearray(1000 * KIB))
    assert grown(fills_a_cache) == []


def test_garbage_that_waits_for_the_collector_does_not_grow() -> None:
    """Where the collector comes seldom, as in the engine, cycles of the time of the looks are still there."""

    def cycle() -> None:
        ring: list[object] = [bytearray(50 * KIB)]
        ring.append(ring)

    before = gc.get_threshold()
    gc.set_threshold(1_000_000)
    try:
        assert not grown(cycle)
    finally:
        gc.set_threshold(*before)


def test_too_few_looks_say_nothing() -> None:
    assert grown(lambda: handler(Client()), looks=5) == []


def test_a_little_is_nothing() -> None:
    assert grown(lambda: KEPT.append(bytearray(100))) == []


def test_who_traces_by_himself_goes_on() -> None:
    with TRACER.on(), TRACER.on():
        assert tracemalloc.get_traceback_limit() == FRAMES
    assert not tracemalloc.is_tracing()
    tracemalloc.start(1)
    try:
        with TRACER.on():
            assert tracemalloc.get_traceback_limit() == 1
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_one_that_would_take_too_much_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.profile.leak_check.memory.OWN_BYTES_MAX", -1)
    report = growth_here(0.01)
    assert report.findings == []
    assert "fewer seconds" in report.notes[0]
    assert not tracemalloc.is_tracing()


def test_nobody_waits_any_more() -> None:
    assert growth_here(3600.0, over=lambda: True).findings == []

"""Samplers of this process: readers of its ticks, each with all of its own time."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any, cast

import pytest

from runtime.profile.model import AWAIT, CPU, Frame, Profile, StackSample
from runtime.profile.sampling import buckets
from runtime.profile.sampling.buckets import Buckets
from runtime.profile.sampling.labels import labels
from runtime.profile.sampling.sampler import PARTS, AwaitSampler, CpuSampler, Parts, SamplerUnavailable, flight
from runtime.profile.sampling.ticks import TICKS


def burn(cpu_ns: int) -> int:
    until, turns = time.process_time_ns() + cpu_ns, 0
    while time.process_time_ns() < until:
        turns += sum(range(1_000)) > 0
    return turns


def test_two_samplers_have_each_their_own_time() -> None:
    outer = CpuSampler(200).start()
    with labels(customer="acme"):
        burn(100_000_000)
        inner = CpuSampler(200).start()
        burn(100_000_000)
    second = inner.stop()
    first = outer.stop()
    assert not TICKS.on
    assert first.kind == CPU
    assert 90e6 < second.total().value < first.total().value - 90e6
    assert first.filter(customer="acme").total().value > 150e6
    assert any(sample.stack[-1].name == "burn" for sample, _ in first)
    assert any("of its CPU time" in note for note in first.notes)
    assert not outer.stop().samples, "all of it was said"


def test_what_was_not_read_in_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """More stacks than the ring has room for: the first second of the sampler is gone."""
    monkeypatch.setattr(buckets, "ROWS_MAX", 10)
    sampler = CpuSampler(200).start()
    for second in range(3):
        for number in range(8):
            TICKS.buckets.add((f"{second} {number}",), (-1,), (), "MainThread", 1_000)
        TICKS.buckets.close(time.monotonic_ns())
    found = sampler.stop()
    assert any("are missing, because the ring was not read in time" in note for note in found.notes)
    sampler = CpuSampler(200).start()
    burn(20_000_000)
    assert not any("missing" in note for note in sampler.stop().notes)


def test_the_last_minute_is_there() -> None:
    sampler = CpuSampler(200).start()
    burn(100_000_000)
    found = flight()
    sampler.stop()
    assert any(sample.stack[-1].name == "burn" for sample, _ in found)
    assert found.duration_ns > 0


def test_as_far_back_as_asked_for_and_a_second_more_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns, kept = time.monotonic_ns(), Buckets()
    for ago_s in (55, 10, 3):
        kept.open.begun_ns = now_ns - ago_s * 1_000_000_000
        kept.add((f"{ago_s} s ago",), (-1,), (), "MainThread", 1_000)
        kept.close(now_ns - 1_000_000_000)
    monkeypatch.setattr(TICKS, "buckets", kept)
    found = flight(20)
    assert {sample.stack[0].name for sample, _ in found} == {"10 s ago", "3 s ago"}
    assert found.duration_ns >= 10e9


def test_a_rate_that_is_held_down_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROFILER.md 4.6: the breaker halves the rate where ticks cost too much, and the profile says so."""
    sampler = CpuSampler(200).start()
    monkeypatch.setattr(TICKS.pace, "slowdown", 1.0)
    monkeypatch.setattr(TICKS.pace, "_judged", (time.process_time_ns() - 1_000_000_000, TICKS.self_ns - 100_000_000))
    sampler.flush()  # takes a tick, if none came before
    notes = sampler.stop().notes
    assert any("their rate was halved 1 times" in note for note in notes)
    assert TICKS.pace.slowdown == 2.0
    sampler = CpuSampler(200).start()
    assert TICKS.pace.hz == 100
    assert any("slowed down to 100 a second" in note for note in sampler.flush().notes)
    assert any("slowed down to 100 a second" in note for note in flight().notes)
    sampler.stop()


def test_a_signal_of_others_is_said() -> None:
    theirs = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    try:
        with pytest.raises(SamplerUnavailable, match="SIGPROF"):
            CpuSampler(99).start()
    finally:
        signal.signal(signal.SIGPROF, theirs)


@pytest.mark.parametrize("hz", [0.5, 5_000])
def test_rates_have_bounds(hz: float) -> None:
    with pytest.raises(ValueError, match="hz"):
        CpuSampler(hz)
    with pytest.raises(ValueError, match="hz"):
        AwaitSampler(hz / 100 if hz < 1 else hz)


def test_what_a_loop_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def part(event: asyncio.Event) -> None:
        with labels(customer="acme"):
            await event.wait()

    async def whole() -> None:
        event = asyncio.Event()
        task = asyncio.create_task(part(event))
        sampler = AwaitSampler(10, loop=asyncio.get_running_loop()).start()
        seen = asyncio.Event()
        real = sampler._waits.buckets.add

        def add(*row: Any) -> None:
            real(*row)
            if row[2]:
                seen.set()

        monkeypatch.setattr(sampler._waits.buckets, "add", add)
        await seen.wait()
        found = sampler.flush()
        assert found.filter(customer="acme").total().value > 0
        event.set()
        await task
        assert sampler.stop().kind == AWAIT
        names = {tuple(frame.name.rpartition(".")[2] for frame in sample.stack) for sample, _ in found}
        assert ("part", "wait") in names

    asyncio.run(whole())


def test_what_is_put_second_by_second_is_whole_and_hardly_grows() -> None:
    """Of an hour, what one second puts is a sixteenth of all, and who is killed leaves all seconds but the last."""
    kept: dict[int, bytes] = {}

    class Asked:
        def put(self, content: list[bytes], part: int = 0) -> None:
            kept[part] = b"".join(content)

    parts = Parts(cast(Any, Asked()))
    seconds = 3 * PARTS + 5
    for second in range(seconds):
        found = Profile(hz=99.0, begun_ns=1)
        found.add(StackSample((Frame("always"),)), 10)
        found.add(StackSample((Frame(f"in {second}"),)), 1)
        found.notes.append("of this second")
        parts.put(found)
        whole = Profile().merge(*map(Profile.from_json, kept.values()))
        assert whole.total().value == 11 * (second + 1)
    assert Profile.from_json(kept.pop(0)).notes == ["of this second"], "whoever is killed has said that much"
    assert len(kept) == PARTS
    assert max(len(Profile.from_json(content)) for content in kept.values()) == 1 + 4
    assert whole.notes == ["of this second"]

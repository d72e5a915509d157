"""Scenario `scale`: how the size of a pool follows its load, on a virtual clock, beside the usual rule.

The load, in cooldowns of 15 s: one at 10 tasks a second, a step to 1,000 for six; ten minutes of a square wave between
both with a period of one and a half cooldowns, then ten minutes of one with a period of four; then nothing for 20, at
the end of which the pool is empty. And the step once more with gaps and durations drawn at random, from a fixed seed.

What `elapsed` measures is the pretending (see `pretended_pool`); the figures are in `extra`. The usual rule is one
worker more for each 20 ms of work that waits, and one less when one was idle for 30 s.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final, NamedTuple

from actors.policy.machine import Machine
from actors.policy.scale import ScalePolicy
from actors.protocol import limits
from runtime.bench.figures import BenchError, Sample
from runtime.bench.measure import percentile
from runtime.bench.workloads.base import Scenario, Setup
from runtime.bench.workloads.pretended_pool import SERVICE_NS, OneByOne, PretendedPool, square_wave

LARGEST: Final = 64
LOW_PER_S: Final = 10.0
HIGH_PER_S: Final = 1_000.0
COOLDOWN_SMOKE_NS: Final = 1_000_000_000
QUIET, STEP, WAVE, IDLE = 1.0, 6.0, 40.0, 20.0
"""Lengths of the parts, in cooldowns: 40 are ten minutes."""
WAVE_PERIOD: Final = 1.5
SLOW_WAVE_PERIOD: Final = 4.0
STEADY_COOLDOWNS: Final = 3
"""Within so many a step of the load must have no further consequences."""
TURNS_MAX: Final = 2
"""A wave may have its size corrected once, and that taken back."""
SEED: Final = 3


class Part(NamedTuple):
    """What happened in one part of the load."""

    began_ns: int
    steps: list[tuple[int, int, int, str]]
    waits_ns: list[int]
    settled: int

    @property
    def steady_s(self) -> float:
        """Until the last step."""
        return (self.steps[-1][0] - self.began_ns) / 1e9 if self.steps else 0.0

    @property
    def overshoots(self) -> int:
        """Steps to more workers than stayed."""
        return sum(after > max(before, self.settled) for _, before, after, _ in self.steps)

    @property
    def turns(self) -> int:
        """How often a step up followed one down, or the reverse."""
        ups = [after > before for _, before, after, _ in self.steps]
        return sum(one != other for one, other in zip(ups, ups[1:], strict=False))

    @property
    def longest_ms(self) -> float:
        """Longest wait of a task."""
        return max(self.waits_ns, default=0) / 1e6


class ScaleScenario(Scenario):
    """Size of an elastic pool under a step, waves and silence, on a virtual clock."""

    name = "scale"
    title = "size of a pool (0 to 64) under a step, waves and silence, virtual clock; --tasks is not used"
    tasks_default = 750_000
    tasks_smoke = 50_000
    durability_default = None
    baseline_name = "one worker at a time"
    baseline_is_ours = True

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": LARGEST, "cooldown_s": _cooldown_ns(setup) / 1e9, "service_ms": SERVICE_NS / 1e6}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        cooldown_ns = _cooldown_ns(setup)
        sample = _measure(_pool(cooldown_ns), _pool(cooldown_ns, random.Random(SEED)), cooldown_ns)
        _check(sample, cooldown_ns)
        return sample

    def run_baseline(self, setup: Setup) -> Sample:
        cooldown_ns = _cooldown_ns(setup)
        usual, drawn = (OneByOne(0, LARGEST, 2 * cooldown_ns) for _ in range(2))
        return _measure(PretendedPool(usual), PretendedPool(drawn, chance=random.Random(SEED)), cooldown_ns)

    def cost(self, sample: Sample) -> float | None:
        return sample.extra["step_longest_wait_ms"]


def _pool(cooldown_ns: int, chance: random.Random | None = None) -> PretendedPool:
    policy = ScalePolicy(0, LARGEST, cooldown_ns=cooldown_ns)
    return PretendedPool(policy, machine=lambda now_ns: Machine(now_ns, 0.5, 0.5, LARGEST), chance=chance)


def _measure(pool: PretendedPool, drawn: PretendedPool, cooldown_ns: int) -> Sample:
    began = time.perf_counter_ns()
    _part(pool, LOW_PER_S, QUIET * cooldown_ns)
    step = _part(pool, HIGH_PER_S, STEP * cooldown_ns)
    wave = _part(pool, HIGH_PER_S, WAVE * cooldown_ns, WAVE_PERIOD * cooldown_ns)
    slow_wave = _part(pool, HIGH_PER_S, WAVE * cooldown_ns, SLOW_WAVE_PERIOD * cooldown_ns)
    mean = pool.worker_ns / pool.now_ns
    idle = _part(pool, 0.0, IDLE * cooldown_ns)
    _part(drawn, LOW_PER_S, QUIET * cooldown_ns)
    random_step = _part(drawn, HIGH_PER_S, STEP * cooldown_ns)
    elapsed_ns = time.perf_counter_ns() - began
    extra = {
        "step_longest_wait_ms": step.longest_ms,
        "step_steady_s": step.steady_s,
        "step_steps": len(step.steps),
        "step_overshoots": step.overshoots,
        "step_largest": max((after for *_, after, _ in step.steps), default=0),
        "step_settled": step.settled,
        "wave_steps": len(wave.steps),
        "wave_turns": wave.turns,
        "slow_wave_steps": len(slow_wave.steps),
        "slow_wave_turns": slow_wave.turns,
        "workers_mean": mean,
        "idle_left": idle.settled,
        "empty_after_s": idle.steady_s,
        "random_longest_wait_ms": random_step.longest_ms,
        "random_steady_s": random_step.steady_s,
        "random_overshoots": random_step.overshoots,
        "decisions": pool.decisions,
    }
    waits_ns = [*pool.waits_ns, *drawn.waits_ns]
    p50_ns, p99_ns = percentile(waits_ns, 0.5), percentile(waits_ns, 0.99)
    return Sample(len(waits_ns), elapsed_ns, p50_ns=p50_ns, p99_ns=p99_ns, extra=extra)


def _part(pool: PretendedPool, per_s: float, length_ns: float, period_ns: float = 0.0) -> Part:
    """One part of the load: even, or a wave between it and the low one."""
    began_ns, steps, waits = pool.now_ns, len(pool.steps), len(pool.waits_ns)
    wave = square_wave(LOW_PER_S, per_s, period_ns, began_ns) if period_ns else lambda _: per_s
    pool.run(wave, began_ns + round(length_ns))
    return Part(began_ns, pool.steps[steps:], pool.waits_ns[waits:], pool.size)


def _check(sample: Sample, cooldown_ns: int) -> None:
    """What is promised of ours. Raises `BenchError`."""
    figures = sample.extra
    steady_max_s = STEADY_COOLDOWNS * cooldown_ns / 1e9
    wrong = [
        name
        for name, most in (
            ("step_steady_s", steady_max_s),
            ("step_overshoots", 1),
            ("wave_turns", TURNS_MAX),
            ("idle_left", 0),
        )
        if figures[name] > most
    ]
    if wrong:
        raise BenchError("scale: too much: " + ", ".join(f"{name} {figures[name]:g}" for name in wrong))


def _cooldown_ns(setup: Setup) -> int:
    return COOLDOWN_SMOKE_NS if setup.smoke else limits.POOL_COOLDOWN_NS

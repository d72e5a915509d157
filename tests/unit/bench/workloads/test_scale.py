"""Scenario `scale`: both sides see the same load, and what is promised is checked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from runtime.bench.figures import BenchError, Sample
from runtime.bench.workloads import scale
from runtime.bench.workloads.base import Setup
from runtime.bench.workloads.pretended_pool import OneByOne, PretendedPool
from runtime.bench.workloads.scale import ScaleScenario

S = 1_000_000_000


def test_the_usual_rule_adds_one_at_a_time_and_overshoots() -> None:
    pool = PretendedPool(OneByOne(1, 64, 2 * S))
    pool.run(lambda _: 1_000.0, S)
    assert all(after == before + 1 for _, before, after, _ in pool.steps)
    assert pool.size > 20
    pool.run(lambda _: 0.0, 6 * S)
    assert pool.size == 1


def test_chance_gives_the_same_load_for_the_same_seed() -> None:
    first, second = (PretendedPool(OneByOne(4, 4, S), chance=random.Random(1)) for _ in range(2))
    for pool in (first, second):
        pool.run(lambda _: 200.0, S)
    assert first.waits_ns == second.waits_ns
    assert 100 < len(first.waits_ns) < 300
    assert len(set(first.waits_ns)) > 10


def test_too_much_is_an_error() -> None:
    good = {"step_steady_s": 45.0, "step_overshoots": 1, "wave_turns": 2, "idle_left": 0}
    scale._check(Sample(1, 1, extra=good), 15 * S)
    for name, most in good.items():
        with pytest.raises(BenchError, match=name):
            scale._check(Sample(1, 1, extra={**good, name: most + 1}), 15 * S)


@pytest.mark.slow
def test_it_is_steadier_than_the_usual_rule(tmp_path: Path) -> None:
    setup = Setup(1, 1, None, tmp_path, smoke=True)
    ours, usual = ScaleScenario().run(setup).extra, ScaleScenario().run_baseline(setup).extra
    assert ours["step_steps"] < usual["step_steps"]
    assert ours["step_overshoots"] <= 1 < usual["step_overshoots"]
    assert ours["slow_wave_turns"] < usual["slow_wave_turns"]
    assert ours["step_longest_wait_ms"] < usual["step_longest_wait_ms"] + 10

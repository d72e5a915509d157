"""Scenario `scale`: how the size of a pool follows its load, on a virtual clock.

The policy that decides in production is asked by a pool that is pretended: tasks come at a rate that changes, take a
fixed time and wait in one queue; a worker that is asked for serves after `BOOT_NS`. No process is started and no time
passes, so hours of load take seconds and the same load gives the same figures on every machine.

The load, in cooldowns: one at 10 tasks a second, a step to 1,000 for three, a square wave between both with a period of
one and a half for six, then nothing for three, after which the pool is empty. What `elapsed` measures is the
pretending; the figures are in `extra`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappush, heapreplace
from typing import Any

from actors.policy.scale import Load, Machine, ScalePolicy, Step
from actors.protocol import limits
from runtime.bench.figures import BenchError, Sample
from runtime.bench.workloads.base import Scenario, Setup

TICK_NS = 1_000_000
BOOT_NS = 60_000_000
"""From the wish for a worker to its first task."""
SERVICE_NS = 10_000_000
LARGEST = 64
LOW_PER_S, HIGH_PER_S = 10.0, 1_000.0
COOLDOWN_SMOKE_NS = 1_000_000_000
QUIET_COOLDOWNS, STEP_COOLDOWNS, WAVE_COOLDOWNS, IDLE_COOLDOWNS = 1.0, 3.0, 6.0, 3.0
WAVE_PERIOD = 1.5

Rate = Callable[[int], float]
"""Tasks a second at a time."""


@dataclass(slots=True)
class PretendedPool:
    """A pool as its policy sees it: a queue, and workers that are busy until a time.

    Attributes:
        policy: What decides.
        service_ns: How long a task takes.
        steps: Time, size before, size after and reason of each step.
        waits_ns: How long each task waited.
        worker_ns: Time of all workers together, busy or not.
    """

    policy: ScalePolicy
    service_ns: int = SERVICE_NS
    boot_ns: int = BOOT_NS
    tick_ns: int = TICK_NS
    machine: Callable[[int], Machine] | None = None
    now_ns: int = 0
    steps: list[tuple[int, int, int, str]] = field(default_factory=list)
    waits_ns: list[int] = field(default_factory=list)
    worker_ns: int = 0
    decisions: int = 0
    _queue: deque[int] = field(default_factory=deque)
    _busy: list[int] = field(default_factory=list)
    _booting: deque[int] = field(default_factory=deque)
    _owed: float = 0.0
    _arrived: int = 0

    def __post_init__(self) -> None:
        self._busy = [0] * self.policy.smallest

    @property
    def size(self) -> int:
        """Workers that serve or start."""
        return len(self._busy) + len(self._booting)

    def run(self, rate: Rate, until_ns: int) -> None:
        """Let time pass."""
        while self.now_ns < until_ns:
            self.now_ns += self.tick_ns
            self._owed += rate(self.now_ns) * self.tick_ns / 1e9
            while self._owed >= 1:
                self._owed -= 1
                self._arrived += 1
                self._queue.append(self.now_ns)
            while self._booting and self._booting[0] <= self.now_ns:
                self._booting.popleft()
                heappush(self._busy, 0)
            self._serve()
            self._resize()
            self.worker_ns += self.size * self.tick_ns

    def _serve(self) -> None:
        """Those that are free, or become free within this tick, take what waits."""
        busy = self._busy
        while self._queue and busy and busy[0] <= self.now_ns:
            begin_ns = max(busy[0], self.now_ns - self.tick_ns)
            self.waits_ns.append(max(0, begin_ns - self._queue.popleft()))
            heapreplace(busy, begin_ns + self.service_ns)

    def _resize(self) -> None:
        """As `actors.pool_size` does."""
        policy, waiting = self.policy, len(self._queue)
        running = [until for until in self._busy if until > self.now_ns]
        oldest_ns = 0
        if waiting and running and len(running) == len(self._busy):
            oldest_ns = max(1, self.now_ns - min(running) + self.service_ns)
        pressed = self.size < policy.largest and policy.pressed(waiting, oldest_ns, self._known_ns, self.size)
        if not pressed and not policy.due(self.now_ns):
            return
        if self.machine is not None:
            policy.machine = self.machine(self.now_ns)
        load = Load(
            waiting, oldest_ns, len(running), self._arrived, self._known_ns, self.size, len(self._booting),
            len(running) if self.service_ns > limits.POOL_LONG_NS else 0,
        )  # fmt: skip
        self.decisions += 1
        self._apply(policy.decide(load, self.now_ns))

    @property
    def _known_ns(self) -> int:
        """The usual duration, once a task ended."""
        return self.service_ns if self._arrived > len(self._queue) + len(self._busy) else 0

    def _apply(self, step: Step) -> None:
        before = self.size
        if step.target > before:
            self._booting.extend([self.now_ns + self.boot_ns] * (step.target - before))
        elif step.target < before:
            idle = [until for until in self._busy if until <= self.now_ns][: before - step.target]
            for until in idle:
                self._busy.remove(until)
            heapify(self._busy)
        if self.size != before:
            self.steps.append((self.now_ns, before, self.size, step.reason))


def square_wave(low: float, high: float, period_ns: float, start_ns: int = 0) -> Rate:
    """High for the first half of each period."""
    return lambda now_ns: high if (now_ns - start_ns) % period_ns < period_ns / 2 else low


class ScaleScenario(Scenario):
    """Size of an elastic pool under a step, a wave and silence, on a virtual clock."""

    name = "scale"
    title = "size of a pool (0 to 64) under a step, a wave and silence, virtual clock; --tasks bounds the tasks"
    tasks_default = 200_000
    tasks_smoke = 20_000
    durability_default = None

    def refusal(self, setup: Setup) -> str:
        return "" if setup.tasks >= self.tasks_smoke else f"scale needs --tasks {self.tasks_smoke} or more"

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": LARGEST, "cooldown_s": _cooldown_ns(setup) / 1e9, "service_ms": SERVICE_NS / 1e6}

    def run(self, setup: Setup) -> Sample:
        cooldown_ns = _cooldown_ns(setup)
        pool = PretendedPool(ScalePolicy(0, LARGEST, cooldown_ns=cooldown_ns))
        began = time.perf_counter_ns()
        pool.run(lambda _: LOW_PER_S, _after(cooldown_ns, QUIET_COOLDOWNS, 0))
        stepped_ns = pool.now_ns
        pool.run(lambda _: HIGH_PER_S, _after(cooldown_ns, STEP_COOLDOWNS, stepped_ns))
        settled, waved_ns = pool.size, pool.now_ns
        wave = square_wave(LOW_PER_S, HIGH_PER_S, WAVE_PERIOD * cooldown_ns, waved_ns)
        pool.run(wave, _after(cooldown_ns, WAVE_COOLDOWNS, waved_ns))
        idle_ns, ended = pool.now_ns, pool.size
        pool.run(lambda _: 0.0, _after(cooldown_ns, IDLE_COOLDOWNS, idle_ns))
        elapsed_ns = time.perf_counter_ns() - began
        if pool.size:
            raise BenchError(f"scale: {pool.size} workers are left of an idle pool")
        after_step = [at_ns for at_ns, *_ in pool.steps if stepped_ns <= at_ns < waved_ns]
        in_wave = [at_ns for at_ns, *_ in pool.steps if waved_ns <= at_ns < idle_ns]
        waits = sorted(pool.waits_ns)
        extra = {
            "steps": len(pool.steps),
            "steps_in_wave": len(in_wave),
            "steady_s": (after_step[-1] - stepped_ns) / 1e9 if after_step else 0.0,
            "workers_settled": settled,
            "workers_after_wave": ended,
            "workers_mean": pool.worker_ns / pool.now_ns,
            "empty_after_s": (pool.steps[-1][0] - idle_ns) / 1e9,
            "decisions": pool.decisions,
        }
        p50_ns, p99_ns = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        return Sample(len(waits), elapsed_ns, p50_ns=p50_ns, p99_ns=p99_ns, extra=extra)


def _cooldown_ns(setup: Setup) -> int:
    return COOLDOWN_SMOKE_NS if setup.smoke else limits.POOL_COOLDOWN_NS


def _after(cooldown_ns: int, cooldowns: float, start_ns: int) -> int:
    return start_ns + round(cooldown_ns * cooldowns)

"""A pool of workers that is pretended, on a virtual clock: it asks the policy that decides in production, or another.

Tasks come at a rate that changes, take a time and wait in one queue; a worker that is asked for serves after `BOOT_NS`.
Work goes to the first worker that is free, in the order of their age, as a pool hands it out. No process is started and
no time passes, so hours of load take seconds, and the same load gives the same figures on every machine.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from actors.policy.machine import Machine
from actors.policy.scale import Load, Step
from actors.protocol import limits

TICK_NS: Final = 1_000_000
BOOT_NS: Final = 60_000_000
"""From the wish for a worker to its first task."""
SERVICE_NS: Final = 10_000_000
_UNKNOWN_TASK_NS: Final = 1_000_000

Rate = Callable[[int], float]
"""Tasks a second at a time."""


class SizePolicy(Protocol):
    """What decides: `actors.policy.scale.ScalePolicy` or `OneByOne`."""

    smallest: int
    largest: int
    machine: Machine | None

    def pressed(self, waiting: int, oldest_ns: int, service_ns: float, size: int) -> bool: ...

    def due(self, now_ns: int) -> bool: ...

    def decide(self, load: Load, now_ns: int) -> Step: ...


class OneByOne:
    """The usual rule: one worker more while what waits is above a bound for each, one less when one was idle for long.

    Args:
        smallest: Workers at least.
        largest: Workers at most.
        idle_ns: For how long one must be idle to go.
    """

    def __init__(self, smallest: int, largest: int, idle_ns: int) -> None:
        self.smallest = smallest
        self.largest = largest
        self.machine: Machine | None = None
        self.idle_ns = idle_ns
        self.idlest_ns = 0

    def pressed(self, waiting: int, oldest_ns: int, service_ns: float, size: int) -> bool:
        """Whether one more is wanted."""
        work_ns = waiting * (service_ns or _UNKNOWN_TASK_NS)
        return bool(waiting) and (work_ns > limits.POOL_WAIT_NS * size or oldest_ns >= limits.POOL_WAIT_NS)

    def due(self, now_ns: int) -> bool:
        """Whether one may have been idle for long enough."""
        return bool(self.idlest_ns) and self.idlest_ns + self.idle_ns <= now_ns

    def decide(self, load: Load, now_ns: int) -> Step:
        """One up, one down, or none."""
        if load.size < self.largest and self.pressed(load.waiting, load.oldest_ns, load.service_ns, load.size):
            return Step(load.size + 1, "work waits", 0)
        gone = load.size > self.smallest and self.due(now_ns)
        return Step(load.size - gone, "one is idle" if gone else "", 0)


@dataclass(slots=True)
class PretendedPool:
    """A pool as its policy sees it: a queue, and workers that are busy until a time.

    Attributes:
        policy: What decides.
        service_ns: How long a task takes, or does in the mean with `chance`.
        chance: Draws gaps and durations from exponential distributions; None: all are even.
        steps: Time, size before, size after and reason of each step.
        waits_ns: How long each task waited.
        worker_ns: Time of all workers together, busy or not.
    """

    policy: SizePolicy
    service_ns: int = SERVICE_NS
    boot_ns: int = BOOT_NS
    tick_ns: int = TICK_NS
    machine: Callable[[int], Machine] | None = None
    chance: random.Random | None = None
    now_ns: int = 0
    steps: list[tuple[int, int, int, str]] = field(default_factory=list)
    waits_ns: list[int] = field(default_factory=list)
    worker_ns: int = 0
    decisions: int = 0
    _queue: deque[int] = field(default_factory=deque)
    _busy: list[int] = field(default_factory=list)
    _booting: deque[int] = field(default_factory=deque)
    _owed: float = 0.0
    _gap: float = 1.0
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
            while self._owed >= self._gap:
                self._owed -= self._gap
                self._gap = 1.0 if self.chance is None else self.chance.expovariate(1.0)
                self._arrived += 1
                self._queue.append(self.now_ns)
            while self._booting and self._booting[0] <= self.now_ns:
                self._booting.popleft()
                self._busy.append(self.now_ns)
            if self._queue:
                self._serve()
            self._resize()
            self.worker_ns += self.size * self.tick_ns

    def _serve(self) -> None:
        """Those that are free, or became free within this tick, take what waits."""
        busy, queue = self._busy, self._queue
        for worker, until_ns in enumerate(busy):
            while queue and until_ns <= self.now_ns:
                begin_ns = max(until_ns, self.now_ns - self.tick_ns)
                self.waits_ns.append(max(0, begin_ns - queue.popleft()))
                until_ns = busy[worker] = begin_ns + self._duration_ns()

    def _duration_ns(self) -> int:
        return self.service_ns if self.chance is None else round(self.chance.expovariate(1 / self.service_ns))

    def _resize(self) -> None:
        """As `actors.pool_size` does."""
        policy, waiting, now_ns = self.policy, len(self._queue), self.now_ns
        if isinstance(policy, OneByOne):
            policy.idlest_ns = min((until for until in self._busy if until <= now_ns), default=0)
        oldest_ns = 0
        if waiting and self._busy and min(self._busy) > now_ns:
            oldest_ns = max(1, now_ns - min(self._busy) + self.service_ns)
        pressed = self.size < policy.largest and policy.pressed(waiting, oldest_ns, self._known_ns, self.size)
        if not pressed and not policy.due(now_ns):
            return
        if self.machine is not None:
            policy.machine = self.machine(now_ns)
        running = sum(until > now_ns for until in self._busy)
        load = Load(
            waiting, oldest_ns, running, self._arrived, self._known_ns, self.size, len(self._booting),
            running if self.service_ns > limits.POOL_LONG_NS else 0,
        )  # fmt: skip
        self.decisions += 1
        self._apply(policy.decide(load, now_ns))

    @property
    def _known_ns(self) -> int:
        """The usual duration, once a task ended."""
        return self.service_ns if self._arrived > len(self._queue) + len(self._busy) else 0

    def _apply(self, step: Step) -> None:
        before = self.size
        if step.target > before:
            self._booting.extend([self.now_ns + self.boot_ns] * (step.target - before))
        elif step.target < before:
            idle = sorted(until for until in self._busy if until <= self.now_ns)[: before - step.target]
            for until in idle:
                self._busy.remove(until)
        if self.size != before:
            self.steps.append((self.now_ns, before, self.size, step.reason))


def square_wave(low: float, high: float, period_ns: float, start_ns: int = 0) -> Rate:
    """High for the first half of each period."""
    return lambda now_ns: high if (now_ns - start_ns) % period_ns < period_ns / 2 else low

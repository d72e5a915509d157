"""Scenario `starvation`: more work of class high than the workers can do, without end, and one task of class low.

Tasks of class high that use the processor for a millisecond are fed at 110 % of what the workers could do if nothing
else ran. After a moment one task of class low is submitted; the feed ends when it has run, or after `--tasks` of the
others. Reported is how long it waited, whether that is within the bound that ageing states, and how many of class high
were waiting when it had run: with none, nothing was shown.

The baseline is plain first in, first out: everything in one class.
"""

from __future__ import annotations

import time
from typing import Any

from actors.protocol import limits
from runtime import Priority, Runtime
from runtime.bench import session
from runtime.bench.figures import Sample
from runtime.bench.handlers import burn_increment, increment
from runtime.bench.measure import MeasuredWindow
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.handle import TaskHandle

HIGH_NS = 1_000_000
LOAD = 1.1
LEAD_SHARE = 0.1
"""The low task is submitted after this share of the feed, when others wait already."""
FEED_NS = 5_000_000
"""Between two looks at what is due."""
BOUND_S = limits.AGEING_NS / 1e9
"""A class whose oldest task waits longer gets its turn."""
SLACK_S = 0.1
"""For what workers hold ahead at that moment, and the way there and back."""


class StarvationScenario(Scenario):
    """Wait of a task of class low under endless load of class high."""

    name = "starvation"
    title = "one low task beside an endless load of 110 % of class high; a task is one of class high, 1 ms"
    tasks_default = 20_000
    tasks_smoke = 300
    durability_default = "os"
    baseline_name = "plain FIFO of the same engine"
    baseline_is_ours = True

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "high_us": HIGH_NS // 1000, "load": LOAD, "bound_s": BOUND_S}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        return _measure(setup, Priority.HIGH, Priority.LOW)

    def run_baseline(self, setup: Setup) -> Sample:
        return _measure(setup, Priority.NORMAL, Priority.NORMAL)

    def cost(self, sample: Sample) -> float | None:
        return sample.extra["low_wait_s"]


class _Feed:
    """Submits what is due, and the one task of class low among it."""

    def __init__(self, runtime: Runtime, setup: Setup, high: Priority, low: Priority) -> None:
        self.high: list[TaskHandle[Any]] = []
        self.waited_ns = 0
        self._busy, self._patient = runtime.options(priority=high), runtime.options(priority=low)
        self._count = setup.tasks
        self._every_ns = HIGH_NS / (setup.workers * LOAD)
        self._low: TaskHandle[Any] | None = None
        self._low_sent_ns = 0

    def run(self) -> None:
        """Feed until the low task has run, or all is sent."""
        opened_ns = time.perf_counter_ns()
        while len(self.high) < self._count and not self.waited_ns:
            due = min(self._count, int((time.perf_counter_ns() - opened_ns) / self._every_ns) + 1)
            for number in range(len(self.high), due):
                self.high.append(session.submit_soon(self._busy, burn_increment, HIGH_NS, number))
            if self._low is None and due >= LEAD_SHARE * self._count:
                self._send_low()
            time.sleep(FEED_NS / 1e9)

    def _send_low(self) -> None:
        self._low_sent_ns = time.perf_counter_ns()
        self._low = self._patient.submit(increment, 41)
        self._low.add_done_callback(self._low_ended)

    def _low_ended(self, handle: TaskHandle[Any]) -> None:
        self.waited_ns = time.perf_counter_ns() - self._low_sent_ns

    def finish(self) -> None:
        """Wait for everything and check it."""
        assert self._low is not None
        check_equal([handle.result(SECONDS_MAX) for handle in self.high], [*range(1, len(self.high) + 1)], "high")
        check_equal(self._low.result(SECONDS_MAX), 42, "low")


def _measure(setup: Setup, high: Priority, low: Priority) -> Sample:
    with session.open_runtime(setup) as runtime:
        feed = _Feed(runtime, setup, high, low)
        with MeasuredWindow(session.members(runtime)) as window:
            feed.run()
            waiting = sum(not handle.done() for handle in feed.high) if feed.waited_ns else 0
            feed.finish()
    wait_s = feed.waited_ns / 1e9
    within = float(wait_s <= BOUND_S + SLACK_S)
    return window.sample(len(feed.high), low_wait_s=wait_s, high_waiting=waiting, within_bound=within)

"""What is still in order, and the rules by which one process is held against it, look by look; see `watch`.

Nothing here asks a process or saves anything: rows of the page and times come in, breaches come out. Only the resident
set is read, from /proc.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from runtime.checks import BYTES_MAX, is_number, refuse
from runtime.profile.leak_check.grading import Series
from runtime.profile.ledger.kinds import kind_named
from runtime.profile.model import Frame, Labels, Process
from runtime.profile.presence.page import ProcessRow

WINDOW_NS: Final = 10_000_000_000
WARM_NS: Final = 30_000_000_000
_CEILING: Final = 10_000
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is still in order.

    Args:
        ceilings: By kind, in place of what the kinds say.
        times_warm: So many times what a process had when warm is too many,
        many: if it is more than this.
        slope_per_min: By kind, how many it may become more in a minute; of the others any slope counts that goes on.
        rss_per_min: Bytes a minute by which a process may grow for longer.
        rss_bytes: Resident memory that a process may have; None: any.
        lag: Seconds by which an event loop may come late, at the 99th percentile.
        silence: Seconds without an answer.
        self_cpu: Share of a core that the profiler may take.

    Raises:
        ConfigurationError: One of them is no number from 0 on.
    """

    ceilings: Mapping[str, int] = field(default_factory=dict)
    times_warm: float = 10.0
    many: int = 1_000
    slope_per_min: Mapping[str, float] = field(default_factory=dict)
    rss_per_min: int = 64 << 20
    rss_bytes: int | None = None
    lag: float = 0.5
    silence: float = 30.0
    self_cpu: float = 0.03

    def __post_init__(self) -> None:
        names = ("times_warm", "many", "rss_per_min", "rss_bytes", "lag", "silence", "self_cpu")
        values = {name: getattr(self, name) for name in names if name != "rss_bytes" or self.rss_bytes is not None}
        by_kind = (("ceilings", self.ceilings), ("slope_per_min", self.slope_per_min))
        wrong = "must be a number from 0 on, not"
        refuse(
            "Bounds",
            *((_is_bound(value), f"{name} {wrong} {value!r}") for name, value in values.items()),
            *((_are_bounds(found), f"{name} must be numbers by kind, not {found!r}") for name, found in by_kind),
        )


def _are_bounds(found: object) -> bool:
    return isinstance(found, Mapping) and all(map(_is_bound, found.values()))


def _is_bound(value: object) -> bool:
    return is_number(value, 0, BYTES_MAX) or value == math.inf  # which nothing passes


class Breach(NamedTuple):
    """A bound that was passed.

    Attributes:
        trigger: Names rule, kind and role: what bundles are limited by.
        text: For people.
        value: What it is.
        bound: What it may be.
        process: Where; None: of the whole.
        at_ns: When, on the wall clock.
        bundle: Where the evidence is; "" where none was saved.
        stack: Of a lag: who held the loop up, the outermost first.
        labels: On whose account that ran.
    """

    trigger: str
    text: str
    value: float
    bound: float
    process: Process | None = None
    at_ns: int = 0
    bundle: str = ""
    stack: tuple[Frame, ...] = ()
    labels: Labels = ()

    @property
    def rule(self) -> str:
        """Which rule it was: the first word of the trigger."""
        return self.trigger.partition("-")[0]

    def __str__(self) -> str:
        who = f"{self.process.named}: " if self.process is not None else ""
        return f"{who}{self.text}" + (f"; evidence in {self.bundle}" if self.bundle else "")


def breach_of(rule: str, kind: str, process: Process, text: str, value: float, bound: float) -> Breach:
    """A bound that a process has passed."""
    role = f"{process.role}-{process.node_type}" if process.node_type else process.role
    return Breach("-".join(filter(None, (rule, kind, role))), text, float(value), float(bound), process)


class WatchedProcess:
    """One process, and what is known of it.

    Args:
        row: Of the page, as it was first seen.
        bounds: What is in order.
    """

    def __init__(self, row: ProcessRow, bounds: Bounds) -> None:
        self.row, self._bounds = row, bounds
        self._warm: dict[str, int] | None = None
        self._series: dict[str, Series] = {}
        self._memory = Series(0)
        self._window_ns = 0
        self._self_cpu: tuple[int, int] | None = None

    def look(self, row: ProcessRow, now_ns: int) -> Iterable[Breach]:
        """What is out of bounds now."""
        self.row, process = row, row.process
        if self._warm is None and row.counts and now_ns - row.begun_ns >= WARM_NS:
            self._warm = {kind: count.live for kind, count in row.counts.items()}
        for kind, count in row.counts.items():
            bound = self._ceiling(kind)
            if count.live > bound:
                yield breach_of(
                    "ceiling", kind, process, f"{count.live:,} x {kind}, more than {bound:,}", count.live, bound
                )
        if row.lag_ns > self._bounds.lag * 1e9:
            late_s = row.lag_ns / 1e9
            text = f"its event loop comes late by {late_s:.2g} s at the 99th percentile"
            yield breach_of("lag", "loop", process, text, late_s, self._bounds.lag)
        yield from self._slopes(now_ns)
        yield from self._own_cost(now_ns)

    def was_recorded(self) -> None:
        """Evidence was asked of it, or what healthy is: that costs what it costs, and nothing follows from it."""
        self._self_cpu = None

    def _own_cost(self, now_ns: int) -> Iterable[Breach]:
        """By the window: one answer within a second is no rate."""
        row, known = self.row, self._self_cpu
        if known is not None:
            if now_ns - known[0] < WINDOW_NS:
                return
            share = (row.self_cpu_ns - known[1]) / (now_ns - known[0])
            if share > self._bounds.self_cpu:
                text = f"the profiler itself takes {share:.1%} of a core"
                yield breach_of("self", "", row.process, text, share, self._bounds.self_cpu)
        self._self_cpu = (now_ns, row.self_cpu_ns)

    def _ceiling(self, kind: str) -> int:
        asked = self._bounds.ceilings.get(kind)
        if asked is not None:
            return asked
        known = kind_named(kind)
        ceiling = known.ceiling if known is not None else _CEILING
        if self._warm is None or (known is not None and known.event):
            return ceiling
        return min(ceiling, max(self._bounds.many, int(self._bounds.times_warm * self._warm.get(kind, 0))))

    def _slopes(self, now_ns: int) -> Iterable[Breach]:
        row, process = self.row, self.row.process
        if now_ns - self._window_ns >= WINDOW_NS:
            self._window_ns, warm = now_ns, self._warm or {}
            for kind, count in row.counts.items():
                series = self._series.setdefault(kind, Series(0, warm.get(kind, 0)))
                series.warm = warm.get(kind, series.warm)
                series.look(now_ns, [count.oldest_ns] if count.oldest_ns and count.live else [], count.live)
            self._memory.look(now_ns, (), resident_bytes(process.pid))
        for kind, series in self._series.items():
            facts, most = series.facts(), self._bounds.slope_per_min.get(kind)
            slope, low = facts.slope.value * _MINUTE, facts.slope.low * _MINUTE
            if (facts.grows and facts.stays and facts.many) if most is None else (facts.grows and low > most):
                text = f"{kind}: {slope:+,.1f} a minute, {facts.said()}"
                yield breach_of("slope", kind, process, text, slope, most or 0.0)
        yield from self._of_memory()

    def _of_memory(self) -> Iterable[Breach]:
        process, bounds, facts = self.row.process, self._bounds, self._memory.facts()
        if facts.grows and facts.slope.low * _MINUTE > bounds.rss_per_min:
            grown = facts.slope.value * _MINUTE
            text = f"memory grows by {grown / (1 << 20):,.0f} MiB a minute"
            yield breach_of("slope", "memory", process, text, grown, bounds.rss_per_min)
        resident = self._memory.windows[-1].number if self._memory.windows else 0
        if bounds.rss_bytes is not None and resident > bounds.rss_bytes:
            text = f"{resident >> 20:,} MiB of memory, more than {bounds.rss_bytes >> 20:,}"
            yield breach_of("ceiling", "memory", process, text, resident, bounds.rss_bytes)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0

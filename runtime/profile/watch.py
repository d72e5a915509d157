"""The watch: looks at the page of a state folder each second, and saves a bundle when a bound is passed.

    ceiling     more of a kind in one process than its kind may have (`kinds`), or `times_warm` times what it had when
                warm and more than `many`
    slope       of a kind: it grows, is many, and the oldest is the same (Theil-Sen over six looks of ten seconds and
                more); of memory: the resident set grows by more than `rss_per_min`
    lag         a process that does not answer within `silence`: its main thread is in a C function, or has no core
    self        the profiler itself takes more than `self_cpu` of a core there
    slo         an objective burns its budget in both windows (`burn`)

The page needs nobody's help, so a look costs the processes nothing; every ten seconds all are asked for their books,
since those that sleep write none. A breach that goes on is one breach: it is told again when it was over. At most one
bundle a trigger in ten minutes; a trigger is a rule, a kind and a role, so that a hundred workers that fail alike make
one. What is not saved is told all the same, with `bundle` empty.

While nothing is wrong, the recorded minute of all processes is kept now and then, for an hour: what a bundle's cpu
profile is compared with.

Concurrency: `Watch.look` by one thread. Known limits: what a process does between two of its books is not seen; roles
and node types make a trigger, so two leaks of one kind in one node type make one bundle.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.profile.bundle import Bundles, Evidence
from runtime.profile.burn import Burning, Slo
from runtime.profile.control import ask, page_of_folder
from runtime.profile.grading import Series
from runtime.profile.kinds import kind_named
from runtime.profile.model import Process, Profile
from runtime.profile.page import PageReader, ProcessRow

LOOK_S: Final = 1.0
WINDOW_NS: Final = 10_000_000_000
WARM_NS: Final = 30_000_000_000
HEALTHY_NS: Final = 600_000_000_000
HEALTHY_KEPT: Final = 6
_CEILING: Final = 10_000
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is still in order.

    Args:
        ceilings: By kind, in place of what the kinds say.
        times_warm: So many times what a process had when warm is too many,
        many: if it is more than this.
        rss_per_min: Bytes a minute by which a process may grow for longer.
        silence: Seconds without an answer.
        self_cpu: Share of a core that the profiler may take.
    """

    ceilings: Mapping[str, int] = field(default_factory=dict)
    times_warm: float = 10.0
    many: int = 1_000
    rss_per_min: int = 64 << 20
    silence: float = 5.0
    self_cpu: float = 0.03


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
    """

    trigger: str
    text: str
    value: float
    bound: float
    process: Process | None = None
    at_ns: int = 0
    bundle: str = ""

    def __str__(self) -> str:
        who = f"{self.process.title} (pid {self.process.pid}): " if self.process is not None else ""
        return f"{who}{self.text}" + (f"; evidence in {self.bundle}" if self.bundle else "")


class _Watched:
    """What is known of a process."""

    def __init__(self, row: ProcessRow) -> None:
        self.row = row
        self.warm: dict[str, int] | None = None
        self.series: dict[str, Series] = {}
        self.memory = Series(0)
        self.window_ns = 0
        self.self_cpu: tuple[int, int] | None = None


class Watch:
    """Looks when it is told.

    Args:
        state_dir: The folder.
        bounds: What is in order.
        slos: Objectives.
        bundles: Where evidence goes; None: none is saved.
        evidence: Where it comes from.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        *,
        bounds: Bounds | None = None,
        slos: Iterable[Slo] = (),
        bundles: Bundles | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        self.state_dir, self.bounds = os.fspath(state_dir), bounds or Bounds()
        self.bundles = bundles
        self._evidence = evidence or Evidence()
        self._burning = [Burning(slo) for slo in slos]
        self._watched: dict[Process, _Watched] = {}
        self._open: set[tuple[str, Process | None]] = set()
        self._asked_ns = 0
        self._healthy_ns = 0
        self._healthy: deque[Profile] = deque(maxlen=HEALTHY_KEPT)

    def look(self, page: PageReader, now_ns: int | None = None) -> list[Breach]:
        """Look once.

        Args:
            page: Of the folder.
            now_ns: Monotonic time; one of one's own is for tests.

        Returns:
            What is out of bounds since this look, evidence not yet saved.
        """
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        found: list[Breach] = []
        rows = page.processes()
        known, self._watched = self._watched, {}
        for row in rows:
            watched = self._watched[row.process] = known.get(row.process) or _Watched(row)
            watched.row = row
            found += self._of_process(watched, now_ns)
        for burning in self._burning:
            found += self._of_slo(burning, now_ns)
        there = {(one.trigger, one.process) for one in found}
        fresh = [one for one in found if (one.trigger, one.process) not in self._open]
        self._open = there
        at_ns = time.time_ns()
        return [one._replace(at_ns=at_ns) for one in fresh]

    def ask_sleepers(self, now_ns: int) -> list[Breach]:
        """Have all write their books, every ten seconds. Returns who did not answer: wedged, or without a core."""
        if now_ns - self._asked_ns < WINDOW_NS:
            return []
        self._asked_ns = now_ns
        with suppress(ProfileUnavailable):
            answers = ask(self.state_dir, "count", timeout=self.bounds.silence)
            bound = self.bounds.silence
            return [
                self._breach("lag", "", process, f"no answer for {bound:g} s: it hangs, or has no core", bound, bound)
                for process in answers.missing
            ]
        return []

    def save(self, breach: Breach) -> Breach:
        """Save evidence of it, if its trigger had none lately. Returns it with the place."""
        now = datetime.now(UTC)
        if self.bundles is None or not self.bundles.may(breach.trigger, now):
            return breach
        try:
            return breach._replace(bundle=str(self.bundles.save(breach.trigger, breach._asdict(), now)))
        except OSError as full:
            return breach._replace(text=f"{breach.text}; no evidence: {full}")

    def keep_healthy(self, now_ns: int) -> None:
        """Nothing is wrong: record what that looks like, every ten minutes. Its failure is none of who is watched."""
        if self.bundles is None or self._open or now_ns - self._healthy_ns < HEALTHY_NS:
            return
        self._healthy_ns = now_ns
        with suppress(Exception):
            self._healthy.append(self._evidence.flight(self.state_dir))
            first, *rest = self._healthy
            merged = first.map(lambda sample: sample).merge(*rest)
            merged.duration_ns = sum(one.duration_ns for one in self._healthy)
            self.bundles.keep_healthy(merged)

    # --- rules ----------------------------------------------------------------------------------------------------

    def _of_process(self, watched: _Watched, now_ns: int) -> Iterable[Breach]:
        row, process = watched.row, watched.row.process
        if watched.warm is None and row.counts and now_ns - row.begun_ns >= WARM_NS:
            watched.warm = {kind: count.live for kind, count in row.counts.items()}
        for kind, count in row.counts.items():
            bound = self._ceiling(kind, watched.warm)
            if count.live > bound:
                yield self._breach(
                    "ceiling", kind, process, f"{count.live:,} x {kind}, of {bound:,}", count.live, bound
                )
        yield from self._slopes(watched, now_ns)
        if watched.self_cpu is not None and now_ns > watched.self_cpu[0]:
            share = (row.self_cpu_ns - watched.self_cpu[1]) / (now_ns - watched.self_cpu[0])
            if share > self.bounds.self_cpu:
                text = f"the profiler itself takes {share:.1%} of a core"
                yield self._breach("self", "", process, text, share, self.bounds.self_cpu)
        if watched.self_cpu is None or now_ns - watched.self_cpu[0] >= WINDOW_NS:
            watched.self_cpu = (now_ns, row.self_cpu_ns)

    def _ceiling(self, kind: str, warm: Mapping[str, int] | None) -> int:
        asked = self.bounds.ceilings.get(kind)
        if asked is not None:
            return asked
        known = kind_named(kind)
        ceiling = known.ceiling if known is not None else _CEILING
        if warm is None or (known is not None and known.event):
            return ceiling
        return min(ceiling, max(self.bounds.many, int(self.bounds.times_warm * warm.get(kind, 0))))

    def _slopes(self, watched: _Watched, now_ns: int) -> Iterable[Breach]:
        row, process = watched.row, watched.row.process
        if now_ns - watched.window_ns >= WINDOW_NS:
            watched.window_ns = now_ns
            for kind, count in row.counts.items():
                series = watched.series.setdefault(kind, Series(0, (watched.warm or {}).get(kind, 0)))
                series.warm = (watched.warm or {}).get(kind, series.warm)
                series.look(now_ns, [count.oldest_ns] if count.oldest_ns and count.live else [], count.live)
            watched.memory.look(now_ns, (), resident_bytes(process.pid))
        for kind, series in watched.series.items():
            facts = series.facts()
            if facts.grows and facts.stays and facts.many:
                slope = facts.slope.value * _MINUTE
                yield self._breach(
                    "slope", kind, process, f"{kind}: {slope:+,.1f} a minute, {facts.said()}", slope, 0.0
                )
        memory = watched.memory.facts()
        if memory.grows and memory.slope.low * _MINUTE > self.bounds.rss_per_min:
            grown = memory.slope.value * _MINUTE
            text = f"memory grows by {grown / (1 << 20):,.0f} MiB a minute"
            yield self._breach("slope", "memory", process, text, grown, self.bounds.rss_per_min)

    def _of_slo(self, burning: Burning, now_ns: int) -> Iterable[Breach]:
        slo = burning.slo
        try:
            total, bad = slo.measure()
        except Exception:  # noqa: BLE001, RUF100 - it is the user's; what it does not say is not known
            return
        burning.add(now_ns, total, bad)
        if burning.breached():
            fast, slow = burning.rates()
            text = f"{slo.name}: burns its budget {fast:.1f} and {slow:.1f} times too fast ({bad:,} of {total:,} bad)"
            yield Breach(f"slo-{slo.name}", text, fast, slo.burn)

    @staticmethod
    def _breach(rule: str, kind: str, process: Process, text: str, value: float, bound: float) -> Breach:
        role = f"{process.role}-{process.node_type}" if process.node_type else process.role
        return Breach("-".join(filter(None, (rule, kind, role))), text, float(value), float(bound), process)


def watch(
    where: Any,
    *,
    seconds: float | None = None,
    tell: Callable[[Breach], None] | None = None,
    stop: Callable[[], bool] | None = None,
    bounds: Bounds | None = None,
    slos: Iterable[Slo] = (),
    evidence: Evidence | None = None,
    save: bool = True,
) -> list[Breach]:
    """Watch a state folder; blocks.

    Args:
        where: A state folder, or a runtime.
        seconds: How long; None: until `stop` says so, or the folder is closed.
        tell: Called with each breach, after its evidence is saved.
        stop: Asked each second.
        bounds: What is in order.
        slos: Objectives.
        evidence: Where bundles get their parts.
        save: Whether bundles are saved, in STATE/profile/bundles.

    Returns:
        All breaches.

    Raises:
        ProfileUnavailable: No program of this user has the folder open.
    """
    state_dir = os.fspath(getattr(where, "state_dir", where))
    bundles = Bundles(state_dir, evidence) if save else None
    watching = Watch(state_dir, bounds=bounds, slos=slos, bundles=bundles, evidence=evidence)
    page = page_of_folder(state_dir)
    if page is None:
        raise ProfileUnavailable(f"no program of this user has {state_dir} open here")
    breaches: list[Breach] = []
    ends_s = None if seconds is None else time.monotonic() + seconds
    try:
        while (stop is None or not stop()) and (ends_s is None or time.monotonic() < ends_s):
            now_ns = time.monotonic_ns()
            if not page.processes():
                break
            for breach in [*watching.ask_sleepers(now_ns), *watching.look(page, now_ns)]:
                saved = watching.save(breach)
                breaches.append(saved)
                if tell is not None:
                    tell(saved)
            watching.keep_healthy(now_ns)
            time.sleep(LOOK_S)
    finally:
        page.close()
    return breaches


class Watching:
    """A watch in a thread, for a program that watches its own runtime: `with Watching(rt.state_dir, slos=[...]) as w:`.

    Arguments are those of `watch`. `breaches` has what was found so far.
    """

    def __init__(self, where: Any, **asked: Any) -> None:
        self.breaches: list[Breach] = []
        self._end = threading.Event()
        self._tell = asked.pop("tell", None)
        self._asked = asked
        self._where = where
        self._thread = threading.Thread(target=self._run, name="mainspring-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(ProfileUnavailable, ValueError):  # the folder is closed
            watch(self._where, tell=self._note, stop=self._end.is_set, **self._asked)

    def _note(self, breach: Breach) -> None:
        self.breaches.append(breach)
        if self._tell is not None:
            self._tell(breach)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0

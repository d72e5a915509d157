"""The watch: looks at the page of a state folder each second, and saves a bundle when a bound is passed.

    ceiling     more of a kind in one process than its kind may have (`kinds`), or `times_warm` times what it had when
                warm and more than `many`; more memory than `rss_bytes`
    slope       of a kind: it grows, is many, and the oldest is the same (Theil-Sen over six looks of ten seconds and
                more), or by more than `slope_per_min`; of memory: the resident set grows by more than `rss_per_min`
    lag         an event loop comes late (`lag`), told with the stack of who holds it up
    silence     a process does not answer: its main thread is in a C function, or has no core; with its stack, too
    self        the profiler itself takes more than `self_cpu` of a core there
    slo         an objective burns its budget in both windows (`burn`)

The page needs nobody's help, so a look costs the processes nothing; every ten seconds all are asked for their books,
since those that sleep write none, and to look how late their loops are. A breach that goes on is one breach: it is told
again when it was over. At most one bundle a trigger in ten minutes; a trigger is a rule, a kind and a role, so that a
hundred workers that fail alike make one. What is not saved is told all the same, with `bundle` empty.

While nothing is wrong, the recorded minute of all processes is kept now and then, for an hour: what a bundle's cpu
profile is compared with. The first one is kept a minute after the watch began.

Concurrency: `Watch.look` by one thread. Known limits: what a process does between two of its books is not seen; roles
and node types make a trigger, so two leaks of one kind in one node type make one bundle.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final, Self

import orjson

from actors.protocol.errors import CallerError
from actors.protocol.profile_errors import ProfileUnavailable
from runtime.profile.captures.capture import pass_time
from runtime.profile.captures.live import dump
from runtime.profile.leak_check.grading import place
from runtime.profile.ledger.kinds import kind_named
from runtime.profile.model import Process, Profile
from runtime.profile.monitor.bounds import WINDOW_NS, Bounds, Breach, WatchedProcess, breach_of
from runtime.profile.monitor.bundle import Bundles, Evidence
from runtime.profile.monitor.burn import Burning, Slo
from runtime.profile.monitor.lag import Block
from runtime.profile.presence.control import TIMEOUT_S, ask, seen_page
from runtime.profile.presence.find import state_dir_of
from runtime.profile.presence.page import Page

__all__ = ["Bounds", "Breach", "Slo", "Watch", "Watching", "watch"]

LOOK_S: Final = 1.0
HEALTHY_NS: Final = 600_000_000_000
FIRST_HEALTHY_NS: Final = 60_000_000_000
HEALTHY_KEPT: Final = 6
MEMORY_S: Final = 5.0
_ANSWER_S: Final = 1.0
"""For books: who has none to give by then is asked again, see `Bounds.silence`."""


class Watch:
    """Looks when it is told.

    Args:
        state_dir: The folder.
        bounds: What is in order.
        slos: Objectives.
        bundles: Where evidence goes; None: none is saved.
        evidence: Where it comes from.
        healthy_ns: Between two times that it is recorded what nothing wrong looks like.
        memory_s: Seconds for which a process that grows is looked at.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        *,
        bounds: Bounds | None = None,
        slos: Iterable[Slo] = (),
        bundles: Bundles | None = None,
        evidence: Evidence | None = None,
        healthy_ns: int = HEALTHY_NS,
        memory_s: float = MEMORY_S,
    ) -> None:
        self.state_dir, self.bounds = os.fspath(state_dir), bounds or Bounds()
        self.bundles = bundles
        self._evidence = evidence or Evidence()
        self._burning = [Burning(slo) for slo in slos]
        self._watched: dict[Process, WatchedProcess] = {}
        self._silent: dict[Process, int] = {}
        self._blocks: dict[Process, Block] = {}
        self._open: set[tuple[str, Process | None]] = set()
        self._asked_ns = 0
        self._memory_s = memory_s
        self._healthy_ns = 0
        self._healthy_step_ns = min(FIRST_HEALTHY_NS, healthy_ns)
        self._healthy_each_ns = healthy_ns
        self._healthy: deque[Profile] = deque(maxlen=HEALTHY_KEPT)

    def look(self, page: Page, now_ns: int | None = None) -> list[Breach]:
        """Look once.

        Args:
            page: Of the folder.
            now_ns: Monotonic time; one of one's own is for tests.

        Returns:
            What is out of bounds since this look, evidence not yet saved.
        """
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        found: list[Breach] = []
        known, self._watched = self._watched, {}
        for row in page.processes():
            if row.process not in known:
                self._asked_ns = 0  # it shall look at its loop soon
            watched = self._watched[row.process] = known.get(row.process) or WatchedProcess(row, self.bounds)
            found += watched.look(row, now_ns)
            since_ns = self._silent.get(row.process, now_ns)
            if now_ns - since_ns >= self.bounds.silence * 1e9:
                text = f"no answer for {(now_ns - since_ns) / 1e9:.0f} s: it hangs, or has no core"
                found.append(
                    breach_of("silence", "", row.process, text, (now_ns - since_ns) / 1e9, self.bounds.silence)
                )
        for burning in self._burning:
            found += self._of_slo(burning, now_ns)
        there = {(one.trigger, one.process) for one in found}
        fresh = [one for one in found if (one.trigger, one.process) not in self._open]
        self._open = there
        at_ns = time.time_ns()
        return [one._replace(at_ns=at_ns) for one in fresh]

    def ask_all(self, now_ns: int) -> None:
        """Every ten seconds: have all write their books, look at their loops, and say what held them up since."""
        if now_ns - self._asked_ns >= WINDOW_NS:
            self._asked_ns = now_ns
            self._ask(now_ns)

    def _ask(self, now_ns: int, only: frozenset[int] | None = None) -> None:
        with suppress(ProfileUnavailable):
            timeout = _ANSWER_S if only is None else TIMEOUT_S
            answers = ask(self.state_dir, "lag", timeout=timeout, only=only)
            for process, content in answers.rows:
                blocks = [Block.of_json(row) for row in orjson.loads(content)]
                if blocks:
                    self._blocks[process] = max(blocks, key=lambda block: block.late_ns)
            if only is None:
                self._silent = {process: self._silent.get(process, now_ns) for process in answers.missing}
                self._blocks = {who: block for who, block in self._blocks.items() if who in self._watched}

    def explain(self, breach: Breach) -> Breach:
        """Say who holds up the loop, what hangs, or whose memory grows. Asks that process."""
        process = breach.process
        if process is None or breach.rule not in ("lag", "silence", "slope"):
            return breach
        pids = frozenset({process.pid})
        with suppress(ProfileUnavailable):
            if breach.rule == "slope":
                return self._grown(breach, pids) if breach.trigger.startswith("slope-memory") else breach
            if breach.rule == "lag":
                self._ask(time.monotonic_ns(), pids)
                if (block := self._blocks.pop(process, None)) is not None:
                    text = f"{breach.text}; it was held up for {block.late_ns / 1e9:.2g} s by {block.said()}"
                    return breach._replace(text=text, stack=block.stack, labels=block.labels)
            found = dump(self.state_dir, pids=pids, patience=_ANSWER_S)
            stacks = [one.stack for one, _ in found if one.process == process and one.thread == "MainThread"]
            if stacks and stacks[0]:
                return breach._replace(text=f"{breach.text}; it is in {stacks[0][-1].name}", stack=stacks[0])
        return breach

    def _grown(self, breach: Breach, pids: frozenset[int]) -> Breach:
        if self.bundles is not None and not self.bundles.may(breach.trigger, datetime.now(UTC)):
            return breach  # it was said lately, and looking slows that process down
        growth = import_module("runtime.profile.leak_check.memory").growth
        findings = growth(self.state_dir, seconds=self._memory_s, pids=pids).findings
        self._were_recorded()
        if not findings:
            return breach._replace(text=f"{breach.text}; nothing that Python code took in {self._memory_s:g} s is kept")
        first = findings[0]
        text = f"{breach.text}; most of it in {place(first.site[-1])}: {first.proof}"
        return breach._replace(text=text, stack=first.site, labels=first.labels)

    def save(self, breach: Breach) -> Breach:
        """Save evidence of it, if its trigger had none lately. Returns it with the place."""
        now = datetime.now(UTC)
        if self.bundles is None or not self.bundles.may(breach.trigger, now):
            return breach
        try:
            return breach._replace(bundle=str(self.bundles.save(breach.trigger, breach._asdict(), now)))
        except OSError as full:
            return breach._replace(text=f"{breach.text}; no evidence: {full}")
        finally:
            self._were_recorded()

    def keep_healthy(self, now_ns: int) -> None:
        """Nothing is wrong: record what that looks like, a minute after the beginning, and then every ten minutes. Its
        failure is none of who is watched."""
        self._healthy_ns = self._healthy_ns or now_ns
        if self.bundles is None or self._ill() or now_ns - self._healthy_ns < self._healthy_step_ns:
            return
        self._healthy_ns, self._healthy_step_ns = now_ns, self._healthy_each_ns
        with suppress(Exception):
            self._healthy.append(self._evidence.flight(self.state_dir))
            first, *rest = self._healthy
            merged = first.map(lambda sample: sample).merge(*rest)
            merged.duration_ns = sum(one.duration_ns for one in self._healthy)
            self.bundles.keep_healthy(merged)
        self._were_recorded()

    def _were_recorded(self) -> None:
        for watched in self._watched.values():
            watched.was_recorded()

    def _ill(self) -> bool:
        """Whether something goes on. What happened once, such as a call that lacked an await, does not."""
        for trigger, _ in self._open:
            rule, kind = (*trigger.split("-"), "")[:2]
            known = kind_named(kind)
            if rule != "ceiling" or known is None or not known.event:
                return True
        return False

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
    healthy: float = HEALTHY_NS / 1e9,
) -> list[Breach]:
    """Watch a state folder; blocks.

    Args:
        where: A state folder, a runtime, or None for the only folder that is open on this machine.
        seconds: How long; None: until `stop` says so, or the folder is closed.
        tell: Called with each breach, after its evidence is saved.
        stop: Asked each second.
        bounds: What is in order.
        slos: Objectives; a measure that has a `close` is closed at the end.
        evidence: Where bundles get their parts.
        save: Whether bundles are saved, in STATE/profile/bundles.
        healthy: Seconds between two times that it is recorded what nothing wrong looks like.

    Returns:
        All breaches.

    Raises:
        ProfileUnavailable: No program of this user has the folder open.
    """
    state_dir, slos = state_dir_of(where), tuple(slos)
    bundles = Bundles(state_dir, evidence) if save else None
    healthy_ns = int(healthy * 1e9)
    watching = Watch(state_dir, bounds=bounds, slos=slos, bundles=bundles, evidence=evidence, healthy_ns=healthy_ns)
    breaches: list[Breach] = []
    ends_s = None if seconds is None else time.monotonic() + seconds
    with seen_page(state_dir) as page:
        if bundles is not None:
            bundles.sweep()
        try:
            while (stop is None or not stop()) and (ends_s is None or time.monotonic() < ends_s):
                now_ns = time.monotonic_ns()
                if not page.processes():
                    break
                watching.ask_all(now_ns)
                for breach in watching.look(page, now_ns):
                    saved = watching.save(watching.explain(breach))
                    breaches.append(saved)
                    if tell is not None:
                        tell(saved)
                watching.keep_healthy(now_ns)
                pass_time(LOOK_S, stop)
        finally:
            for slo in slos:
                getattr(slo.measure, "close", lambda: None)()
    return breaches


class Watching:
    """A watch in a thread, for a program that watches its own runtime: `with Watching(rt.state_dir, slos=[...]) as w:`.

    A `tell` that raises does not end it. What fails is told once by the logger "mainspring", and counted.

    Args:
        where: As of `watch`.
        asked: Arguments of `watch`, but `stop`.

    Attributes:
        breaches: What was found so far.
        failures: How often something failed: `tell`, or the watch itself, which has then ended.
        failure: What failed last; "" where nothing did.

    Raises:
        TypeError: There is no such argument. CallerError: One is not what it must be.
        ProfileUnavailable: No folder was given, and there is not exactly one.
    """

    def __init__(self, where: Any, **asked: Any) -> None:
        self.breaches: list[Breach] = []
        self.failures, self.failure = 0, ""
        self._end = threading.Event()
        self._tell = asked.pop("tell", None)
        inspect.signature(watch).bind(where, tell=self._tell, stop=self._end.is_set, **asked)
        asked["slos"] = tuple(asked.get("slos", ()))
        _check(self._tell, asked)
        self._asked = asked
        self._where = state_dir_of(where)
        self._thread = threading.Thread(target=self._run, name="mainspring-watch", daemon=True)

    def start(self) -> Self:
        """Watch from now on, until `close`."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End; waits until a bundle that is being saved is. Again is harmless."""
        self._end.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    __enter__ = start

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            watch(self._where, tell=self._note, stop=self._end.is_set, **self._asked)
        except Exception as broken:  # noqa: BLE001, RUF100 - said, and the program goes on
            if not self._end.is_set():  # else the folder is being closed
                self._failed("the watch has ended", broken)

    def _note(self, breach: Breach) -> None:
        self.breaches.append(breach)
        if self._tell is not None:
            try:
                self._tell(breach)
            except Exception as broken:  # noqa: BLE001, RUF100 - it is the user's
                self._failed("what is to be told of breaches fails", broken)

    def _failed(self, what: str, broken: Exception) -> None:
        known, self.failure = self.failure, f"{what}: {type(broken).__name__}: {broken}"
        self.failures += 1
        if not known.startswith(what):
            logging.getLogger("mainspring").warning("%s: %s", self._where, self.failure, exc_info=broken)


def _check(tell: Any, asked: Mapping[str, Any]) -> None:
    """Raises CallerError, before a thread would."""
    if tell is not None and not callable(tell):
        raise CallerError(f"tell must be called with each breach, and {type(tell).__name__} cannot be")
    wanted = [("bounds", Bounds, asked.get("bounds")), ("evidence", Evidence, asked.get("evidence"))]
    for name, kind, given in [*wanted, *(("slos", Slo, one) for one in asked["slos"])]:
        if given is None and name != "slos":
            continue
        if not isinstance(given, kind):
            raise CallerError(f"{name}: this is of {kind.__name__}, not {type(given).__name__}")
    for name in ("seconds", "healthy"):
        given = asked.get(name)
        if given is not None and not (isinstance(given, int | float) and given >= 0):
            raise CallerError(f"{name} must be seconds from 0, not {given!r}")

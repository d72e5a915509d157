"""How late the event loop of this process is, and who holds it up: while somebody wants to know (`watch`).

A timer in the loop comes ten times a second and says by how much it was late; a thread sees that it is late while it
is, and takes the stack of whoever is running instead. Beats that a blocked loop left out count as late as they would
have been (Tene's "coordinated omission"): a loop that stands still for five seconds makes fifty of them, and not one.

    loop     ── beat ── beat ────────── blocked ────────── beat (late by 4.9 s) ── beat
    thread     look      look     look: late: its stack is taken, once; the page says "late" from here on

Whoever watches asks now and then (`answer`), and is told the lag, and what blocked since; nobody asks, and after
`KEPT_S` both end: a process that nobody watches has neither timer nor thread.

Concurrency: `Lag.beat` in the loop's thread, `Lag._look` in the thread of this module, the rest in any.
Known limits: what holds the interpreter lock for long, as some C libraries do, is seen when it lets go of it, at the
    next line of whoever called it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, Final, NamedTuple

import orjson

from runtime.profile.ledger.sites import Places, places_of
from runtime.profile.model import Frame, Labels
from runtime.profile.presence import counting
from runtime.profile.presence.here import HERE, Request
from runtime.profile.sampling.contexts import labels_of
from runtime.profile.sampling.pressure import LoopLag
from runtime.profile.sampling.waits import HERE_WAITS

BEAT_NS: Final = 100_000_000
LATE_NS: Final = 100_000_000
"""Later than this, and it is of interest who runs instead."""
KEPT_S: Final = 30.0
BLOCKS_MAX: Final = 32
"""Kept until somebody asks; the latest."""


class Block(NamedTuple):
    """Something held the loop up.

    Attributes:
        at_ns: When the beat was due (monotonic).
        late_ns: How late it was, or is by now.
        stack: What ran instead, the outermost first.
        task: The name of its task; "" where it was none.
        labels: On whose account.
    """

    at_ns: int
    late_ns: int
    stack: tuple[Frame, ...]
    task: str
    labels: Labels

    def said(self) -> str:
        """For people."""
        return self.stack[-1].name if self.stack else "?"

    def as_json(self) -> list[Any]:
        """As plain data; `of_json` reads it."""
        return [self.at_ns, self.late_ns, [[*frame] for frame in self.stack], self.task, self.labels]

    @classmethod
    def of_json(cls, row: list[Any]) -> Block:
        """Read what `as_json` gave, after JSON made lists of tuples."""
        stack, labels = tuple(Frame(*frame) for frame in row[2]), tuple((pair[0], pair[1]) for pair in row[4])
        return cls(row[0], row[1], stack, row[3], labels)


class _Seen(NamedTuple):
    """Who ran when a beat was late."""

    due_ns: int
    places: Places
    task: str
    labels: Labels

    def block(self, now_ns: int) -> Block:
        """As it is told."""
        stack = tuple(Frame(code.co_qualname, code.co_filename, line) for code, line in self.places)
        return Block(self.due_ns, now_ns - self.due_ns, stack, self.task, self.labels)


class Lag:
    """See the module.

    Args:
        loop: The loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.lags = LoopLag()
        self._blocks: deque[Block] = deque(maxlen=BLOCKS_MAX)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop_thread = threading.main_thread().ident or 0  # until its first beat
        self._due_ns = self._until_ns = 0
        self._now: _Seen | None = None

    def keep(self, seconds: float = KEPT_S) -> None:
        """Look for so long from now."""
        with self._lock, suppress(RuntimeError):  # the loop is closed
            self._until_ns = time.monotonic_ns() + int(seconds * 1e9)
            if self._thread is None:
                self._due_ns = time.monotonic_ns()  # it may be held up already
                self.loop.call_soon_threadsafe(self.beat)
                self._thread = threading.Thread(target=self._looks, name="mainspring-lag", daemon=True)
                self._thread.start()

    def taken(self) -> list[Block]:
        """What blocked since the last time, that which does included."""
        found: list[Block] = []
        with suppress(IndexError):
            while True:
                found.append(self._blocks.popleft())
        seen = self._now
        if seen is not None and seen.due_ns == self._due_ns:
            found.append(seen.block(time.monotonic_ns()))
        return found

    def beat(self) -> None:
        """In the loop."""
        now_ns = time.monotonic_ns()
        if self._due_ns:
            self.lags.add(now_ns - self._due_ns, BEAT_NS)
            if (seen := self._now) is not None and seen.due_ns == self._due_ns:
                self._blocks.append(seen.block(now_ns))
        self._loop_thread = threading.get_ident()
        self._now, over = None, now_ns >= self._until_ns
        self._show(0 if over else self.lags.quantile_ns(0.99))
        self._due_ns = 0 if over else now_ns + BEAT_NS
        if not over:
            self.loop.call_later(BEAT_NS / 1e9, self.beat)

    def _looks(self) -> None:
        while True:
            time.sleep(BEAT_NS / 1e9)
            with self._lock:
                if time.monotonic_ns() >= self._until_ns and not self._due_ns:
                    self._thread = None
                    return
            if self.loop.is_closed():
                self._due_ns = 0
            self._look()

    def _look(self) -> None:
        due_ns, now_ns = self._due_ns, time.monotonic_ns()
        if not due_ns or now_ns - due_ns < LATE_NS:
            return
        self._show(max(self.lags.quantile_ns(0.99), now_ns - due_ns))
        if self._now is not None and self._now.due_ns == due_ns:
            return
        frame = sys._current_frames().get(self._loop_thread)
        seen = _Seen(due_ns, places_of(frame), *self._running())
        del frame
        if self._due_ns == due_ns:  # else it has just gone on; the next beat knows by `due_ns` that it is none of its
            self._now = seen

    def _running(self) -> tuple[str, Labels]:
        """Name and labels of the task that runs in the loop."""
        with suppress(Exception):  # private attributes, of whatever is a task: see `parents`
            task = asyncio.current_task(self.loop)
            if task is not None:
                return task.get_name(), labels_of(task)
        return "", ()

    @staticmethod
    def _show(late_ns: int) -> None:
        for presence in list(HERE.presences):
            with suppress(ValueError, IndexError):  # its page was closed meanwhile
                presence.slot.show_lag(late_ns)


class LagHere:
    """Of the loop that this process works in."""

    def __init__(self) -> None:
        self._lag: Lag | None = None

    def lag(self) -> Lag | None:
        """None where there is no loop."""
        loop = HERE_WAITS.loop
        if loop is not None and (self._lag is None or self._lag.loop is not loop):
            self._lag = Lag(loop)
        return None if loop is None else self._lag


# global: of this process, as its loop is
LAG_HERE: Final = LagHere()


def answer(request: Request) -> bytes:
    """The answer to "lag": also writes the books, as "count" does, so that who watches asks once."""
    counting.answer(request)
    found = LAG_HERE.lag() if request.threads else None
    if found is None:
        return b"[]"
    found.keep()
    return orjson.dumps([block.as_json() for block in found.taken()])

"""Who reads what the engine says, and how the others are woken.

Frames are read by whoever holds the *role*, a re-entrant lock. A thread that waits for a result takes the role if it is
free, looks at the rings for some microseconds and sleeps on the alternate bell: no thread hop. The daemon thread
"mainspring-pump" sleeps on the primary bell, on the spawner's socket and on a nudge, and reads when nobody else does.
Under an event loop there is no pump; the loop watches the same descriptors.

Handing over. Who gives the role back first arms the primary bell, under which the pump sleeps already. A wake-up
that finds the role taken is *owed*: the pump says so and tries once more; whoever held the role looks at the debt
after letting go and nudges the pump. So between them no wake-up is lost. Whoever needs the role itself (restart,
close) says that it is *wanted* and rings the alternate bell; the reader lets go and sleeps on a gate of its own
until its cell is settled.

What was taken from the rings is kept until it is applied and its hooks are called, so that Ctrl-C in a waiting
caller loses nothing. Hooks are called by the reading thread with the role, without the client's lock. They may
submit and wait: the role is re-entrant. An exception in a hook is logged and harms nobody.

Locks: the role before the client's lock, which is never held while sleeping or calling hooks.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from actors.protocol.errors import CallerError
from runtime.host.pending import OPEN, Hook, Pending
from runtime.mail.bell import Bell
from runtime.mail.link import RECHECK_NS, SPIN_MISSES_MAX, SPIN_RETRY_EVERY, Link, LinkEnds
from runtime.mail.ring import ORDERED_MACHINE

if TYPE_CHECKING:
    import asyncio

_LOG: Final = logging.getLogger("mainspring")
SPIN_NS: Final = 300_000
"""How long a waiting caller looks at the rings before it sleeps: about two round trips. An engine that need not wake
its caller saves 40 us each time; a caller whose answers take longer soon stops looking (`SPIN_MISSES_MAX`). Between two
looks it gives way: on two cores the worker may need the one it looks from (p99 of a round trip: 460 us, not 700)."""
NET_S: Final = 1.0
"""Longest sleep without a look at the rings; a net under the reasoning above."""


class Desk(Protocol):
    """What the reader works for: the client."""

    lock: threading.Lock

    def take(self, control: list[bytes], work: list[bytes], woken: list[Pending]) -> None:
        """Apply frames, and send what found room; called under the lock."""

    def give_up(self, bug: Exception, woken: list[Pending]) -> None:
        """What the engine said made no sense; called under the lock."""

    def hear_news(self) -> None:
        """Look at what happened to the engine process."""

    def news_fd(self) -> int:
        """Descriptor that is readable when there is news; -1 when there is none."""


class Reader:
    """See the module. `link` is this side of the link to the present engine."""

    def __init__(self, desk: Desk, ends: LinkEnds, spin_ns: int = SPIN_NS) -> None:
        self.link = Link(ends, "a")
        self.stopped = False
        self._ends = ends
        self._alternate = _poll_of(self.link.fileno(alternate=True))
        self._desk = desk
        self._spin_ns = spin_ns if (os.cpu_count() or 1) > 1 else 0
        self._spin_misses = 0
        self._role = threading.RLock()
        self._wanted = 0
        self._owed = False
        self._nudge = Bell.create()
        self._nudge_lock = threading.RLock()  # re-entrant, because a finaliser may ring in the middle of a ring
        self._nudge_closed = False
        self._frames: tuple[list[bytes], list[bytes]] | None = None
        self._woken: list[Pending] = []
        self._later: deque[Callable[[], object]] = deque()
        self._pump: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched: list[int] = []

    # --- life -----------------------------------------------------------------------------------------------------

    def attach_thread(self) -> None:
        """Let a daemon thread do the reading that no waiting caller does."""
        self._pump = threading.Thread(target=self._pump_main, name="mainspring-pump", daemon=True)
        self._pump.start()

    def attach_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let an event loop do the reading; everything is then called from its thread."""
        self._loop = loop
        self._watch()
        loop.call_soon(self._on_bell)

    def read_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """This loop waits: it reads on where the one before was closed.

        Raises:
            CallerError: That one was not closed, and what it reads would not wake this one.
        """
        if loop is self._loop or self.stopped:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise CallerError("this AsyncRuntime is another event loop's; use it there, or open one for each loop")
        self._watched = []
        self.attach_loop(loop)

    def replace(self, ends: LinkEnds) -> None:
        """Go on with the link to a new engine. Called with the role and the lock."""
        old, self.link, self._ends = self.link, Link(ends, "a"), ends
        self._alternate = _poll_of(self.link.fileno(alternate=True))
        self._watch()
        old.close()
        if self._loop is not None:
            self._loop.call_soon(self._on_bell)
        else:
            self._ring_nudge()

    def stop(self) -> None:
        """Read nothing more; waits for the pump to end. Blocking for about as long as a hook runs."""
        self.stopped = True
        self.unwatch()
        if self._pump is not None and self._pump is not threading.current_thread():
            self._ring_nudge()
            self._pump.join()

    def close(self) -> None:
        """Let go of link and bells. Called with the role and the lock, after `stop`."""
        self.link.close()
        with self._nudge_lock:
            self._nudge_closed = True
            self._nudge.close()

    def unwatch(self) -> None:
        """Take the descriptors out of the event loop; `replace` watches the new ones."""
        if self._loop is not None and not self._loop.is_closed():
            for fd in self._watched:
                self._loop.remove_reader(fd)
        self._watched = []

    def with_role(self, call: Callable[[], None]) -> None:
        """Call with the role, which its holder gives up for it."""
        self._wanted += 1
        try:
            self._ends.bell_a_alternate.ring()
            with self._role:
                call()
        finally:
            self._wanted -= 1

    def later(self, call: Callable[[], object]) -> None:
        """Call soon from the reading thread. For finalisers, which must not take locks."""
        if self.stopped:
            return
        self._later.append(call)
        if self._loop is None:
            self._ring_nudge()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._call_later)

    # --- waiting --------------------------------------------------------------------------------------------------

    def add_hook(self, cell: Pending, hook: Hook) -> bool:
        """Call `hook(cell)` once settled; False: it is settled already, nothing was added."""
        with self._desk.lock:
            if cell._state != OPEN:
                return False
            if cell._hooks is None:
                cell._hooks = [hook]
            else:
                cell._hooks.append(hook)
            return True

    def drop_hook(self, cell: Pending, hook: Hook) -> None:
        """Take a hook back."""
        with self._desk.lock:
            if cell._hooks is not None and hook in cell._hooks:
                cell._hooks.remove(hook)

    def wait(self, cell: Pending, timeout: float | None) -> bool:
        """Wait until a cell is settled, reading meanwhile if nobody else does. False: the time is over.

        After `stop` it sleeps until the cell is settled by the end of the client.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not cell._state:
            left = NET_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            if not (self._wanted or self.stopped) and self._role.acquire(blocking=False):
                try:
                    self._read_until(cell, deadline)
                finally:
                    self._give_back()
            else:
                self._sleep_until(cell, min(left, NET_S))
        return True

    def _read_until(self, cell: Pending, deadline: float | None) -> None:
        """With the role: read until the cell is settled, the time is over, or somebody else needs the role."""
        self.link.disarm()  # whoever looks at the rings need not be rung for, and the pump can sleep on
        while not (cell._state or self._wanted or self.stopped):
            if self.read() or cell._state:
                continue
            left = NET_S
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
                if left <= 0:
                    return
            if not self._spin():
                self._doze(left)

    def _spin(self) -> bool:
        """Look at the rings for a while, mostly only where that paid lately; whether something came."""
        misses = self._spin_misses
        if not self._spin_ns or (misses >= SPIN_MISSES_MAX and misses % SPIN_RETRY_EVERY):
            self._spin_misses = misses + 1
            return False
        pending, clock_ns, give_way = self.link.pending, time.perf_counter_ns, os.sched_yield
        deadline_ns = clock_ns() + self._spin_ns
        while clock_ns() < deadline_ns:
            if pending():
                self._spin_misses = 0
                return True
            give_way()
        self._spin_misses = misses + 1
        return False

    def _doze(self, timeout: float) -> None:
        """Sleep on the alternate bell, until something comes, somebody rings, or the time is over."""
        link = self.link
        if not link.arm(alternate=True):
            return
        try:
            if self._wanted or self.stopped:
                return
            rang = ORDERED_MACHINE or self._alternate.poll(RECHECK_NS / 1e6)
            if rang is True or not (rang or link.pending()):
                rang = self._alternate.poll(timeout * 1000)
            if rang:
                link.drain_bell(alternate=True)
        finally:
            link.disarm()

    def _sleep_until(self, cell: Pending, timeout: float) -> None:
        """Without the role: sleep until whoever reads has settled the cell."""
        gate = threading.Lock()
        gate.acquire()

        def hook(_: Pending) -> None:
            gate.release()

        if self.add_hook(cell, hook):
            gate.acquire(timeout=timeout)
            self.drop_hook(cell, hook)

    def _give_back(self) -> None:
        """Arm the primary bell for the pump, then let go of the role."""
        try:
            while not self._quiet():
                self.read()
        finally:
            self._role.release()
        if self._owed or not ORDERED_MACHINE:
            self._owed = False
            self._ring_nudge()

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self) -> bool:
        """With the role: take what is there and apply it; whether there was anything."""
        desk, woken = self._desk, self._woken
        with desk.lock:
            if self.stopped:
                return False
            frames = self._frames or self.link.receive()
            self._frames = frames
            try:
                desk.take(*frames, woken)
            except Exception as bug:
                desk.give_up(bug, woken)
            self._frames = None
        while woken:
            call_hooks(woken.pop())
        return bool(frames[0] or frames[1])

    def _quiet(self) -> bool:
        """Arm the primary bell. False: something came meanwhile."""
        return self.stopped or self.link.arm()

    def _ring_nudge(self) -> None:
        """Wake the pump. The descriptor may be another's after the end."""
        with self._nudge_lock:
            if not self._nudge_closed:
                self._nudge.ring()

    def _call_later(self) -> None:
        while self._later and not self.stopped:
            call = self._later.popleft()
            try:
                call()
            except Exception as refused:
                _LOG.debug("a late call failed: %s", refused)

    def _pump_main(self) -> None:
        """One poll for the three reasons to wake. The poll object is made anew when the link or the spawner was."""
        timeout_ms = 0.0
        while not self.stopped:
            bell, news = self.link.fileno(), self._desk.news_fd()
            poller = _poll_of(bell, news, self._nudge.read_fd)
            while bell == self.link.fileno() and news == self._desk.news_fd():
                ready = {fd for fd, _ in poller.poll(timeout_ms)}
                if self.stopped:
                    return
                if self._nudge.read_fd in ready:
                    self._nudge.drain()
                    self._call_later()
                timeout_ms = self._pump_turn()
                if news in ready:
                    self._desk.hear_news()

    def _pump_turn(self) -> float:
        """Read what is there, unless somebody else does. Returns after how many milliseconds to look again."""
        self.link.drain_bell()
        if not self._role.acquire(blocking=False):
            self._owed = True
            if not self._role.acquire(blocking=False):
                with self._desk.lock:
                    self._desk.take([], [], [])
                return NET_S * 1000
            self._owed = False
        try:
            while self.read() or not self._quiet():
                pass
        finally:
            self._role.release()
        return NET_S * 1000 if ORDERED_MACHINE else RECHECK_NS / 1e6

    # --- in an event loop -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        self.unwatch()
        self._watched = [self.link.fileno()]
        loop.add_reader(self.link.fileno(), self._on_bell)
        if self._desk.news_fd() >= 0:
            self._watched.append(self._desk.news_fd())
            loop.add_reader(self._desk.news_fd(), self._desk.hear_news)

    def _on_bell(self) -> None:
        if self.stopped or self._loop is None:
            return
        self.link.drain_bell()
        with self._role:
            more = self.read() or not self._quiet()
        if more:
            self._loop.call_soon(self._on_bell)
        elif not ORDERED_MACHINE:
            self._loop.call_later(RECHECK_NS / 1e9, self._recheck)

    def _recheck(self) -> None:
        if not self.stopped and self.link.pending():
            self._on_bell()


def _poll_of(*fds: int) -> select.poll:
    poller = select.poll()
    for fd in fds:
        if fd >= 0:
            poller.register(fd, select.POLLIN)
    return poller


def call_hooks(*woken: Pending) -> None:
    """Call the hooks of settled cells. Without the lock."""
    for cell in woken:
        try:
            cell.call_hooks()
        except Exception:
            _LOG.exception("a callback raised")

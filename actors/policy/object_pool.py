"""Books of one pool of reusable things in one process: which are idle, lent or being made, and who waits for one.

Purpose: decide, for each take and give, whether a thing is used again, made or closed, and who is next. Things are
numbers here; making, checking, resetting and closing them is the caller's business.

States of a thing (a number is used once):

    MAKING ──made──► LENT ◄──take──► IDLE ──► retired          `replace`: LENT ──► retired, and another MAKING
       │              │ give
       └─failed──►    └─discard, or too old at give──► retired

An idle thing is lent again last in, first out, so that those beyond the need grow old and go. Who finds none waits in
order of arrival; nobody overtakes, not even when a thing comes back at the moment of the call.

Invariants (`check_invariants`): things that exist, being made ones included, are never more than `size_max`; each is in
one state; somebody waits only while nothing is idle and all places are taken; after `drain` nothing is idle and nobody
waits, and what comes back is retired.
Clock: monotonic ns, handed in. Concurrency: none; the caller holds a lock.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from actors.protocol.errors import ProtocolError

AGED: Final = "aged"
IDLED: Final = "idled"
USED_UP: Final = "used_up"
UNHEALTHY: Final = "unhealthy"
NOT_RESET: Final = "not_reset"
INTERRUPTED: Final = "interrupted"
DRAINED: Final = "drained"
"""Why a thing is closed: too old; idle for too long; used often enough; its check failed; its reset failed; its attempt
was stopped in the middle; the process ends."""


class PoolRule(NamedTuple):
    """Bounds of a pool in one process; 0 is no bound but for `size_max`, which is at least 1."""

    size_max: int
    age_max_ns: int = 0
    idle_max_ns: int = 0
    uses_max: int = 0


class Granted(NamedTuple):
    """What somebody gets: the thing of this number, which is his now; `make`: it does not exist yet, he makes it."""

    no: int
    make: bool


Asker = Callable[[Granted | None], None]
"""Who waits; called with what is granted, or with None when the pool is drained."""


class PoolCounts(NamedTuple):
    """A snapshot: how it stands, and what happened since the process began."""

    size: int
    idle: int
    lent: int
    waiting: int
    made: int
    reused: int
    failed: int
    waits: int
    timeouts: int
    waited_ns: int
    closed: dict[str, int]


class _Thing:
    __slots__ = ("born_ns", "idle_ns", "uses")

    def __init__(self, born_ns: int) -> None:
        self.born_ns = self.idle_ns = born_ns
        self.uses = 1


class PoolBook:
    """See the head of the file."""

    def __init__(self, rule: PoolRule) -> None:
        self.rule = rule
        self.drained = False
        self._making: set[int] = set()
        self._lent: dict[int, _Thing] = {}
        self._idle: OrderedDict[int, _Thing] = OrderedDict()
        self._waiting: OrderedDict[Asker, int] = OrderedDict()
        self._retired: list[int] = []
        self._last = 0
        self._made = self._reused = self._failed = self._waits = self._timeouts = self._waited_ns = 0
        self._closed: Counter[str] = Counter()

    @property
    def size(self) -> int:
        """Things that exist or are being made."""
        return len(self._making) + len(self._lent) + len(self._idle)

    def take(self, asker: Asker, now_ns: int) -> Granted | None:
        """Somebody wants a thing.

        Args:
            asker: Called later when he has to wait.
            now_ns: The time.

        Returns:
            What he gets now; None: he waits.

        Raises:
            ProtocolError: The pool is drained.
        """
        if self.drained:
            raise ProtocolError("a drained pool lends nothing")
        self.expire(now_ns)
        if not self._waiting and (grant := self._next()) is not None:
            return grant
        self._waiting[asker] = now_ns
        self._waits += 1
        return None

    def leave(self, asker: Asker, now_ns: int, *, timeout: bool = False) -> bool:
        """Who waited does not want it any more. False: he does not wait (any more), and may have been granted one."""
        since_ns = self._waiting.pop(asker, None)
        if since_ns is None:
            return False
        self._waited_ns += now_ns - since_ns
        self._timeouts += timeout
        return True

    def made(self, no: int, now_ns: int) -> None:
        """What was granted to be made exists, and is lent to who made it."""
        self._making.remove(no)
        self._lent[no] = _Thing(now_ns)
        self._made += 1

    def failed(self, no: int, now_ns: int) -> None:
        """It could not be made; the next may try."""
        self._making.remove(no)
        self._failed += 1
        self._serve(now_ns)

    def give(self, no: int, now_ns: int) -> None:
        """A thing came back and is fit for the next."""
        thing = self._lent[no]
        thing.idle_ns = now_ns
        if (reason := self._too_old(thing, now_ns)) or self.drained:
            self.discard(no, now_ns, reason or DRAINED)
            return
        del self._lent[no]
        self._idle[no] = thing
        self._serve(now_ns)

    def discard(self, no: int, now_ns: int, reason: str) -> None:
        """A thing came back and is fit for nobody."""
        self._retire(self._lent, no, reason)
        self._serve(now_ns)

    def replace(self, no: int, reason: str) -> Granted:
        """What was lent turns out to be unfit: its borrower makes another in its place, without waiting again."""
        self._reused -= self._lent[no].uses > 1
        self._retire(self._lent, no, reason)
        return self._new()

    def expire(self, now_ns: int) -> None:
        """Retire what is idle and too old."""
        for no, thing in list(self._idle.items()):
            if reason := self._too_old(thing, now_ns):
                self._retire(self._idle, no, reason)

    def due_ns(self) -> int | None:
        """When the next idle thing is too old; None: never."""
        rule = self.rule
        ends = [thing.born_ns + rule.age_max_ns for thing in self._idle.values()] if rule.age_max_ns else []
        if rule.idle_max_ns:
            ends += [thing.idle_ns + rule.idle_max_ns for thing in self._idle.values()]
        return min(ends, default=None)

    def drain(self) -> None:
        """Lend nothing more: all that is idle is retired, who waits is told, and what is lent goes when it is back."""
        self.drained = True
        for no in list(self._idle):
            self._retire(self._idle, no, DRAINED)
        while self._waiting:
            asker, _ = self._waiting.popitem(last=False)
            asker(None)

    def retired(self) -> list[int]:
        """Numbers of things that are to be closed, once each."""
        found, self._retired = self._retired, []
        return found

    def counts(self) -> PoolCounts:
        """A snapshot."""
        return PoolCounts(
            self.size, len(self._idle), len(self._lent), len(self._waiting), self._made, self._reused, self._failed,
            self._waits, self._timeouts, self._waited_ns, dict(self._closed),
        )  # fmt: skip

    # --- inside ---------------------------------------------------------------------------------------------------

    def _next(self) -> Granted | None:
        if self._idle:
            no, thing = self._idle.popitem()
            thing.uses += 1
            self._lent[no] = thing
            self._reused += 1
            return Granted(no, make=False)
        return self._new() if self.size < self.rule.size_max else None

    def _new(self) -> Granted:
        self._last += 1
        self._making.add(self._last)
        return Granted(self._last, make=True)

    def _serve(self, now_ns: int) -> None:
        """Give what is free to those who wait, first come first served."""
        while self._waiting and (grant := self._next()) is not None:
            asker, since_ns = self._waiting.popitem(last=False)
            self._waited_ns += now_ns - since_ns
            asker(grant)

    def _too_old(self, thing: _Thing, now_ns: int) -> str:
        rule = self.rule
        if rule.uses_max and thing.uses >= rule.uses_max:
            return USED_UP
        if rule.age_max_ns and now_ns - thing.born_ns >= rule.age_max_ns:
            return AGED
        return IDLED if rule.idle_max_ns and now_ns - thing.idle_ns >= rule.idle_max_ns else ""

    def _retire(self, home: dict[int, _Thing], no: int, reason: str) -> None:
        del home[no]
        self._retired.append(no)
        self._closed[reason] += 1

    def check_invariants(self) -> None:
        """Raise AssertionError when the books contradict themselves."""
        assert self.size <= self.rule.size_max
        assert not self._making & self._lent.keys()
        assert not self._lent.keys() & self._idle.keys()
        assert not self._waiting or (not self._idle and self.size == self.rule.size_max)
        assert not self.drained or not (self._idle or self._waiting)
        assert self._made == len(self._lent) + len(self._idle) + sum(self._closed.values())

"""The ledger: what this process holds that can leak. Always on, one per process.

    token = LEDGER.track("checkout", pool_name, owner="pool http")
    ...
    LEDGER.release(token)

What is kept of an entry is a tuple, made without looking anything up: where it was created is a code object and the
place in it, whose line is found when somebody asks (`entries`). What is counted elsewhere already (leases, runs, rings)
is not entered: a gauge says how many there are when somebody looks.

A token is the time of the entry and its kind in one number: time << 6 | kind. Books of a kind: created, released and
what lives are three counts that are kept apart, so that a release that got lost, or came twice, shows (`balance`, row
22). Nothing is ever dropped for want of room: a lossy ledger takes done things for eternal ones.

Invariants: created - released = live, for each kind, unless the ledger itself is wrong. A forked child begins with
empty books, and tokens of its parent mean nothing to it.
Concurrency: any thread. Each step is one operation of a dict or a counter, which the interpreter lock makes whole; no
lock is taken, so the handler of a signal may use it.
Known limits: an entry keeps its key and owner alive, so they are names and numbers, or weak references.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from time import monotonic_ns
from types import CodeType
from typing import Any, Final, NamedTuple

from runtime.profile.ledger.kinds import KINDS, KINDS_MAX, LedgerKind
from runtime.profile.ledger.sites import callers, frame_at
from runtime.profile.model import Frame, Labels

__all__ = ["KIND_BITS", "LEDGER", "Book", "Count", "Gauge", "Gauged", "Ledger", "LedgerEntry", "frame_at"]

KIND_BITS: Final = 6
"""Of a token; room for `KINDS_MAX` kinds and more."""
_KIND_MASK: Final = (1 << KIND_BITS) - 1
_STEP: Final = 1 << KIND_BITS
EVENTS_MAX: Final = 1_000
"""Of a kind that happens and is not held: the newest are kept."""

Gauged = tuple[int, int, int]
"""Live, created since the process began (0: not known), since when the oldest lives (monotonic ns; 0: not known)."""


class LedgerEntry(NamedTuple):
    """Something that lives. `site` is where it was created, the innermost place last; `since_ns` is monotonic time."""

    token: int
    kind: str
    key: Any
    since_ns: int
    owner: Any
    ttl_ns: int
    daemon: bool
    site: tuple[Frame, ...]
    labels: Labels


class Count(NamedTuple):
    """The books of a kind."""

    live: int
    created: int
    released: int
    oldest_ns: int


class Book:
    """One kind in this process. `extra` has what few entries have: (ttl_ns, daemon, further places of the site).

    `prove`, `reap` and `budget` are whatever was registered: functions over a LedgerEntry, and a number.
    """

    __slots__ = ("budget", "created", "extra", "gauges", "kind", "live", "prove", "reap", "released")

    def __init__(self, kind: LedgerKind) -> None:
        self.kind = kind
        self.live: dict[int, tuple[Any, ...]] = {}
        self.extra: dict[int, tuple[int, bool, tuple[tuple[CodeType, int], ...]]] = {}
        self.created = itertools.count()
        self.released = itertools.count()
        self.gauges: list[Gauge] = []
        self.prove: Callable[[LedgerEntry], Any] | None = None
        self.reap: Callable[[LedgerEntry], Any] | None = None
        self.budget: int | None = None

    def rows(self) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Token and entry of what lives and is not released meanwhile. Only the tokens are copied in one go."""
        for token in list(self.live):
            if (entry := self.live.get(token)) is not None:
                yield token, entry


class Gauge(NamedTuple):
    """Something that is counted elsewhere: `look` says how many, `rows` names them where somebody asks."""

    look: Callable[[], Gauged]
    rows: Callable[[], Iterable[LedgerEntry]] | None


class Ledger:
    """See the module."""

    def __init__(self) -> None:
        self.expand: Callable[[Any], Labels] = tuple
        """Makes labels of what `label_set` gave."""
        self._hot: dict[str, tuple[Any, ...]] = {}
        self._ends: list[tuple[Any, Any, Any]] = []
        self._hooks: list[Callable[[], Any] | None] = [None]
        self.track = _tracker(self._hot, self._hooks)
        self.release = _releaser(self._ends, self._stray)
        self.drop = _releaser(self._ends, lambda _: None)
        """The same for whoever releases what may have been collected, or dropped by somebody else: that it is not there
        is no mistake in the books."""
        self._begin()

    @property
    def label_set(self) -> Callable[[], Any] | None:
        """Gives the label set of the running code, as it is kept; `runtime.profile.sampling` says which."""
        return self._hooks[0]

    @label_set.setter
    def label_set(self, gives: Callable[[], Any] | None) -> None:
        self._hooks[0] = gives

    def _begin(self) -> None:
        self._books: dict[str, Book] = {}
        self._numbered: list[Book] = []
        self._hot.clear()
        self._ends[:] = [(dict[int, None]().pop, None, None)] * (1 << KIND_BITS)
        self._audits: dict[str, Callable[[], int]] = {}
        self._strange = itertools.count()
        self.strange_place: tuple[CodeType, int] | None = None
        self.born_ns = monotonic_ns()
        for kind in KINDS:
            self._open(kind)

    def _open(self, kind: LedgerKind) -> Book:
        book = Book(kind)
        self._books[kind.name] = book
        self._numbered.append(book)
        self._hot[kind.name] = (kind.no, book.live.setdefault, book.created, book.extra)
        self._ends[kind.no] = (book.live.pop, book.released, book.extra)
        return book

    def _stray(self, token: int) -> None:
        """What was released is not there: it was before, or it is the entry of our parent, which is none of ours."""
        if token >> KIND_BITS >= self.born_ns:
            next(self._strange)
            self.strange_place = (frame := sys._getframe(2)).f_code, frame.f_lasti

    def forked(self) -> None:
        """In a forked child: what the books say is the parent's."""
        kinds = [(book.kind, book.prove, book.reap, book.budget) for book in self._numbered[len(KINDS) :]]
        self._begin()
        for kind, prove, reap, budget in kinds:
            book = self._open(kind)
            book.prove, book.reap, book.budget = prove, reap, budget

    # --- kinds ----------------------------------------------------------------------------------------------------

    def register_kind(
        self,
        name: str,
        *,
        ttl: float | None = None,
        prove: Callable[[LedgerEntry], Any] | None = None,
        reap: Callable[[LedgerEntry], Any] | None = None,
        budget: int | None = None,
    ) -> LedgerKind:
        """Add a kind of one's own, or say more of one that is there.

        Args:
            name: Its name.
            ttl: Seconds after which one of it is old.
            prove: Says of an entry why nothing can release it any more; None or "" where it cannot say that.
            reap: Releases what an entry stands for. It is never called, but named as what may be done about a leak.
            budget: So many in one process are worth a look.

        Returns:
            The kind.

        Raises:
            ValueError: There are too many.
        """
        book = self._books.get(name)
        if book is None:
            no = len(self._numbered) + 1
            if no > KINDS_MAX:
                raise ValueError(f"no room for the kind {name!r}: there are {KINDS_MAX} of them")
            book = self._open(LedgerKind(no, name, 60.0, 10_000, name))
        if ttl is not None:
            book.kind = book.kind._replace(ttl_s=ttl)
        if budget is not None:
            book.kind, book.budget = book.kind._replace(ceiling=budget), budget
        book.prove, book.reap = prove or book.prove, reap or book.reap
        return book.kind

    def kinds(self) -> tuple[LedgerKind, ...]:
        """All of this process, in the order of their numbers."""
        return tuple(book.kind for book in self._numbered)

    def book(self, kind: str) -> Book:
        """The book of a kind. Raises KeyError."""
        return self._books[kind]

    def note(self, kind: str, key: Any, code: CodeType, like: tuple[Any, ...] | None = None) -> None:
        """Enter an event: nobody releases it, so the oldest goes when there are more than `EVENTS_MAX`. Of what had an
        entry (`like`), it is said of the same place, with the same labels."""
        token, live = self.track(kind, key, code=code), self._books[kind].live
        if like is not None:
            live[token] = (*like[:2], key, *like[3:])
        while len(live) > EVENTS_MAX:
            self.drop(next(iter(live)))

    # --- what is counted elsewhere ----------------------------------------------------------------------------------

    def gauge(
        self, kind: str, count: Callable[[], Gauged], rows: Callable[[], Iterable[LedgerEntry]] | None = None
    ) -> Gauge:
        """Count things of this kind where they are kept. What raises counts nothing.

        Args:
            kind: The kind.
            count: Says how many live, how many were ever created (0: not known) and since when the oldest lives.
            rows: Names them, for a finding.

        Returns:
            The gauge, for `remove_gauge`.
        """
        made = Gauge(count, rows)
        self._books[kind].gauges.append(made)
        return made

    def remove_gauge(self, kind: str, gauge: Gauge) -> None:
        """Count these no more. Again is harmless."""
        gauges = self._books[kind].gauges
        if gauge in gauges:
            gauges.remove(gauge)

    # --- looking --------------------------------------------------------------------------------------------------

    def entries(self, kind: str | None = None) -> Iterator[LedgerEntry]:
        """What lives now, of a kind or of all. Sites are looked up here, one by one: stop when it is enough."""
        for book in [self._books[kind]] if kind is not None else list(self._numbered):
            for token, entry in book.rows():
                yield self._entry(book, token, entry)
            for gauge in list(book.gauges):
                if gauge.rows is not None:
                    yield from gauge.rows()

    def entry(self, token: int) -> LedgerEntry | None:
        """One of them; None when it was released."""
        no = token & _KIND_MASK
        book = self._numbered[no - 1] if 1 <= no <= len(self._numbered) else None
        found = None if book is None else book.live.get(token)
        return None if book is None or found is None else self._entry(book, token, found)

    def _entry(self, book: Book, token: int, entry: tuple[Any, ...]) -> LedgerEntry:
        code, lasti, key, owner, labels = entry
        ttl_ns, daemon, above = book.extra.get(token, (-1, False, ()))
        if ttl_ns < 0:
            ttl_ns = int(book.kind.ttl_s * 1e9)
        site = tuple(frame_at(*place) for place in (*above, (code, lasti)))
        return LedgerEntry(
            token, book.kind.name, key, token >> KIND_BITS, owner, ttl_ns, daemon, site, self.expand(labels)
        )

    def counts(self) -> dict[str, Count]:
        """The books of all kinds, gauges included."""
        return {book.kind.name: self.count(book) for book in list(self._numbered)}

    def count(self, book: Book) -> Count:
        """The books of one kind."""
        live, released = len(book.live), value_of(book.released)
        created = value_of(book.created)
        oldest_ns = _oldest(book.live)
        for gauge in list(book.gauges):
            try:
                there, ever, since_ns = gauge.look()
            except Exception:  # noqa: S112, BLE001, RUF100 - its owner is about to close: there is nothing to count
                continue
            live += there
            created += max(there, ever)
            released += max(there, ever) - there
            oldest_ns = min(filter(None, (oldest_ns, since_ns)), default=0)
        return Count(live, created, released, oldest_ns)

    def audit(self, kind: str, truth: Callable[[], int]) -> None:
        """Say how many entries of a kind there should be, by another way than the books: for `balance`."""
        self._audits[kind] = truth

    def balance(self) -> dict[str, int]:
        """Kinds whose books are wrong (row 22), with by how many; "?" are releases of what was never entered.

        Two counts that are read one after the other may differ by what happened in between: ask twice.
        """
        wrong: dict[str, int] = {}
        for book in list(self._numbered):
            created, released, live = value_of(book.created), value_of(book.released), len(book.live)
            if off := created - released - live:
                wrong[book.kind.name] = off
        for kind, truth in list(self._audits.items()):
            expected = truth()  # it may sweep, so it comes first
            if off := len(self._books[kind].live) - expected:
                wrong[kind] = wrong.get(kind, 0) + off
        if strange := value_of(self._strange):
            wrong["?"] = strange
        return wrong


def _tracker(hot: dict[str, tuple[Any, ...]], hooks: list[Callable[[], Any] | None]) -> Callable[..., int]:
    """Makes `Ledger.track`: a function over cells, because a method would look up each attribute."""
    frame_of, now_ns = sys._getframe, monotonic_ns

    def track(
        kind: str,
        key: Any = None,
        *,
        owner: Any = None,
        ttl: float | None = None,
        daemon: bool = False,
        site_depth: int = 1,
        code: CodeType | None = None,
        lasti: int = -1,
    ) -> int:
        """Enter something.

        Args:
            kind: Its kind.
            key: What tells it from others: a name or a number, or a weak reference; never the thing itself.
            owner: Who has it: a name, or a weak reference.
            ttl: Seconds after which it is old; None as its kind says.
            daemon: It is meant to live as long as the process.
            site_depth: How many callers are noted.
            code: Where it was created, in place of the caller.
            lasti: The instruction in it; -1 for its first line.

        Returns:
            The token, for `release`.
        """
        no, put, created, extra = hot[kind]
        if code is None:
            frame = frame_of(1)
            code, lasti = frame.f_code, frame.f_lasti
        labels = hooks[0]
        entry = (code, lasti, key, owner, () if labels is None else labels())
        token: int = now_ns() << KIND_BITS | no
        while put(token, entry) is not entry:
            token += _STEP
        next(created)
        if site_depth != 1 or daemon or ttl is not None:
            ttl_ns = -1 if ttl is None else int(ttl * 1e9)
            extra[token] = (ttl_ns, daemon, callers(frame_of(1), site_depth) if site_depth > 1 else ())
        return token

    return track


def _releaser(ends: list[tuple[Any, Any, Any]], stray: Callable[[int], None]) -> Callable[..., bool]:
    """Makes `Ledger.release` and `Ledger.drop`."""

    def release(token: int, _: object = None) -> bool:
        """Take an entry out; returns whether it was there. If not, it is noted in the books (row 22). A second argument
        is ignored, so that it may be a callback."""
        pop, released, extra = ends[token & _KIND_MASK]
        if pop(token, None) is None:
            stray(token)
            return False
        next(released)
        if extra:
            extra.pop(token, None)
        return True

    return release


def value_of(counter: itertools.count[int]) -> int:
    """Where a counter stands; it goes on from there. Its text says so in every version: "count(7)"."""
    return int(repr(counter)[6:-1])


def _oldest(live: dict[int, Any]) -> int:
    """Since when the first entry lives: entries are in the order of their times, but for what threads swap."""
    try:
        first: int = next(iter(live))
        return first >> KIND_BITS
    except (StopIteration, RuntimeError):  # empty, or another thread just changed it
        return 0


# global: the books of this process, of which there can be only one set, as of its threads or descriptors
LEDGER: Final = Ledger()
os.register_at_fork(after_in_child=LEDGER.forked)

"""What is there that may leak, one by one, with what speaks for each: the rows of the ledger and asyncio's tasks.

A detector gives `Seen` things. Some of them are proved leaks, without a search for who can reach what (`proof` does
that for tasks): what they stand for was collected, or who has them is gone. Events (a coroutine that nobody awaited)
are proofs themselves. What only the kernel knows is in `machine`.

    kind                            proved here by
    task                            (reachability: `proof`); collected while it waited is an event, `destroyed`
    destroyed, unawaited, unread    the event
    ledger                          books that are wrong at two looks
    any that is tracked             its key was collected; its owner (process, thread, task, or whatever is held
                                    weakly) is gone; its kind's own `prove`
    generator, executor,            (only leaked tasks have it: `held`, with the proof of reachability)
    subscription, checkout
    run, lease, message, timer,     (evidence that is said twice: `stranded`)
    ask, actor, segment

What is declared a daemon, or belongs to this package, is not looked at: a detector must not find itself.

Concurrency: any thread. Every millisecond the interpreter is let go.
Known limits: of more than `TASKS_MAX` tasks the rest has no waiting place; a task's owner is its attempt.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final, NamedTuple

from runtime.host.kernel import is_alive
from runtime.profile.captures.snapshot import all_tasks, await_chain
from runtime.profile.leak_check.grading import Signature
from runtime.profile.ledger import origins
from runtime.profile.ledger.books import KIND_BITS, LEDGER, Book, Gauge, LedgerEntry, frame_at
from runtime.profile.ledger.kinds import BOOKS, DESTROYED, GENERATOR, TASK, UNAWAITED, UNREAD
from runtime.profile.ledger.named import Named
from runtime.profile.ledger.pins import Stranded, evidence_now
from runtime.profile.model import Frame, Labels, Process
from runtime.profile.sampling.contexts import labels_of
from runtime.profile.turns import TURNS

TASKS_MAX: Final = 20_000
CONFIRM_NS: Final = 1_000_000_000
"""Between two times that the engine says that nothing moves something: it may be about to."""
EVENTS: Final = {
    DESTROYED: "it was collected while it waited: nothing held it but its loop, which holds tasks weakly",
    UNAWAITED: "it was collected and never ran: the call lacks an await",
    UNREAD: "it was collected, and nobody took its exception",
}
"""Kinds of which each is a leak, and why."""
_OWN_PREFIX: Final = "mainspring"
_WORDS_MAX: Final = 120
_BALANCES: Final = 5
_WRONG_LOOKS: Final = 3


class Seen(NamedTuple):
    """A thing that is there.

    Attributes:
        signature: What it is like.
        ident: Tells it from others of its kind.
        since_ns: Since when it lives (monotonic); 0: not known.
        ttl_ns: Older than this is old.
        key: Its name, for people.
        owner: Who has it.
        labels: Of the code that made it.
        proof: Why nothing can end it; "" where that is not known.
    """

    signature: Signature
    ident: int
    since_ns: int
    ttl_ns: int
    key: str
    owner: str
    labels: Labels
    proof: str = ""


class BooksLook:
    """Looks at the ledger, again and again.

    Args:
        process: Whose node type is meant where labels say none.
        ttl_ns: In place of that of the kinds.
        keeps: Says of labels and birth (monotonic ns) whether a thing is of interest.
    """

    def __init__(
        self,
        process: Process | None = None,
        ttl_ns: int | None = None,
        keeps: Callable[[Labels, int], bool] | None = None,
    ) -> None:
        self._node_type = process.node_type if process is not None and process.role == "worker" else ""
        self._ttl_ns, self._keeps = ttl_ns, keeps
        self._frames: dict[tuple[int, int], tuple[Frame, CodeType]] = {}
        self._waits: dict[int, tuple[Frame, ...]] = {}
        self._tasks: dict[int, Any] = {}
        self._first: dict[int, int] = {}
        self._wrong: dict[str, tuple[int, int]] = {}
        """By kind: at how many looks in a row, and by how many."""
        self.notes: list[str] = []

    def seen(self) -> Iterator[Seen]:
        """All that is there now."""
        self._look_at_tasks()
        for kind in LEDGER.kinds():
            book = LEDGER.book(kind.name)
            for token, entry in book.rows():
                found = self._of_entry(book, token, entry)
                if found is not None:
                    yield found
                TURNS.breathe()
            for gauge in list(book.gauges):
                if gauge.rows is not None:
                    yield from self._of_rows(gauge)
        yield from self._strangers()
        yield from self._balance()

    def forget(self) -> None:
        """What the last look saw, one by one: see `turns`."""
        for last in (self._waits, self._tasks):
            while last:
                last.popitem()
                TURNS.breathe()

    # --- entries --------------------------------------------------------------------------------------------------

    def _of_entry(self, book: Book, token: int, entry: tuple[Any, ...]) -> Seen | None:
        code, lasti, key, owner, label_set = entry
        ttl_ns, daemon, callers = book.extra.get(token, (-1, False, ()))
        since_ns = token >> KIND_BITS
        labels = LEDGER.expand(label_set)
        if daemon or (self._keeps is not None and not self._keeps(labels, since_ns)):
            return None
        name = book.kind.name
        wait: tuple[Frame, ...] = ()
        thing = key() if isinstance(key, weakref.ReferenceType) else key
        if name == TASK:
            if thing is None or thing.done():  # its release is on the way, or it is an event of its own
                return None
            wait = self._waits.get(id(thing), ())
            self._tasks.pop(id(thing), None)
        if self._ttl_ns is not None:
            ttl_ns = self._ttl_ns
        elif ttl_ns < 0:
            ttl_ns = int(book.kind.ttl_s * 1e9)
        site = tuple(self._frame(*place) for place in (*callers, (code, lasti)))
        holder = None if name == GENERATOR else owner  # others may go on with it: see `held`
        proof = EVENTS.get(name) or gone(key, holder) or self._own_proof(book, token)
        ident = id(thing) if name == TASK else token
        return self._made(name, site, wait, labels, ident, since_ns, ttl_ns, said(key), said(owner), proof)

    def _of_rows(self, gauge: Gauge) -> Iterator[Seen]:
        """What is counted elsewhere, and named there."""
        try:
            rows = list(gauge.rows() if gauge.rows is not None else ())
        except Exception:  # noqa: BLE001, RUF100 - its owner is about to close
            return
        for row in rows:
            if row.daemon or (self._keeps is not None and not self._keeps(row.labels, row.since_ns)):
                continue
            ttl_ns = row.ttl_ns if self._ttl_ns is None else self._ttl_ns
            proof = gone(row.key, row.owner)
            yield self._made(
                row.kind,
                row.site,
                (),
                row.labels,
                row.token,
                row.since_ns,
                ttl_ns,
                said(row.key),
                said(row.owner),
                proof,
            )

    @staticmethod
    def _own_proof(book: Book, token: int) -> str:
        """What the kind's own function says. One that raises says nothing."""
        if book.prove is None:
            return ""
        entry: LedgerEntry | None = LEDGER.entry(token)
        try:
            return "" if entry is None else str(book.prove(entry) or "")
        except Exception:  # noqa: BLE001, RUF100 - it is the user's
            return ""

    def _made(
        self,
        kind: str,
        site: tuple[Frame, ...],
        wait: tuple[Frame, ...],
        labels: Labels,
        ident: int,
        since_ns: int,
        ttl_ns: int,
        key: str,
        owner: str,
        proof: str,
    ) -> Seen:
        by_name = dict(labels)
        node_type = by_name.get("node_type", self._node_type)
        signature = Signature(kind, site, wait, node_type, by_name.get("workflow", ""))
        return Seen(signature, ident, since_ns, ttl_ns, key, owner, labels, proof)

    def _frame(self, code: CodeType, lasti: int) -> Frame:
        """Looked up once. By identity: equal code of two files is equal, and is not the same place."""
        found = self._frames.get((id(code), lasti))
        if found is None:
            found = self._frames[id(code), lasti] = (frame_at(code, lasti), code)
        return found[0]

    # --- tasks ----------------------------------------------------------------------------------------------------

    def _look_at_tasks(self) -> None:
        """Where each task waits, and which there are, entered or not."""
        self.forget()
        for number, task in enumerate(all_tasks()):
            self._tasks[id(task)] = task
            if number == TASKS_MAX:
                self.notes.append(f"of more than {TASKS_MAX:,} tasks the rest has no waiting place")
            elif number < TASKS_MAX:
                self._waits[id(task)] = wait_of(task)
            TURNS.breathe()

    def _strangers(self) -> Iterator[Seen]:
        """Tasks that nobody entered: of loops that this package did not make. Their time counts from the first look."""
        now_ns = time.monotonic_ns()
        kind = LEDGER.book(TASK).kind
        ttl_ns = int(kind.ttl_s * 1e9) if self._ttl_ns is None else self._ttl_ns
        first, self._first = self._first, {}
        tasks, self._tasks = self._tasks, {}
        for ident, task in tasks.items():
            since_ns = self._first[ident] = first.get(ident, now_ns)
            coro = task.get_coro()
            code = getattr(coro, "cr_code", None) or getattr(coro, "gi_code", None)
            site = () if code is None else (self._frame(code, -1),)
            labels = labels_of(task)
            if task.get_name().startswith(_OWN_PREFIX) or (self._keeps and not self._keeps(labels, since_ns)):
                continue
            wait = self._waits.get(ident, ())
            yield self._made(TASK, site, wait, labels, ident, since_ns, ttl_ns, task.get_name(), "", "")

    # --- books ----------------------------------------------------------------------------------------------------

    def _balance(self) -> Iterator[Seen]:
        """Row 22. What happens between two counts of one look is no fault, and under load there is some at many:
        so only what is wrong in the same direction at several looks in a row is said."""
        before, self._wrong = self._wrong, {}
        for kind, off in _balance().items():
            looks, last = before.get(kind, (0, off))
            looks = looks + 1 if (last > 0) == (off > 0) else 1
            self._wrong[kind] = looks, off
            if looks >= _WRONG_LOOKS:
                words = "releases of what was never entered, or twice" if kind == "?" else "entries too many or too few"
                place = LEDGER.strange_place if kind == "?" else None
                site = (Frame(f"books of {kind}"),) if place is None else (frame_at(*place),)
                proof = f"created, released and living do not agree: {off:+} {words}"
                yield self._made(BOOKS, site, (), (), hash(kind), 0, 0, kind, "", proof)


class EvidenceLook:
    """Looks at what parts of the engine say of things that nothing moves any more, such as runs that lost their waker.

    Attributes:
        pending: Whether something was said that must be said again, `CONFIRM_NS` later, to count.
    """

    def __init__(self) -> None:
        self._first: dict[Stranded, int] = {}
        self.pending = False

    def seen(self, now_ns: int | None = None) -> Iterator[Seen]:
        """All that was said each time since, for long enough. A time of one's own is for tests."""
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        before = self._first
        self._first = {one: before.get(one, now_ns) for one in evidence_now()}
        held = [one for one, first_ns in self._first.items() if one in before and now_ns - first_ns >= CONFIRM_NS]
        self.pending = len(held) < len(self._first)
        for one in held:
            signature = Signature(one.kind, one.site or (Frame("nothing moves it"),))
            yield Seen(signature, hash(one.key), self._first[one], 0, one.key, one.owner, (), one.why)


def _balance() -> dict[str, int]:
    """Kinds whose books are wrong each time; what is counted while it changes is wrong only now and then."""
    wrong = LEDGER.balance()
    for _ in range(_BALANCES):
        if not wrong:
            break
        again = LEDGER.balance()
        wrong = {kind: off for kind, off in again.items() if kind in wrong}
    return wrong


def wait_of(task: Any) -> tuple[Frame, ...]:
    """Where a task waits, root first, without the lines of the loop at its end."""
    try:
        places, _ = await_chain(task.get_coro())
    except (RuntimeError, AttributeError):  # it went on meanwhile
        return ()
    frames = tuple(Frame(code.co_qualname, code.co_filename, line) for code, line in places)
    end = len(frames)
    while end > 1 and frames[end - 1].file.startswith(_LOOP_FILES):
        end -= 1
    return frames[:end]


def gone(key: Any, owner: Any) -> str:
    """Why an entry can be released by nobody: what it stands for was collected, or its owner is gone; else ""."""
    if isinstance(key, weakref.ReferenceType) and key() is None:
        return "what it stands for was collected and not given back"
    if isinstance(key, Named) and key.why:
        return key.why
    who = owner
    if isinstance(owner, weakref.ReferenceType):
        who = owner()
        if who is None:
            return "its owner was collected"
    if isinstance(who, Process):
        if not is_alive(who.pid, who.start_time):
            return f"its owner, {who.named}, is dead"
    elif isinstance(who, threading.Thread):
        if who.ident is not None and not who.is_alive():
            return f"its owner, the thread {who.name}, has ended"
    elif isinstance(who, asyncio.Future) and who.done():
        return f"its owner, {said(who)}, is done"
    return ""


def said(thing: Any) -> str:
    """A key or owner in a few words. No `repr` of a user's object is asked: it is user code."""
    if isinstance(thing, Named):
        return thing.name
    if isinstance(thing, weakref.ReferenceType):
        thing = thing()
    if thing is None:
        return ""
    if isinstance(thing, Process):
        return thing.named
    if type(thing) in (str, int, float, bytes) or (isinstance(thing, tuple) and type(thing).__module__ != "builtins"):
        text = thing if type(thing) is str else repr(thing)
    else:
        name = getattr(thing, "get_name", None) if isinstance(thing, asyncio.Future | threading.Thread) else None
        text = name() if callable(name) else type(thing).__qualname__
    return text if len(text) <= _WORDS_MAX else f"{text[: _WORDS_MAX - 1]}…"


_LOOP_FILES: Final = (asyncio.__file__.removesuffix("__init__.py"), origins.__file__)
"""Files of asyncio, and what is wrapped around a loop's methods; uvloop has no frames."""

"""Nothing is left: the check at the end of a test, or of a program that drained.

    assert_clean()                              of this process, all that is in its books or waits
    before = Baseline(); ...; assert_clean(baseline=before)     what came since
    assert_clean(state_dir=rt.state_dir)        of all processes of a runtime

Who looks too soon finds what is about to end, so it is looked again and again, as goleak does, first after a
microsecond and then after twice as long each time, up to a tenth of a second, until `settle` is over. Collections run
first: a check that counts before the collector ran finds nothing, for ever.

What is looked at here is everything: tasks, threads, children, descriptors, entries of the ledger, and since a baseline
coroutines that nobody awaited and the like. In the processes of a runtime it is their ledgers and what drains (runs,
leases, messages, questions): their threads and descriptors are their own affair.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson

from actors.protocol.profile_errors import LeaksFound, ProfileUnavailable
from runtime.profile.captures.snapshot import all_tasks
from runtime.profile.leak_check.detectors import BooksLook, Seen
from runtime.profile.leak_check.findings import finding_of
from runtime.profile.leak_check.grading import LEAK, Facts, Finding, Signature, Trend, order, place
from runtime.profile.leak_check.machine import ProcessThings, known_things
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.events import EventHooks
from runtime.profile.ledger.kinds import ASK, LEASE, MESSAGE, RUN, TASK
from runtime.profile.ledger.origins import ORIGINS
from runtime.profile.model import Labels, Process, dumped
from runtime.profile.presence.control import ask
from runtime.profile.presence.here import Request
from runtime.profile.sampling.labels import LABELS, VALUE_CHARS_MAX, expand
from runtime.profile.sampling.labels import labels as labelling

SETTLE_S: Final = 2.0
_FIRST_S: Final = 1e-6
_MOST_S: Final = 0.1
_NAMED_MAX: Final = 50
DRAINS: Final = (RUN, LEASE, MESSAGE, ASK)
"""Kinds that are counted where they are kept, and are 0 when all is done."""
_NO_FACTS: Final = Facts(False, False, False, False, Trend(0.0, 0.0, 0.0))

Ignore = str | Callable[[Finding], bool]
"""What is no leak: a kind, the name of a function that created it or in which it waits, at any depth, or whatever says
so. A name is a whole qualified name ("Client.poll") or its last part ("poll")."""


def top_function(name: str) -> Callable[[Finding], bool]:
    """For `ignore`: what waits in this function itself."""
    return lambda found: bool(found.wait) and _is(found.wait[-1].name, name)


def created_by(name: str) -> Callable[[Finding], bool]:
    """For `ignore`: what this function created."""
    return lambda found: any(_is(frame.name, name) for frame in found.site)


class Baseline:
    """What is there now, to be left out.

    Args:
        label: Of the label "test": what has another one belongs to another test.
        events: Whether it is noted from now on what happens, such as a coroutine that is never awaited, until `close`.
    """

    machine = True
    """Whether threads, children and descriptors are looked at, too."""

    def __init__(self, label: str = "", *, events: bool = False) -> None:
        self.label, self.since_ns = label[:VALUE_CHARS_MAX], time.monotonic_ns()
        self.things = known_things()
        self._tasks = {id(task): weakref.ref(task) for task in all_tasks()}
        self.hooks = EventHooks() if events else None
        self._notes_origins = self.hooks is not None and not ORIGINS.on
        if self.hooks is not None:
            self.hooks.install()
        if self._notes_origins:  # else a thread could only be said by what it runs, and a socket by nothing
            ORIGINS.install()

    def keeps(self, labels: Labels, since_ns: int) -> bool:
        """Whether something came since."""
        return since_ns >= self.since_ns and dict(labels).get("test", self.label) == self.label

    def knows(self, seen: Seen) -> bool:
        """Whether something was there."""
        known = self._tasks.get(seen.ident) if seen.signature.kind == TASK else None
        return known is not None and known() is not None

    def add(self, things: Iterable[tuple[str, Any]], tasks: Iterable[Any]) -> None:
        """These belong to somebody else, too."""
        self.things |= frozenset(things)
        self._tasks |= {id(task): weakref.ref(task) for task in tasks}

    def close(self) -> None:
        """Note no more. Again is harmless."""
        if self.hooks is not None:
            self.hooks.remove()
        if self._notes_origins:
            self._notes_origins = False
            ORIGINS.remove()


@contextmanager
def labelled(test: str) -> Iterator[None]:
    """What is made within is this test's: tests that run at the same time are told apart by it."""
    LEDGER.label_set, LEDGER.expand = LABELS.get, expand  # for good: entries outlive the test
    with labelling(test=test):
        yield


class _Look:
    """Looks at this process until nothing is left."""

    def __init__(self, baseline: Baseline | None, ignore: Iterable[Ignore]) -> None:
        self._baseline, self._ignore = baseline, tuple(ignore)
        self._books = BooksLook(keeps=None if baseline is None else baseline.keeps)
        self._machine = ProcessThings(known=baseline.things) if baseline is not None and baseline.machine else None

    def left(self) -> list[Finding]:
        """What is there, the most first."""
        gc.collect()
        seen = [one for one in self._seen() if not _is_own_task(one)]
        found = [one for one in _grouped(seen) if not ignored(one, self._ignore)]
        return sorted(found, key=order)

    def _seen(self) -> Iterator[Seen]:
        baseline = self._baseline
        for one in self._books.seen():
            if baseline is None or not baseline.knows(one):
                yield one
        if self._machine is not None:
            yield from self._machine.seen()
        for number, (kind, name, site) in enumerate(baseline.hooks.events if baseline and baseline.hooks else ()):
            yield Seen(Signature(kind, site), number, 0, 0, name, "", ())


def _is_own_task(seen: Seen) -> bool:
    """Whether it is the task that looks."""
    try:
        return seen.signature.kind == TASK and seen.ident == id(asyncio.current_task())
    except RuntimeError:
        return False


def assert_clean(
    settle: float = SETTLE_S,
    ignore: Iterable[Ignore] = (),
    *,
    baseline: Baseline | None = None,
    state_dir: str | os.PathLike[str] | None = None,
) -> None:
    """Nothing is left, at the latest after `settle` seconds.

    In a coroutine this would hold up the loop, and so what is about to end: use `await_clean` there.

    Args:
        settle: Seconds that what is about to end may take.
        ignore: What may stay: see `Ignore`, `top_function` and `created_by`.
        baseline: What was there before; None: whatever is not declared a daemon is too much, threads, children and
            descriptors excepted, of which a process has some.
        state_dir: Look at all processes of this folder instead.

    Raises:
        LeaksFound: Something is left; each is named with where it was created and where it waits.
        ProfileUnavailable: No process of the folder can be seen, or one does not answer.
    """
    look = _Look(baseline, ignore) if state_dir is None else None
    deadline, pause_s = time.monotonic() + settle, _FIRST_S
    while True:
        found = look.left() if look is not None else left_in(state_dir or "", ignore)
        if not found:
            return
        if time.monotonic() >= deadline:
            raise LeaksFound(said(found, settle))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _MOST_S)


async def await_clean(
    settle: float = SETTLE_S, ignore: Iterable[Ignore] = (), *, baseline: Baseline | None = None
) -> None:
    """As `assert_clean`, of this process, while the loop goes on. The task that calls is not counted."""
    look = _Look(baseline, ignore)
    deadline, pause_s = time.monotonic() + settle, _FIRST_S
    while found := look.left():
        if time.monotonic() >= deadline:
            raise LeaksFound(said(found, settle))
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _MOST_S)


def said(found: list[Finding], settle: float) -> str:
    """The findings for people."""
    lines = [f"after {settle:g} s there is still left:"]
    for one in found[:_NAMED_MAX]:
        named = f" ({', '.join(one.exemplars)})" if one.exemplars else ""
        where = f" in {one.process.named}" if one.process else ""
        lines.append(f"  {one.count} x {one.kind}{named}{where}" + (f": {one.proof}" if one.proved else ""))
        lines += [f"    created at {place(frame)}" if frame.file else f"    {frame.name}" for frame in one.site[-1:]]
        lines += [f"    waits at {place(frame)}" for frame in reversed(one.wait[-3:])]
    if len(found) > _NAMED_MAX:
        lines.append(f"  and {len(found) - _NAMED_MAX} more")
    return "\n".join(lines)


def ignored(found: Finding, ignore: Iterable[Ignore]) -> bool:
    """Whether something is named as no leak."""
    frames = (*found.site, *found.wait)
    for one in ignore:
        if callable(one):
            if one(found):
                return True
        elif one == found.kind or one in found.exemplars or any(_is(frame.name, one) for frame in frames):
            return True
    return False


def _is(qualified: str, name: str) -> bool:
    return qualified == name or qualified.endswith(f".{name}")


def _grouped(seen: Iterable[Seen], process: Process | None = None) -> list[Finding]:
    groups: dict[Signature, list[Seen]] = {}
    for one in seen:
        groups.setdefault(one.signature, []).append(one)
    now_ns = time.monotonic_ns()
    found = []
    while groups:  # one by one, as they are freed: see `turns`
        signature, ones = groups.popitem()
        proof = next((one.proof for one in ones if one.proof), "")
        why = proof or "it is still there"
        found.append(finding_of(LEAK, signature, ones, _NO_FACTS, why, now_ns, process, proved=bool(proof)))
        while ones:
            ones.pop()
    return found[::-1]


# --- other processes --------------------------------------------------------------------------------------------------


def left_in(state_dir: str | os.PathLike[str], ignore: Iterable[Ignore] = ()) -> list[Finding]:
    """What is left in the processes of a folder. Raises ProfileUnavailable, also of one that is silent."""
    answers = ask(state_dir, "left").heard()
    if answers.missing:
        names = ", ".join(one.named for one in answers.missing)
        raise ProfileUnavailable(f"what is left in {names} is not known: no answer in time")
    found = [Finding.of_json(row) for _, content in answers.rows for row in orjson.loads(content)]
    return sorted((one for one in found if not ignored(one, ignore)), key=order)


def answer(request: Request) -> bytes:
    """The answer to "left"."""
    found = _grouped(BooksLook(request.process).seen(), request.process)
    for kind in DRAINS:
        count = LEDGER.count(LEDGER.book(kind))
        live = count.live - len(LEDGER.book(kind).live)
        if live and not any(one.kind == kind for one in found):
            since_ns = count.oldest_ns
            one = Seen(Signature(kind), 0, since_ns, 0, "", "", ())
            made: Any = finding_of(LEAK, one.signature, [one], _NO_FACTS, "it is still there", 0, request.process)
            found.append(made._replace(count=live))
    return dumped([one.as_json() for one in found])

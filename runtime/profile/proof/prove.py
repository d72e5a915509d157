"""The reachability proof: which tasks of this process wait for what nothing alive can give them.

    parent                                     child
    tasks, frames of threads, registries
    fork ────────────────────────────────────► niced, without descriptors and signals, first to be killed for memory
    goes on                                    marks (`mark`), writes the verdict, `_exit`
    reads the verdict

What is found once may be a task that is just being handed over: so it counts when a second mark, a second later, finds
the same tasks waiting for the same things; only that one asks which of them could wake each other. Each finding is
"leak" where that is proved, and "suspect" where something unseen refers to what it hangs on, or somebody alive names it
and may cancel it.

Safety: the child touches nothing outside of itself, runs no finalizer and no user code but hooks of `os.fork`; it dies
    with this process, has limits on its time, and is killed when it takes too long. There is one on a host and user at
    a time. Nothing is forked where no task waits, or where memory is short.
Concurrency: any thread. Called on a loop's own thread it holds that loop up for as long as it takes: use a thread.
Known limits: Linux and other systems with fork(2), and a CPython with an interpreter lock; elsewhere, `Proof.notes` say
    so, and leaks are found by how they grow and age only.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import orjson

from runtime.profile.ledger.pins import Pinned, evidence_now, pins_now
from runtime.profile.model import Frame, dumped
from runtime.profile.presence.here import Request
from runtime.profile.proof.apart import Apart, child_of, room_for_child
from runtime.profile.proof.kin import chain_of, code_of, stack_of, waiter_of
from runtime.profile.proof.mark import Mark, Marked, Ring
from runtime.profile.proof.one_proof import one_at_a_time
from runtime.profile.proof.roots import Roots, snapshot, tasks_there
from runtime.profile.proof.support import lacking
from runtime.profile.turns import TURNS

LEAK: Final = "leak"
SUSPECT: Final = "suspect"
CONFIRM_S: Final = 1.0
"""Between the two marks: what is being handed over has settled by then (golang/go #75729 is that flake)."""
TIMEOUT_S: Final = 60.0
_ENGINE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")


class Proved(NamedTuple):
    """A finding.

    Attributes:
        task: The task; of a ring, the first.
        why: Why nothing alive can wake it; of a suspect, what speaks against that.
        ring: All tasks that only each other could wake, this one included.
        grade: LEAK or SUSPECT.
        stack: Where it waits, the outermost coroutine first; a line each.
        site: Where its coroutine begins.
        waits: The type of what it waits for.
        behind: Tasks that would wake it, and are found themselves.
    """

    task: Any
    why: str
    ring: tuple[Any, ...]
    grade: str
    stack: tuple[Frame, ...]
    site: Frame
    waits: str
    behind: tuple[Any, ...]


class Proof(NamedTuple):
    """What one look found.

    Attributes:
        findings: The findings.
        notes: What could not be seen, and why.
        blocked: How many tasks waited.
        objects: How many objects there were.
        marked: How many of them are alive.
        pause_ns: How long this process was held up, by both forks: the longer.
        child_ns: How long the longer mark took in its child.
        things: Tokens of the ledger of what only tasks have that nothing can wake.
    """

    findings: list[Proved]
    notes: list[str]
    blocked: int = 0
    objects: int = 0
    marked: int = 0
    pause_ns: int = 0
    child_ns: int = 0
    things: tuple[int, ...] = ()


class _Seen(NamedTuple):
    """One mark, with what it speaks of."""

    tasks: list[Any]
    verdict: Marked
    pause_ns: int
    child_ns: int
    things: frozenset[int] = frozenset()


def prove(roots_extra: Iterable[Any] = (), cut: Iterable[Any] = (), *, confirm_s: float = CONFIRM_S) -> list[Proved]:
    """What nothing alive can wake; see `examine`."""
    return examine(roots_extra, cut, confirm_s=confirm_s).findings


def examine(
    roots_extra: Iterable[Any] = (),
    cut: Iterable[Any] = (),
    *,
    confirm_s: float = CONFIRM_S,
    timeout: float = TIMEOUT_S,
) -> Proof:
    """Look for tasks that nothing alive can wake.

    Args:
        roots_extra: Things that are alive besides what is known to be: modules, threads, loops, what can run.
        cut: Registries besides those of the engine: containers that refer to tasks and will not wake any.
        confirm_s: Seconds between the two marks.
        timeout: Seconds for all of it.

    Returns:
        What was found, and what could not be seen.
    """
    lacks = lacking()
    if lacks:
        return Proof([], [f"no proof: {lack}" for lack in lacks])
    cut = tuple(cut)
    deadline = time.monotonic() + timeout
    try:
        first = _look(roots_extra, [*pins_now(), Pinned(cut)], deadline, ringed=False)
        if not first.verdict.rings:
            return _proof(first, [])
        known, times, things = _known(first), first[2:4], first.things
        del first  # it refers to tasks, which must not count
        time.sleep(confirm_s)
        second = _look(roots_extra, [*pins_now(), Pinned((*cut, known))], deadline)
    except (OSError, TimeoutError, AttributeError) as failed:
        return Proof([], [f"no proof: {failed}"])
    return _proof(second, _confirmed(known, second), *times)._replace(things=tuple(sorted(things & second.things)))


def _proof(seen: _Seen, findings: list[Proved], pause_ns: int = 0, child_ns: int = 0) -> Proof:
    verdict = seen.verdict
    times = max(seen.pause_ns, pause_ns), max(seen.child_ns, child_ns)
    return Proof(findings, [], verdict.blocked, verdict.objects, verdict.marked, *times)


# --- two marks agree --------------------------------------------------------------------------------------------------


def _known(seen: _Seen) -> dict[int, tuple[Any, Any, str]]:
    """What the first mark found, without keeping it alive: task, what it waits for, why it may be none."""
    return {
        id(seen.tasks[at]): (_weakly(seen.tasks[at]), _weakly(waiter_of(seen.tasks[at])), ring.why)
        for ring in seen.verdict.rings
        for at in ring.tasks
    }


def _confirmed(known: dict[int, tuple[Any, Any, str]], seen: _Seen) -> list[Proved]:
    findings = []
    for ring in seen.verdict.rings:
        tasks = [seen.tasks[at] for at in ring.tasks]
        before = [known.get(id(task)) for task in tasks]
        whys = [ring.why, *(row[2] for row in before if row is not None)]
        if all(
            row is not None and row[0]() is task and (waiter := waiter_of(task)) is not None and row[1]() is waiter
            for row, task in zip(before, tasks, strict=True)
        ):
            behind = tuple(seen.tasks[at] for at in ring.behind)
            findings.append(_finding(tasks, behind, next(filter(None, whys), "")))
    return findings


def _finding(tasks: list[Any], behind: tuple[Any, ...], doubt: str) -> Proved:
    task = tasks[0]
    stack, site = _places(task)
    waits = type(waiter_of(task)).__name__
    place = f" in {stack[-1].name}" if stack else ""
    if doubt:
        why = f"waits{place} for a {waits} that nothing known to be alive refers to; but {doubt}"
    elif behind:
        names = ", ".join(_name(other) for other in behind)
        why = f"waits{place} for what only tasks give that cannot go on themselves: {names}"
    elif len(tasks) > 1:
        names = ", ".join(_name(other) for other in tasks[:5])
        why = f"{len(tasks)} tasks can be woken by each other only, and all of them wait: {names}"
    else:
        why = f"waits{place} for a {waits} that nothing alive refers to"
    return Proved(task, why, tuple(tasks), SUSPECT if doubt else LEAK, stack, site, waits, behind)


def _places(task: Any) -> tuple[tuple[Frame, ...], Frame]:
    """Where it waits and where its coroutine, or of an attempt its handler, begins."""
    chain = chain_of(task)
    codes = [code for one in chain if (code := code_of(one)) is not None]
    stack = stack_of(chain)
    own = next((at for at, code in enumerate(codes) if not code.co_filename.startswith(_ENGINE)), 0)
    if not codes:
        return (), Frame("", "", 0)
    return tuple(stack[own:]), Frame(codes[own].co_qualname, codes[own].co_filename, codes[own].co_firstlineno)


def _name(task: Any) -> str:
    with suppress(Exception):
        return str(task.get_name())
    return type(task).__name__


def _weakly(thing: Any) -> Any:
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


# --- one mark ---------------------------------------------------------------------------------------------------------


def _look(roots_extra: Iterable[Any], pins: list[Pinned], deadline: float, *, ringed: bool = True) -> _Seen:
    """Mark in a forked child. Raises OSError, TimeoutError."""
    tasks = tasks_there()
    if not any(waiter_of(task) is not None for task in tasks):
        return _Seen(tasks, Marked(0, 0, 0, []), 0, 0)
    with one_at_a_time(deadline):
        room_for_child()
        roots = list(roots_extra)
        with _undisturbed():
            begun_ns = time.monotonic_ns()
            taken = snapshot(roots, pins, tasks)
            child = child_of(_ringed if ringed else _marked, taken)
            pause_ns = time.monotonic_ns() - begun_ns
        tokens = taken.tokens
        del taken  # it refers to what it speaks of
        verdict, child_ns = _verdict(child, deadline)
    return _Seen(tasks, verdict, pause_ns, child_ns, frozenset(tokens[at] for at in verdict.things))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No thread switch is asked for by others, and no warning about threads is made of the fork."""
    time.sleep(0)  # whoever waits for the interpreter has it first
    with TURNS.long():
        if sys.version_info >= (3, 12):
            _no_warning()
        yield


def _no_warning() -> None:
    wanted = r"runtime\.profile\.proof\.apart"
    if not any(
        row[3] is not None and row[3].pattern == wanted for row in warnings.filters if hasattr(row[3], "pattern")
    ):
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=wanted)


def _ringed(taken: Roots, heap: list[Any]) -> bytes:
    return _marked(taken, heap, ringed=True)


def _marked(taken: Roots, heap: list[Any], *, ringed: bool = False) -> bytes:
    """In the child."""
    begun_ns = time.monotonic_ns()
    verdict = Mark(heap, taken).run(ringed=ringed)
    return orjson.dumps(
        [*verdict[:3], [[*ring] for ring in verdict.rings], verdict.things, time.monotonic_ns() - begun_ns]
    )


def _verdict(child: Apart, deadline: float) -> tuple[Marked, int]:
    objects, marked, blocked, rings, things, child_ns = orjson.loads(child.answer(deadline))
    made = [Ring(tuple(tasks), why, tuple(behind)) for tasks, why, behind in rings]
    return Marked(objects, marked, blocked, made, things), child_ns


# --- for who asks -----------------------------------------------------------------------------------------------------


def as_rows(proof: Proof) -> dict[str, Any]:
    """As plain data; tasks by their names."""
    rows = [
        {
            "grade": found.grade,
            "why": found.why,
            "task": _name(found.task),
            "ring": [_name(task) for task in found.ring],
            "behind": [_name(task) for task in found.behind],
            "stack": [[*frame] for frame in found.stack],
            "site": [*found.site],
            "waits": found.waits,
        }
        for found in proof.findings
    ]
    return {"findings": rows, **{name: getattr(proof, name) for name in Proof._fields[1:]}}


def answer(request: Request) -> bytes:
    """Of this process, to who asks all of them: what `as_rows` has, and under "others" what needs no mark."""
    left_s = max(1.0, (request.until_ns - time.monotonic_ns()) / 1e9)
    confirm_s = float(request.options.get("confirm_s", CONFIRM_S))
    before = evidence_now()
    rows = as_rows(examine(confirm_s=confirm_s, timeout=left_s))
    if before:
        time.sleep(confirm_s)
        before &= evidence_now()
    names = ("kind", "key", "why")
    rows["others"] = [dict(zip(names, row[:3], strict=True)) for row in sorted(before)]
    return dumped(rows)

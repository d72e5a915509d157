"""Calls: a handler that needs the results of other tasks, and holds nothing while it waits for them.

    worker ── S: a block with "calls" ──► growth.on_spawned     kept, SPAWNED is logged
           ── E: kind "waits" ──────────► suspend               LENT is logged; the called READY, the caller PENDING
    the called end ─► edges of the graph ─► the caller READY ─► its lease says how its calls ended
    worker ── the handler is called again: its calls have their results at once

A waiting caller has no worker, no place of a quota and no time that runs out, so whatever is called may start: nobody
who waits holds what the others need. That is why there is no deadlock to look for, however deep calls go and however
few workers there are. What was called is a node of the run as any other, and its end is in the log, so it is never
done again: not when the caller's attempt fails, nor after a crash of worker or engine.

Rules
- A call is known by its digest (handler and arguments), equal ones by their order.
- The called have at least the class of their caller, and stand in front of what waits in their lane, as does a caller
  that goes on: depth first, so that what is open stays small.
- Waiting is no failure: the attempt keeps its number, and its timeout begins anew when it goes on, as does the count of
  its crashes, or a caller with many rounds would be taken for poison in the end.
- Who cancels a waiting caller cancels what it called. So does its deadline, which runs while it waits.
- A retry of a caller makes those calls anew that did not succeed; what succeeded is not done again.
- The same when somebody has a caller run again that ended (`actors.revival`). What was called is no dead letter and
  does not go again by itself: nobody would read its result. A caller whose calls are still being stopped is refused.
- A retry that lowers the class of what was called lowers it no further than to its caller's.
- Whatever its trigger rule, a caller goes on when all its calls ended: the handler sees how.

Known limit: a caller that started early (any-succeeded) goes on when its other parents ended, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from actors import deadline
from actors.growth import append_block
from actors.protocol import messages as msg
from actors.protocol.errors import GraphError, MainspringError
from actors.protocol.kinds import Kind
from actors.protocol.records import RecordType
from actors.protocol.states import FailureKind, state_word
from actors.protocol.words import counted
from actors.run import Run
from actors.state_column import CANCELLING, PENDING, SKIPPED, SUCCEEDED

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

SHOWN_MAX = 5


class Calls:
    """What one node has called: nodes and digests, in order. `run.rare.calls` holds them by caller."""

    __slots__ = ("digests", "nodes", "waits")

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self.digests: list[str] = []
        self.waits = True
        """Whether its caller goes on when they have ended; False when it began anew since, see `actors.revival`."""


# --- waiting and going on -----------------------------------------------------------------------------------------


def suspend(scheduler: Scheduler, message: msg.AttemptFailed) -> dict[str, Any] | None:
    """An attempt waits for its calls. Returns None, or the failure that it is instead."""
    run, node = message.run, message.node
    refused = run.rare.refused.get(node)
    if refused is not None:
        return _failure(refused)
    if deadline.passed(scheduler, run, node) and run.state[node] != CANCELLING:
        return deadline.failure(scheduler, run, node)
    if run.state[node] == CANCELLING:
        return {"kind": str(FailureKind.CANCELLED), "type": "", "message": "cancelled in a call", "traceback": ""}
    waiting = run.rare.spawned.pop(node, None)
    if waiting is None or "calls" not in waiting[0]:
        return _failure(GraphError("it waits, and called nothing"))
    offset = scheduler.wall_ns - scheduler.now_ns
    times = (message.started_ns + offset, message.ended_ns + offset)
    scheduler.log(RecordType.LENT, orjson.dumps([run.no, node, scheduler.wall_ns, *times, message.pid]))
    queue(scheduler, run, enter(scheduler, run, node, *waiting))
    scheduler.book.touch(run)
    if run.is_graph:
        scheduler.stirred[run.no] = run
    return None


def enter(scheduler: Scheduler, run: Run, node: int, block: dict[str, Any], kinds: list[Kind]) -> list[int]:
    """Add what a node has called, and let it wait for that; returns what is READY. Also from the log."""
    rare, first, count = run.own_rare(), run.size, block["n"]
    scheduler.book.grew(count)
    fresh = append_block(run, block, kinds, caller=node)
    called = rare.calls.setdefault(node, Calls())
    called.nodes += range(first, run.size)
    called.digests += block["calls"]
    called.waits = True
    rare.callers.update(dict.fromkeys(range(first, run.size), node))
    rare.expires.pop(node, None)  # it has started in time
    rare.crashes.pop(node, None)  # and comes further than where it took its worker along
    run.move(node, PENDING)
    scheduler.note(run, node, "waits", f"for {counted(count, 'call')}: {_span(run, first)}")
    for child in fresh:
        scheduler.note(run, child, "called", f"by node {run.node_id(node)}")
    return fresh


def forget_failed(run: Run, node: int) -> None:
    """An attempt of this node failed and is followed by another, which makes those calls anew that did not succeed."""
    calls = run.rare.calls.get(node)
    if calls is not None:
        kept = [
            (called, digest)
            for called, digest in zip(calls.nodes, calls.digests, strict=True)
            if run.state[called] in (SUCCEEDED, SKIPPED)
        ]
        calls.nodes, calls.digests = [called for called, _ in kept], [digest for _, digest in kept]


def queue(scheduler: Scheduler, run: Run, nodes: Sequence[int]) -> None:
    """Queue what became READY in a run with calls: callers that go on, and what was called, in front."""
    callers, calls = run.rare.callers, run.rare.calls
    first = [n for n in nodes if n in callers or n in calls]
    for node in first:
        if run.waits_for_calls(node):
            scheduler.note(run, node, "goes on", f"{counted(len(calls[node].nodes), 'call')} ended")
    scheduler.queue(run, first, front=True)
    scheduler.queue(run, [n for n in nodes if n not in callers and n not in calls])


def begin_anew(run: Run, nodes: Sequence[int]) -> None:
    """These nodes had ended, and go again: as in a retry, and whether they start is up to their parents first."""
    for node in nodes if run.rare.calls else ():
        forget_failed(run, node)
        if node in run.rare.calls:
            run.rare.calls[node].waits = False


def _span(run: Run, first: int) -> str:
    return f"node {first}" if run.size == first + 1 else f"nodes {first} to {run.size - 1}"


def _failure(refusal: MainspringError) -> dict[str, Any]:
    return {"kind": "error", "type": type(refusal).__name__, "message": str(refusal), "traceback": ""}


# --- what the worker is told --------------------------------------------------------------------------------------


def attempts_of(run: Run, nodes: Sequence[int]) -> list[int] | None:
    """Numbers of the attempts that start now; None: all are the first."""
    failed = run.rare.attempts
    return [failed.get(n, 0) + 1 for n in nodes] if failed else None


def told_attempts(run: Run, nodes: Sequence[int], attempts: list[int] | None) -> list[Any] | None:
    """The same, as the worker is told: [number, [[digest, state, value or failure], ...]] where there were calls."""
    calls = run.rare.calls
    if not calls or calls.keys().isdisjoint(nodes):
        return attempts
    numbers = attempts or [1] * len(nodes)
    return [
        [number, list(_outcomes(run, calls[node]))] if node in calls else number
        for node, number in zip(nodes, numbers, strict=True)
    ]


def _outcomes(run: Run, calls: Calls) -> Iterator[list[Any]]:
    for node, digest in zip(calls.nodes, calls.digests, strict=True):
        state = run.state[node]
        yield [digest, int(state), run.results[node] if state == SUCCEEDED else run.failure(node)]


# --- cancels and questions ----------------------------------------------------------------------------------------


def called_by(run: Run, node: int) -> list[int]:
    """What a node has called and waits for, or waited: it came to lie before it, as parents do."""
    calls = run.rare.calls.get(node)
    return [] if calls is None else calls.nodes


def open_called(run: Run, caller: int) -> list[int]:
    """Nodes that this one has called, directly or not, and that have not ended."""
    found: list[int] = []
    waiting = [caller]
    while waiting:
        calls = run.rare.calls.get(waiting.pop())
        for node in () if calls is None else calls.nodes:
            if not SUCCEEDED <= run.state[node] <= SKIPPED:
                found.append(node)
                waiting.append(node)
    return found


def why(run: Run, node: int) -> str | None:
    """Why a caller waits, in words; None: it does not wait for calls."""
    calls = run.rare.calls.get(node)
    open_ = [] if calls is None else [n for n in calls.nodes if not SUCCEEDED <= run.state[n] <= SKIPPED]
    if not open_ or calls is None:
        return None
    shown = [f"{run.node_id(n)} ({state_word(run.state[n])})" for n in open_[:SHOWN_MAX]]
    more = ["..."] if len(open_) > SHOWN_MAX else []
    which = ", ".join(shown + more)
    return f"it waits for {len(open_):,} of the {counted(len(calls.nodes), 'task')} that it called: {which}"

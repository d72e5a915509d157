"""Revival: nodes that ended without success go again, in a run that is under way or has finished.

    "replay" of letters ──► revive(roots)     FAILED ones, and what was skipped because of them
    "rerun" of a run    ──► revive(None)      all that ended without success
                            enter             the same from the log

What succeeded keeps its result, also where it ran because a parent had failed (rules all-done, none-failed,
any-succeeded): what was done is not undone, and nothing runs twice that nobody asked for. A node that goes again waits
for those of its parents that go again, too; what it was found to be is forgotten, attempts and expiry included. A run
that had finished is under way again, and ends again: whoever watches it is told.

One DEAD record says what was asked for; which nodes follow from it is worked out from the states of nodes that ended,
which are the same when the log is read again, because no wave is on its way then: it is taken to its end first.

What a node had called and what succeeded of that keeps its result, too; what did not is asked for anew by its caller,
and never goes again by itself (`actors.calls`).

The class that its retries lowered a node to stays. A finished run of a schedule that goes again is not looked at by its
rule for overlap.

Known limits: a run whose cancel was asked cannot be revived before all of it has stopped. All of it happens in one
turn, 0.8 us a node: where a million nodes were skipped, nothing else happens for a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import orjson

from actors import calls, consequences, once, wave
from actors.books import has_letters
from actors.protocol.errors import RunBeingCancelled, UniqueTaskOpen
from actors.protocol.records import RecordType
from actors.protocol.words import asker as named
from actors.protocol.words import counted
from actors.run import Run
from actors.state_column import (
    FAILED,
    PENDING,
    READY,
    SKIPPED,
    SUCCEEDED,
    TERMINAL_FIRST,
    TERMINAL_LAST,
    where,
)

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

REPLAYED: Final = 0
DISCARDED: Final = 1
"""What a DEAD record says of its nodes. Persisted: append only."""
NOTED_MAX: Final = 16
"""Nodes of one request that get a line of their own in the story; more are told as one."""


def revive(scheduler: Scheduler, run: Run, roots: Sequence[int] | None, asker: str) -> int:
    """Let nodes go again: these, or None for all, where they ended without success.

    Returns:
        How many of those that were asked for go again.

    Raises:
        RunBeingCancelled: Some of its nodes still run, and were asked to stop. UniqueTaskOpen: another run stands for
            the same unique task.
    """
    consequences.hasten(scheduler, run)
    found = _roots(run, roots)
    check(scheduler, run, found)
    if not found:
        return 0
    asked = None if roots is None else found
    scheduler.log(RecordType.DEAD, orjson.dumps([REPLAYED, run.no, asked, scheduler.wall_ns, asker]))
    ready = _replay(scheduler, run, asked, found, asker)
    if run.stirred:  # what left the state READY in the queue is still there, and would be there twice
        for node_type in {kind.node_type for kind in run.kinds}:
            scheduler.giving.drop(node_type, run)
        ready = where(run.state, READY)
    scheduler.queue(run, ready)
    if run.wave:
        consequences.begin(scheduler, run)
    scheduler.book.touch(run)
    if run.is_graph:
        scheduler.stirred[run.no] = run
    return len(found)


def check(scheduler: Scheduler, run: Run, nodes: Sequence[int]) -> None:
    """Raise RunBeingCancelled or UniqueTaskOpen where one of these nodes cannot go again yet."""
    if run.open and any(is_stopping(run, node) for node in nodes if run.cancel_asked or node in run.rare.calls):
        raise RunBeingCancelled(f"nodes of run {run.key!r} are still being stopped")
    if (other := once.stands_in_the_way(scheduler, run)) is not None:
        raise UniqueTaskOpen(f"run {run.key!r} is a unique task, and run {other.key!r} stands for the same and is open")


def is_stopping(run: Run, node: int) -> bool:
    """Whether a node cannot go again yet, because it or others are still being stopped: of its run, or its calls."""
    return bool(run.open and (run.cancel_asked or (node in run.rare.calls and calls.open_called(run, node))))


def discard(scheduler: Scheduler, run: Run, nodes: Sequence[int], asker: str) -> int:
    """Take these nodes from the dead letters; returns how many were there. The run is as it was."""
    found = [n for n in nodes if run.state[n] == FAILED and n not in run.rare.discarded]
    if found:
        scheduler.log(RecordType.DEAD, orjson.dumps([DISCARDED, run.no, found, scheduler.wall_ns, asker]))
        enter(scheduler, run, DISCARDED, found, asker)
    return len(found)


def enter(scheduler: Scheduler, run: Run, what: int, nodes: Sequence[int] | None, asker: str) -> Sequence[int]:
    """Do what a DEAD record says; returns nodes that became READY, which are not queued yet."""
    if what == DISCARDED:
        run.own_rare().discarded.update(nodes or ())
        if not has_letters(run):
            scheduler.book.unspare(run)
        _note(scheduler, run, nodes, "discarded", asker)
        return ()
    return _replay(scheduler, run, nodes, _roots(run, nodes), asker)


def _replay(scheduler: Scheduler, run: Run, asked: Sequence[int] | None, roots: list[int], asker: str) -> Sequence[int]:
    """Let these nodes go again, and what was skipped because of them if not all were asked for."""
    if scheduler.book.reopen(run):
        scheduler.ended_ns.pop(run.no, None)
        scheduler.schedules.reopened(run)
    _note(scheduler, run, asked, "replayed", asker)
    return _begin_again(run, roots if asked is None else _with_skipped(run, roots))


def _roots(run: Run, asked: Sequence[int] | None) -> list[int]:
    """Those of the nodes that go again because somebody asks for them."""
    called = run.rare.callers
    if asked is None:
        return [node for node, state in enumerate(run.state) if FAILED <= state <= SKIPPED and node not in called]
    return [node for node in dict.fromkeys(asked) if FAILED <= run.state[node] <= SKIPPED and node not in called]


def _with_skipped(run: Run, roots: list[int]) -> list[int]:
    """These nodes, and those that were skipped because of them, behind them in the graph."""
    if not run.waits or run.columns is None:
        return roots
    off, succ, state, own = run.columns.succ_off, run.columns.succ, run.state, run.rare.failures
    found = list(roots)
    seen = set(roots)
    for node in found:  # it grows meanwhile
        for child in succ[off[node] : off[node + 1]]:
            if state[child] == SKIPPED and child not in seen and child not in own:
                seen.add(child)
                found.append(child)
    return found


def _begin_again(run: Run, nodes: Sequence[int]) -> list[int]:
    """Take nodes out of their ends; returns those that are READY. The others wait for parents."""
    rare, others_open = run.own_rare(), run.open
    rare.revived = True
    run.cancel_asked = False
    rare.forget_attempts(nodes)
    calls.begin_anew(run, nodes)
    state = run.state
    for ending, count in Counter(map(state.__getitem__, nodes)).items():
        run.count(ending, PENDING, count)
    for node in nodes:
        state[node] = PENDING
    run.open += len(nodes)
    columns, waits = run.columns, run.waits
    if not waits or columns is None:
        return wave.judge(run, nodes)[0]
    wave.recount(run, nodes)
    if others_open:
        off, succ = columns.succ_off, columns.succ
        behind = {child for node in nodes for child in succ[off[node] : off[node + 1]]}
        wave.recount(run, [n for n in behind if not TERMINAL_FIRST <= state[n] <= TERMINAL_LAST])
    return wave.judge(run, [n for n in nodes if not waits[n] or (run.special and _may_start_early(run, n))])[0]


def _may_start_early(run: Run, node: int) -> bool:
    """Whether a parent succeeded already, and one is enough."""
    return run.starts_early(node) and any(run.state[parent] == SUCCEEDED for parent in run.parents(node))


def _note(scheduler: Scheduler, run: Run, nodes: Sequence[int] | None, event: str, asker: str) -> None:
    asker = named(asker)
    if nodes is None:
        scheduler.note(run, -1, event, f"all that had ended without success, by {asker}")
    elif len(nodes) > NOTED_MAX:
        scheduler.note(run, -1, event, f"{counted(len(nodes), 'node')}, by {asker}")
    else:
        for node in nodes:
            scheduler.note(run, node, event, f"by {asker}")

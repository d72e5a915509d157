"""Cancels: of a run, of one node and what it called, and of what nobody waits for any more.

Functions of the scheduler. What waits ends at once; what a worker holds is asked to stop, and ends when it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from actors import calls, consequences, timetable
from actors.protocol import messages as msg
from actors.protocol.records import RecordType
from actors.protocol.states import NodeState
from actors.protocol.words import asker
from actors.rare import WHOLE
from actors.run import Run
from actors.state_column import BACKOFF, CANCELLED, CANCELLED_EARLY, TERMINAL_FIRST, TERMINAL_LAST, WAITING, where

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

WITH_CALLER: Final = "with who called it"
ALL_EARLY: Final = "what no worker had"


def on_cancel(scheduler: Scheduler, message: msg.CancelAsked) -> None:
    """Somebody asks for one: carry it out and answer, or postpone it to a turn that has time for it."""
    if scheduler.wave_edges_left <= 0:
        scheduler.postponed.append(message)
        return
    scheduler.wave_edges_left -= consequences.CANCEL_EDGES
    found = scheduler.book.find(message.run_key)
    if found is None:
        _answer(scheduler, message, None, {"code": "MS121", "message": f"no run {message.run_key!r}"})
        return
    run, own = found
    node = own if message.node is None else message.node
    if node is not None and not 0 <= node < run.size:
        _answer(scheduler, message, None, {"code": "MS113", "message": f"no node {node}"})
        return
    over = not run.open if node is None else NodeState.SUCCEEDED <= run.state[node] <= NodeState.SKIPPED
    if over:
        _answer(scheduler, message, False)
        return
    if node is not None and consequences.postponed(scheduler, message, run, node):
        return
    if node is None:
        scheduler.wave_edges_left -= consequences.cost_of_cancel(run)
    called = calls.open_called(run, node) if node is not None and run.rare.calls else ()
    lsn = _cancel_and_log(scheduler, run, node, f"by {asker(message.session)}")
    for other in called:
        lsn = _cancel_and_log(scheduler, run, other, WITH_CALLER)
    _answer(scheduler, message, True, lsn=lsn)
    scheduler.finish_if_over(run)
    if run.wave:
        for each in () if node is None else (node, *called):
            if run.state[each] == CANCELLED:
                consequences.begin(scheduler, run, each)


def _answer(
    scheduler: Scheduler,
    asked: msg.CancelAsked,
    reply: bool | None,
    error: dict[str, str] | None = None,
    lsn: int | None = None,
) -> None:
    scheduler.tell(asked.session, "Q", [asked.query_id, reply, error], control=True, lsn=lsn)


def _cancel_and_log(scheduler: Scheduler, run: Run, node: int | None, by: str) -> int:
    """Cancel a run or one node, and log that; returns the record's number."""
    leased = cancel(scheduler, run, node)
    lsn = scheduler.log(RecordType.CANCEL, orjson.dumps([run.no, node, leased, scheduler.wall_ns, by]))
    note_cancel(scheduler, run, node, by)
    if leased:
        scheduler.put(msg.StopLeases(run, leased))
    return lsn


def note_cancel(scheduler: Scheduler, run: Run, node: int | None, by: str) -> None:
    """A cancel was carried out and logged: add to the story who asked for it, and what ended at once, and when."""
    place = WHOLE if node is None else node
    scheduler.note(run, place, "cancel asked", by)
    if node is None or run.state[node] == CANCELLED:
        run.own_rare().ended_early[place] = scheduler.wall_ns
        scheduler.note(run, place, "cancelled", ALL_EARLY if node is None else CANCELLED_EARLY["message"])


def cancel(scheduler: Scheduler, run: Run, node: int | None) -> list[int]:
    """Cancel what waits, and tell so; returns the leased nodes, which must be stopped."""
    scheduler.giving.withdraw(run, node)
    scheduler.book.touch(run)
    for waiting in where(run.state, BACKOFF) if node is None else (node,):
        timetable.disarm(scheduler, run, waiting)
    told = range(run.size) if node is None else (node,)
    ended = [] if run.is_graph else [n for n in told if run.state[n] in WAITING]
    leased = run.cancel_all() if node is None else run.cancel_one(node)
    scheduler.tell_failures(run, ended, scheduler.lsn + 1)
    return leased


def cancel_called(scheduler: Scheduler, run: Run, caller: int) -> None:
    """A caller ended while it waited: what it called and has not ended is cancelled, because nobody waits for it."""
    called = calls.open_called(run, caller) if run.rare.calls else []
    for node in called:
        _cancel_and_log(scheduler, run, node, WITH_CALLER)
    scheduler.finish_if_over(run)
    if run.wave:
        for node in called:
            if run.state[node] == CANCELLED:
                consequences.begin(scheduler, run, node)


def cancel_orphans(scheduler: Scheduler, run: Run) -> None:
    """The same for callers whose end is in the log, where a crash kept what follows from it out of it."""
    for caller in list(run.rare.calls):
        if TERMINAL_FIRST <= run.state[caller] <= TERMINAL_LAST:
            cancel_called(scheduler, run, caller)

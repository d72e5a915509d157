"""Outcomes: what the scheduler does when attempts succeed, fail, come back untouched, or are cancelled.

Functions of the scheduler, in a file of their own: each takes the scheduler and a message. The order is always the
same: decide, log, change the run, queue what became ready, tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import orjson

from actors import batching, calls, consequences, deadline, growth, guards, inversion, reclass, timetable
from actors.policy.breaker import outcome
from actors.policy.retry import delay_ns, retries
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import HandlerMissing
from actors.protocol.kinds import Kind
from actors.protocol.moments import moment
from actors.protocol.places import packed
from actors.protocol.records import RecordType
from actors.protocol.states import FailureKind, NodeState
from actors.protocol.words import counted
from actors.run import Run
from actors.state_column import (
    BACKOFF,
    CANCELLED,
    CANCELLED_EARLY,
    CANCELLING,
    FAILED,
    PARKED,
    READY,
    SKIPPED,
)
from actors.timing import keep_frame

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


def on_finished(scheduler: Scheduler, message: msg.Finished) -> None:
    """Attempts succeeded: logged, told, and what they release is queued. What spawned too much has failed."""
    failed: list[msg.AttemptFailed] = []
    for group in message.groups:
        if group[0].rare.refused:
            message, failed = growth.without_refused(message)
            break
    if message.groups:
        _enter_results(scheduler, message)
    for attempt in failed:
        on_attempt_failed(scheduler, attempt)


def _enter_results(scheduler: Scheduler, message: msg.Finished) -> None:
    raw = message.raw
    if raw is None:
        raw = orjson.dumps([message.pid, [[0, r.no, packed(n), v, s, e] for r, n, v, s, e in message.groups]])
    lsn = scheduler.log(RecordType.COMPLETED, raw)
    tell: dict[str, list[Any]] = {}
    offset = scheduler.wall_ns - scheduler.now_ns
    groups = _by_run(message.groups)
    group_bytes = len(raw) // len(groups)
    for run, nodes, values in groups:
        guards.ended(scheduler, run, nodes, True)
        if run.rare.spawned:
            for node, count, fresh in growth.attach_spawned(scheduler, run, nodes):
                scheduler.note(run, node, "spawned", counted(count, "node"))
                scheduler.queue(run, fresh)
        scheduler.book.touch(run)
        if run.is_graph:
            scheduler.stirred[run.no] = run
        else:
            told = (
                [run.seq, packed(nodes), values] if run.size == run.base_size else _submitted_part(run, nodes, values)
            )
            if told[2]:
                tell.setdefault(run.session, []).append(told)
        keep_frame(run, offset, raw, nodes, group_bytes)
        if run.rare.ended:
            for node in nodes:
                run.own_rare().ended.pop(node, None)
        ready = run.succeed(nodes, values, scheduler.wave_edges_max)
        if ready:
            calls.queue(scheduler, run, ready) if run.rare.calls else scheduler.queue(run, ready)
        if run.wave:
            consequences.begin(scheduler, run)
        if not run.open:
            scheduler._finish(run)
    for session, body in tell.items():
        scheduler.put(fx.Tell(session, "R", body, lsn))


def _by_run(groups: list[msg.FinishedGroup]) -> list[tuple[Run, Sequence[int], list[Any]]]:
    """Results of one run that stand in a row, as one: what they make ready is then given out as one, too."""
    found: list[tuple[Run, Sequence[int], list[Any]]] = []
    for run, members in groupby(groups, key=_run_of):
        parts = list(members)
        if len(parts) == 1:
            found.append((run, parts[0][1], parts[0][2]))
        else:
            found.append((run, [n for part in parts for n in part[1]], [v for part in parts for v in part[2]]))
    return found


_run_of = itemgetter(0)


def _submitted_part(run: Run, nodes: Sequence[int], values: list[Any]) -> list[Any]:
    """Results of the nodes that the session submitted, as it is told of them.

    Behind them stand nodes that a task spawned: to the session their places are its next submissions, or no items.
    """
    own = [(node, value) for node, value in zip(nodes, values, strict=True) if node < run.base_size]
    return [run.seq, [node for node, _ in own], [value for _, value in own]]


def on_attempt_failed(scheduler: Scheduler, message: msg.AttemptFailed) -> None:
    """An attempt failed, or waits for its calls: what follows for its node."""
    run, node, failure = message.run, message.node, message.failure
    guards.ended(scheduler, run, (node,), None if run.state[node] == CANCELLING else outcome(failure["kind"]))
    if failure["kind"] == FailureKind.WAITS:
        refused = calls.suspend(scheduler, message)
        if refused is None:
            return
        failure = refused
    kind = run.kind(node)
    attempt = run.rare.attempts.get(node, 0) + 1
    run.rare.give_up_spawned(node)
    excused = batching.was_in_company(run, node, failure)  # also of what ends with this: it may go again, see revival
    what, late = failure["kind"], timetable.is_late(scheduler, run, node)
    if run.state[node] == CANCELLING or what == FailureKind.CANCELLED:
        end(scheduler, run, node, CANCELLED, attempt, failure, message)
    elif what == FailureKind.SKIPPED:
        end(scheduler, run, node, SKIPPED, attempt, failure, message)
    elif what == FailureKind.NO_HANDLER and scheduler.missing_handler == "park" and not late:
        _park(scheduler, run, node, failure)
    elif (excused or _tries_again(run, node, kind, what, attempt)) and not timetable.has_expired(scheduler, run, node):
        _back_off(scheduler, run, node, kind, attempt, failure, message)
    else:
        end(scheduler, run, node, FAILED, attempt, failure, message)


def _tries_again(run: Run, node: int, kind: Kind, what: str, attempt: int) -> bool:
    if what in (FailureKind.CRASH, FailureKind.MEMORY):
        crashes = run.own_rare().crashes[node] = run.rare.crashes.get(node, 0) + 1
        if crashes >= kind.crashes_max:
            return False
        if kind.retry.attempts_max <= 1:
            return True
    return retries(kind.retry, what, attempt)


def _back_off(
    scheduler: Scheduler,
    run: Run,
    node: int,
    kind: Kind,
    attempt: int,
    failure: dict[str, Any],
    message: msg.AttemptFailed,
) -> None:
    delay = guards.retry_delay_ns(scheduler, kind, delay_ns(kind.retry, attempt, hash_of(run.key, node, attempt)))
    if deadline.passed(scheduler, run, node, delay):
        last = deadline.failure_after(scheduler, run, node, attempt, failure, brief(failure))
        end(scheduler, run, node, FAILED, attempt, last, message)
        return
    due_wall = scheduler.wall_ns + delay
    run.own_rare().attempts[node] = attempt
    run.move(node, BACKOFF)
    scheduler.book.touch(run)
    run.own_rare().backoff_until[node] = due_wall
    calls.forget_failed(run, node)
    scheduler.log_attempt(run, node, "retry", attempt, failure, message, due_wall)
    scheduler.note(run, node, *retry_words(attempt, failure, delay, reclass.lower(scheduler, run, node, attempt)))
    scheduler.timers.set((run.no, node), scheduler.now_ns + delay)


def end(
    scheduler: Scheduler,
    run: Run,
    node: int,
    state: int,
    attempt: int,
    failure: dict[str, Any],
    message: msg.AttemptFailed | None,
) -> None:
    """A node ends without success.

    Args:
        scheduler: Logs and tells.
        run: Whose node it is.
        node: Its number.
        state: FAILED, CANCELLED or SKIPPED.
        attempt: How many attempts it had.
        failure: Why, as it is kept and told.
        message: The attempt that ended it; None where none ran.
    """
    run.own_rare().attempts[node] = attempt
    run.own_rare().failures[node] = failure
    if state == FAILED and node not in run.rare.callers:
        run.own_rare().died[node] = scheduler.wall_ns
    if message is None:
        run.own_rare().ended_early[node] = scheduler.wall_ns
    ending = NodeState(state).name.lower()
    lsn = scheduler.log_attempt(run, node, ending, attempt, failure, message, 0)
    scheduler.note(run, node, ending, ending_words(attempt, failure) if message is not None else brief(failure))
    others = run.settle([node], state)
    scheduler.book.touch(run)
    scheduler.tell_failures(run, (node,), lsn)
    scheduler.finish_if_over(run)
    if others:
        consequences.begin(scheduler, run, node)
        consequences.go_on(scheduler)


def end_expired(scheduler: Scheduler, run: Run, node: int) -> None:
    """End a node that waits: nobody started it in time."""
    _leave(scheduler, run, node)
    expired_ns = scheduler.wall_ns - scheduler.now_ns + abs(run.rare.expires[node])
    failure = {
        "kind": str(FailureKind.EXPIRED),
        "type": "",
        "message": f"no attempt had started by {moment(expired_ns)}, when it expired",
        "traceback": "",
    }
    end(scheduler, run, node, FAILED, run.rare.attempts.get(node, 0), failure, None)


def end_overdue(scheduler: Scheduler, run: Run, node: int) -> None:
    """End a node that waits: its deadline passed."""
    _leave(scheduler, run, node)
    failure = deadline.failure(scheduler, run, node)
    end(scheduler, run, node, FAILED, run.rare.attempts.get(node, 0), failure, None)


def _leave(scheduler: Scheduler, run: Run, node: int) -> None:
    """A node that waits is about to end."""
    timetable.disarm(scheduler, run, node)
    scheduler.giving.withdraw(run, node)
    run.stirred = True  # it may still be in the queue


def _park(scheduler: Scheduler, run: Run, node: int, failure: dict[str, Any]) -> None:
    run.move(node, PARKED)
    scheduler.book.touch(run)
    kind, why = run.kind(node), brief(failure)
    run.own_rare().parked[node] = why
    if scheduler.parking.park(kind.no, (run.no, node), scheduler.now_ns):
        scheduler.note(run, node, "parked", f"no handler: {why}")
    _announce_missing(scheduler, kind, why)


def _announce_missing(scheduler: Scheduler, kind: Kind, why: str) -> None:
    """Say so, once: whoever waits for parked work waits for somebody to bring its handler."""
    announced, handler = scheduler.handlers_announced, (kind.node_type, kind.handler)
    if handler in announced:
        return
    if len(announced) >= limits.KINDS_MAX:
        announced.clear()
    announced.add(handler)
    text = f"workers of {kind.node_type!r} cannot import the handler {kind.handler}: {why}; its tasks wait"
    scheduler.put(fx.Announce(HandlerMissing.code, text))


def look_for_handlers(scheduler: Scheduler) -> None:
    """Let parked work try again when it is time: see `actors.policy.parking`."""
    live = scheduler.book.live

    def has(place: tuple[int, int], state: int) -> bool:
        run = live.get(place[0])
        return run is not None and run.state[place[1]] == state

    found: dict[int, list[int]] = {}
    for no, node in scheduler.parking.due(scheduler.now_ns, lambda p: has(p, PARKED), lambda p: has(p, READY)):
        found.setdefault(no, []).append(node)
    for no, nodes in found.items():
        run = live[no]
        for node in nodes:
            run.move(node, READY)
            run.own_rare().parked.pop(node, None)
        scheduler.queue(run, nodes)
    due = scheduler.parking.next_ns()
    if due is not None:
        scheduler.put(fx.WakeAt(due))


def on_returned(scheduler: Scheduler, message: msg.Returned) -> None:
    """Leases came back untouched: the nodes are ready again, before others, or at their end if their time is over."""
    guards.ended(scheduler, message.run, message.nodes, None)
    back = message.run.give_back(message.nodes)
    scheduler.book.touch(message.run)
    for node in back:
        message.run.rare.give_up_spawned(node)
    stopped = [n for n in message.nodes if message.run.state[n] == CANCELLING]
    count = counted(len(message.nodes), "node")
    scheduler.note(message.run, message.nodes[0], "returned", f"{count} to the queue: {message.cause}")
    if message.cause.startswith(inversion.GIVES_WAY):
        message.run.own_rare().gave_way.update(back)
    late = {node for node in back if timetable.is_late(scheduler, message.run, node)}
    if back:
        scheduler.queue(message.run, [n for n in back if n not in late] if late else back, front=True)
    for node in sorted(late):
        passed = deadline.passed(scheduler, message.run, node)
        (end_overdue if passed else end_expired)(scheduler, message.run, node)
    for node in stopped:
        end(
            scheduler,
            message.run,
            node,
            CANCELLED,
            message.run.rare.attempts.get(node, 0),
            CANCELLED_EARLY,
            None,
        )


def hash_of(key: str, node: int, attempt: int) -> int:
    """A seed that is the same for the same attempt in every process (FNV-1a, 64 bit)."""
    value = 0xCBF29CE484222325
    for byte in f"{key}/{node}/{attempt}".encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def cancelled(when: str) -> dict[str, Any]:
    """The failure of an attempt that was cancelled."""
    return {"kind": "cancelled", "type": "", "message": f"cancelled {when}", "traceback": ""}


def retry_words(attempt: int, failure: dict[str, Any], delay: int, class_: str) -> tuple[str, str]:
    """Event and text of an attempt that failed and is followed by another one, so many nanoseconds later."""
    return f"attempt {attempt} failed", f"{brief(failure)}; attempt {attempt + 1} starts in {delay / 1e9:.3f} s{class_}"


def ending_words(attempt: int, failure: dict[str, Any]) -> str:
    """Text of a node's last attempt, which ended without success."""
    return f"attempt {attempt}: {brief(failure)}"


def brief(failure: dict[str, Any]) -> str:
    """A failure in a few words, for the story."""
    message = failure.get("message", "")
    text = message if isinstance(message, str) else "(text with special characters)"
    name = failure.get("type", "").rpartition(".")[2]
    return (f"{name}: {text}" if name else text)[:300]

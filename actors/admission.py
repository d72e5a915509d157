"""Admission: how submissions of a session become runs.

Functions of the scheduler, in a file of their own: each takes the scheduler and a message. A submission record carries
its kinds, so that every record of the log can be read alone. Numbers that were admitted before are acknowledged again
and not entered twice, so a session may send what it is not sure of.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson

from actors import once, timetable
from actors.keys import Claim
from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.errors import MainspringError, ProtocolError, UnknownRun
from actors.protocol.graph import GraphColumns
from actors.protocol.kinds import Kind
from actors.protocol.records import RecordType
from actors.run import Run
from actors.state_column import READY, where

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


def on_session_opened(scheduler: Scheduler, message: msg.SessionOpened) -> None:
    """A session begins or goes on: it is told what was acknowledged, and anew how that ended or stands."""
    scheduler.book.forget_sessions(message.session)
    session = scheduler.book.session(message.session)
    scheduler.put(fx.Tell(message.session, "H", {"acked_seq": session.seq_last}, scheduler.lsn, control=True))
    for run in session.runs.values():
        if run.seq + run.base_size > message.open_seq or run.is_graph or run.is_map:
            scheduler.deliver_again(run, message.open_seq)
    for seq, run_key, key in scheduler.keys.again.pop(message.session, ()):
        if seq >= message.open_seq:
            _stand_for(scheduler, message.session, seq, run_key, key)
    scheduler.keys.again.clear()


def on_session_lost(scheduler: Scheduler, message: msg.SessionLost) -> None:
    """Nobody speaks for the session: its kinds are forgotten, its runs go on."""
    for kinds in (scheduler.session_kinds, scheduler.kinds_refused):
        for key in [k for k in kinds if k[0] == message.session]:
            del kinds[key]


def on_kind_defined(scheduler: Scheduler, message: msg.KindDefined) -> None:
    """A number of the session stands for a kind from now on. Without room for it, it is tried again at each use."""
    _define(scheduler, (message.session, message.kind_no), message.data)


def on_kinds_given_up(scheduler: Scheduler, message: msg.KindsGivenUp) -> None:
    """The session's kinds below a number are in use only by what was submitted of them."""
    for kinds in (scheduler.session_kinds, scheduler.kinds_refused):
        for key in [k for k in kinds if k[0] == message.session and k[1] < message.before]:
            del kinds[key]


def _define(scheduler: Scheduler, key: tuple[str, int], data: dict[str, Any]) -> MainspringError | None:
    """Why a kind is refused now; None when the session has it. Its definition is kept for the next attempt."""
    try:
        (scheduler.session_kinds[key],) = scheduler.interned([data])
    except MainspringError as refusal:
        scheduler.kinds_refused[key] = data
        return refusal
    scheduler.kinds_refused.pop(key, None)
    return None


def on_tasks(scheduler: Scheduler, message: msg.TasksSubmitted) -> None:
    """Single tasks become a run. What cannot be entered is refused, and what starts later is kept apart."""
    session = scheduler.book.session(message.session)
    rows = [row for row in message.tasks if row[0] > session.seq_last]
    if not rows:
        _ack(scheduler, message.session, session.seq_last)
        return
    numbers = list(dict.fromkeys(row[1] for row in rows))
    refusals = {no: why for no in numbers if (why := _refusal(scheduler, message.session, no)) is not None}
    wall_ns = scheduler.wall_ns
    mixed = _timed(rows) and len({timetable.is_later(row, wall_ns) for row in rows}) > 1
    if not (refusals or mixed):
        whole = len(rows) == len(message.tasks)
        _enter_tasks(scheduler, message.session, rows, numbers, message.raw if whole else orjson.dumps(rows))
        return

    def belongs(row: list[Any]) -> tuple[int | None, bool]:
        return row[1] if row[1] in refusals else None, timetable.is_later(row, wall_ns)

    for (number, _), group in groupby(rows, key=belongs):
        part = list(group)
        if number is None:
            known = list(dict.fromkeys(row[1] for row in part))
            _enter_tasks(scheduler, message.session, part, known, orjson.dumps(part))
        else:
            why = refusals[number]
            _reject(scheduler, message.session, part[0][0], part[-1][0], why.code, why.message)


def _enter_tasks(scheduler: Scheduler, session: str, rows: list[list[Any]], numbers: list[int], body: bytes) -> None:
    kinds = [scheduler.session_kinds[(session, no)] for no in numbers]
    kind_of = None if len(numbers) == 1 else [numbers.index(row[1]) for row in rows]
    run = admit_tasks(scheduler, session, kinds, kind_of, rows)
    _log_submission(scheduler, b"T", run, numbers, body)
    _ack(scheduler, session, rows[-1][0])
    _begin(scheduler, run, range(run.size))


def _timed(rows: list[list[Any]]) -> bool:
    """Whether a row has times."""
    return max(map(len, rows)) > timetable.PLAIN_COLUMNS


def _begin(scheduler: Scheduler, run: Run, nodes: Sequence[int]) -> None:
    """Queue those of a new run's first nodes that do not wait for their time."""
    if run.rare.due or run.rare.expires or run.rare.deadlines:
        timetable.arm(scheduler, run)
        nodes = where(run.state, READY)
    scheduler.queue(run, nodes)


def admit_tasks(
    scheduler: Scheduler, session: str, kinds: list[Kind], kind_of: list[int] | None, rows: list[list[Any]]
) -> Run:
    """Enter single tasks as one bundle; rows are [seq, kind number, item] and, where a task has them, its times."""
    seq = rows[0][0]
    key = f"{session}-{seq}"
    run = Run.of_tasks(
        scheduler.book.next_no(), key, session, seq, scheduler.wall_ns, kinds, kind_of, [row[2] for row in rows]
    )
    if _timed(rows):
        timetable.enter(run, rows, scheduler.wall_ns)
    scheduler.book.add(run, rows[-1][0])
    return run


def on_map(scheduler: Scheduler, message: msg.MapSubmitted) -> None:
    """A chunk of a map becomes a run, is logged and queued."""
    session = scheduler.book.session(message.session)
    if message.seq <= session.seq_last:
        _ack(scheduler, message.session, session.seq_last)
        return
    refused = _refusal(scheduler, message.session, message.kind_no)
    if refused is not None:
        _reject(scheduler, message.session, message.seq, message.seq, refused.code, refused.message)
        return
    kinds = [scheduler.session_kinds[(message.session, message.kind_no)]]
    run = admit_map(scheduler, message.session, kinds, message.seq, message.items)
    _log_submission(scheduler, b"M", run, [message.kind_no], message.raw)
    _ack(scheduler, message.session, message.seq)
    scheduler.queue(run, range(run.size))


def admit_map(scheduler: Scheduler, session: str, kinds: list[Kind], seq: int, items: list[Any]) -> Run:
    """The run of a chunk of a map, known from now on. Also when the log is read."""
    run = Run.of_tasks(
        scheduler.book.next_no(), f"{session}-{seq}", session, seq, scheduler.wall_ns, kinds, None, items
    )
    run.is_map = True
    scheduler.book.add(run, seq)
    return run


def on_graph(scheduler: Scheduler, message: msg.GraphSubmitted) -> None:
    """A graph becomes a run, unless its key or its uniqueness says that it stands for another one."""
    session = scheduler.book.session(message.session)
    if message.seq <= session.seq_last:
        _ack(scheduler, message.session, session.seq_last)
        return
    key = message.header.get("run_id") or f"{message.session}-{message.seq}"
    if scheduler.book.get(key) is not None:
        _reject(scheduler, message.session, message.seq, message.seq, "MS120", f"run {key!r} exists already")
        return
    try:
        claim = Claim.of(message.header)
        first = None if claim is None else scheduler.keys.find(claim, scheduler.wall_ns)
        if claim is not None and first is not None:
            session.seq_last = message.seq
            scheduler.keys.log_again(scheduler, message.session, message.seq, first, claim.key)
            scheduler.put(fx.ForgetRun(key))  # its large values, which nobody will read
            _stand_for(scheduler, message.session, message.seq, first, claim.key)
            return
        joined = once.joins(scheduler, message)
        if joined is not None:
            scheduler.attach(message.session, message.seq, joined)
            return
        run = enter_graph(scheduler, message.session, message.seq, message.header, message.columns, message.raw)
    except MainspringError as refused:
        _reject(scheduler, message.session, message.seq, message.seq, refused.code, refused.message)
        return
    if claim is not None:
        scheduler.keys.enter(claim, run.key, run.created_ns, run.lsn)
    _ack(scheduler, message.session, message.seq)
    begin_graph(scheduler, run)


def enter_graph(
    scheduler: Scheduler, session: str, seq: int, header: dict[str, Any], columns: GraphColumns, raw: bytes
) -> Run:
    """Enter a graph and log it; `begin_graph` must follow. Raises MainspringError: nothing was done."""
    run = admit_graph(scheduler, session, seq, header, columns)
    head = orjson.dumps([session, run.no, run.created_ns, seq])
    run.lsn = scheduler.log(RecordType.SUBMITTED, b"G" + len(head).to_bytes(4, "little") + head + raw)
    return run


def begin_graph(scheduler: Scheduler, run: Run) -> None:
    """Queue the first nodes of a new run."""
    _begin(scheduler, run, run.roots())
    scheduler.finish_if_over(run)


def _stand_for(scheduler: Scheduler, session: str, seq: int, run_key: str, key: str) -> None:
    """Tell which run this submission stands for."""
    run = scheduler.book.get(run_key)
    if run is not None:
        scheduler.attach(session, seq, run)
        return
    text = f"key {key!r} stands for run {run_key!r}, which ended and is no longer kept"
    scheduler.tell(session, "J", [seq, {"code": UnknownRun.code, "message": text}])


def admit_graph(scheduler: Scheduler, session: str, seq: int, header: dict[str, Any], columns: GraphColumns) -> Run:
    """The run of a graph, known from now on. Also when the log is read. Raises MainspringError: nothing was done."""
    kinds = scheduler.interned(header["kinds"])
    key = header.get("run_id") or f"{session}-{seq}"
    run = Run.of_graph(scheduler.book.next_no(), key, session, seq, scheduler.wall_ns, kinds, columns)
    run.name = header.get("name") or ""
    once.enter(run, header, scheduler.wall_ns)
    if header.get("times"):
        timetable.enter(run, [[seq, 0, None, *header["times"]]], scheduler.wall_ns)
    scheduler.book.add(run, seq)
    scheduler.book.weigh(run, sum(header["columns"].values()))
    return run


def on_refused(scheduler: Scheduler, message: msg.SubmissionRefused) -> None:
    """What the host could not decode is refused, so that its session does not wait for it."""
    _reject(scheduler, message.session, message.seq, message.seq, message.code, message.text)


def _refusal(scheduler: Scheduler, session: str, number: int) -> MainspringError | None:
    """Why tasks of this kind cannot be entered; None when they can. One that was refused before is defined again."""
    key = (session, number)
    if key in scheduler.session_kinds:
        return None
    data = scheduler.kinds_refused.get(key)
    if data is None:
        return ProtocolError("the session did not define this task kind")
    return _define(scheduler, key, data)


def _log_submission(scheduler: Scheduler, letter: bytes, run: Run, numbers: list[int], body: bytes) -> None:
    kinds = b",".join(b"[%d,%s]" % (no, kind.text) for no, kind in zip(numbers, run.kinds, strict=True))
    scheduler.book.weigh(run, len(body))
    head = orjson.dumps([run.session, run.no, run.created_ns])[:-1]
    run.lsn = scheduler.log(RecordType.SUBMITTED, b"".join([letter, head, b",[", kinds, b"],", body, b"]"]))


def _reject(scheduler: Scheduler, session: str, first: int, last: int, code: str, text: str) -> None:
    scheduler.book.session(session).seq_last = last
    for seq in range(first, last + 1):
        scheduler.tell(session, "J", [seq, {"code": code, "message": text}])


def _ack(scheduler: Scheduler, session: str, seq: int) -> None:
    scheduler.tell(session, "A", [seq])

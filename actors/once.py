"""Unique tasks and debounced calls: a submission that joins an open run instead of starting one.

A submission is a graph of one node, and its header says what it may join (times in nanoseconds):

- {"unique": key}. While the run that was submitted under this key is open, be it queued, running, waiting for a retry
  or being cancelled, a further submission stands for it. When it has ended, in whatever way, the next one starts anew:
  there is no window, as an idempotency key has (`actors.keys`).
- {"debounce": [key, wait, longest]}. The first call makes a run that starts after `wait`. Each further call until then
  takes its place: the run gets that call's handler, arguments, options and times, and starts `wait` after that call,
  but not later than `longest` after the first one, as the first one said. All of these calls stand for that one run.
  A call that comes when its time has come starts the next.

      first call ──► BACKOFF until due ──► READY: it is a task like any other, nobody joins it any more
      further call ──► item, kind, times, due replaced ─┘

Durable. What a unique submission joined is a KEYS record like that of a repeated key, because whoever submitted it is
told again after a restart. A debounced call is a DEBOUNCE record with its whole container, so that the arguments that
count are those of the latest call that was acknowledged; the log keeps all of them until the run is over, since it is
cut at the oldest open run. What a live run is known by follows from the header of its submission.

Time: `wait` and `longest` are intervals, on the monotonic clock while the engine runs (`Rare.debounce.until_ns`, once
`timetable.arm` has seen it), on the wall clock over a restart, as every delay.

Large values are files in a folder that the caller named by the run that its call would have been; the header says
{"files": true} then. The run that the call joined keeps these folders too (`folders`). What a later call made useless
goes when that call is durable and another one comes, or with the run.

Functions of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors import reclass, timetable
from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.errors import ProtocolError, UniqueTaskOpen
from actors.protocol.graph import GraphColumns
from actors.protocol.kinds import Kind
from actors.protocol.moments import moment
from actors.protocol.records import RecordType
from actors.run import Run
from actors.state_column import BACKOFF

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

HEAD_BYTES: Final = 4
"""Length of the head of a DEBOUNCE record, little-endian; behind the head stands the container."""


class Burst:
    """The calls that became one run."""

    __slots__ = ("calls", "files", "until_ns", "wait_ns")

    def __init__(self, wait_ns: int, until_ns: int) -> None:
        self.wait_ns = wait_ns
        """Of the latest call."""
        self.until_ns = until_ns
        self.calls = 1
        self.files: dict[str, int] = {}
        """Folders of calls that joined, and the record of the call that took their place; 0: none did."""


def enter(run: Run, header: dict[str, Any], wall_ns: int) -> None:
    """A new run, by the header of its submission. Raises ProtocolError: it is malformed."""
    unique, debounce = header.get("unique"), header.get("debounce")
    if (unique is not None or debounce is not None) and run.size != 1:
        raise ProtocolError("only a single task can be unique or debounced")
    if unique is not None:
        run.own_rare().known_as = _name("unique", unique)
    elif debounce is not None:
        key, wait_ns, longest_ns = _parts(debounce)
        rare = run.own_rare()
        rare.known_as = _name("debounce", key)
        rare.debounce = Burst(wait_ns, wall_ns + longest_ns)
        rare.due[0] = wall_ns + wait_ns
        run.move(0, BACKOFF)


def joins(scheduler: Scheduler, message: msg.GraphSubmitted) -> Run | None:
    """The open run that this submission stands for; it is logged and entered. None: it has to start one.

    Raises:
        CallerError: The call that should take the place of another cannot be entered. ProtocolError: it is malformed.
    """
    header, book = message.header, scheduler.book
    if "unique" in header:
        run = book.known.get(_name("unique", header["unique"]))
        if run is not None:
            book.session(message.session).seq_last = message.seq
            scheduler.keys.log_again(scheduler, message.session, message.seq, run.key, str(header["unique"]))
            scheduler.put(fx.ForgetRun(f"{message.session}-{message.seq}"))  # its large values, which nobody will read
        return run
    if "debounce" in header:
        key, wait_ns, _ = _parts(header["debounce"])
        run = book.known.get(_name("debounce", key))
        if run is not None and _is_waiting(scheduler, run):
            _call_again(scheduler, message, run, wait_ns)
            return run
    return None


def stands_in_the_way(scheduler: Scheduler, run: Run) -> Run | None:
    """The open run of the same unique task, without which a run that has ended could go again."""
    other = scheduler.book.known.get(run.rare.known_as) if run.rare.debounce is None else None
    return None if other is run else other


def refuse_rivals(runs: Iterable[Run]) -> None:
    """Raise UniqueTaskOpen when two of these runs, which shall go again together, are the same unique task."""
    first: dict[str, Run] = {}
    for run in runs:
        if run.rare.known_as and run.rare.debounce is None:
            other = first.setdefault(run.rare.known_as, run)
            if other is not run:
                raise UniqueTaskOpen(f"runs {other.key!r} and {run.key!r} are the same unique task")


def folders(run: Run) -> list[str]:
    """Names of the folders in which there are large values of a run."""
    burst = run.rare.debounce
    return [run.key] if burst is None else [run.key, *burst.files]


def restore(scheduler: Scheduler, payload: bytes, load: Any) -> int:
    """Take a DEBOUNCE record of the log; returns the number of its run. `load` reads a container."""
    length = int.from_bytes(payload[:HEAD_BYTES], "little")
    head = orjson.loads(payload[HEAD_BYTES : HEAD_BYTES + length])
    session, seq, no, run_key, wall_ns, due_ns = head
    scheduler.set_time(scheduler.now_ns, wall_ns)
    asker = scheduler.book.session(session)
    asker.seq_last = max(asker.seq_last, seq)
    scheduler.keys.again.setdefault(session, []).append((seq, run_key, run_key))
    run = scheduler.book.live.get(no)
    if run is not None:
        header, columns = load(memoryview(payload)[HEAD_BYTES + length :])
        kinds = reclass.kinds_of_block(scheduler, run, 0, header)
        _take_place(scheduler, run, header, columns, kinds, due_ns, f"{session}-{seq}")
    return int(no)


def _is_waiting(scheduler: Scheduler, run: Run) -> bool:
    """Whether nobody has started it, and its time has not come."""
    due_ns = scheduler.timers.due_ns((run.no, 0))
    return run.state[0] == BACKOFF and not run.rare.attempts and due_ns is not None and due_ns > scheduler.now_ns


def _call_again(scheduler: Scheduler, message: msg.GraphSubmitted, run: Run, wait_ns: int) -> None:
    debounce = run.rare.debounce
    assert debounce is not None
    for name in [name for name, lsn in debounce.files.items() if 0 < lsn <= scheduler.book.told_lsn]:
        del debounce.files[name]
        scheduler.put(fx.ForgetRun(name))
    kinds = reclass.kinds_of_block(scheduler, run, 0, message.header)
    now_ns, wall_ns = scheduler.now_ns, scheduler.wall_ns
    due_ns = min(now_ns + wait_ns, debounce.until_ns)
    due_wall_ns = wall_ns + due_ns - now_ns
    head = orjson.dumps([message.session, message.seq, run.no, run.key, wall_ns, due_wall_ns])
    scheduler.log(RecordType.DEBOUNCE, len(head).to_bytes(HEAD_BYTES, "little") + head + message.raw)
    scheduler.book.session(message.session).seq_last = message.seq
    timetable.forget(scheduler, run)
    by = f"{message.session}-{message.seq}"
    _take_place(scheduler, run, message.header, message.columns, kinds, due_wall_ns, by)
    until_ns = debounce.until_ns
    timetable.arm(scheduler, run)
    debounce.until_ns = until_ns
    scheduler.timers.set((run.no, 0), due_ns)


def _take_place(
    scheduler: Scheduler,
    run: Run,
    header: dict[str, Any],
    columns: GraphColumns,
    kinds: list[Kind],
    due_ns: int,
    by: str,
) -> None:
    """A further call: what the run will do, and when (wall clock). Times must be armed after it."""
    rare = run.own_rare()
    debounce = rare.debounce
    if debounce is None or columns.size != 1:
        raise ProtocolError(f"run {run.key!r} was not submitted as a debounced call")
    run.kinds, run.mixed, run.columns, run.items = kinds, len(kinds) > 1, columns, columns.items
    run.name = header.get("name") or ""
    scheduler.book.weigh_again(run, sum(header["columns"].values()))
    _, debounce.wait_ns, _ = _parts(header["debounce"])
    debounce.calls += 1
    debounce.files = {name: lsn or scheduler.lsn for name, lsn in debounce.files.items()}
    if header.get("files"):
        debounce.files[by] = 0
    rare.expires.clear()
    rare.deadlines.clear()
    rare.moments.clear()
    rare.due[0] = due_ns
    if header.get("times"):
        timetable.enter(run, [[0, 0, None, *header["times"]]], scheduler.wall_ns)
    scheduler.note(run, 0, "called again", f"as {by}; it starts at {moment(due_ns)}")


def _name(word: str, key: object) -> str:
    if not isinstance(key, str) or not key:
        raise ProtocolError(f"the key of a {word} task is malformed")
    return f"{word}:{key}"


def _parts(debounce: Any) -> tuple[str, int, int]:
    try:
        key, wait_ns, longest_ns = debounce
    except (TypeError, ValueError) as broken:
        raise ProtocolError(f"a debounced call is malformed: {broken}") from broken
    if not (type(wait_ns) is int and type(longest_ns) is int and 0 < wait_ns <= longest_ns):
        raise ProtocolError("a debounced call is malformed")
    return key, wait_ns, longest_ns

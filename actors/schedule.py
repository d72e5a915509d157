"""One schedule as the engine keeps it: what it starts, up to when it was judged, and what waits for its turn.

All times are of the wall clock, integer nanoseconds, but for `position_ns` and `next_ns`. Those are of the clock by
which the plan is judged: the monotonic one for intervals, so that setting the wall clock neither shortens nor doubles
one.

Two records change it (the forms are those of `to_json` and `Judged`), and the submission of each run that it starts.

Invariant: `queued` are due times up to `judged_ns` that shall still start, in order. Nothing here enforces it.
"""

from __future__ import annotations

import binascii
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from actors.policy.recurrence import NAME_BYTES_MAX, Calendar, Recurrence
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, ProtocolError
from actors.protocol.graph import decode
from actors.protocol.words import is_name

GAPS_LOOKED_AT: Final = 10
"""Due times whose distances are compared with the jitter."""
NAME_RULE: Final = (
    f"a schedule's name is 1 to {NAME_BYTES_MAX} bytes of printable text without a slash, and begins with no dot"
)


class Judged(NamedTuple):
    """What was decided about due times without starting a run.

    Attributes:
        until_ns: The last of them.
        queued: Those that shall still start.
        only: Whether they replace what was queued before.
        passed: The last that never starts and why; None when there is none.
    """

    until_ns: int
    queued: tuple[int, ...] = ()
    only: bool = False
    passed: tuple[int, str] | None = None


class Schedule:
    """See the module. Made by `of`, from what was asked for or what the log says."""

    __slots__ = (
        "created_ns", "ends", "graph", "handler", "judged_ns", "last", "lsn", "name", "next_ns", "open", "passed",
        "plan", "position_ns", "queued", "slot", "started", "trouble",
    )  # fmt: skip

    def __init__(self, name: str, plan: Recurrence, graph: bytes, handler: str, ends: tuple[int | None, ...]) -> None:
        self.name = name
        self.plan = plan
        self.graph = graph
        self.handler = handler
        self.ends = ends
        """How long after its start a run expires, and must have ended; or nothing, as for flows."""
        self.created_ns = 0
        self.judged_ns = 0
        self.position_ns = 0
        """`judged_ns` on the clock by which the plan is judged."""
        self.next_ns: int | None = None
        """The next due time on that clock."""
        self.queued: deque[int] = deque()
        self.open: set[int] = set()
        self.last: list[Any] | None = None
        """[due time, run, how it ended or None] of the latest run."""
        self.passed: list[Any] | None = None
        """[due time, why] of the latest that was passed over."""
        self.started = 0
        self.trouble = ""
        self.slot = 0
        self.lsn = 0

    @staticmethod
    def of(data: Mapping[str, Any]) -> Schedule:
        """From plain data.

        Raises:
            ConfigurationError: Values are out of range; all problems are named.
        """
        name, handler, ends = data.get("name"), data.get("handler"), data.get("ends") or ()
        problems = [] if is_schedule_name(name) else [f"{NAME_RULE}, not {name!a:.120}"]
        try:
            said = data.get("plan") or {}
            plan = Recurrence.of(said if isinstance(said, Mapping) else {})
        except ConfigurationError as wrong:
            problems.append(wrong.message.removeprefix("schedule: "))
        ends = tuple(ends) if isinstance(ends, list | tuple) else (ends,)
        if not is_name(handler) or len(ends) not in (0, 2) or not all(map(_is_end, ends)):
            problems.append("its handler, expiry or deadline is malformed")
        try:
            graph = binascii.a2b_base64(data.get("graph") or "", strict_mode=True)
            decode(graph)
        except (ValueError, TypeError, ProtocolError):
            problems.append("what it runs is malformed")
        else:
            if len(graph) > limits.SCHEDULE_BYTES_MAX:
                taken = f"what it runs takes {len(graph):,} bytes, {limits.SCHEDULE_BYTES_MAX:,} are allowed"
                problems.append(f"{taken}: pass the path or key of what is large")
        if problems:
            raise ConfigurationError(f"schedule: {'; '.join(problems)}")
        found = Schedule(str(name), plan, graph, str(handler), ends)
        found.created_ns = data.get("created_ns", 0)
        found.judged_ns = data.get("judged_ns", 0)
        found.queued.extend(data.get("queued", ()))
        found.last, found.passed, found.started = data.get("last"), data.get("passed"), data.get("started", 0)
        return found

    def to_json(self) -> dict[str, Any]:
        """All that a restart must know."""
        return {
            "name": self.name,
            "plan": self.plan.to_json(),
            "graph": binascii.b2a_base64(self.graph, newline=False).decode(),
            "handler": self.handler,
            "ends": self.ends,
            "created_ns": self.created_ns,
            "judged_ns": self.judged_ns,
            "queued": list(self.queued),
            "last": self.last,
            "passed": self.passed,
            "started": self.started,
        }

    def same(self, other: Schedule) -> bool:
        """Whether both run the same at the same times."""
        return (self.plan, self.graph, self.ends) == (other.plan, other.graph, other.ends)

    def judge(self, judged: Judged) -> None:
        """Take a decision."""
        self.judged_ns = judged.until_ns
        if judged.only:
            self.queued.clear()
        self.queued.extend(judged.queued)
        if judged.passed is not None:
            self.passed = list(judged.passed)

    def begun(self, due_ns: int, run_no: int, run_key: str) -> None:
        """A run was started for a due time."""
        if due_ns in self.queued:
            self.queued.remove(due_ns)
        else:
            self.judged_ns = due_ns
        self.open.add(run_no)
        self.last = [due_ns, run_key, None]
        self.started += 1

    def ended(self, run_no: int, run_key: str, outcome: str) -> None:
        """One of its runs is over."""
        self.open.discard(run_no)
        if self.last is not None and self.last[1] == run_key:
            self.last[2] = outcome


def is_schedule_name(name: object) -> bool:
    """Whether a schedule can be called so: runs and folders are named by it."""
    if not is_name(name) or not isinstance(name, str) or len(name.encode()) > NAME_BYTES_MAX:
        return False
    return name.isprintable() and "/" not in name and not name.startswith(".")


def refuse_wrong_times(schedule: Schedule, calendar: Calendar, wall_ns: int) -> None:
    """Refuse what is never due, and jitter that would mix up its runs.

    Raises:
        ConfigurationError: So it is; or its expression or zone cannot be read.
    """
    plan = schedule.plan
    due = plan.next_ns(calendar, wall_ns)
    if due is None:
        raise ConfigurationError(f"schedule: {plan.words()} is never due")
    for _ in range(GAPS_LOOKED_AT if plan.jitter_ns else 0):
        following = plan.next_ns(calendar, due)
        if following is None:
            return
        if following - due < plan.jitter_ns:
            raise ConfigurationError(
                f"schedule: jitter is longer than the {(following - due) / 1e9:g} s between two due times"
            )
        due = following


def row_of(schedule: Schedule) -> dict[str, Any]:
    """What is told of a schedule, but for what only a running engine knows."""
    return {
        "name": schedule.name,
        "plan": schedule.plan.to_json(),
        "handler": schedule.handler,
        "created_ns": schedule.created_ns,
        "judged_ns": schedule.judged_ns,
        "started": schedule.started,
        "open": len(schedule.open),
        "queued": len(schedule.queued),
        "last": schedule.last,
        "passed": schedule.passed,
    }


def _is_end(value: object) -> bool:
    return value is None or (type(value) is int and value > 0)

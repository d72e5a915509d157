"""Facts that few nodes of few runs have: attempts that failed, retries, crashes, progress, the story.

Purpose: a run in which all goes well carries none of this. The empty object is shared by all runs, and refuses to be
written; `Run.own_rare` gives a run its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from actors.protocol import limits
from actors.protocol.errors import MainspringError
from actors.protocol.kinds import Kind
from actors.protocol.states import NodeState

if TYPE_CHECKING:
    from actors.calls import Calls
    from actors.once import Burst


WHOLE: Final = -1
"""In the place of a node: the whole run."""


class Rare:
    """What is known of few nodes only, by node number.

    Most runs have nothing of it, and there are many runs: an empty one is shared, and refuses to be written.
    """

    __slots__ = (
        "alone",
        "appointed",
        "attempts",
        "backoff_until",
        "callers",
        "calls",
        "classes",
        "crashes",
        "deadlines",
        "debounce",
        "died",
        "discarded",
        "due",
        "ended",
        "ended_early",
        "events",
        "expires",
        "failures",
        "gave_way",
        "known_as",
        "lowered",
        "moments",
        "overdue",
        "parked",
        "progress",
        "refused",
        "revived",
        "spawned",
    )

    def __init__(self) -> None:
        self.attempts: dict[int, int] = {}
        """Attempts that ended without success."""
        self.crashes: dict[int, int] = {}
        """Those of them that took their worker with them."""
        self.alone: set[int] = set()
        """Calls that are not run together with others any more: see `actors.batching`."""
        self.failures: dict[int, dict[str, Any]] = {}
        """How nodes ended that did not succeed."""
        self.died: dict[int, int] = {}
        """When nodes failed for good, wall clock: dead letters, see `actors.dead`."""
        self.discarded: set[int] = set()
        """Those of them that somebody has dealt with."""
        self.revived = False
        """Whether nodes that had ended went again, see `actors.revival`."""
        self.gave_way: set[int] = set()
        """Nodes that gave a place back before they started, once; see `actors.inversion`."""
        self.parked: dict[int, str] = {}
        """Why nodes are parked."""
        self.backoff_until: dict[int, int] = {}
        """When the next attempt starts, wall clock."""
        self.calls: dict[int, Calls] = {}
        """What nodes have called and wait for, or waited: see `actors.calls`."""
        self.callers: dict[int, int] = {}
        """Who called a node."""
        self.classes: dict[int, int] = {}
        """Classes that were set later, by node; `WHOLE` is the run and what is added to it. See `actors.reclass`."""
        self.known_as = ""
        """What further submissions may join the run by while it is open. See `actors.once`."""
        self.debounce: Burst | None = None
        self.lowered: dict[int, int] = {}
        """Priority classes that nodes came down to by their retries. See `actors.reclass`."""
        self.due: dict[int, int] = {}
        """Before when nodes that were submitted with a delay or a due time do not start, wall clock."""
        self.appointed: set[int] = set()
        """Those of them whose time is one of the day, not an interval."""
        self.expires: dict[int, int] = {}
        """After when no attempt starts: see `actors.timetable`."""
        self.deadlines: dict[int, int] = {}
        """By when nodes must have ended: see `actors.deadline`."""
        self.moments: dict[int, int] = {}
        """Those of them that are times of the day, wall clock."""
        self.overdue: set[int] = set()
        """Leased nodes whose deadline passed: their attempts are being stopped."""
        self.spawned: dict[int, tuple[dict[str, Any], list[Kind]]] = {}
        """Blocks that running nodes will add when they succeed, with their kinds."""
        self.refused: dict[int, MainspringError] = {}
        """Why blocks of running nodes cannot be added: those attempts fail when they end."""
        self.progress: dict[int, tuple[float, float, str]] = {}
        """What handlers said of how far they are."""
        self.ended: dict[int, tuple[int, int, int]] = {}
        """Start, end (wall clock) and pid of the latest attempt without success."""
        self.ended_early: dict[int, int] = {}
        """When nodes ended that no worker had then, wall clock; `WHOLE` is what waited when the run was cancelled."""
        self.events: deque[tuple[int, int, str, str, int]] = deque(maxlen=limits.STORY_EVENTS_MAX)
        """The story: wall clock, node or -1, event, detail, number of the record that is its cause."""

    def forget_attempts(self, nodes: Sequence[int]) -> None:
        """Nodes begin anew: as if no attempt had been made, and without the times by which to start or end."""
        facts: tuple[dict[int, Any], ...] = (self.attempts, self.crashes, self.failures, self.died, self.progress)
        times = (self.expires, self.deadlines, self.moments, self.ended_early)
        for known in (*facts, *times, self.ended, self.spawned, self.refused):
            if known:
                for node in nodes:
                    known.pop(node, None)
        self.discarded.difference_update(nodes)
        self.overdue.difference_update(nodes)
        self.gave_way.difference_update(nodes)

    def without_called(self, state: bytearray) -> bytearray:
        """States as if what was called had succeeded: how it ended is its caller's matter."""
        if not self.callers:
            return state
        state = state[:]
        for node in self.callers:
            state[node] = NodeState.SUCCEEDED
        return state

    def give_up_spawned(self, node: int) -> None:
        """An attempt ended otherwise than it meant to: what it wanted to add is forgotten."""
        if self.spawned:
            self.spawned.pop(node, None)
        if self.refused:
            self.refused.pop(node, None)


_SHARED: Final[dict[str, Any]] = {
    "known_as": "",
    "debounce": None,
    "events": (),
    "alone": frozenset(),
    "appointed": frozenset(),
    "discarded": frozenset(),
    "gave_way": frozenset(),
    "overdue": frozenset(),
    "revived": False,
}


def _refusing() -> Rare:
    rare = Rare()
    for name in Rare.__slots__:
        setattr(rare, name, _SHARED.get(name, MappingProxyType({})))
    return rare


NO_RARE: Final = _refusing()
"""Shared by all runs that have nothing of it."""

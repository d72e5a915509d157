"""Facts that few nodes of few runs have: attempts that failed, retries, crashes, progress, the story.

Purpose: a run in which all goes well carries none of this. The empty object is shared by all runs, and refuses to be
written; `Run.own_rare` gives a run its own.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from actors.protocol import limits
from actors.protocol.errors import MainspringError
from actors.protocol.kinds import Kind
from actors.protocol.states import NodeState

if TYPE_CHECKING:
    from actors.calls import Calls


class Rare:
    """What is known of few nodes only, by node number.

    Most runs have nothing of it, and there are many runs: an empty one is shared, and refuses to be written.
    """

    __slots__ = (
        "appointed",
        "attempts",
        "backoff_until",
        "callers",
        "calls",
        "classes",
        "crashes",
        "due",
        "ended",
        "events",
        "expires",
        "failures",
        "gave_way",
        "parked",
        "progress",
        "refused",
        "spawned",
    )

    def __init__(self) -> None:
        self.attempts: dict[int, int] = {}
        """Attempts that ended without success."""
        self.crashes: dict[int, int] = {}
        """Those of them that took their worker with them."""
        self.failures: dict[int, dict[str, Any]] = {}
        """How nodes ended that did not succeed."""
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
        """Priority classes that were set after the submission, by node; -1 is the whole run. See `actors.reclass`."""
        self.due: dict[int, int] = {}
        """Before when nodes that were submitted with a delay or a due time do not start, wall clock."""
        self.appointed: set[int] = set()
        """Those of them whose time is one of the day, not an interval."""
        self.expires: dict[int, int] = {}
        """After when no attempt starts: see `actors.timetable`."""
        self.spawned: dict[int, tuple[dict[str, Any], list[Kind]]] = {}
        """Blocks that running nodes will add when they succeed, with their kinds."""
        self.refused: dict[int, MainspringError] = {}
        """Why blocks of running nodes cannot be added: those attempts fail when they end."""
        self.progress: dict[int, tuple[float, float, str]] = {}
        """What handlers said of how far they are."""
        self.ended: dict[int, tuple[int, int, int]] = {}
        """Start, end (wall clock) and pid of the latest attempt without success."""
        self.events: deque[tuple[int, int, str, str, int]] = deque(maxlen=limits.STORY_EVENTS_MAX)
        """The story: wall clock, node or -1, event, detail, number of the record that is its cause."""

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


_SHARED: Final[dict[str, Any]] = {"events": (), "appointed": frozenset(), "gave_way": frozenset()}


def _refusing() -> Rare:
    rare = Rare()
    for name in Rare.__slots__:
        setattr(rare, name, _SHARED.get(name, MappingProxyType({})))
    return rare


NO_RARE: Final = _refusing()
"""Shared by all runs that have nothing of it."""

"""Fair queue of one node type: four classes, tenants by weight, flows in turn, first in first out inside a flow.

Purpose: who runs next. The best class first; inside a class deficit round robin over tenants (Shreedhar and Varghese
1995, see `actors.policy.turns`), inside a tenant round robin over flows. A class that waits too long gets a turn before
the better ones. What a gate does not let through (a quota, a rate, a pause) waits aside under the scope that blocks it,
so that it stops nobody behind it.

Cost: pushing a thousand nodes is one append, taking a few of a million copies those few, and neither depends on how
much waits. A class with one lane (`actors.policy.lanes`) is a plain queue; a turn is one step, whoever waits. Holding
back and releasing cost a step a lane, whatever waits in it.

How much a turn is: an eighth of what is asked for, at least one node and at most QUANTUM. A pool asks for as much as a
worker does in some milliseconds, so a turn is less than a millisecond of work: single nodes where they take long.

Invariants: `size` is the number of nodes in open lanes, `blocked_size` that in lanes held back. Nodes that left the
READY state while they waited are not removed here; who pops them checks. Limits: tenants and flows are remembered while
something of theirs waits, and weights other than 1 for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from actors.policy.lanes import Gate, Lane, Level, Segment
from actors.policy.position import Position
from actors.policy.scopes import falls_under
from actors.policy.turns import turn_of
from actors.protocol import limits
from actors.protocol.errors import CallerError
from actors.protocol.kinds import PRIORITIES, Kind
from actors.protocol.limits import QUANTUM

R = TypeVar("R")
Taken = list[tuple[R, Kind, Sequence[int]]]
"""Nodes that were taken, in pieces: their run and their kind."""
NO_BOUND: Final[Sequence[int]] = (1 << 62,) * len(PRIORITIES)
ALIKE: Final[Mapping[Kind, Kind]] = MappingProxyType({})
LOOKS_PER_AGEING: Final = 16
"""How often, in the time after which a class has aged, it is looked at how old the classes are."""


class FairQueue(Generic[R]):
    """See the module. `R` is a run; runs are compared by identity."""

    __slots__ = (
        "_ageing_ns", "_blocked", "_front", "_levels", "_look_ns", "_only", "_serial", "_weights", "blocked_size",
        "size",
    )  # fmt: skip

    def __init__(self, ageing_ns: int = limits.AGEING_NS) -> None:
        self.size = 0
        self.blocked_size = 0
        self._weights: dict[str, float] = {}
        self._levels: tuple[Level[R], ...] = tuple(Level(no, self.weight) for no in range(len(PRIORITIES)))
        self._blocked: dict[str, dict[Lane[R], None]] = {}
        self._only: Lane[R] | None = None  # nothing waits but in this lane, and `size` is its size
        self._serial = 0
        self._front = 0
        self._look_ns = 0
        self._ageing_ns = ageing_ns

    # --- in and out -----------------------------------------------------------------------------------------------

    def push(
        self,
        kind: Kind,
        run: R,
        nodes: Sequence[int],
        now_ns: int,
        flow: Hashable,
        *,
        front: bool = False,
        class_: int | None = None,
    ) -> None:
        """Add nodes behind their flow. The list is kept, not copied.

        Args:
            kind: Of all of them; it says class and tenant.
            run: Whose nodes they are.
            nodes: Their numbers.
            now_ns: Since when they wait.
            flow: What is served in turn inside the tenant.
            front: They were taken and come back: before all of their flow, since they wait longer.
            class_: The class, if it is another than the kind says.
        """
        lane = self._only
        if lane is not None and lane.kind is kind and not front and class_ is None and lane.key == flow:
            self._serial = serial = self._serial + 1
            if nodes:
                lane.segments.append((run, nodes, 0, now_ns, serial))
                self.size += len(nodes)
        elif nodes:
            self._count_all()
            level = self._levels[kind.priority if class_ is None else class_]
            lane = level.last
            if lane is None or lane.kind is not kind or lane.key != flow:
                lane = level.lane(kind, flow)
            self._push(lane, run, nodes, now_ns, front)
            if level.sole is lane:
                self._look_for_only()

    def _push(self, lane: Lane[R], run: R, nodes: Sequence[int], now_ns: int, front: bool) -> None:
        if front:
            self._front -= 1
            since_ns = min(now_ns, lane.segments[0][3]) if lane.segments else now_ns
            lane.segments.appendleft((run, nodes, 0, since_ns, self._front))
            lane.flow.stale = True
        else:
            self._serial = serial = self._serial + 1
            lane.segments.append((run, nodes, 0, now_ns, serial))
        count = len(nodes)
        lane.size += count
        if lane.blocked_by:
            self.blocked_size += count
            return
        self.size += count
        if not lane.is_open:
            lane.level.open(lane, front=front)

    def _count_all(self) -> None:
        """End the short way, on which only `size` is kept."""
        if self._only is not None:
            self._only.size = self.size
            self._only = None

    def _look_for_only(self) -> None:
        """Begin the short way, if only one lane has something. It is of the class that its kind says."""
        only: Lane[R] | None = None
        for level in self._levels:
            lane = level.sole
            if not level.turns.ring or (lane is not None and not lane.segments):
                continue
            if only is not None or lane is None or lane.kind.priority != level.no:
                return
            only = lane
        self._only = None if self.blocked_size else only

    def pop(self, count: int, now_ns: int, room: Sequence[int] = NO_BOUND, gate: Gate | None = None) -> Taken[R]:
        """Take up to `count` nodes. Pieces of one run and kind that follow each other come as one.

        `now_ns` is for ageing; `room`: at most so many of each class; `gate` is asked before nodes are taken.
        """
        lane = self._only
        if lane is None or count <= 0:
            return self._pop(count, now_ns, room, gate)
        if gate is not None or room is not NO_BOUND:
            count = min(count, room[lane.level.no], self.size)
            if count <= 0:
                return []
            if gate is not None:
                answer = gate(lane.kind, count)
                if answer[0] < count:
                    return self._pop(count, now_ns, NO_BOUND, lambda kind, wanted: answer)
        segments = lane.segments
        if segments:
            lane.taken_from = True
            run, nodes, start, since_ns, serial = segments[0]
            left = len(nodes) - start
            if left > count:
                segments[0] = (run, nodes, start + count, since_ns, serial)
                self.size -= count
                return [(run, lane.kind, nodes[start : start + count])]
            if left == count or len(segments) == 1:
                segments.popleft()
                self.size -= left
                return [(run, lane.kind, nodes[start:] if start else nodes)]
        taken: Taken[R] = []
        self.size -= lane.take(taken, count)
        return taken

    def _pop(self, count: int, now_ns: int, room: Sequence[int], gate: Gate | None) -> Taken[R]:
        self._count_all()
        taken: Taken[R] = []
        quantum = turn_of(count)
        if now_ns >= self._look_ns and self._ageing_ns and self._has_room_for_others(room):
            room, count = self._pop_aged(taken, count, now_ns, room, gate)
        for level in self._levels:
            wanted = min(count, room[level.no])
            if wanted > 0 and level.turns.ring:
                count -= self._pop_level(level, taken, wanted, quantum, gate)
        self._look_for_only()
        return taken

    def _has_room_for_others(self, room: Sequence[int]) -> bool:
        """Whether a look at the ages can help. One that cannot would only put off the next one."""
        others = self.open_classes()[1:]
        return not others or any(room[no] for no in others)

    def _pop_aged(
        self, taken: Taken[R], count: int, now_ns: int, room: Sequence[int], gate: Gate | None
    ) -> tuple[Sequence[int], int]:
        """A turn for each class that waits too long behind a better one; returns the room and the count that are left.

        The best that waits is served anyway.
        """
        quantum, left = turn_of(count), list(room)
        soon_ns = now_ns + self._ageing_ns // LOOKS_PER_AGEING
        look_ns, best = now_ns + self._ageing_ns, True
        for level in self._levels:
            waits_ns = level.waits_ns(now_ns)
            if waits_ns is None:
                continue
            if best:  # it may not be the best at the next look
                best, waits_ns = False, 0
            elif now_ns >= waits_ns + self._ageing_ns and (wanted := min(quantum, count, left[level.no])) > 0:
                got = self._pop_level(level, taken, wanted, quantum, gate)
                count -= got
                left[level.no] -= got
                if got:
                    waits_ns = level.aged_ns = now_ns
            look_ns = min(look_ns, waits_ns + self._ageing_ns)
        self._look_ns = max(look_ns, soon_ns)
        return left, count

    def _pop_level(self, level: Level[R], taken: Taken[R], count: int, quantum: int, gate: Gate | None) -> int:
        """Take from one class, by turns."""
        got, held = level.take(taken, count, quantum, gate)
        self.size -= got
        for lane in held:
            self._put_aside(lane)
        return got

    # --- holding back ---------------------------------------------------------------------------------------------

    def _put_aside(self, lane: Lane[R]) -> None:
        self._blocked.setdefault(lane.blocked_by, {})[lane] = None
        self.size -= lane.size
        self.blocked_size += lane.size

    def block(self, scope: str) -> None:
        """Hold back all of a scope that waits. What is pushed later meets the gate."""
        self._count_all()
        for level in self._levels:
            for lane in [*level.found()]:
                if lane.is_open and lane.size and falls_under(scope, lane.kind, PRIORITIES[level.no]):
                    level.hold_back(lane, scope, took=False)
                    self._put_aside(lane)

    def release(self, scope: str) -> int:
        """Put what waits under a scope back to where it was; returns how many nodes. Cut-off turns come first."""
        lanes = self._blocked.pop(scope, None)
        if lanes is None:
            return 0
        self._count_all()
        late: list[Callable[[], None]] = []
        count = 0
        for lane in reversed(lanes):
            count += lane.size
            late += lane.level.bring_back(lane)
        for defer in reversed(late):
            defer()
        self.size += count
        self.blocked_size -= count
        return count

    # --- changes while things wait --------------------------------------------------------------------------------

    @property
    def ageing_ns(self) -> int:
        """A class whose oldest waits longer gets a turn before better ones, once in this time; 0: never."""
        return self._ageing_ns

    @ageing_ns.setter
    def ageing_ns(self, value: int) -> None:
        self._ageing_ns = value
        self._look_ns = 0

    def weight(self, tenant: str) -> float:
        """Its share relative to the others; 1 unless it was set."""
        return self._weights.get(tenant, 1.0)

    def set_weight(self, tenant: str, weight: float) -> None:
        """Change a tenant's share.

        Raises:
            CallerError: It is not above 0.
        """
        if not 0 < weight < float("inf"):
            raise CallerError(f"a weight must be above 0, not {weight!r}")
        self._weights[tenant] = weight
        if weight == 1:
            del self._weights[tenant]
        for level in self._levels:
            if (found := level.tenants.get(tenant)) is not None:
                found.credit = min(found.credit, QUANTUM * max(1.0, weight))
                found.weight = weight

    def drop_run(self, run: R, flow: Hashable = None, node: int | None = None) -> int:
        """Forget all that waits of a run, or one node, held back or not; returns how many nodes. Looks at all segments,
        or at those of the flow that is named."""
        return sum(count for _, _, count in self._extract(run, flow, node=node))

    def reprioritize(
        self, run: R, class_: int, flow: Hashable = None, kinds: Mapping[Kind, Kind] = ALIKE, node: int | None = None
    ) -> int:
        """Move what waits of a run to another class, to the place of its age in the flow; returns how many nodes.

        `kinds`: as what they wait from now on, by what they were; `node`: it alone.
        What was held back is open there, unless its lane there is, too. Later nodes: `push(..., class_=)`.
        """
        moved = 0
        for lane, segments, count in self._extract(run, flow, class_, node, {kind.tenant for kind in kinds} or None):
            level = self._levels[class_]
            target = level.lane(kinds.get(lane.kind, lane.kind), lane.key)
            target.merge(segments)
            target.flow.stale = True
            moved += count
            if target.blocked_by:
                self.blocked_size += count
                continue
            self.size += count
            if not target.is_open:
                level.open(target)
        return moved

    def _extract(
        self, run: R, flow: Hashable, besides: int = -1, node: int | None = None, tenants: set[str] | None = None
    ) -> list[tuple[Lane[R], list[Segment[R]], int]]:
        """Take a run's segments out of their lanes, or one node."""
        self._count_all()
        found = []
        for level in self._levels:
            for lane in [*level.found(flow, tenants)] if level.no != besides else ():
                before = lane.size
                segments = lane.extract(run, node)
                if not segments:
                    continue
                lane.flow.stale = True
                count = before - lane.size
                found.append((lane, segments, count))
                if lane.blocked_by:
                    self.blocked_size -= count
                else:
                    self.size -= count
                if not lane.size:
                    self._forget(lane)
        return found

    def _forget(self, lane: Lane[R]) -> None:
        if lane.blocked_by:
            held = self._blocked[lane.blocked_by]
            del held[lane]
            if not held:
                del self._blocked[lane.blocked_by]
        lane.level.forget(lane)

    # --- questions ------------------------------------------------------------------------------------------------

    @property
    def only_kind(self) -> Kind | None:
        """The kind of all that waits, where that is plain."""
        return None if self._only is None else self._only.kind

    def best_class(self) -> int:
        """The best of the open classes; the number of classes when there is none."""
        return min(self.open_classes(), default=len(PRIORITIES))

    def open_classes(self) -> list[int]:
        """Classes of which something can be taken, best first."""
        if self._only is not None:
            return [self._only.level.no] if self.size else []
        return [each.no for each in self._levels if each.turns.ring and (each.sole is None or each.sole.segments)]

    def counts(self) -> list[int]:
        """Waiting nodes per class, with those that are held back."""
        self._count_all()
        return [sum(lane.size for lane in level.found()) for level in self._levels]

    def tenants(self) -> dict[str, int]:
        """Waiting nodes per tenant, with those that are held back."""
        self._count_all()
        found: dict[str, int] = {}
        for lane in (lane for level in self._levels for lane in level.found() if lane.size):
            found[lane.kind.tenant] = found.get(lane.kind.tenant, 0) + lane.size
        return found

    def held_back(self) -> dict[str, int]:
        """Waiting nodes per scope that holds them back."""
        return {scope: sum(lane.size for lane in lanes) for scope, lanes in self._blocked.items()}

    def oldest_ns(self, class_: int) -> int | None:
        """Since when the oldest of a class waits that can be taken."""
        return self._levels[class_].oldest_ns()

    def segments(self) -> list[tuple[R, Sequence[int]]]:
        """All segments, best class first; for checks."""
        lanes = (lane for level in self._levels for lane in level.found())
        return [(run, nodes[start:]) for lane in lanes for run, nodes, start, _, _ in lane.segments]

    def position(self, run: R, node: int, flow: Hashable = None, tenants: set[str] | None = None) -> Position | None:
        """Where a node waits, or None. Looks at all segments, or at those of the flow and tenants that are named."""
        places = (level.position(run, node, flow, tenants) for level in self._levels)
        return next((place for place in places if place is not None), None)

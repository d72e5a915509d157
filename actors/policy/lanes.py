"""Lanes: what waits in one class, by tenant, flow and kind, and who of them takes turns.

A *lane* holds the segments of one kind in one flow, first in first out; a segment is a run with some of its nodes. The
lane, not the segment, is what a gate holds back: a million tasks behind one key leave and come back in one step.
A flow serves its open lanes in the order in which their segments came. Flows share a tenant, tenants share a class, by
turns (`actors.policy.turns`).

Invariants: a lane is open (in its flow, and flow and tenant in their rings), or held back under a scope; it has nodes,
but for the only lane of a class, which stays when it empties and is used again. A flow or a tenant without lanes is
forgotten. Neither serials nor times fall along a lane.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from actors.policy.position import Position
from actors.policy.turns import Sharer, Turns
from actors.protocol.errors import CallerError
from actors.protocol.kinds import Kind

R = TypeVar("R")

Segment = tuple[R, Sequence[int], int, int, int]
"""Run, its nodes, how many of them were taken, since when they wait, and their serial: the order inside a flow."""
SERIAL: Final = 4
Gate = Callable[[Kind, int], tuple[int, str]]
"""Of so many nodes of a kind that are about to be taken: how many may start, which then do, and the scope that blocks
the rest, or an empty text."""

LANES_LOOKED_AT: Final = 64


class Lane(Generic[R]):
    """What waits of one kind in one flow of one class."""

    __slots__ = ("blocked_by", "denied", "flow", "is_open", "key", "kind", "level", "segments", "size", "taken_from")

    def __init__(self, level: Level[R], flow: WaitingFlow[R], kind: Kind) -> None:
        self.level = level
        self.flow = flow
        self.key = flow.key
        self.kind = kind
        self.segments: deque[Segment[R]] = deque()
        self.size = 0
        self.is_open = False
        self.blocked_by = ""
        self.denied = False  # it was held back before anything of it could start
        self.taken_from = False  # the short way of the queue took something

    def take(self, taken: list[tuple[R, Kind, Sequence[int]]], count: int) -> int:
        """Move up to `count` nodes to the end of `taken`; returns how many."""
        segments, kind, rest = self.segments, self.kind, count
        whole: list[int] | None = None  # the last piece, where it was made here
        last, of = (taken[-1][0], taken[-1][1]) if taken else (None, None)
        while segments and rest:
            run, nodes, start, since_ns, serial = segments[0]
            left = len(nodes) - start
            if left > rest:
                segments[0] = (run, nodes, start + rest, since_ns, serial)
                nodes, rest = nodes[start : start + rest], 0
            else:
                segments.popleft()
                rest -= left
                if start:
                    nodes = nodes[start:]
            if last is not run or of is not kind:
                taken.append((run, kind, nodes))
                last, of, whole = run, kind, None
            elif whole is not None:
                whole += nodes
            else:
                whole = [*taken[-1][2], *nodes]
                taken[-1] = (run, kind, whole)
        self.size -= count - rest
        return count - rest

    def merge(self, more: Iterable[Segment[R]]) -> int:
        """Put segments to where their serials say; returns how many nodes."""
        found = list(more)
        self.segments = deque(sorted([*self.segments, *found], key=_place))
        count = sum(len(nodes) - start for _, nodes, start, _, _ in found)
        self.size += count
        return count

    def __lt__(self, other: Lane[R]) -> bool:
        """Of lanes whose first segments were one, and have its serial: that with the lower node."""
        return bool(self.segments and other.segments) and _place(self.segments[0]) < _place(other.segments[0])

    def extract(self, run: R, node: int | None = None) -> list[Segment[R]]:
        """Take out all of a run, or one node; the rest of its segment stays, in two parts if need be."""
        found: list[Segment[R]] = []
        left: deque[Segment[R]] = deque()
        for segment in self.segments:
            of, nodes, start, since_ns, serial = segment
            if of is not run or (node is not None and node not in nodes[start:]):
                left.append(segment)
            elif node is None:
                found.append(segment)
            else:
                at = start + nodes[start:].index(node)
                found.append((run, nodes[at : at + 1], 0, since_ns, serial))
                rest = (nodes[start:at], nodes[at + 1 :])
                left.extend((run, part, 0, since_ns, serial) for part in rest if len(part))
        if found:
            self.segments = left
            self.size -= sum(len(nodes) - start for _, nodes, start, _, _ in found)
        return found


class WaitingFlow(Sharer, Generic[R]):
    """Lanes of one flow, all and the open ones. `order`: a heap of several open ones by the serial of what is first."""

    __slots__ = ("key", "lanes", "open", "order", "stale", "tenant")

    def __init__(self, key: Hashable, tenant: WaitingTenant[R]) -> None:
        super().__init__()
        self.key = key
        self.tenant = tenant
        self.open: dict[Lane[R], None] = {}
        self.lanes: dict[Kind, Lane[R]] = {}
        self.order: list[tuple[int, Lane[R]]] = []
        self.stale = True

    def first(self) -> Lane[R]:
        """The open lane whose segment came first."""
        if len(self.open) == 1:
            self.stale = True
            return next(iter(self.open))
        if self.stale:
            self.order = [(lane.segments[0][SERIAL], lane) for lane in self.open]
            heapq.heapify(self.order)
            self.stale = False
        return self.order[0][1]

    def moved(self) -> None:
        """The first of the first lane was taken."""
        if not self.stale:
            lane = self.order[0][1]
            heapq.heapreplace(self.order, (lane.segments[0][SERIAL], lane))

    def add(self, lane: Lane[R]) -> None:
        self.open[lane] = None
        self.stale = self.stale or len(self.open) <= 2
        if not self.stale:
            heapq.heappush(self.order, (lane.segments[0][SERIAL], lane))

    def remove(self, lane: Lane[R]) -> None:
        del self.open[lane]
        if not self.stale and self.order[0][1] is lane:
            heapq.heappop(self.order)
        else:
            self.stale = True
        if len(self.open) <= 1:
            self.order, self.stale = [], True


class WaitingTenant(Sharer, Generic[R]):
    """Flows of one tenant."""

    __slots__ = ("flows", "name", "turns")

    def __init__(self, name: str, weight: float) -> None:
        super().__init__(weight)
        self.name = name
        self.flows: dict[Hashable, WaitingFlow[R]] = {}
        self.turns: Turns[WaitingFlow[R]] = Turns()


class Level(Generic[R]):
    """One class. `sole` is the only lane that there is, if it is open: it is served without turns, and may be empty."""

    __slots__ = ("aged_ns", "count", "empty_ns", "last", "no", "sole", "tenants", "turns", "weight_of")

    def __init__(self, no: int, weight_of: Callable[[str], float]) -> None:
        self.no = no
        self.weight_of = weight_of
        self.count = 0
        self.tenants: dict[str, WaitingTenant[R]] = {}
        self.turns: Turns[WaitingTenant[R]] = Turns()
        self.sole: Lane[R] | None = None
        self.last: Lane[R] | None = None
        self.aged_ns = 0
        self.empty_ns = 0
        """When it had its last turn for its age, and when it was last seen empty."""

    def lane(self, kind: Kind, key: Hashable) -> Lane[R]:
        """The lane of this kind and flow; a new one is neither open nor held back."""
        tenant = self.tenants.get(kind.tenant)
        flow = None if tenant is None else tenant.flows.get(key)
        lane = None if flow is None else flow.lanes.get(kind)
        if lane is None:
            if self.sole is not None and not self.sole.segments:
                self.forget(self.sole)
            lane = self._new_lane(kind, key)
        self.last = lane
        return lane

    def _new_lane(self, kind: Kind, key: Hashable) -> Lane[R]:
        tenant = self.tenants.get(kind.tenant)
        if tenant is None:
            tenant = self.tenants[kind.tenant] = WaitingTenant(kind.tenant, self.weight_of(kind.tenant))
        if self.sole is not None and self.sole.taken_from:  # being alone was its turn
            self.turns.next(1).turns.next(1)
            self.sole.taken_from = False
        flow = tenant.flows.get(key)
        if flow is None:
            flow = tenant.flows[key] = WaitingFlow(key, tenant)
        lane = flow.lanes[kind] = Lane(self, flow, kind)
        self.count += 1
        self.sole = None
        return lane

    def forget(self, lane: Lane[R]) -> None:
        """Nothing waits in this lane any more."""
        flow, tenant = lane.flow, lane.flow.tenant
        if lane.is_open and len(flow.lanes) == len(tenant.flows) == 1:  # the same in one step: all of a tenant goes
            lane.is_open = False
            flow.open.clear()
            flow.lanes.clear()
            tenant.flows.clear()
            tenant.turns.ring.clear()
            del self.turns.ring[tenant], self.tenants[tenant.name]
        else:
            self._forget_one(lane, flow, tenant)
        self.count -= 1
        if self.last is lane:
            self.last = None
        self.sole = None
        if self.count == 1:
            self._settle()

    def _forget_one(self, lane: Lane[R], flow: WaitingFlow[R], tenant: WaitingTenant[R]) -> None:
        if lane.is_open:
            self.close(lane)
        del flow.lanes[lane.kind]
        if not flow.lanes:
            del tenant.flows[flow.key]
            if not tenant.flows:
                del self.tenants[tenant.name]

    def open(self, lane: Lane[R], *, front: bool = False) -> tuple[bool, bool]:
        """Put a lane into its flow; returns whether the flow, and whether the tenant, entered its ring by that."""
        flow, tenant = lane.flow, lane.flow.tenant
        flow_enters, tenant_enters = not flow.open, not tenant.turns.ring
        flow.add(lane)
        lane.is_open = True
        if flow_enters:
            tenant.turns.enter(flow, front=front)
        if tenant_enters:
            self.turns.enter(tenant, front=front)
        self._settle()
        return flow_enters, tenant_enters

    def close(self, lane: Lane[R], *, held_back: bool = False, took: bool = False) -> None:
        """Take a lane out of its flow."""
        flow, tenant = lane.flow, lane.flow.tenant
        flow.remove(lane)
        lane.is_open = False
        if not flow.open:
            tenant.turns.leave(flow, held_back=held_back, took=took)
            if not tenant.turns.ring:
                self.turns.leave(tenant, held_back=held_back, took=took)
        self.sole = None

    def hold_back(self, lane: Lane[R], scope: str, took: bool) -> None:
        """Take a lane out of its flow until its scope is released; `took`: after something of it could start."""
        self.close(lane, held_back=True, took=took)
        lane.blocked_by, lane.denied = scope, not took

    def bring_back(self, lane: Lane[R]) -> list[Callable[[], None]]:
        """Open a lane that was held back, before others; returns what puts those behind that had their turn."""
        lane.blocked_by = ""
        tenant, flow = lane.flow.tenant, lane.flow
        flow_enters, tenant_enters = self.open(lane, front=True)
        late: list[Callable[[], None]] = []
        if flow_enters and flow.late:
            late.append(partial(tenant.turns.defer, flow))
        elif not flow_enters and lane.denied:
            tenant.turns.prefer(flow)
        if tenant_enters and tenant.late:
            late.append(partial(self.turns.defer, tenant))
        elif not tenant_enters and lane.denied:
            self.turns.prefer(tenant)
        return late

    def take(
        self, taken: list[tuple[R, Kind, Sequence[int]]], count: int, quantum: int, gate: Gate | None
    ) -> tuple[int, list[Lane[R]]]:
        """Take up to `count` nodes by turns; returns how many, and the lanes that the gate held back.

        Raises:
            CallerError: The gate lets fewer through and does not say why.
        """
        got = 0
        held: list[Lane[R]] = []
        next_tenant, ring = self.turns.next, self.turns.ring
        while got < count and ring:  # a turn is some microseconds: no call in here that can be done without
            tenant = next_tenant(quantum)
            turns = tenant.turns
            flow = turns.next(quantum)
            wanted = count - got
            if len(flow.open) == 1:
                lane = next(iter(flow.open))
                flow.stale, left = True, lane.size
            else:  # another lane may have what comes after the first segment
                lane = flow.first()
                _, nodes, start, _, _ = lane.segments[0]
                left = len(nodes) - start
            if left < wanted:
                wanted = left
            shared, divided = len(ring) > 1, len(turns.ring) > 1
            if shared and tenant.credit < wanted:
                wanted = int(tenant.credit)
            if divided and flow.credit < wanted:
                wanted = int(flow.credit)
            if not wanted:  # the only lane, which is empty
                break
            may, scope = (wanted, "") if gate is None else gate(lane.kind, wanted)
            if may < wanted and not scope:
                raise CallerError("a gate that lets fewer through must say what blocks the others")
            if may:
                got += lane.take(taken, may)
                if shared:
                    tenant.credit -= may
                if divided:
                    flow.credit -= may
            if lane.size:
                if scope:
                    self.hold_back(lane, scope, may > 0)
                    held.append(lane)
                elif not flow.stale:
                    flow.moved()
            elif lane is not self.sole:
                self.forget(lane)
        return got, held

    def _settle(self) -> None:
        self.sole = None
        if self.count == 1:
            lane = next(self.found())
            self.sole = lane if lane.is_open else None

    def oldest_ns(self) -> int | None:
        """Since when the oldest that can be taken waits."""
        return min((lane.segments[0][3] for lane in self.found() if lane.is_open and lane.segments), default=None)

    def waits_ns(self, now_ns: int) -> int | None:
        """Since when what is here has waited for a turn for its age; None when it is empty.

        Where there are many lanes nobody looks for the oldest: it came after the class was last seen empty.
        """
        lane = self.sole
        if not (self.turns.ring if lane is None else lane.segments):
            self.empty_ns = now_ns
            return None
        oldest_ns = self.oldest_ns() if self.count <= LANES_LOOKED_AT else None
        return max(self.aged_ns, self.empty_ns if oldest_ns is None else oldest_ns)

    def position(self, run: R, node: int, key: Hashable, names: set[str] | None) -> Position | None:
        """Where a node waits."""
        for lane in self.found(key, names):
            ahead = 0
            for other, nodes, start, _, serial in lane.segments:
                waiting = nodes[start:] if start else nodes
                if other is run and node in waiting:
                    return self._position(lane, ahead + waiting.index(node), serial)
                ahead += len(waiting)
        return None

    def _position(self, lane: Lane[R], ahead: int, serial: int) -> Position:
        flow, tenant = lane.flow, lane.flow.tenant
        if not lane.is_open:
            return Position(self.no, tenant.name, ahead, 0, lane.blocked_by)
        for other in flow.open:
            if other is not lane:
                ahead += sum(len(s[1]) - s[2] for s in other.segments if s[SERIAL] < serial)
        before = [*tenant.turns.ring].index(flow) + [*self.turns.ring].index(tenant)
        return Position(self.no, tenant.name, ahead, before, "")

    def found(self, key: Hashable = None, names: set[str] | None = None) -> Iterator[Lane[R]]:
        """The lanes of a flow, or all, of the tenants named, or all. Nothing may be added or forgotten meanwhile."""
        all_or_some = self.tenants if names is None else sorted(names & self.tenants.keys())
        for tenant in [self.tenants[name] for name in all_or_some]:
            flows = tenant.flows.values() if key is None else [tenant.flows[key]] if key in tenant.flows else []
            for flow in flows:
                yield from flow.lanes.values()


def _place(segment: Segment[Any]) -> tuple[int, int]:
    """What a flow is ordered by."""
    return segment[SERIAL], segment[1][segment[2]]

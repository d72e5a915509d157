"""Gathering: calls of a batching handler wait in the ready queue until there are enough of them, or the first has
waited for long enough.

    push ──► pushed ──► is a batch there? ──yes──► what waits is released, and the gate lets it through
                                └──no──► held back under "batch:<kind>", until the timer of its oldest call

What counts is what waits of one kind, and so of one handler, tenant and class, whichever sessions and runs it came
from. It is read from the queue, which knows what was taken, cancelled and moved meanwhile; here is only kept how much
was pushed since the last look, so that a look is taken once a batch and not once a call.

Invariant: a kind that has something waiting is open, or has a timer, or is looked at before it gives something out.
Cost: a look takes a step for each flow of the tenant, and for each segment until a batch is full. Concurrency: none;
owned by one actor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from actors.policy.fair import FairQueue
from actors.protocol.kinds import BatchRule, Kind

R = TypeVar("R")
Live = Callable[[R, Sequence[int]], int]
"""How many nodes of a segment still wait: some were cancelled or have expired meanwhile, and nobody took them out."""
ALL: Final = 1 << 62
BATCH: Final = "batch"
"""Word of the scopes under which calls wait for others. Nobody sets quotas for these, or pauses them."""


class Waiting(NamedTuple):
    """Calls of a kind that wait, and since when the oldest does."""

    calls: int
    since_ns: int


class Gathered:
    """One kind of which calls wait. `is_open`: a batch was there when it was looked at."""

    __slots__ = ("is_open", "kind", "pushed", "rule", "scope")

    def __init__(self, kind: Kind, rule: BatchRule) -> None:
        self.kind = kind
        self.rule = rule
        self.scope = batch_scope(kind)
        self.pushed = 0
        self.is_open = False

    def push(self, count: int, queue: FairQueue[R], live: Live[R]) -> bool:
        """So many more wait; returns whether a batch is there by that."""
        self.pushed += count
        if self.is_open or self.pushed < self.rule.size:
            return False
        self.pushed = waiting(queue, self.kind, live, self.rule.size).calls
        self.is_open = self.pushed >= self.rule.size
        return self.is_open

    def allows(self, queue: FairQueue[R], now_ns: int, live: Live[R]) -> int | None:
        """Whether a batch can go now (None), or when it can although it is not full."""
        found = waiting(queue, self.kind, live, self.rule.size)
        self.pushed = found.calls
        until_ns = found.since_ns + self.rule.wait_ns
        self.is_open = found.calls >= self.rule.size or now_ns >= until_ns
        return None if self.is_open else until_ns


def batch_scope(kind: Kind) -> str:
    """Under which scope calls of this kind wait for others."""
    return f"{BATCH}:{kind.no}"


def waiting(queue: FairQueue[R], kind: Kind, live: Live[R], enough: int = ALL) -> Waiting:
    """What waits of a kind; without anything, since time began. It counts until there is `enough`."""
    only = queue._only
    if only is not None:
        lanes = [only] if only.kind is kind else []
    else:
        tenant = queue._levels[kind.priority].tenants.get(kind.tenant)
        flows = () if tenant is None else tenant.flows.values()
        lanes = [lane for flow in flows if (lane := flow.lanes.get(kind)) is not None]
    calls, since_ns = 0, None
    for lane in lanes:
        for run, nodes, start, segment_ns, _ in lane.segments:
            here = live(run, nodes[start:] if start else nodes)
            if here and (since_ns is None or segment_ns < since_ns):
                since_ns = segment_ns
            calls += here
            if calls >= enough:
                return Waiting(calls, since_ns or 0)
    return Waiting(calls, since_ns or 0)


def take_more(queue: FairQueue[R], kind: Kind, count: int) -> list[tuple[R, Kind, list[int]]]:
    """Take up to so many calls of a kind besides those whose turn it was, to fill a batch with.

    Also those that wait for a batch; but not what is held back otherwise. It is all one turn.
    """
    queue._count_all()
    level, scope = queue._levels[kind.priority], batch_scope(kind)
    tenant = level.tenants.get(kind.tenant)
    taken: list[tuple[R, Kind, list[int]]] = []
    for flow in () if tenant is None else [*tenant.flows.values()]:
        lane = flow.lanes.get(kind)
        if lane is None or not lane.size or lane.blocked_by not in ("", scope):
            continue
        got = lane.take(taken, min(count, lane.size))  # type: ignore[arg-type]  # it copies what it gives
        count -= got
        flow.stale = True
        if lane.blocked_by:
            queue.blocked_size -= got
        else:
            queue.size -= got
        if not lane.size and lane is not level.sole:
            queue._forget(lane)
        if not count:
            break
    queue._look_for_only()
    return taken

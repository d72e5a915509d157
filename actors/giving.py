"""Giving: the ready queues, and what decides how much of them may start now.

    push ──► FairQueue per node type ──► take: class, tenant, flow (`policy.fair`), and a gate:
                    ▲                          paused scopes, batches, breakers, then quotas, then rates
                    └── release ◄── a lease ended, a rate's or breaker's time came, the policy changed

What the gate refuses waits under the scope that blocks it and is looked at again when that scope has room: nobody
polls. A place of a quota is held by the lease of an attempt, so it comes back however the attempt ends: with its
result, its failure, or untouched (guarantee G6).

While the policy limits nothing and all breakers are closed there is no gate, and leases are not counted; they are when
the first quota comes.

Invariant (`check_invariants`): where leases are counted, a kind holds as many places as it has leased nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from actors import batching
from actors.batching import Batches, Piece
from actors.guards import Guards, breaker_scope
from actors.policy import gather, shares
from actors.policy.fair import NO_BOUND, FairQueue
from actors.policy.policy import Policy
from actors.policy.position import Position
from actors.policy.quotas import Quotas
from actors.policy.rates import Rates
from actors.policy.scopes import RATE, scopes_of
from actors.policy.timers import Timers
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import InvariantBroken
from actors.protocol.kinds import PRIORITIES, Kind
from actors.protocol.places import joined
from actors.run import Run
from actors.state_column import CANCELLING, LEASED, where

PARTS: Final = 8
"""Where something may be limited, a worker gets its room in so many parts."""
_UP_TO: Final = tuple(
    tuple(NO_BOUND[0] if class_ <= worst else 0 for class_ in range(len(PRIORITIES)))
    for worst in range(len(PRIORITIES))
)
"""Room of the classes where those below one have none."""


class Giving:
    """See the module. `node_types` have a queue; `ready` holds them by name."""

    def __init__(self, node_types: Sequence[str]) -> None:
        self.policy = Policy()
        self.ready: dict[str, FairQueue[Run]] = {}
        self.quotas = Quotas()
        self.rates = Rates()
        self.guards = Guards()
        self.batches = Batches()
        self.due: Timers[str] = Timers()
        """When a rate, a breaker or a batch lets something start again, by scope; monotonic clock."""
        self._first: dict[str, int] = {}
        """Class of what the timer of a rate was set for: what is no better does not overtake it."""
        self.denied: dict[str, tuple[int, int]] = {}
        """The best class that was turned away since a scope had no room, and how many; see `actors.inversion`."""
        self.asked: dict[str, tuple[int, int]] = {}
        self._counted = False
        self._gated = False
        self._divided = False
        self._now_ns = 0
        for name in node_types:
            self.open(name)

    def open(self, name: str) -> None:
        """Make sure that a node type has a queue."""
        if name not in self.ready:
            queue = self.ready[name] = FairQueue(self.policy.ageing_ns)
            for tenant, weight in self.policy.weights.items():
                queue.set_weight(tenant, weight)

    # --- the policy -----------------------------------------------------------------------------------------------

    def apply(self, policy: Policy, live: Iterable[Run], now_ns: int) -> None:
        """Go on under another policy. `live` are the runs that may have leases."""
        before, self.policy = self.policy, policy
        if policy.quotas and not self._counted:
            self._counted = True
            for run in live:
                for node in (*where(run.state, LEASED), *where(run.state, CANCELLING)):
                    self.quotas.take(run.kind(node), 1)
        free = [
            scope
            for scope in _changed(before.quotas, policy.quotas)
            if self.quotas.set(scope, policy.quotas.get(scope))
        ]
        if not policy.quotas:
            self.quotas, self._counted = Quotas(), False
        for key in _changed(before.rates, policy.rates):
            per_s, burst = policy.rates.get(key, (None, 1))
            self.rates.set(key, per_s, burst, now_ns)
            self.due.cancel(f"{RATE}:{key}")
            self._first.pop(f"{RATE}:{key}", None)
            free.append(f"{RATE}:{key}")
        for scope in [scope for scope in self.denied if scope in free or scope not in policy.quotas]:
            self.answered(scope)
        free += before.paused - policy.paused
        self._gated = bool(policy.quotas or policy.rates or policy.paused)
        self._divided = shares.divide(policy.shares)
        for queue in self.ready.values():
            queue.ageing_ns = policy.ageing_ns
            for tenant in _changed(before.weights, policy.weights):
                queue.set_weight(tenant, policy.weights.get(tenant, 1.0))
            for scope in sorted(policy.paused - before.paused):
                queue.block(scope)
            for scope in sorted(free):
                queue.release(scope)

    def divides(self, node_type: str, worst: int | None = None) -> bool:
        """Whether it matters now what each class holds, where none below `worst` is given.

        A least share of the best class matters where others are given beside it: it comes first anyway, but for the
        turns of those that have waited for long.
        """
        if self._divided or worst == 0 or not self.policy.shares:
            return self._divided
        classes = self.ready[node_type].open_classes()
        return len(classes) > 1 and not classes[0]

    # --- in and out -----------------------------------------------------------------------------------------------

    def push(self, kind: Kind, run: Run, nodes: Sequence[int], now_ns: int, *, front: bool = False) -> None:
        """Nodes that became READY wait for their turn."""
        self.ready[kind.node_type].push(kind, run, nodes, now_ns, flow_of(run), front=front)
        if kind.batch is not None:
            batching.pushed(self, kind, len(nodes), now_ns)

    def take(self, offer: msg.Offer, now_ns: int) -> Iterator[tuple[int, Run, Kind, Sequence[int], int]]:
        """Nodes whose turn it is, with the worker that gets them and the number of their batch."""
        self._now_ns = now_ns
        queue = self.ready[offer.node_type]
        room = NO_BOUND if offer.worst is None else _UP_TO[offer.worst]
        gate = None
        gated = self._gated or offer.node_type in self.guards.tripped or offer.node_type in self.batches.types
        if gated or offer.slots:
            if not self._suffices(queue, offer):
                yield from self._take_limited(queue, offer, room)
                return
            gate = self._admit
        for worker, count in offer.shares:
            for run, kind, nodes in queue.pop(count, now_ns, room, gate):
                yield worker, run, kind, nodes, 0

    def _suffices(self, queue: FairQueue[Run], offer: msg.Offer) -> bool:
        """Whether it is plain that all of it may start: one kind waits, whose limits have room for the offer."""
        kind = queue.only_kind
        if kind is None or kind.batch or offer.slots or self.policy.paused or offer.node_type in self.guards.tripped:
            return False
        wanted = min(queue.size, sum(count for _, count in offer.shares))
        return self.quotas.room_for(kind) >= wanted and self.rates.room_for(kind, self._now_ns) >= wanted

    def _take_limited(
        self, queue: FairQueue[Run], offer: msg.Offer, room: Sequence[int]
    ) -> Iterator[tuple[int, Run, Kind, Sequence[int], int]]:
        """As `take`, where it is not known how much may start: the workers get it in turns, a part of their room each,
        so that two tasks that may run at once do not stand behind each other at one worker."""
        left = dict(offer.shares)
        part = {worker: max(1, count // PARTS) for worker, count in offer.shares}
        given: dict[int, list[Piece]] = {worker: [] for worker in left}
        windows = dict(zip(left, offer.windows, strict=False))
        held = list(offer.held)
        while left:
            for worker in list(left):
                space = windows.get(worker, NO_BOUND[0]) - sum(len(piece[2]) for piece in given[worker])
                found = self._take_part(queue, offer, room, held, min(part[worker], left[worker], space))
                pieces = batching.in_batches(self, found, space)
                left[worker] -= batching.units(pieces)
                for piece in pieces:
                    _add(given[worker], piece)
                if left[worker] <= 0 or space <= sum(len(piece[2]) for piece in pieces):
                    del left[worker]
                if not found:
                    left.clear()
                    break
        for worker, pieces in given.items():
            for run, kind, nodes, batch in pieces:
                yield worker, run, kind, nodes, batch

    def _take_part(
        self, queue: FairQueue[Run], offer: msg.Offer, room: Sequence[int], held: list[int], count: int
    ) -> list[tuple[Run, Kind, Sequence[int]]]:
        """Up to so many for one worker; first of a class that waits below its least share, all within their most."""
        if not offer.slots:
            return queue.pop(count, self._now_ns, room, self._admit)
        by_class = self.policy.shares
        found: list[tuple[Run, Kind, Sequence[int]]] = []
        for class_, wanted in (*shares.owed(by_class, offer.slots, held, queue.open_classes()), (-1, count)):
            bounds = list(map(min, shares.room(by_class, offer.slots, held), room))
            if class_ >= 0:
                bounds = [bound if no == class_ else 0 for no, bound in enumerate(bounds)]
            got = queue.pop(min(wanted, count), self._now_ns, bounds, self._admit)
            for _, kind, nodes in got:
                count -= len(nodes)
                held[kind.priority] += len(nodes)
            found += got
        return found

    def _admit(self, kind: Kind, wanted: int) -> tuple[int, str]:
        """The gate of the queues."""
        if self.policy.paused:
            for scope in scopes_of(kind):
                if scope in self.policy.paused:
                    return 0, scope
        if kind.batch is not None and not batching.may_go(self, kind, self._now_ns):
            return 0, gather.batch_scope(kind)
        return self._admit_now(kind, wanted)

    def admit_more(self, kind: Kind, wanted: int) -> int:
        """How many may start besides one that the gate has just let through."""
        return self._admit_now(kind, wanted)[0]

    def _admit_now(self, kind: Kind, wanted: int) -> tuple[int, str]:
        """What breakers, quotas and rates let start."""
        may = self.guards.allow(kind.node_type, wanted, self._now_ns) if self.guards.tripped else wanted
        if not may:
            return 0, breaker_scope(kind.node_type)
        count, scope = self._within_limits(kind, may)
        if count < may:
            self.guards.unused(kind.node_type, may - count)
            if scope in self.policy.quotas:
                self._deny(scope, kind.priority, may - count)
        elif may < wanted:
            scope = breaker_scope(kind.node_type)
        return count, scope

    def _deny(self, scope: str, class_: int, count: int) -> None:
        """So many of a class were turned away. Who is better than those before asks anew."""
        best, most = self.denied.get(scope, (class_, 0))
        if class_ < best or count > most:
            self.asked.pop(scope, None)
        self.denied[scope] = (min(class_, best), max(count, most))

    def _within_limits(self, kind: Kind, wanted: int) -> tuple[int, str]:
        """What quotas and rates let start.

        What a rate has no room for has its turn when there is room: until then, nothing of its class or a worse one
        takes what it waits for. Else a dear task would wait for as long as there are cheap ones. It may be cancelled
        meanwhile, so where it is long until then, the room is given out anew from time to time.
        """
        if kind.rate_key is not None and self._first.get(f"{RATE}:{kind.rate_key}", len(PRIORITIES)) <= kind.priority:
            return 0, f"{RATE}:{kind.rate_key}"
        count, scope = self.quotas.take(kind, wanted) if self._counted else (wanted, "")
        if count and kind.rate_key is not None:
            allowed, next_ns = self.rates.take(kind, count, self._now_ns)
            if allowed < count:
                self._give_back(kind, count - allowed)
                scope = f"{RATE}:{kind.rate_key}"
                self.due.set(scope, min(next_ns, self._now_ns + limits.RATE_LOOK_NS))
                self._first[scope] = kind.priority
                return allowed, scope
        return count, scope

    def unused(self, kind: Kind, count: int) -> None:
        """Nodes that were taken and not leased hold no places, and are no probes."""
        if count and kind.node_type in self.guards.tripped:
            self.guards.unused(kind.node_type, count)
            self.release(kind.node_type, breaker_scope(kind.node_type))
        self._give_back(kind, count)

    def _give_back(self, kind: Kind, count: int) -> None:
        if self._counted and count:
            self._free(self.quotas.give_back(kind, count))

    def ended(self, run: Run, nodes: Sequence[int]) -> None:
        """Leases of these nodes ended, in whatever way."""
        if not self._counted:
            return
        columns = run.columns
        if columns is None or columns.kind_of is None:
            self._give_back(run.kinds[0], len(nodes))
            return
        counts: dict[int, int] = {}
        for node in nodes:
            index = columns.kind_of[node]
            counts[index] = counts.get(index, 0) + 1
        for index, count in counts.items():
            self._give_back(run.kinds[index], count)

    def _free(self, scopes: Iterable[str]) -> None:
        for scope in scopes:
            self.answered(scope)
            for queue in self.ready.values():
                queue.release(scope)

    def answered(self, scope: str) -> None:
        """There is room again: who was turned away asks anew."""
        if self.denied.pop(scope, None) is not None:
            self.asked.pop(scope, None)

    def release(self, node_type: str, scope: str) -> None:
        """What one node type has waiting under a scope may be looked at again."""
        self.ready[node_type].release(scope)

    def drop(self, node_type: str, run: Run) -> None:
        """Nothing that waits of this run is READY any more."""
        self.ready[node_type].drop_run(run, flow_of(run))

    def withdraw(self, run: Run, node: int | None) -> None:
        """What waits of a run, or one node, is about to end. Where a rate counts it leaves the queue: in its turn it
        would take of the rate, or wait for room that nobody needs any more, and others behind it."""
        kinds = () if not self.policy.rates else run.kinds if node is None else (run.kind(node),)
        for node_type in {kind.node_type for kind in kinds if kind.rate_key in self.policy.rates}:
            self.ready[node_type].drop_run(run, flow_of(run), node)

    def exchange(self, run: Run, node: int | None, kinds: Mapping[Kind, Kind], class_: int) -> None:
        """The run's nodes, or one, are about to be of other kinds, which are of this class.

        What waits moves there. What is leased takes its places along, even where the class has none left: an attempt
        is not stopped for that, and when it comes back it is of the new class.
        """
        for node_type in {kind.node_type for kind in kinds}:
            self.ready[node_type].reprioritize(run, class_, flow_of(run), kinds, node)
        for kind in kinds.values():
            if kind.batch is not None:
                batching.pushed(self, kind, 0, self._now_ns)
        if not self._counted:
            return
        held = (*where(run.state, LEASED), *where(run.state, CANCELLING))
        places = Counter(run.kind(n) for n in held if node is None or n == node)
        for kind, count in places.items():
            if kind in kinds:
                self._free(self.quotas.move(kind, kinds[kind], count))

    def fire(self, now_ns: int) -> None:
        """Let what waits for a rate, a breaker or a batch try again whose time came."""
        self._now_ns = now_ns
        scopes = self.due.pop_due(now_ns)
        for scope in scopes:
            self._first.pop(scope, None)
        self._free(scopes)
        batching.forget_unused(self, scopes)

    # --- questions ------------------------------------------------------------------------------------------------

    @property
    def is_limited(self) -> bool:
        """Whether something may be held back by the policy."""
        return self._gated

    def position(self, run: Run, node: int) -> Position | None:
        """Where a READY node waits; None where it does not."""
        kind = run.kind(node)
        queue = self.ready.get(kind.node_type)
        return None if queue is None else queue.position(run, node, flow_of(run), {kind.tenant})

    def held_back(self) -> Iterator[tuple[str, int]]:
        """Scopes that hold work back, with how many nodes."""
        for queue in self.ready.values():
            yield from queue.held_back().items()

    def check_invariants(self, live: Iterable[Run]) -> None:
        """Raise InvariantBroken when places and leases differ. Looks at every node."""
        if not self._counted:
            return
        self.quotas.check_invariants()
        for scope in self.policy.quotas:
            leased = sum(
                scope in scopes_of(run.kind(node))
                for run in live
                for node in (*where(run.state, LEASED), *where(run.state, CANCELLING))
            )
            if leased != self.quotas.held(scope):
                raise InvariantBroken(f"{scope}: {self.quotas.held(scope)} places are held, {leased} nodes are leased")


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Entries that were not as they are, or are no more."""
    changed = [name for name, value in after.items() if before.get(name) != value]
    return changed + [name for name in before if name not in after]


def _add(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece; to the last one, if it goes on with it."""
    run, kind, nodes, batch = piece
    if pieces and pieces[-1][0] is run and pieces[-1][1] is kind and pieces[-1][3] == batch:
        before = pieces.pop()[2]
        nodes = joined(before if type(before) is range else [*before], nodes)
    pieces.append((run, kind, nodes, batch))


def flow_of(run: Run) -> Hashable:
    """What is served in turn inside a tenant: each graph for itself, and of a session its single tasks and its maps.

    The chunks of a map are runs; if they took turns among each other, they would be given out in crumbs. A task with an
    idempotency key is a graph of one node, and still a single task of its session: ten thousand of them are one lane,
    and have together the turns of one graph. What it adds to its run waits when it has ended: then that is a graph.
    """
    if run.is_graph and run.size > 1:
        return run.no
    return (run.session,) if run.is_map else run.session

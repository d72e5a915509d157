"""The mark: which tasks nothing that is alive can wake. Pure work on the objects of this process, which only a forked
child may do, since it touches all of them.

As Go's goroutine leak profile does it (golang/proposal: design/74609-goroutine-leak-detection-gc.md), with the rules of
asyncio. A mark goes from roots along all references. Who holds a task does not wake it: a mark does not enter a task
that waits, or its coroutines, by a reference. It enters when

  - what the task waits for is marked;
  - something that will be called (a timer, a reader of a socket, what is called when a future that is marked is done)
    has it at hand, as `asyncio.timeout` has: it may cancel it;
  - a task that is alive and can go on without this one's end waits for it, as in `asyncio.wait` with a timeout.

What is then not marked is no proof yet: extensions, and frames that run, have references that nobody sees. So the
unmarked part of the heap is counted as the collector does: an object with more references than the unmarked part and
the registries (`cut`) have is held by something unseen, and what the mark reaches from there is "suspect". So is a
task that a variable of a living coroutine names, which may mean to cancel it, and whatever such a task would wake.
The rest is proved.

    unmarked ──► reached from an unseen reference, by a finalizer, or named by the living: suspect
             └─► else: proved

Tasks that can wake each other only are one ring (strongly connected): a deadlock is one finding.

Limits: what is over-exposed hides leaks; that is on the safe side, as in Go. Weak references are followed like others,
    since a stream's reader is only held weakly by its protocol, but for those to tasks and coroutines.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from runtime.profile.proof.floating import floating
from runtime.profile.proof.held import OWN_REFERENCES, held_by_leaks, references
from runtime.profile.proof.kin import (
    ATOM,
    FUTURE,
    HANDLE,
    PLAIN,
    PROXY,
    SUSPENDED,
    TRANSPORT,
    WALL,
    WEAK,
    Kinds,
    address_of,
    beyond,
    callbacks_of,
    chain_of,
    is_cancelled,
    is_open,
    owner_of,
    waiter_of,
)
from runtime.profile.proof.rings import components, leading, upstream
from runtime.profile.proof.roots import Roots, signal_handlers

_target_of: Final = weakref.ref.__call__
"""Not that of a class of users'."""
_BATCH: Final = 20_000
"""Objects whose references are asked for at once."""
_GROUPS: Final = ("_GatheringFuture",)
"""Futures that are done only when all is, unless something fails."""


class Ring(NamedTuple):
    """Tasks that only each other could wake: their places in the snapshot; `why` is empty when that is proved."""

    tasks: tuple[int, ...]
    why: str
    behind: tuple[int, ...]


class Marked(NamedTuple):
    """What the mark found: how many objects there were, how many were marked, the rings, and the places of things that
    only they have."""

    objects: int
    marked: int
    blocked: int
    rings: list[Ring]
    things: Sequence[int] = ()


class Mark:
    """One mark; `run` is all of it."""

    def __init__(self, heap: list[Any], snapshot: Roots) -> None:
        self.heap, self.snapshot = heap, snapshot
        self.kinds = Kinds()
        self.own = {*snapshot.own(), id(heap)}
        self.cut = set(map(id, snapshot.cut))
        self.seen: set[int] = self.own | self.cut
        self.frontier: list[Any] = []
        self.armed: list[Any] = []
        self.region: set[int] = set()
        self.entering: list[tuple[int, bool]] = []
        self.held: dict[int, str] = {}
        self.live: dict[int, bool] = {}
        """Tasks that are alive, and whether something may cancel them."""
        self.why = ""
        self.suspects: dict[int, str] = {}
        self.proxied: dict[int, Any] | None = None
        self.things = {id(thing): at for at, one in enumerate(snapshot.things) if (thing := one()) is not None}
        self.weakly: list[Any] | None = []
        """References to generators and to things of the ledger, which are followed last."""
        self._look_at_tasks()

    def _look_at_tasks(self) -> None:
        self.waiter: dict[int, Any] = {}
        self.blocked: dict[int, int] = {}
        self.chains: dict[int, list[Any]] = {}
        self.waiting: dict[int, list[int]] = {}
        self.owned: dict[int, list[tuple[int, bool]]] = {}
        alive = set(map(id, self.snapshot.alive))
        for at, task in enumerate(self.snapshot.tasks):
            waiter = waiter_of(task)
            if waiter is None or id(task) in alive:
                self.frontier.append(task)
                continue
            self.kinds.setdefault(type(waiter), FUTURE)
            self.waiter[at], self.blocked[id(task)], self.chains[at] = waiter, at, chain_of(task)
            self.waiting.setdefault(id(waiter), []).append(at)
        shut = {*self.blocked, *(id(one) for chain in self.chains.values() for one in chain)}
        self.frontier = [task for task in self.frontier if id(task) not in self.seen]
        self.armed += self.frontier
        self.seen.update(map(id, self.frontier))
        self.seen |= shut
        self.shut = shut

    # --- all of it ------------------------------------------------------------------------------------------------

    def run(self, *, ringed: bool = True) -> Marked:
        """Mark. `ringed`: with it which tasks wake each other, which takes as long as all the rest."""
        if not self.blocked:
            return Marked(len(self.heap), 0, 0, [])
        self._find_owners()
        self._take_roots()
        self._settle()
        first = self._follow_weakly()
        blocked, marked = len(self.blocked), len(self.seen)
        left = [at for at in self.waiter if at not in self.live]
        rings: list[Ring] = []
        if left:
            unmarked = self._unmarked(left)
            self._suspect(unmarked)
            alone = (Ring((at,), self.suspects.get(at, ""), ()) for at in left)
            rings = self._rings(left, unmarked) if ringed else list(alone)
            del unmarked
        return Marked(len(self.heap), marked, blocked, rings, self._held(first, rings))

    def _follow_weakly(self) -> list[int]:
        """Go on with weak references that were left out; returns the places in the heap of what was not marked before,
        where things of the ledger are among that."""
        first: list[int] = []
        if not self.seen.issuperset(self.things):
            first = [at for at, one in enumerate(self.heap) if id(one) not in self.seen or id(one) in self.shut]
        left, self.weakly = self.weakly or [], None
        for one in left:
            self._take_special(one, self.kinds[type(one)])
        self._settle()
        return first

    def _held(self, first: list[int], rings: list[Ring]) -> list[int]:
        """Things that only what is proved has; see `held`."""
        proved = {at for ring in rings if not ring.why for at in ring.tasks}
        if not first or not proved:
            return []
        self.proxied = None
        tasks = {at: {id(self.snapshot.tasks[at]), *map(id, self.chains[at])} for at in self.waiter}
        found = held_by_leaks(
            set(self.things),
            [self.heap[at] for at in first],
            self.snapshot.cut,
            set().union(*(keys for at, keys in tasks.items() if at in proved)),
            set().union(*(keys for at, keys in tasks.items() if at not in proved)),
            set(map(id, self.waiter.values())),
        )
        return sorted(self.things[key] for key in found)

    def _take_roots(self) -> None:
        kinds = self.kinds
        for place in self.snapshot.places:
            self._take(place.values)
            if not place.observes:
                for value in place.values:
                    if (at := self.blocked.get(id(value))) is not None:
                        self.held.setdefault(at, place.name)
        self._take(self.snapshot.roots)
        self._take(signal_handlers())
        self._take([thing for thing in self.heap if kinds[type(thing)] == TRANSPORT and is_open(thing)])

    # --- marking --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Until nothing more is found."""
        while self.frontier or self.armed or self.entering:
            while self.frontier:
                self._spread()
            while self.entering:
                self._enter(*self.entering.pop())
            if not self.frontier and self.armed:
                self._walk_callbacks()

    def _spread(self) -> None:
        batch, self.frontier = self.frontier[:_BATCH], self.frontier[_BATCH:]
        kinds = self.kinds
        self._take(gc.get_referents(*[one for one in batch if kinds[type(one)] != SUSPENDED]))
        for one in batch:
            if kinds[type(one)] == SUSPENDED:
                inner = gc.get_referents(one)
                for value in inner:
                    if (at := self.blocked.get(id(value))) is not None:
                        self.held.setdefault(at, getattr(one, "__qualname__", "a coroutine"))
                self._take(inner)

    def _take(self, found: Iterable[Any]) -> None:
        seen, kinds, fresh = self.seen, self.kinds, self.frontier
        for one in found:
            key = id(one)
            if key in seen:
                continue
            seen.add(key)
            kind = kinds[type(one)]
            if not kind or kind in (SUSPENDED, WALL):
                fresh.append(one)
            elif kind != ATOM:
                fresh.append(one)
                self._take_special(one, kind)

    def _take_special(self, one: Any, kind: int) -> None:
        if kind == FUTURE:
            self.entering += [(at, False) for at in self.waiting.get(id(one), ())]
            self.armed.append(one)
        elif kind == HANDLE:
            self.armed += [] if is_cancelled(one) else [one]
        elif kind in (WEAK, PROXY):
            target = self._target(one, kind)
            if self.weakly is not None and (id(target) in self.things or self.kinds[type(target)] == SUSPENDED):
                self.weakly.append(one)
            elif target is not None:
                self._take([target])

    def _target(self, weak: Any, kind: int) -> Any:
        if kind == WEAK:
            return _target_of(weak)
        if self.proxied is None:
            self.proxied = {id(one): one for one in self.heap}
        return self.proxied.get(address_of(weak))

    def _enter(self, at: int, strong: bool) -> None:
        """A task is alive. `strong`: something may cancel it, and with it what it waits for."""
        before = self.live.get(at)
        if before is None:
            self.frontier += [self.snapshot.tasks[at], *self.chains[at]]
            self.armed.append(self.snapshot.tasks[at])
            if self.why:
                self.suspects[at] = self.why
        elif before or not strong:
            return
        self.live[at] = strong
        for other, group in self.owned.get(id(self.waiter[at]), ()):
            if strong or not group:
                self.entering.append((other, strong))
        other_task = self.blocked.get(id(self.waiter[at]))
        if other_task is not None:
            self.entering.append((other_task, strong))

    # --- callbacks ------------------------------------------------------------------------------------------------

    def _walk_callbacks(self) -> None:
        """What will be called has these tasks at hand."""
        seeds, self.armed = self.armed, []
        for at in self._walk(seeds, self.region)[0]:
            self.entering.append((at, True))

    def _walk(self, seeds: list[Any], seen: set[int]) -> tuple[list[int], list[Any]]:
        """Tasks that wait, and futures, near some callbacks."""
        tasks: list[int] = []
        futures: list[Any] = []
        kinds, stack = self.kinds, list(seeds)
        while stack:
            for one in beyond(stack.pop()):
                key = id(one)
                if key in seen:
                    continue
                seen.add(key)
                if key in self.blocked:
                    tasks.append(self.blocked[key])
                    continue
                kind = kinds[type(one)]
                if kind == FUTURE:
                    futures.append(one)
                elif kind in (PLAIN, HANDLE, TRANSPORT) and key not in self.own:
                    if key not in self.cut:
                        stack.append(one)
                elif kind in (WEAK, PROXY) and (target := self._target(one, kind)) is not None:
                    stack.append((one, target))
        return tasks, futures

    def _find_owners(self) -> None:
        """For each future that a task waits for: which tasks it is told of the end of."""
        known: dict[int, list[Any]] = {}
        for at in self.waiter:
            for callback in callbacks_of(self.snapshot.tasks[at]):
                owner = owner_of(callback)
                key = id(callback) if owner is None else id(owner)
                group = type(owner).__name__ == "TaskGroup"
                if key not in known:
                    known[key] = self._walk([owner if group else callback], set())[1]
                for future in known[key]:
                    if id(future) in self.waiting:
                        wide = group or type(future).__name__ in _GROUPS
                        self.owned.setdefault(id(future), []).append((at, wide))

    # --- what nobody accounts for ---------------------------------------------------------------------------------

    def _unmarked(self, left: list[int]) -> list[Any]:
        """The part of the heap that was not marked; from now on those are not seen."""
        for at in left:
            self.seen.discard(id(self.snapshot.tasks[at]))
            self.seen.difference_update(map(id, self.chains[at]))
        return [one for one in self.heap if id(one) not in self.seen]

    def _suspect(self, unmarked: list[Any]) -> None:
        """Mark on from references that nobody accounts for, and from tasks that the living name."""
        held = {at: name for at, name in self.held.items() if at not in self.live}
        seeds = self._unseen(unmarked)
        self.seen |= self.shut  # again only by what they wait for
        for at, name in held.items():
            self.why = f"a variable of {name}, which is alive, names it"
            self.entering.append((at, True))
            self._settle()
        for one in seeds:
            self.why = f"something unseen (an extension, or a call that runs) refers to a {type(one).__name__}"
            self._take([one])
            self.armed += [one] if callable(one) and self.kinds[type(one)] != WEAK else []
            self._settle()
        for one in floating(unmarked, self.shut, self.seen):
            self.why = f"a {type(one).__name__} that is to be collected may wake it then"
            self._take([one])
            self.armed.append(one)
            self._settle()

    def _unseen(self, unmarked: list[Any]) -> list[Any]:
        """Trial deletion: objects with more references than the unmarked part and the registries have.

        No variable here may name one of them while they are counted.
        """
        self.proxied = None  # it refers to all there is
        counts = references(unmarked, self.snapshot.cut)
        for key in [id(waiter) for at, waiter in self.waiter.items() if at not in self.live]:  # this mark's own
            counts[key] += 1
        return [
            one
            for one in unmarked
            if sys.getrefcount(one) > counts.get(id(one), 0) + OWN_REFERENCES
            and id(one) not in self.shut
            and id(one) not in self.own
        ]

    # --- rings ----------------------------------------------------------------------------------------------------

    def _rings(self, left: list[int], unmarked: list[Any]) -> list[Ring]:
        """Who could wake whom, among what is not marked."""
        steps = self._steps(unmarked, left)
        starts = [id(self.snapshot.tasks[at]) for at in left]
        found = components(starts, steps.__getitem__)
        above = upstream(found, steps.__getitem__, self.blocked.__contains__)
        rings = []
        for component, behind in zip(found, above, strict=True):
            tasks = sorted(self.blocked[key] for key in component if key in self.blocked)
            if tasks:
                why = next((self.suspects[at] for at in tasks if at in self.suspects), "")
                rings.append(Ring(tuple(tasks), why, tuple(self.blocked[key] for key in behind)))
        return rings

    def _steps(self, unmarked: list[Any], left: list[int]) -> dict[int, list[int]]:
        """Where tasks, and what leads to what they wait for, lead to. To a task only that does which it waits for."""
        shut, kinds, tasks, there = self.shut, self.kinds, self.snapshot.tasks, set(left)
        open_ones = [one for one in unmarked if id(one) not in shut]
        weak = [one for one in open_ones if kinds[type(one)] in (WEAK, PROXY)]
        targets = {id(one): address_of(one) if kinds[type(one)] == PROXY else id(_target_of(one)) for one in weak}
        targets = {key: target for key, target in targets.items() if target not in shut}
        leads = leading({id(self.waiter[at]): self.waiter[at] for at in left}, open_ones, targets)
        steps: dict[int, list[int]] = {}
        for key, one in leads.items():
            ahead = steps[key] = [other for other in map(id, gc.get_referents(one)) if other in leads]
            if targets.get(key) in leads:
                ahead.append(targets[key])
            ahead += [id(tasks[at]) for at in self.waiting.get(key, ()) if at in there]
        for at in left:
            found = gc.get_referents(tasks[at], *self.chains[at])
            steps[id(tasks[at])] = [other for other in map(id, found) if other in leads]
        return steps

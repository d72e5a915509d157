"""Batching: calls of a handler that takes many at once become one call of it in a worker.

    Giving.take ──► pieces of a class, tenant, flow ──► in_batches: filled up from what waits of the same kind,
                                                        cut to the size, numbered
    Grant(batch=n), Grant(batch=n) ──► LeasedBatch in the worker's book ──► one frame, one call

Each call stays a node with a lease, a result, a failure and retries of its own; a batch is nothing but which leases are
run together, so nothing of it is on disk and nothing of it has to be recovered.

Who is taken first is decided as always: the batch goes when one of its calls has its turn, and counts as one task for
what a worker may hold. Quotas, rates and breakers count calls: a batch has as many as they let through.

A batch that took its worker with it, ran out of memory or over its timeout has one call in it that did, as a rule. So
each of its calls runs alone from then on (`Rare.alone`): the culprit shows itself, and its crash in company does not
count as one of those after which a task is given up.

Known limits: what is filled up is taken from the flows of a tenant in their order, not by turns. An idle worker may
take half of what a busy one holds ahead; then a batch that is cut so goes in two calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from actors.policy.gather import Gathered, batch_scope, take_more, waiting
from actors.policy.leases import LeasedBatch, LeaseGroup
from actors.pool_worker import PoolWorker
from actors.protocol import limits
from actors.protocol.kinds import Kind
from actors.protocol.moments import precise_moment
from actors.protocol.states import FailureKind
from actors.run import Run
from actors.state_column import CANCELLING, READY

if TYPE_CHECKING:
    from actors.giving import Giving

Piece = tuple[Run, Kind, Sequence[int], int]
"""Nodes of one run and kind that go to one worker, and the number of their batch."""
SUSPECT: Final = frozenset({FailureKind.CRASH, FailureKind.MEMORY, FailureKind.TIMEOUT})


class Batches:
    """Kinds that batch and have something waiting, by their scope, and how many of them each node type has."""

    __slots__ = ("by_scope", "last_no", "types")

    def __init__(self) -> None:
        self.by_scope: dict[str, Gathered] = {}
        self.types: dict[str, int] = {}
        self.last_no = 0

    def of(self, kind: Kind) -> Gathered:
        """What is known of a kind that batches."""
        assert kind.batch is not None
        scope = batch_scope(kind)
        found = self.by_scope.get(scope)
        if found is None:
            found = self.by_scope[scope] = Gathered(kind, kind.batch)
            self.types[kind.node_type] = self.types.get(kind.node_type, 0) + 1
        return found

    def forget(self, scope: str) -> None:
        """Nothing of it waits any more."""
        gathered = self.by_scope.pop(scope, None)
        if gathered is None:
            return
        name = gathered.kind.node_type
        self.types[name] -= 1
        if not self.types[name]:
            del self.types[name]


def pushed(giving: Giving, kind: Kind, count: int, now_ns: int) -> None:
    """Calls of a kind that batches are in the queue: let a batch go when it is there, or wait for it."""
    gathered = giving.batches.of(kind)
    queue = giving.ready[kind.node_type]
    if gathered.push(count, queue, _live):
        queue.release(gathered.scope)
        giving.due.cancel(gathered.scope)
    elif not gathered.is_open and giving.due.due_ns(gathered.scope) is None:
        giving.due.set(gathered.scope, now_ns + gathered.rule.wait_ns)


def may_go(giving: Giving, kind: Kind, now_ns: int) -> bool:
    """Whether a batch of this kind is there. If not, it is looked at again when its oldest call has waited enough."""
    gathered = giving.batches.of(kind)
    queue = giving.ready[kind.node_type]
    until_ns = gathered.allows(queue, now_ns, _live)
    if until_ns is not None:
        giving.due.set(gathered.scope, until_ns)
    return until_ns is None


def in_batches(giving: Giving, found: Iterable[tuple[Run, Kind, Sequence[int]]], room: int) -> list[Piece]:
    """What was taken for a worker, with the batches filled up, as far as its lease table has room for them."""
    pieces: list[Piece] = []
    by_kind: dict[Kind, list[tuple[Run, Sequence[int]]]] = {}
    for run, kind, nodes in found:
        room -= len(nodes)
        if kind.batch is None:
            pieces.append((run, kind, nodes, 0))
        else:
            by_kind.setdefault(kind, []).append((run, nodes))
    for kind, taken in by_kind.items():
        assert kind.batch is not None
        size = min(kind.batch.size, limits.CLAIM_MAX)
        together, alone = _apart(giving, kind, taken)
        while together and room > 0 and (wanted := min(-_count(together) % size, room)):
            more = _more(giving, kind, wanted)
            others, lonely = _apart(giving, kind, more)
            room -= _count(others) + len(lonely)
            together += others
            alone += lonely
            if not more:
                break
        pieces += _numbered(giving.batches, kind, together, size)
        pieces += [piece for one in alone for piece in _numbered(giving.batches, kind, [one], 1)]
        _forget_if_unused(giving, giving.batches.of(kind))
    return pieces


def forget_unused(giving: Giving, scopes: Iterable[str]) -> None:
    """Time came for these scopes: what waited there may be gone, such as cancelled."""
    for scope in scopes:
        if (gathered := giving.batches.by_scope.get(scope)) is not None:
            _forget_if_unused(giving, gathered)


def _forget_if_unused(giving: Giving, gathered: Gathered) -> None:
    """Nothing waits any more. What was cancelled meanwhile is let go, to be passed over."""
    queue = giving.ready[gathered.kind.node_type]
    if not waiting(queue, gathered.kind, _live, 1).calls:
        queue.release(gathered.scope)
        giving.due.cancel(gathered.scope)
        giving.batches.forget(gathered.scope)


def _live(run: Run, nodes: Sequence[int]) -> int:
    return sum(run.state[node] == READY for node in nodes) if run.stirred else len(nodes)


def _more(giving: Giving, kind: Kind, wanted: int) -> list[tuple[Run, Sequence[int]]]:
    """Up to so many calls more, as far as breakers, quotas and rates let them through."""
    queue = giving.ready[kind.node_type]
    allowed = giving.admit_more(kind, min(wanted, waiting(queue, kind, _live, wanted).calls))
    more = take_more(queue, kind, allowed) if allowed else []
    giving.unused(kind, allowed - sum(len(nodes) for _, _, nodes in more))
    return [(run, nodes) for run, _, nodes in more]


def reason(giving: Giving, scope: str) -> str:
    """How far a batch is."""
    gathered = giving.batches.by_scope[scope]
    count = waiting(giving.ready[gathered.kind.node_type], gathered.kind, _live).calls
    return f"{count} of {gathered.rule.size} calls of {gathered.kind.name!r} wait for their batch"


def gathers(giving: Giving, scope: str, now_ns: int, wall_ns: int) -> str:
    """Why a call does not start that waits for others, in words; empty when it does not wait for them."""
    gathered = giving.batches.by_scope.get(scope)
    if gathered is None:
        return ""
    found = waiting(giving.ready[gathered.kind.node_type], gathered.kind, _live)
    until_ns = wall_ns - now_ns + found.since_ns + gathered.rule.wait_ns
    return f"it waits for its batch: {found.calls} of {gathered.rule.size}, until {precise_moment(until_ns)}"


def units(pieces: Iterable[Piece]) -> int:
    """Tasks that a worker gets with these: a batch is one."""
    batches: set[int] = set()
    count = 0
    for _, _, nodes, batch in pieces:
        count += 0 if batch else len(nodes)
        batches.add(batch)
    return count + len(batches - {0})


def _count(taken: Iterable[tuple[Run, Sequence[int]]]) -> int:
    return sum(len(nodes) for _, nodes in taken)


def _apart(
    giving: Giving, kind: Kind, taken: Iterable[tuple[Run, Sequence[int]]]
) -> tuple[list[tuple[Run, Sequence[int]]], list[tuple[Run, Sequence[int]]]]:
    """Calls that may be run with others, and those that are run alone. Those that do not wait any more are left out."""
    together: list[tuple[Run, Sequence[int]]] = []
    alone: list[tuple[Run, Sequence[int]]] = []
    for run, nodes in taken:
        if run.stirred:
            ready = [node for node in nodes if run.state[node] == READY]
            giving.unused(kind, len(nodes) - len(ready))
            nodes = ready
        suspects = run.rare.alone
        if not suspects:
            together += [(run, nodes)] if len(nodes) else []
            continue
        if others := [node for node in nodes if node not in suspects]:
            together.append((run, others))
        alone += [(run, [node]) for node in nodes if node in suspects]
    return together, alone


def _numbered(batches: Batches, kind: Kind, taken: list[tuple[Run, Sequence[int]]], size: int) -> list[Piece]:
    """Cut what was taken into batches of a size."""
    pieces: list[Piece] = []
    left = 0
    for run, nodes in taken:
        start = 0
        while start < len(nodes):
            if not left:
                batches.last_no += 1
                left = size
            part = nodes[start : start + left]
            pieces.append((run, kind, part, batches.last_no))
            start += len(part)
            left -= len(part)
    return pieces


# --- what becomes of them -----------------------------------------------------------------------------------------


def in_one_call(worker: PoolWorker, serial: int) -> int:
    """How many leases are run together with this one, itself included."""
    group = worker.book.find(serial)
    return 1 if group is None or group.batch is None else group.batch.size


def in_the_same_call(group: LeaseGroup[Run], serial: int) -> list[tuple[Run, int]]:
    """The node of a lease, or all nodes of its batch: what a handler says in between is said of all its calls."""
    if group.batch is None:
        return [(group.run, group.nodes[serial - group.base])]
    return [(g.run, node) for g in group.batch.groups for node, flag in zip(g.nodes, g.open, strict=True) if flag]


def is_behind(group: LeaseGroup[Run], serial: int) -> bool:
    """Whether a lease is not the first that is open of its batch, in whose name it runs."""
    return group.batch is not None and serial != group.batch.open_serials()[0]


def shared_fate(
    worker: PoolWorker, guilty: dict[int, dict[str, Any]], claimed: Sequence[int]
) -> dict[int, dict[str, Any]]:
    """The attempts that a death ends, with those that were run in one call with them."""
    found: dict[int, dict[str, Any]] = {}
    for serial, failure in guilty.items():
        group = worker.book.find(serial)
        batch = None if group is None else group.batch
        running = [] if batch is None else sorted({serial, *batch.open_serials()} & {serial, *claimed})
        if len(running) > 1:
            failure = {**failure, "batch": len(running)}
        found.update((one, failure) for one in running or (serial,))
    return found


def to_stop(worker: PoolWorker, serials: Sequence[int]) -> list[int]:
    """Of attempts that nobody wants any more, those that can be stopped: a batch only when nobody wants any of it."""
    found: list[int] = []
    for serial in serials:
        group = worker.book.find(serial)
        batch = None if group is None else group.batch
        if batch is None:
            found.append(serial)
        elif _is_unwanted(batch) and (first := batch.open_serials()[0]) not in found:
            found.append(first)
    return found


def _is_unwanted(batch: LeasedBatch[Run]) -> bool:
    return all(
        group.run.state[node] == CANCELLING or node in group.run.rare.overdue
        for group in batch.groups
        for node, is_open in zip(group.nodes, group.open, strict=True)
        if is_open
    )


def was_in_company(run: Run, node: int, failure: dict[str, Any]) -> bool:
    """Let a node whose attempt ended together with others, one of which is to blame, run alone from now on.

    Returns whether it is tried again for that, and not counted as a crash: a timeout follows the rules for retries.
    """
    if failure.get("batch", 1) < 2 or failure["kind"] not in SUSPECT:
        return False
    run.own_rare().alone.add(node)
    return bool(failure["kind"] != FailureKind.TIMEOUT)

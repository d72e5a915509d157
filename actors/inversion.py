"""Priority inversion: work of a worse class holds the place that better work waits for, and does not run.

A place of a quota belongs to a lease, and a worker holds leases ahead of what it runs. So the one place of
`key:printer` may lie in a low lease behind ten others that all overtake it, while something urgent waits for the
printer. Where the textbook raises the class of the holder until it has let go, here the holder lets go at once: what no
worker has started is taken back by compare-and-set, and its place goes to the best that waits. Nothing is lost by that,
and the better one does not even wait until the other is done.

    gate: "no room in key:printer" (`Giving.denied`) ──► give_way: leases of a worse class in that scope, latest first
          ──► fx.Revoke ──► Returned: the place is free ──► the best class first

Rules
- What runs is left alone: it has its worker to itself, so there is nothing to raise, and ends as soon as it can. Its
  retries, what it spawns and what it waits for hold no place meanwhile, so they block nobody and inherit nothing.
- As many leases are asked for as better nodes were turned away. A node gives way once: then it has its turn, so that
  the bound of ageing holds. One that is replayed begins anew, also in this.
- Where node types share what is limited, the one whose best class is better is served first (`by_need`).

Known limit: what a worker has claimed cannot be taken back until it lets go of it behind a long task; it is asked for
again after `AGAIN_NS`, while somebody waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from actors.policy.scopes import scopes_of
from actors.pool_worker import PoolWorker
from actors.protocol import effects as fx
from actors.protocol.kinds import PRIORITIES
from actors.run import Run

if TYPE_CHECKING:
    from actors.core import EngineCore
    from actors.giving import Giving
    from actors.policy.leases import LeaseGroup
    from actors.pool import WorkerPool

AGAIN_NS: Final = 20_000_000
AGAIN_NS_MAX: Final = 1_000_000_000
"""Between two tries for one scope: doubled from the one to the other, since what was not given back runs, as a rule."""
SHOWN_MAX: Final = 3
GIVES_WAY: Final = "gives way"


def by_need(pools: dict[str, WorkerPool], giving: Giving) -> Iterable[tuple[str, WorkerPool]]:
    """The pools in the order in which they get work: where something is limited, by the best class that waits."""
    if not giving.is_limited or len(pools) < 2:
        return pools.items()
    return sorted(pools.items(), key=lambda item: giving.ready[item[0]].best_class())


def give_way(core: EngineCore, now_ns: int) -> list[Any]:
    """Take back what holds a place that better work was turned away for; returns effects."""
    giving = core.scheduler.giving
    workers = [worker for pool in core.pools.values() for worker in pool.workers.values()]
    out: list[Any] = []
    for scope, (class_, count) in list(giving.denied.items()):
        due_ns, wait_ns = giving.asked.get(scope, (0, AGAIN_NS))
        is_due = now_ns >= due_ns
        if not is_due and not any(worker.refused_now for worker in workers):
            continue
        worse = any(kind.priority > class_ and scope in scopes_of(kind) for kind in giving.quotas.kinds_held())
        asked = list(_ask(workers, scope, class_, count, again=is_due)) if worse else []
        out += asked
        if is_due and not asked and not (worse and any(worker.revoking for worker in workers)):
            giving.answered(scope)  # nobody has what could be taken back, and nobody gets it before there is room
        elif is_due:
            giving.asked[scope] = (now_ns + wait_ns, min(2 * wait_ns, AGAIN_NS_MAX))
            out.append(fx.WakeAt(now_ns + wait_ns))
    for worker in workers:
        worker.refused_now = False
    return out


def _ask(workers: list[PoolWorker], scope: str, class_: int, count: int, *, again: bool) -> Iterator[fx.Revoke]:
    """Ask each worker for up to so many leases: the worst class first, of that the latest. Some of them may run.

    `again`: for those, too, that it did not give back when it was asked before.
    """
    for worker in workers:
        if worker.revoking:
            continue
        if again:
            worker.refused.clear()
        groups = [group for group in _holding(worker, scope) if group.lane > class_]
        running = worker.refused.union(serial for serial, _ in worker.running)
        serials = [
            group.base + at
            for group in sorted(groups, key=lambda g: (g.lane, g.base), reverse=True)
            for at in range(len(group.nodes) - 1, -1, -1)
            if group.open[at] and group.nodes[at] not in group.run.rare.gave_way and group.base + at not in running
        ]
        if serials:
            worker.revoking = True
            asked = tuple(sorted(serials[:count]))
            worker.gives_way = (f"{GIVES_WAY} to class {PRIORITIES[class_]}, which waits for {scope}", asked)
            yield fx.Revoke(worker.id, asked)


def _holding(worker: PoolWorker, scope: str) -> Iterator[LeaseGroup[Run]]:
    """A worker's leases in a scope."""
    return (group for group in worker.book.groups() if scope in scopes_of(group.kind))


def holders_text(core: EngineCore, scope: str) -> str:
    """Who holds the places of a scope, in words; empty when nobody is known to."""
    shown: list[str] = []
    for group in [g for pool in core.pools.values() for w in pool.workers.values() for g in _holding(w, scope)]:
        for at, node in enumerate(group.nodes):
            if group.open[at]:
                if len(shown) == SHOWN_MAX:
                    return f", by {', '.join(shown)} and others"
                shown.append(f"node {group.run.node_id(node)} of run {group.run.key} ({PRIORITIES[group.lane]})")
    return f", by {' and '.join(shown)}" if shown else ""

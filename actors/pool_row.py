"""What an engine tells of one pool: its workers, its size and the latest steps of that, with their reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.pool_size import held_back

if TYPE_CHECKING:
    from actors.pool import WorkerPool


def pool_row(pool: WorkerPool, ready: int, wall_ahead_ns: int) -> dict[str, Any]:
    """All of it.

    Args:
        pool: The pool.
        ready: How many tasks wait for it.
        wall_ahead_ns: Wall clock minus monotonic clock.
    """
    workers = [
        {"worker": w.id, "pid": w.pid, "state": str(w.state), "held": w.book.held, "tasks": w.tasks}
        for w in pool.workers.values()
    ]
    steps = [
        {"from": before, "to": after, "reason": reason, "at_ns": at_ns + wall_ahead_ns}
        for before, after, reason, at_ns in pool.steps.latest
    ]
    return {
        "node_type": pool.name,
        "ready": ready,
        "average_ns": int(pool.average_ns),
        "discarded": pool.discarded,
        "trouble": pool.trouble,
        "workers_range": [pool.workers_min, pool.workers_max],
        "scaled": steps[-1] if steps else None,
        "steps": steps,
        "grown": pool.steps.grown,
        "shrunk": pool.steps.shrunk,
        "held_back": held_back(pool),
        "rate_per_s": round(pool.scale.rate_per_s, 3),
        "workers": workers,
        "objects": pool.things.rows(),
    }

"""What is at the workers: who holds a node, and which of the nodes that are held run.

A worker holds more leases than it runs, so that it never waits for work: LEASED means held. What runs is known from
outside, by the words that a worker shows of itself in its lease table; each question has them read anew, so nothing
about it is kept or counted while tasks come and go.

Known limit: the words are of the moment of the look, the books of the last message; what ended in between is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from actors.batching import is_behind

if TYPE_CHECKING:
    from actors.policy.leases import LeasedBatch, LeaseGroup
    from actors.pool import WorkerPool
    from actors.pool_worker import PoolWorker
    from actors.run import Run


class RunningNode(NamedTuple):
    """A node whose handler runs. `started_ns` is on the monotonic clock; 0: it is just starting."""

    run: Run
    node: int
    worker: int
    pid: int
    started_ns: int
    together: int = 1
    """Nodes that are run in one call with it, itself included."""


class HeldNode(NamedTuple):
    """A node that a worker holds; `ahead` leases of that worker come before it."""

    worker: int
    pid: int
    serial: int
    ahead: int


def running_nodes(pools: Mapping[str, WorkerPool]) -> Iterator[RunningNode]:
    """All that runs."""
    for pool in pools.values():
        for worker in pool.workers.values():
            for serial, started_ns in worker.running:
                group = worker.book.find(serial)
                if group is None:
                    continue
                if group.batch is not None:
                    if not is_behind(group, serial):
                        yield from _batch(worker, group.batch, started_ns)
                    continue
                yield RunningNode(group.run, group.nodes[serial - group.base], worker.id, worker.pid, started_ns)


def _batch(worker: PoolWorker, batch: LeasedBatch[Run], started_ns: int) -> Iterator[RunningNode]:
    """All of a batch runs while its first lease does."""
    for group in batch.groups:
        for node, is_open in zip(group.nodes, group.open, strict=True):
            if is_open:
                yield RunningNode(group.run, node, worker.id, worker.pid, started_ns, batch.left)


def holder_of(pools: Mapping[str, WorkerPool], run: Run, node: int) -> HeldNode | None:
    """Who holds it; None when it is not leased."""
    for pool in pools.values():
        for worker in pool.workers.values():
            for group in worker.book.groups():
                if group.run is run and (serial := _serial_of(group, node)):
                    return HeldNode(worker.id, worker.pid, serial, _open_before(worker, group.lane, serial))
    return None


def held_nodes(pools: Mapping[str, WorkerPool], run: Run) -> dict[int, int]:
    """Pids of the workers that hold nodes of a run, by node."""
    return {
        node: worker.pid
        for pool in pools.values()
        for worker in pool.workers.values()
        for group in worker.book.groups()
        if group.run is run
        for node, is_open in zip(group.nodes, group.open, strict=True)
        if is_open
    }


def split_counts(counts: list[int], running: int) -> list[int]:
    """`Run.counts` with what is leased divided: what runs, and what waits at a worker, which counts as ready."""
    pending, ready, leased, *ended = counts
    running = min(running, leased)
    return [pending, ready + leased - running, running, *ended]


def _serial_of(group: LeaseGroup[Run], node: int) -> int:
    """The serial under which a group holds a node; 0 when it does not."""
    return next((group.base + i for i, n in enumerate(group.nodes) if n == node and group.open[i]), 0)


def _open_before(worker: PoolWorker, lane: int, serial: int) -> int:
    """Leases that start before this one, as far as is known now: better classes, earlier ones, and what runs."""
    running = {s for s, _ in worker.running}
    return sum(
        1
        for group in worker.book.groups()
        for at, flag in enumerate(group.open)
        if flag and ((group.lane, group.base + at) < (lane, serial) or group.base + at in running - {serial})
    )

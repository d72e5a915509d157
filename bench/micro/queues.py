"""What it costs to wait: the fair queue beside the plain one, and by how much waits."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from actors.policy.fair import FairQueue
from actors.policy.ready import ReadyQueue
from actors.protocol.kinds import Kind
from bench.micro.timing import Operation

TENANTS: Final = 1_000
WAITING: Final = (1_000, 10_000, 100_000, 1_000_000)
TAKEN: Final = 64
POPS: Final = 500
BATCH: Final = 1_000


class _Run:
    """Stands for a run: compared by identity."""


def kind_of(tenant: str = "") -> Kind:
    """A kind of this tenant."""
    data = {"handler": "m:f", "node_type": "default", "shape": "one"}
    return Kind(**{**{name: getattr(Kind.of(1, data), name) for name in Kind.__slots__}, "tenant": tenant})


def operations() -> Iterator[Operation]:
    """One tenant and one flow, both queues; then nodes of a thousand tenants."""
    for nodes, count in ((1, 1), (64, 64), (BATCH, 64)):
        yield from _both(nodes, count)
    for waiting in WAITING:
        yield _tenants(waiting)


def _both(nodes: int, count: int) -> Iterator[Operation]:
    kind, run, batch = kind_of(), _Run(), [*range(nodes)]
    fair: FairQueue[_Run] = FairQueue()
    plain: ReadyQueue[_Run] = ReadyQueue()
    rounds = [None] * -(-nodes // count)

    def of_plain() -> None:
        plain.push(kind.priority, run, batch)
        for _ in rounds:
            plain.pop(count)

    def of_fair() -> None:
        fair.push(kind, run, batch, 1, "s:1")
        for _ in rounds:
            fair.pop(count, 1)

    text = f"push {nodes}, pop {count} at a time"
    yield Operation(f"ReadyQueue: {text}", of_plain)
    yield Operation(f"FairQueue:  {text}", of_fair)


def _tenants(waiting: int) -> Operation:
    queue: FairQueue[_Run] = FairQueue()
    kinds = [kind_of(f"t{number}") for number in range(TENANTS)]
    run = _Run()
    for number in range(waiting):
        queue.push(kinds[number % TENANTS], run, [number], 1, "s:1")

    def turn() -> None:
        for taken_run, kind, nodes in queue.pop(TAKEN, 1):
            for node in nodes:
                queue.push(kind, taken_run, [node], 1, "s:1")

    return Operation(f"FairQueue: pop {TAKEN} and push them again, {waiting:,} wait, per node", turn, TAKEN)


def _cost_ns(work: Callable[[], Any], calls: int, rounds: int = 9) -> float:
    """CPU time of a call, the best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        started = time.thread_time_ns()
        for _ in range(calls):
            work()
        best = min(best, time.thread_time_ns() - started)
    return best / calls


def main() -> None:
    """Print ratios: fair to plain, and of much to little that waits."""
    gc.disable()
    for nodes, count in ((1, 1), (64, 64), (BATCH, 64)):
        plain, fair = (operation.run for operation in _both(nodes, count))
        costs = [(_cost_ns(plain, 5_000 // nodes + 500), _cost_ns(fair, 5_000 // nodes + 500)) for _ in range(5)]
        before, after = (min(side) for side in zip(*costs, strict=True))
        print(f"push {nodes}, pop {count}: plain {before:,.0f} ns, fair {after:,.0f} ns, ratio {after / before:.2f}")
    for count in (1, TAKEN, 1_000):
        found = []
        for waiting in WAITING:
            queue: FairQueue[_Run] = FairQueue()
            kinds = [kind_of(f"t{number}") for number in range(TENANTS)]
            run = _Run()
            for number in range(waiting):
                queue.push(kinds[number % TENANTS], run, [number], 1, "s:1")
            best = float("inf")
            for _ in range(POPS if count < BATCH else 40):
                started = time.thread_time_ns()
                taken = queue.pop(count, 1)
                best_of = time.thread_time_ns() - started
                for taken_run, kind, nodes in taken:
                    for node in nodes:
                        queue.push(kind, taken_run, [node], 1, "s:1")
                best = min(best, best_of)
            found.append(best)
        text = ", ".join(f"{waiting:,}: {cost:,.0f} ns" for waiting, cost in zip(WAITING, found, strict=True))
        print(f"pop {count} of {TENANTS:,} tenants; {text}; ratio {max(found) / min(found):.2f}")


if __name__ == "__main__":
    main()

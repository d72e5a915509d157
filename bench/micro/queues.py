"""What it costs to wait: the fair queue beside the plain one, and by how much waits.

`python -m bench.micro.queues` prints ratios: of the fair queue to the plain one for one tenant and one flow, and of
what a pop costs where a thousand to a million nodes of a thousand tenants wait, by node and by turn, with the ratio of
a million to a thousand. With a thousand, a
turn takes one node and forgets its tenant; with a million it takes up to an eighth of the pop, so a node costs less.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from actors.policy.fair import FairQueue
from actors.protocol.kinds import Kind
from bench.micro.plain_queue import ReadyQueue
from bench.micro.timing import Operation

TENANTS: Final = 1_000
WAITING: Final = (1_000, 10_000, 100_000, 1_000_000)
TAKEN: Final = 64
POPS: Final = 500
BATCH: Final = 1_000
SIZES: Final = ((1, 1), (TAKEN, TAKEN), (BATCH, TAKEN))


class _Run:
    """Stands for a run: compared by identity."""


def kind_of(tenant: str = "") -> Kind:
    """A kind of this tenant."""
    data = {"handler": "m:f", "node_type": "default", "shape": "one"}
    return Kind(**{**{name: getattr(Kind.of(1, data), name) for name in Kind.__slots__}, "tenant": tenant})


def operations() -> Iterator[Operation]:
    """One tenant and one flow, both queues; then nodes of a thousand tenants."""
    for nodes, count in SIZES:
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


def _pop_ns(waiting: int, count: int) -> tuple[float, float]:
    """CPU time of a pop by node and by turn, the best of many. All are single nodes; what is taken comes back."""
    queue: FairQueue[_Run] = FairQueue()
    kinds = [kind_of(f"t{number}") for number in range(TENANTS)]
    run = _Run()
    for number in range(waiting):
        queue.push(kinds[number % TENANTS], run, [number], 1, "s:1")
    by_node = by_turn = float("inf")
    for _ in range(POPS * 64 // max(count, 16)):
        started = time.thread_time_ns()
        taken = queue.pop(count, 1)
        passed = time.thread_time_ns() - started
        by_node, by_turn = min(by_node, passed / count), min(by_turn, passed / len(taken))
        for taken_run, kind, nodes in taken:
            for node in nodes:
                queue.push(kind, taken_run, [node], 1, "s:1")
    return by_node, by_turn


def main() -> None:
    """Print ratios: of the fair queue to the plain one, and of much that waits to little."""
    gc.disable()
    for nodes, count in SIZES:
        plain, fair = (operation.run for operation in _both(nodes, count))
        calls = 5_000 // nodes + 500
        costs = [(_cost_ns(plain, calls), _cost_ns(fair, calls)) for _ in range(5)]
        before, after = (min(side) for side in zip(*costs, strict=True))
        print(f"push {nodes}, pop {count}: plain {before:,.0f} ns, fair {after:,.0f} ns, ratio {after / before:.2f}")
    for count in (1, 8, TAKEN, BATCH):
        found = [_pop_ns(waiting, count) for waiting in WAITING]
        for what, costs_ns in zip(("node", "turn"), zip(*found, strict=True), strict=True):
            text = ", ".join(f"{waiting:,}: {cost:,.0f}" for waiting, cost in zip(WAITING, costs_ns, strict=True))
            print(f"pop {count}, ns a {what} by what waits: {text}; most to least {costs_ns[-1] / costs_ns[0]:.2f}")


if __name__ == "__main__":
    main()

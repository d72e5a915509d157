"""Times small operations: best of several rounds, because a disturbance only ever makes a round longer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

ROUND_NS: Final = 20_000_000
ROUNDS: Final = 7


class Operation(NamedTuple):
    """Something to time.

    Args:
        name: What is done, with its parameters.
        run: Does it once.
        items: How many things one call handles; the cost is per thing.
    """

    name: str
    run: Callable[[], object]
    items: int = 1


def cost_ns(operation: Operation, *, round_ns: int = ROUND_NS, rounds: int = ROUNDS) -> float:
    """Nanoseconds per item: the best round, each as many calls as fill its time. Includes the call, about 40 ns."""
    run, clock = operation.run, time.perf_counter_ns
    started = clock()
    run()
    calls = max(1, round_ns // max(1, clock() - started))
    best = float("inf")
    for _ in range(rounds):
        started = clock()
        for _ in range(calls):
            run()
        best = min(best, clock() - started)
    return best / calls / operation.items


def table(title: str, operations: Iterator[Operation]) -> Iterator[str]:
    """Lines of one part, each as soon as it was measured."""
    yield title
    for operation in operations:
        yield f"  {cost_ns(operation):>12,.1f} ns  {operation.name}"

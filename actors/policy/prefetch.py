"""How many tasks a worker may hold, and who gets the ready ones.

A worker is kept busy by work it holds ahead, measured in time: `PREFETCH_TARGET_NS` of the average task. Short tasks
are held by the hundred, long ones singly.

Ready work goes to the workers that are hungry, that is, nearly idle, in shares that are worth a message. Where nobody
is hungry, a small batch stays together, at the emptiest worker, which mostly is the one whose results made it ready: in
a graph its children then wait for few others. The rest is levelled, the emptiest filled first (water filling).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.protocol import limits

_UNKNOWN_TASK_NS = 1_000_000
"""Assumed duration before anything was measured: three tasks ahead."""
_NOT_WORTH_SPLITTING_NS = 100_000
"""About what one more batch costs: its message, two wake-ups, and the fixed work of worker and engine. Measured with
layers of 100 no-op tasks on two cores: 6.6 us a task of all processes and 150,000 tasks a second, against 11 us and
80,000 with 30 us here; twice as much made no difference."""
HUNGRY_NS: Final = 200_000
"""A worker that holds less work than this is idle before more can reach it."""
_TOGETHER_NS = 1_000_000
"""Work up to which a batch stays together where nobody is hungry: the difference that it makes between workers."""
_SMOOTHING = 0.3
"""Weight of the newest batch in the average; a change of load shows after about five batches."""


def smoothed(average_ns: float, sample_ns: float) -> float:
    """Exponentially weighted moving average; 0 stands for nothing measured yet."""
    return sample_ns if average_ns == 0 else average_ns + _SMOOTHING * (sample_ns - average_ns)


def capacity(slots: int, average_ns: float, prefetch_max: int | None) -> int:
    """Tasks that one worker with `slots` places may hold: running ones and those ahead."""
    ahead = int(limits.PREFETCH_TARGET_NS / (average_ns or _UNKNOWN_TASK_NS)) * slots
    bound = limits.PREFETCH_MAX - slots if prefetch_max is None else prefetch_max
    return slots + max(1, min(ahead, bound)) if bound > 0 else slots


def spread(ready: int, room: Sequence[int], held: Sequence[int], average_ns: float) -> list[int]:
    """Split `ready` tasks over workers.

    Args:
        ready: Tasks that may be given.
        room: How many more each worker may hold.
        held: How many each holds now.
        average_ns: Average duration of a task; 0 when unknown.

    Returns:
        How many each gets; their sum is min(ready, sum(room)).
    """
    shares = [0] * len(room)
    left = min(ready, sum(room))
    if left <= 0:
        return shares
    order = sorted((i for i, r in enumerate(room) if r > 0), key=lambda i: held[i])
    if average_ns:
        order = _receivers(order, room, held, left, average_ns)
    while left:
        order = [i for i in order if shares[i] < room[i]]
        below = _below_level(order, [held[i] + shares[i] for i in order], left)
        for rank, i in enumerate(below):
            level = -(-(left + sum(held[j] + shares[j] for j in below[rank:])) // (len(below) - rank))
            give = min(room[i] - shares[i], left, max(0, level - held[i] - shares[i]))
            shares[i] += give
            left -= give
    return shares


def _receivers(order: list[int], room: Sequence[int], held: Sequence[int], left: int, average_ns: float) -> list[int]:
    """Those of the workers, the emptiest first, who share `left` tasks; all of them where fewer have no room for it."""
    work_ns = left * average_ns
    hungry = sum(1 for i in order if held[i] * average_ns < HUNGRY_NS)
    if hungry:
        count = min(hungry, max(1, int(work_ns / _NOT_WORTH_SPLITTING_NS)))
    else:
        count = 1 if work_ns <= _TOGETHER_NS else len(order)
    return order[:count] if sum(room[i] for i in order[:count]) >= left else order


def _below_level(order: list[int], amounts: list[int], left: int) -> list[int]:
    """Those that get something when `left` is poured in: the first k whose common level the next one is above."""
    total = left
    for k, amount in enumerate(amounts):
        if k and total <= amount * k:
            return order[:k]
        total += amount
    return order

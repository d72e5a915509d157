"""How many workers the machine has room for: it only holds growth back, and late.

    memory       nothing is added while less than MACHINE_MEMORY_FREE_MIN of it is free, and no more than would fit if
                 they were as large as the largest worker of now; those that start count as not grown yet
    processors   nothing is added while they are busy to MACHINE_CPU_FULL and the pool has a worker for each; but what
                 has waited for POOL_PATIENCE_NS is not held back for that
    unseen       POOL_UNSEEN_MAX are added at most; a pool without workers always starts some

Known limits: what workers grow to later is not foreseen.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.protocol import limits
from actors.protocol.words import counted


class Machine(NamedTuple):
    """The machine at one moment: busy part of its processors, free part of its memory, processors, and how many more
    workers as large as the largest of now there is memory for (None: there is none to go by)."""

    at_ns: int
    cpu_busy: float | None
    memory_free: float
    cores: int
    fits: int | None = None


class Room(NamedTuple):
    """How large a pool may become now, and what holds it back there, in words."""

    size: int
    why: str = ""


def room(machine: Machine | None, now_ns: int, size: int, starting: int, oldest_ns: int, largest: int) -> Room:
    """See the module.

    Args:
        machine: The latest look at it.
        now_ns: Monotonic.
        size: Workers that serve or start.
        starting: Those of them that start.
        oldest_ns: For how long work has waited behind tasks that take long.
        largest: Workers at most.

    Returns:
        The room there is, `largest` at most.
    """
    if not size:
        return Room(min(largest, limits.POOL_UNSEEN_MAX))
    if machine is None or now_ns - machine.at_ns > limits.MACHINE_STALE_NS:
        return Room(min(largest, size + limits.POOL_UNSEEN_MAX))
    if machine.memory_free < limits.MACHINE_MEMORY_FREE_MIN:
        return Room(size, f"{machine.memory_free:.0%} of the machine's memory is free")
    found = Room(largest)
    busy = machine.cpu_busy is not None and machine.cpu_busy >= limits.MACHINE_CPU_FULL
    if busy and oldest_ns < limits.POOL_PATIENCE_NS:
        why = f"the machine's {machine.cores} processors are busy to {machine.cpu_busy:.0%}"
        found = Room(min(largest, max(size, machine.cores)), why)
    if machine.fits is not None:
        fits = max(0, machine.fits - starting)
        few = f"there is memory for {counted(fits, 'worker')} more as large as the largest"
        found = min(found, Room(size + fits, few), key=lambda each: each.size)
    return found

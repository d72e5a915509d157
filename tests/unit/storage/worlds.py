"""Logs of simulated lives of the engine, as records: all that an engine ever writes, made in a fraction of a second."""

from __future__ import annotations

from functools import cache

from actors.protocol.records import Record
from runtime.storage.reader import read_log
from tests.sim.world import PLACE, World


@cache
def records_of(seed: int) -> tuple[Record, ...]:
    """What is in the log when the world of this seed has ended."""
    world = World(seed)
    world.checkpoints.off = True  # the whole log is wanted
    world.run()
    return tuple(read_log(PLACE, world.disk.after_kill()))


@cache
def records_midway(seed: int, steps: int) -> tuple[Record, ...]:
    """What is in its log after so many steps: runs are open."""
    world = World(seed)
    world.checkpoints.off = True  # the whole log is wanted
    world.start_engine()
    world.user.begin()
    for _ in range(steps):
        if world.user.satisfied() or not world.clock.step():
            break
    return tuple(read_log(PLACE, world.disk.after_kill()))

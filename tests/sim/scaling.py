"""Pools that change their size while everything happens, and a program that is asked about it (`on_scale`).

Faults of the program: it answers late, not at all, with any size within and outside the bounds, or to an engine that is
gone. Every draw is its own, so that it moves nobody else's.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg

if TYPE_CHECKING:
    from actors.core import EngineCore
    from tests.sim.world import World

FIRST_QUERY = 2_000_000


def elasticity(seed: int, name: str) -> dict[str, Any]:
    """Short cooldowns in every other world, more workers in some of them, and a program that is asked in most."""
    if seed % 2:
        return {}
    random = Random(f"scale {name} {seed}")
    found: dict[str, Any] = {"asks_scale": random.random() < 0.7}
    found["cooldown_ns"] = random.choice((1_000_000, 5_000_000, 50_000_000))
    if seed % 3 == 1:
        found["workers_max"] = random.choice((2, 3, 5))
    return found


class Adviser:
    """The program's function, in one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"adviser {world.seed}")
        self._next_query = FIRST_QUERY

    def asked(self, step: fx.Scaled) -> None:
        """Answer a step that is about to be taken, sometimes; one that was taken says nothing."""
        random, clock = self._random, self._world.clock
        assert step.reason
        if not step.number or random.random() < 0.1:
            return
        size = random.choice((None, None, step.before, step.after, step.after + 1, random.randrange(4)))
        args = {"node_type": step.node_type, "number": step.number, "size": size}
        clock.at(clock.now_ns + random.choice((1, 100_000, 3_000_000, 1_500_000_000)), lambda: self._answer(args))

    def _answer(self, args: dict[str, Any]) -> None:
        self._next_query += 1
        user = self._world.user
        user.ask(msg.Queried(user.session, self._next_query, "scale", args))


def check_sizes(core: EngineCore) -> None:
    """No step leaves a pool's bounds, each follows the one before, and no question stays open beyond its time."""
    for pool in core.pools.values():
        for before, after, reason, _ in pool.steps.latest:
            assert pool.workers_min <= after <= pool.workers_max, f"{pool.name}: {before} -> {after}"
            assert before != after
            assert reason
        advice = pool.steps.advice
        if advice is not None and advice.question is not None:
            assert advice.question.number <= pool.now_ns
            assert (
                not core.scheduler.ready[pool.name].size
                or pool.now_ns <= advice.question.number + limits.SCALE_ANSWER_NS
            )

"""What is seen of the machine, and how often."""

from __future__ import annotations

import os
from pathlib import Path

from actors.protocol import limits
from runtime.host.control_group import ControlGroup, Memory, Processors
from runtime.host.machine_look import MachineLook


class Group(ControlGroup):
    """A control group of which this is known."""

    def __init__(self, memory: Memory | None = None, processors: Processors | None = None) -> None:
        super().__init__(Path("/nowhere"), Path("/nowhere"))
        self.now = (memory, processors)

    def memory(self) -> Memory | None:
        return self.now[0]

    def processors(self) -> Processors | None:
        return self.now[1]


def test_the_machine_is_looked_at_once_a_second_at_most() -> None:
    looker = MachineLook(Group())
    (first,) = looker.look(5, [])
    assert first.cpu_busy is None, "there is nothing to compare with"
    assert 0 < first.memory_free < 1
    assert first.cores >= 1
    assert first.fits is None
    assert looker.look(4 + limits.MACHINE_LOOK_NS, []) == []
    (second,) = looker.look(5 + limits.MACHINE_LOOK_NS, [])
    assert second.cpu_busy is not None
    assert 0 <= second.cpu_busy <= 1
    (late,) = looker.look(6 + limits.MACHINE_LOOK_NS + limits.MACHINE_STALE_NS, [])
    assert late.cpu_busy is None


def test_bounds_of_the_control_group_count_where_they_are_tighter() -> None:
    group = Group(Memory(10_000_000, 100_000_000), Processors(0, 0.5))
    looker = MachineLook(group)
    (first,) = looker.look(1, [])
    assert (first.memory_free, first.cores) == (0.1, 1)
    group.now = (Memory(1 << 60, 1 << 60), Processors(limits.MACHINE_LOOK_NS // 2, 0.5))
    (second,) = looker.look(1 + limits.MACHINE_LOOK_NS, [])
    assert second.cpu_busy == 1
    assert second.memory_free != 1, "the machine's"


def test_the_largest_worker_says_what_fits() -> None:
    looker = MachineLook(Group(Memory(1 << 30, 1 << 30)))
    (seen,) = looker.look(1, [os.getpid(), 0, 1 << 30])
    assert seen.fits is not None
    assert 1 <= seen.fits < 200

"""The log in one piece under power cuts and kills at every operation: see `log_crash`."""

from __future__ import annotations

from random import Random

import pytest

from actors.protocol.records import Record
from tests.sim.log_crash import LogCrashes


def invent(random: Random, lsn: int) -> Record:
    """Bytes of any size: the writer does not look into them."""
    return Record(lsn, random.randrange(1, 9), random.randbytes(random.choice((0, 3, 40, 40, 700))))


CRASHES = LogCrashes(1, invent)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crash", ["kill", "power", "kill, then power"])
def test_a_crash_at_every_operation_loses_nothing_acknowledged(seed: int, crash: str) -> None:
    CRASHES.at_every_operation(seed, crash, again_within=40)


def test_one_crash_point_has_many_outcomes_and_all_are_sound(pytestconfig: pytest.Config) -> None:
    for seed in range(pytestconfig.getoption("--seeds", default=25)):
        CRASHES.outcomes_of_one_point(seed)


@pytest.mark.parametrize("seed", range(4))
def test_without_sync_a_kill_loses_nothing_and_a_power_cut_leaves_a_beginning(seed: int) -> None:
    CRASHES.without_sync(seed)


@pytest.mark.parametrize("seed", range(10))
def test_a_full_disk_leaves_the_log_whole_and_the_batch_for_later(seed: int) -> None:
    CRASHES.on_a_full_disk(seed)


@pytest.mark.parametrize("operation", ["sync", "truncate", "rename", "sync_folder"])
def test_after_a_failed_sync_nothing_is_acknowledged_again(operation: str) -> None:
    CRASHES.after_a_failed(operation)

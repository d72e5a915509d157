"""A log in shards under power cuts and kills at every operation: what holds of a log in one piece, see `log_crash`.

Each file forgets, tears and reorders for itself, and the syncs of a commit come in any order.
"""

from __future__ import annotations

from random import Random

import pytest

from actors.protocol.records import Record
from tests.sim.log_crash import LogCrashes
from tests.unit.storage.shards import record_of


def invent(random: Random, lsn: int) -> Record:
    """Of some run, or of none: by that it finds its shard."""
    return record_of(lsn, random)


@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("crash", ["kill", "power", "kill, then power"])
def test_a_crash_at_every_operation_loses_nothing_acknowledged(shards: int, crash: str) -> None:
    LogCrashes(shards, invent).at_every_operation(10 + shards, crash, again_within=60)


def test_one_crash_point_has_many_outcomes_and_all_are_sound(pytestconfig: pytest.Config) -> None:
    for seed in range(pytestconfig.getoption("--seeds", default=25)):
        LogCrashes(2 + seed % 4, invent).outcomes_of_one_point(seed)


@pytest.mark.parametrize("seed", range(3))
def test_without_sync_a_kill_loses_nothing_and_a_power_cut_leaves_a_beginning(seed: int) -> None:
    LogCrashes(2 + seed, invent).without_sync(seed)


@pytest.mark.parametrize("seed", range(6))
def test_a_full_disk_leaves_the_log_whole_and_the_batch_for_later(seed: int) -> None:
    LogCrashes(2 + seed % 3, invent).on_a_full_disk(seed)


@pytest.mark.parametrize("operation", ["sync", "truncate", "rename", "sync_folder"])
def test_after_a_failed_sync_of_one_shard_nothing_is_acknowledged_again(operation: str) -> None:
    LogCrashes(3, invent).after_a_failed(operation)

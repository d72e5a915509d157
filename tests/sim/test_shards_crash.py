"""A log in shards under power cuts and kills at every operation, against the oracle of `test_storage_crash`.

Each file forgets, tears and reorders for itself, and the syncs of a commit come in any order. What must hold is what
holds of a log in one piece: the records found are the first k handed over, with k >= acknowledged, and writing goes on.
"""

from __future__ import annotations

from random import Random

import pytest

from actors.protocol.errors import DiskFull, LogFailed
from actors.protocol.records import Record
from runtime.storage.report import RecoveryReport
from runtime.storage.sharded_wal import ShardedWriter
from tests.sim.disk import SECTOR_BYTES, FakeDisk, PowerCut
from tests.sim.test_storage_crash import Oracle
from tests.unit.storage.shards import AnyOrder, new_disk, place_of, records_from, recover

SEGMENT_BYTES = 1500
BOOTS_MAX = 3
BATCHES = 14


class RunsOracle(Oracle):
    """Of records that speak of runs."""

    def batch(self, random: Random, lsn: int) -> list[Record]:
        records = records_from(lsn, random.randrange(1, 6), random)
        self.records.update((record.lsn, record) for record in records)
        return records


def work(
    disk: FakeDisk, oracle: Oracle, report: RecoveryReport, random: Random, *, shards: int, sync: bool = True
) -> None:
    """Write some batches, remove a segment now and then. Ends by itself or by PowerCut."""
    place = place_of(shards)
    writer = ShardedWriter(place, disk, report, segment_bytes=SEGMENT_BYTES, syncs=AnyOrder(random))
    oracle.acknowledged_lsn = report.next_lsn - 1
    for _ in range(BATCHES):
        records = oracle.batch(random, writer.next_lsn)
        writer.write(records, sync=sync)
        oracle.written_lsn = records[-1].lsn
        if sync:
            oracle.acknowledged_lsn = records[-1].lsn
        segments = writer.segments()
        if len(segments) > 3 and random.random() < 0.5:
            oracle.removed_below_lsn = segments[2].first_lsn
            writer.remove_below(segments[2].no)
    writer.close()
    oracle.acknowledged_lsn = max(oracle.records)


def check_a_copy(oracle: Oracle, disk: FakeDisk, shards: int) -> None:
    """Check one outcome of several."""
    found, report = recover(disk, place_of(shards))
    oracle.copy().check(found, report)


def operations_of_a_run(seed: int, shards: int, *, sync: bool = True) -> int:
    disk = new_disk(seed, shards)
    work(disk, RunsOracle(), recover(disk, place_of(shards))[1], Random(seed), shards=shards, sync=sync)
    return disk.operations


@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("crash", ["kill", "power", "kill, then power"])
def test_a_crash_at_every_operation_loses_nothing_acknowledged(shards: int, crash: str) -> None:
    seed = 10 + shards
    operations = operations_of_a_run(seed, shards)
    assert operations > 50
    for cut_at in range(1, operations + 1):
        disk, oracle, random = new_disk(seed, shards), RunsOracle(), Random(seed)
        disk.cut_at = cut_at
        for boot in range(BOOTS_MAX):
            try:
                found, report = recover(disk, place_of(shards))
                oracle.check(found, report)
                work(disk, oracle, report, random, shards=shards)
            except PowerCut:
                pass
            powerless = crash == "power" or (crash != "kill" and boot > 0)
            disk = disk.after_power_cut(seed * 1000 + cut_at + boot) if powerless else disk.after_kill()
            disk.cut_at = 1 + (cut_at * (boot + 7)) % 60
        oracle.check(*recover(disk, place_of(shards)))


def test_one_crash_point_has_many_outcomes_and_all_are_sound(pytestconfig: pytest.Config) -> None:
    for seed in range(pytestconfig.getoption("--seeds", default=25)):
        shards = 2 + seed % 4
        random, oracle = Random(seed), RunsOracle()
        disk = new_disk(seed, shards)
        disk.cut_at = Random(seed).randrange(1, operations_of_a_run(seed, shards))
        with pytest.raises(PowerCut):
            work(disk, oracle, recover(disk, place_of(shards))[1], random, shards=shards)
        for outcome in range(12):
            try:
                check_a_copy(oracle, disk.after_power_cut(outcome), shards)
            except Exception as error:
                error.add_note(f"seed {seed}, outcome {outcome}")
                raise


@pytest.mark.parametrize("seed", range(3))
def test_without_sync_a_kill_loses_nothing_and_a_power_cut_leaves_a_beginning(seed: int) -> None:
    shards = 2 + seed
    for cut_at in range(1, operations_of_a_run(seed, shards, sync=False) + 1):
        disk, oracle, random = new_disk(seed, shards), RunsOracle(), Random(seed)
        disk.cut_at = cut_at
        with pytest.raises(PowerCut):
            work(disk, oracle, recover(disk, place_of(shards))[1], random, shards=shards, sync=False)
        for outcome in range(4):
            check_a_copy(oracle, disk.after_power_cut(seed * 1000 + cut_at * 4 + outcome), shards)
        oracle.acknowledged_lsn = oracle.written_lsn
        check_a_copy(oracle, disk.after_kill(), shards)


@pytest.mark.parametrize("seed", range(6))
def test_a_full_disk_leaves_the_log_whole_and_the_batch_for_later(seed: int) -> None:
    shards, random, oracle = 2 + seed % 3, Random(seed), RunsOracle()
    disk = new_disk(seed, shards)
    disk.capacity, disk.block_bytes = 4096, SECTOR_BYTES
    report = recover(disk, place_of(shards))[1]
    writer = ShardedWriter(place_of(shards), disk, report, segment_bytes=SEGMENT_BYTES, syncs=AnyOrder(random))
    refused = 0
    while len(oracle.records) < 60:
        records = oracle.batch(random, writer.next_lsn)
        for _ in range(30):
            try:
                writer.write(records, sync=True)
                break
            except DiskFull:
                refused += 1
                disk.capacity += SECTOR_BYTES
                check_a_copy(oracle, disk.after_kill(), shards)
                check_a_copy(oracle, disk.after_power_cut(refused), shards)
        oracle.acknowledged_lsn = records[-1].lsn
    writer.close()
    assert refused
    check_a_copy(oracle, disk, shards)


@pytest.mark.parametrize("operation", ["sync", "rename", "sync_folder"])
def test_after_a_failed_sync_of_one_shard_nothing_is_acknowledged_again(operation: str) -> None:
    for after in range(1, 8):
        disk, oracle, random = new_disk(after), RunsOracle(), Random(after)
        report = recover(disk)[1]
        writer = ShardedWriter(place_of(3), disk, report, segment_bytes=SEGMENT_BYTES, syncs=AnyOrder(random))
        failed = False
        for number in range(40):
            if number == after:
                disk.fail(operation, 5)
            records = oracle.batch(random, writer.next_lsn)
            try:
                writer.write(records, sync=True)
                assert not failed, "a poisoned writer took a batch"
                oracle.acknowledged_lsn = records[-1].lsn
            except LogFailed:
                failed = True
        assert failed
        writer.close()
        for outcome in range(5):
            check_a_copy(oracle, disk.after_power_cut(outcome), 3)

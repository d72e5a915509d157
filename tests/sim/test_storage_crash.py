"""The log under power cuts and kills at every operation, against an oracle.

One run: write batches on the fake disk until the power goes at operation n; rebuild a disk the next boot may find;
recover; compare; write on. The oracle is a list of what was handed over and a number: how much of it was
acknowledged. What must hold after any crash: the records found are the first k handed over, in order and equal, with
k >= acknowledged.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from actors.protocol.errors import DiskFull, LogFailed
from actors.protocol.records import Record
from runtime.storage.reader import RecoveryReport, read_log
from runtime.storage.segment import LogPlace
from runtime.storage.wal import LogWriter
from tests.sim.disk import FakeDisk, PowerCut

PLACE = LogPlace("/log", UUID(int=0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321))
SEGMENT_BYTES = 1500
"""Small, so that a run of a few batches changes segments several times."""
BOOTS_MAX = 3
BATCHES = 25


class Oracle:
    """What was handed to the log, and how much of it was acknowledged."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.acknowledged_lsn = 0
        self.written_lsn = 0
        self.removed_below_lsn = 1

    def batch(self, random: Random) -> list[Record]:
        """Invent a batch; records after the acknowledged ones may be replaced by it."""
        first = len(self.records) + 1
        return [
            Record(first + i, random.randrange(1, 9), random.randbytes(random.choice((0, 3, 40, 40, 700))))
            for i in range(random.randrange(1, 6))
        ]

    def check(self, found: list[Record]) -> None:
        """Compare with what recovery found, and forget what is gone."""
        first = found[0].lsn if found else len(self.records) + 1
        last = found[-1].lsn if found else 0
        assert last >= self.acknowledged_lsn, f"acknowledged up to {self.acknowledged_lsn}, found up to {last}"
        assert not found or first <= self.removed_below_lsn
        assert found == self.records[first - 1 : last]
        del self.records[last:]


def recover(disk: FakeDisk) -> tuple[list[Record], RecoveryReport]:
    log = read_log(PLACE, disk)
    return list(log), log.report()


def work(disk: FakeDisk, oracle: Oracle, report: RecoveryReport, random: Random, *, sync: bool, batches: int) -> None:
    """Write some batches, remove a segment now and then. Ends by itself or by PowerCut."""
    writer = LogWriter(PLACE, disk, report, segment_bytes=SEGMENT_BYTES)
    for _ in range(batches):
        records = oracle.batch(random)
        oracle.records += records
        writer.write(records, sync=sync)
        oracle.written_lsn = records[-1].lsn
        if sync:
            oracle.acknowledged_lsn = records[-1].lsn
        segments = writer.segments()
        if len(segments) > 3 and random.random() < 0.5:
            oracle.removed_below_lsn = segments[2].first_lsn
            writer.remove_below(segments[2].no)
    writer.close()
    oracle.acknowledged_lsn = len(oracle.records)


def new_disk(seed: int) -> FakeDisk:
    disk = FakeDisk(seed)
    disk.make_folder("/log")
    return disk


def operations_of_a_run(seed: int, *, sync: bool) -> int:
    disk = new_disk(seed)
    work(disk, Oracle(), recover(disk)[1], Random(seed), sync=sync, batches=BATCHES)
    return disk.operations


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crash", ["kill", "power"])
def test_a_crash_at_every_operation_loses_nothing_acknowledged(seed: int, crash: str) -> None:
    operations = operations_of_a_run(seed, sync=True)
    assert operations > 40
    for cut_at in range(1, operations + 1):
        disk, oracle, random = new_disk(seed), Oracle(), Random(seed)
        disk.cut_at = cut_at
        for boot in range(BOOTS_MAX):
            try:
                found, report = recover(disk)
                oracle.check(found)
                work(disk, oracle, report, random, sync=True, batches=BATCHES)
            except PowerCut:
                pass
            disk = disk.after_kill() if crash == "kill" else disk.after_power_cut(seed * 1000 + cut_at + boot)
            disk.cut_at = 1 + (cut_at * (boot + 7)) % 40
        found, report = recover(disk)
        oracle.check(found)
        assert report.next_lsn == len(oracle.records) + 1


@pytest.mark.parametrize("seed", range(40))
def test_one_crash_point_has_many_outcomes_and_all_are_sound(seed: int) -> None:
    random = Random(seed)
    disk, oracle = new_disk(seed), Oracle()
    disk.cut_at = random.randrange(1, operations_of_a_run(seed, sync=True))
    with pytest.raises(PowerCut):
        work(disk, oracle, recover(disk)[1], random, sync=True, batches=BATCHES)
    for outcome in range(12):
        again = Oracle()
        again.records = list(oracle.records)
        again.acknowledged_lsn, again.removed_below_lsn = oracle.acknowledged_lsn, oracle.removed_below_lsn
        again.check(recover(disk.after_power_cut(outcome))[0])


@pytest.mark.parametrize("seed", range(4))
def test_without_sync_a_killed_process_loses_nothing_written(seed: int) -> None:
    for cut_at in range(1, operations_of_a_run(seed, sync=False) + 1):
        disk, oracle, random = new_disk(seed), Oracle(), Random(seed)
        disk.cut_at = cut_at
        with pytest.raises(PowerCut):
            work(disk, oracle, recover(disk)[1], random, sync=False, batches=BATCHES)
        oracle.acknowledged_lsn = oracle.written_lsn
        found, _ = recover(disk.after_kill())
        oracle.check(found)


@pytest.mark.parametrize("seed", range(10))
def test_a_full_disk_leaves_the_log_whole_and_the_batch_for_later(seed: int) -> None:
    random = Random(seed)
    disk, oracle = new_disk(seed), Oracle()
    disk.capacity = 4000
    disk.write_bytes_max = random.choice((100, 1 << 20))
    writer = LogWriter(PLACE, disk, recover(disk)[1], segment_bytes=SEGMENT_BYTES)
    refused = 0
    while len(oracle.records) < 60:
        records = oracle.batch(random)
        oracle.records += records
        for _ in range(20):
            try:
                writer.write(records, sync=True)
                break
            except DiskFull:
                refused += 1
                disk.capacity += 200
                seen = Oracle()
                seen.records, seen.acknowledged_lsn = list(oracle.records), oracle.acknowledged_lsn
                seen.check(recover(disk.after_kill())[0])
                seen.records, seen.acknowledged_lsn = list(oracle.records), oracle.acknowledged_lsn
                seen.check(recover(disk.after_power_cut(refused))[0])
        oracle.acknowledged_lsn = records[-1].lsn
    writer.close()
    assert refused
    oracle.check(recover(disk)[0])
    assert len(oracle.records) >= 60


@pytest.mark.parametrize("operation", ["sync", "truncate", "rename", "sync_folder"])
def test_after_a_failed_sync_nothing_is_acknowledged_again(operation: str) -> None:
    for after in range(1, 8):
        disk, oracle, random = new_disk(after), Oracle(), Random(after)
        writer = LogWriter(PLACE, disk, recover(disk)[1], segment_bytes=SEGMENT_BYTES)
        failed = False
        for number in range(40):
            if number == after:
                disk.fail(operation, 5)
                if operation == "truncate":
                    disk.capacity = disk.capacity - disk.room() + 10
            records = oracle.batch(random)
            if not failed:
                oracle.records += records
            try:
                writer.write(records, sync=True)
                assert not failed, "a poisoned writer took a batch"
                oracle.acknowledged_lsn = records[-1].lsn
            except DiskFull:  # found while changing segments: not the cut that shall fail
                del oracle.records[-len(records) :]
                disk.capacity += 60
            except LogFailed:
                failed = True
        assert failed
        writer.close()
        for outcome in range(5):
            again = Oracle()
            again.records, again.acknowledged_lsn = list(oracle.records), oracle.acknowledged_lsn
            again.check(recover(disk.after_power_cut(outcome))[0])

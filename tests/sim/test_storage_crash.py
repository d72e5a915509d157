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
from tests.sim.disk import SECTOR_BYTES, FakeDisk, PowerCut

PLACE = LogPlace("/log", UUID(int=0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321))
SEGMENT_BYTES = 1500
"""Small, so that a run of a few batches changes segments several times."""
BOOTS_MAX = 3
BATCHES = 16


class Oracle:
    """What was handed to the log by LSN, and how much of it was acknowledged."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.acknowledged_lsn = 0
        self.written_lsn = 0
        self.removed_below_lsn = 1

    def copy(self) -> Oracle:
        """To check one of several outcomes."""
        again = Oracle()
        again.__dict__.update(self.__dict__, records=dict(self.records))
        return again

    def batch(self, random: Random, lsn: int) -> list[Record]:
        """Invent a batch and note it."""
        records = [
            Record(lsn + i, random.randrange(1, 9), random.randbytes(random.choice((0, 3, 40, 40, 700))))
            for i in range(random.randrange(1, 6))
        ]
        self.records.update((record.lsn, record) for record in records)
        return records

    def check(self, found: list[Record], report: RecoveryReport) -> None:
        """Compare with what recovery found, and forget what is gone."""
        next_lsn = report.next_lsn
        first_lsn = report.segments[0].first_lsn if report.segments else 1
        assert next_lsn > self.acknowledged_lsn, f"acknowledged {self.acknowledged_lsn}, found up to {next_lsn - 1}"
        assert first_lsn <= self.removed_below_lsn
        assert report.gaps == ()
        assert found == [record for lsn, record in sorted(self.records.items()) if first_lsn <= lsn < next_lsn]
        self.records = {lsn: record for lsn, record in self.records.items() if lsn < next_lsn}


def recover(disk: FakeDisk) -> tuple[list[Record], RecoveryReport]:
    log = read_log(PLACE, disk)
    return list(log), log.report()


def work(disk: FakeDisk, oracle: Oracle, report: RecoveryReport, random: Random, *, sync: bool, batches: int) -> None:
    """Write some batches, remove a segment now and then. Ends by itself or by PowerCut."""
    writer = LogWriter(PLACE, disk, report, segment_bytes=SEGMENT_BYTES)
    oracle.acknowledged_lsn = report.next_lsn - 1  # what recovery has read must not vanish any more
    for _ in range(batches):
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


def check_a_copy(oracle: Oracle, disk: FakeDisk) -> None:
    """Check one outcome of several."""
    found, report = recover(disk)
    oracle.copy().check(found, report)


def new_disk(seed: int) -> FakeDisk:
    disk = FakeDisk(seed)
    disk.make_folder("/log")
    return disk


def operations_of_a_run(seed: int, *, sync: bool) -> int:
    disk = new_disk(seed)
    work(disk, Oracle(), recover(disk)[1], Random(seed), sync=sync, batches=BATCHES)
    return disk.operations


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crash", ["kill", "power", "kill, then power"])
def test_a_crash_at_every_operation_loses_nothing_acknowledged(seed: int, crash: str) -> None:
    operations = operations_of_a_run(seed, sync=True)
    assert operations > 25
    for cut_at in range(1, operations + 1):
        disk, oracle, random = new_disk(seed), Oracle(), Random(seed)
        disk.cut_at = cut_at
        for boot in range(BOOTS_MAX):
            try:
                found, report = recover(disk)
                oracle.check(found, report)
                work(disk, oracle, report, random, sync=True, batches=BATCHES)
            except PowerCut:
                pass
            powerless = crash == "power" or (crash != "kill" and boot > 0)
            disk = disk.after_power_cut(seed * 1000 + cut_at + boot) if powerless else disk.after_kill()
            disk.cut_at = 1 + (cut_at * (boot + 7)) % 40
        found, report = recover(disk)
        oracle.check(found, report)


def test_one_crash_point_has_many_outcomes_and_all_are_sound(pytestconfig: pytest.Config) -> None:
    for seed in range(pytestconfig.getoption("--seeds", default=25)):
        random = Random(seed)
        disk, oracle = new_disk(seed), Oracle()
        disk.cut_at = Random(seed).randrange(1, operations_of_a_run(seed, sync=True))
        with pytest.raises(PowerCut):
            work(disk, oracle, recover(disk)[1], random, sync=True, batches=BATCHES)
        for outcome in range(12):
            try:
                check_a_copy(oracle, disk.after_power_cut(outcome))
            except Exception as error:
                error.add_note(f"seed {seed}, outcome {outcome}")
                raise


@pytest.mark.parametrize("seed", range(4))
def test_without_sync_a_killed_process_loses_nothing_written(seed: int) -> None:
    for cut_at in range(1, operations_of_a_run(seed, sync=False) + 1):
        disk, oracle, random = new_disk(seed), Oracle(), Random(seed)
        disk.cut_at = cut_at
        with pytest.raises(PowerCut):
            work(disk, oracle, recover(disk)[1], random, sync=False, batches=BATCHES)
        oracle.acknowledged_lsn = oracle.written_lsn
        check_a_copy(oracle, disk.after_kill())


@pytest.mark.parametrize("seed", range(4))
def test_without_sync_a_power_cut_leaves_a_beginning_of_the_log(seed: int) -> None:
    for cut_at in range(1, operations_of_a_run(seed, sync=False) + 1):
        disk, oracle, random = new_disk(seed), Oracle(), Random(seed)
        disk.cut_at = cut_at
        with pytest.raises(PowerCut):
            work(disk, oracle, recover(disk)[1], random, sync=False, batches=BATCHES)
        for outcome in range(4):
            check_a_copy(oracle, disk.after_power_cut(seed * 1000 + cut_at * 4 + outcome))


@pytest.mark.parametrize("seed", range(10))
def test_a_full_disk_leaves_the_log_whole_and_the_batch_for_later(seed: int) -> None:
    random = Random(seed)
    disk, oracle = new_disk(seed), Oracle()
    disk.capacity = 4096
    disk.block_bytes = SECTOR_BYTES
    writer = LogWriter(PLACE, disk, recover(disk)[1], segment_bytes=SEGMENT_BYTES)
    refused = 0
    while len(oracle.records) < 60:
        records = oracle.batch(random, writer.next_lsn)
        for _ in range(20):
            try:
                writer.write(records, sync=True)
                break
            except DiskFull:
                refused += 1
                disk.capacity += SECTOR_BYTES
                check_a_copy(oracle, disk.after_kill())
                check_a_copy(oracle, disk.after_power_cut(refused))
        oracle.acknowledged_lsn = records[-1].lsn
    writer.close()
    assert refused
    check_a_copy(oracle, disk)


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
                    disk.capacity = sum(info.bytes for info in writer.segments()) + 10
            records = oracle.batch(random, writer.next_lsn)
            try:
                writer.write(records, sync=True)
                assert not failed, "a poisoned writer took a batch"
                oracle.acknowledged_lsn = records[-1].lsn
            except DiskFull:  # found while changing segments: not the cut that shall fail
                disk.capacity += 60
            except LogFailed:
                failed = True
        assert failed
        writer.close()
        for outcome in range(5):
            check_a_copy(oracle, disk.after_power_cut(outcome))

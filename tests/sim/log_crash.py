"""A log under power cuts, kills, full disks and failing syncs, against an oracle; in one piece or in shards.

One run: write batches on the fake disk until the power goes at operation n; rebuild a disk the next boot may find;
recover; compare; write on. The oracle is a list of what was handed over and a number: how much of it was
acknowledged. What must hold after any crash: the records found are the first k handed over, in order and equal, with
k >= acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from actors.protocol.errors import DiskFull, LogFailed
from actors.protocol.records import Record
from runtime.storage.report import RecoveryReport
from runtime.storage.wal import LogWriter
from tests.sim.disk import SECTOR_BYTES, FakeDisk, PowerCut
from tests.unit.storage.shards import AnyOrder, new_disk, place_of, recover

SEGMENT_BYTES = 1500
"""Small, so that a run of a few batches changes segments several times."""
BOOTS_MAX = 3
BATCHES = 16

Invent = Callable[[Random, int], Record]
"""A record with an LSN."""


class Oracle:
    """What was handed to the log by LSN, and how much of it was acknowledged."""

    def __init__(self, invent: Invent) -> None:
        self._invent = invent
        self.records: dict[int, Record] = {}
        self.acknowledged_lsn = 0
        self.written_lsn = 0
        self.removed_below_lsn = 1

    def copy(self) -> Oracle:
        """To check one of several outcomes."""
        again = Oracle(self._invent)
        again.__dict__.update(self.__dict__, records=dict(self.records))
        return again

    def batch(self, random: Random, lsn: int) -> list[Record]:
        """Invent a batch and note it."""
        records = [self._invent(random, lsn + i) for i in range(random.randrange(1, 6))]
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


class CrashingLog:
    """A log on a disk that fails, and the oracle beside it. All chance comes from the seed.

    Args:
        seed: Of all chance.
        shards: In how many pieces the log is.
        invent: Makes its records.
    """

    def __init__(self, seed: int, shards: int, invent: Invent) -> None:
        self.seed = seed
        self.place = place_of(shards)
        self.disk = new_disk(seed, shards)
        self.random = Random(seed)
        self.oracle = Oracle(invent)

    def recover(self, disk: FakeDisk | None = None) -> tuple[list[Record], RecoveryReport]:
        """Read the log, or that of another disk, to its end."""
        return recover(disk or self.disk, self.place)

    def open(self) -> LogWriter:
        """Recover and open for writing: what recovery has read must not vanish any more."""
        report = self.recover()[1]
        syncs = AnyOrder(self.random) if self.place.shards > 1 else None
        writer = LogWriter(self.place, self.disk, report, segment_bytes=SEGMENT_BYTES, syncs=syncs)
        self.oracle.acknowledged_lsn = report.next_lsn - 1
        return writer

    def work(self, *, sync: bool = True) -> None:
        """Write some batches, remove a segment now and then. Ends by itself or by PowerCut."""
        writer, oracle = self.open(), self.oracle
        for _ in range(BATCHES):
            records = oracle.batch(self.random, writer.next_lsn)
            writer.write(records, sync=sync)
            oracle.written_lsn = records[-1].lsn
            if sync:
                oracle.acknowledged_lsn = records[-1].lsn
            segments = writer.segments()
            if len(segments) > 3 and self.random.random() < 0.5:
                oracle.removed_below_lsn = segments[2].first_lsn
                writer.remove_below(segments[2].no)
        writer.close()
        oracle.acknowledged_lsn = max(oracle.records)

    def check(self, disk: FakeDisk) -> None:
        """Check one outcome of several."""
        self.oracle.copy().check(*self.recover(disk))


class LogCrashes:
    """The trials, for one form of the log.

    Args:
        shards: In how many pieces the log is.
        invent: Makes its records.
    """

    def __init__(self, shards: int, invent: Invent) -> None:
        self._shards = shards
        self._invent = invent

    def log(self, seed: int, cut_at: int | None = None) -> CrashingLog:
        """A new one; the power goes at that operation."""
        log = CrashingLog(seed, self._shards, self._invent)
        if cut_at is not None:
            log.disk.cut_at = cut_at
        return log

    def operations(self, seed: int, *, sync: bool = True) -> int:
        """Operations of a run without a fault."""
        log = self.log(seed)
        log.work(sync=sync)
        return log.disk.operations

    def at_every_operation(self, seed: int, crash: str, again_within: int) -> None:
        """A crash, and two more in the boots after it, lose nothing acknowledged.

        Args:
            seed: Of all chance.
            crash: "kill", "power", or "kill, then power".
            again_within: The later ones come within so many operations.
        """
        operations = self.operations(seed)
        assert operations > 25
        for cut_at in range(1, operations + 1):
            log = self.log(seed, cut_at)
            for boot in range(BOOTS_MAX):
                try:
                    log.oracle.check(*log.recover())
                    log.work()
                except PowerCut:
                    pass
                powerless = crash == "power" or (crash != "kill" and boot > 0)
                disk = log.disk
                log.disk = disk.after_power_cut(seed * 1000 + cut_at + boot) if powerless else disk.after_kill()
                log.disk.cut_at = 1 + (cut_at * (boot + 7)) % again_within
            log.oracle.check(*log.recover())

    def outcomes_of_one_point(self, seed: int) -> None:
        """One crash point has many outcomes, and all are sound."""
        log = self.log(seed, Random(seed).randrange(1, self.operations(seed)))
        with pytest.raises(PowerCut):
            log.work()
        for outcome in range(12):
            try:
                log.check(log.disk.after_power_cut(outcome))
            except Exception as error:
                error.add_note(f"seed {seed}, outcome {outcome}")
                raise

    def without_sync(self, seed: int) -> None:
        """A kill loses nothing written, and a power cut leaves a beginning of the log."""
        for cut_at in range(1, self.operations(seed, sync=False) + 1):
            log = self.log(seed, cut_at)
            with pytest.raises(PowerCut):
                log.work(sync=False)
            for outcome in range(4):
                log.check(log.disk.after_power_cut(seed * 1000 + cut_at * 4 + outcome))
            log.oracle.acknowledged_lsn = log.oracle.written_lsn
            log.check(log.disk.after_kill())

    def on_a_full_disk(self, seed: int) -> None:
        """The log stays whole, and the batch may be written later."""
        log, refused = self.log(seed), 0
        log.disk.capacity, log.disk.block_bytes = 4096, SECTOR_BYTES
        writer, oracle = log.open(), log.oracle
        while len(oracle.records) < 60:
            records = oracle.batch(log.random, writer.next_lsn)
            for _ in range(30):
                try:
                    writer.write(records, sync=True)
                    break
                except DiskFull:
                    refused += 1
                    log.disk.capacity += SECTOR_BYTES
                    log.check(log.disk.after_kill())
                    log.check(log.disk.after_power_cut(refused))
            oracle.acknowledged_lsn = records[-1].lsn
        writer.close()
        assert refused
        log.check(log.disk)

    def after_a_failed(self, operation: str) -> None:
        """Nothing is acknowledged again after this has failed once: "sync", "truncate", "rename", "sync_folder"."""
        for after in range(1, 8):
            log, failed = self.log(after), False
            writer, records = log.open(), list[Record]()
            for number in range(40):
                if number == after:
                    log.disk.fail(operation, 5)
                    if operation == "truncate":
                        log.disk.capacity = sum(info.bytes for info in writer.segments()) + 10
                if not failed:  # what was refused may be there, in part
                    records = log.oracle.batch(log.random, writer.next_lsn)
                try:
                    writer.write(records, sync=True)
                    assert not failed, "a poisoned writer took a batch"
                    log.oracle.acknowledged_lsn = records[-1].lsn
                except DiskFull:  # found while changing segments: not the cut that shall fail
                    log.disk.capacity += 60 * self._shards
                except LogFailed:
                    failed = True
            assert failed
            writer.close()
            for outcome in range(5):
                log.check(log.disk.after_power_cut(outcome))

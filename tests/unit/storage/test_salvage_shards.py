"""A damaged log in shards made whole: what is whole is kept, the rest is marked, and it opens without salvage."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.errors import LogCorrupt
from actors.protocol.records import Record
from runtime.storage.files import DAMAGED
from runtime.storage.report import RecoveryReport
from runtime.storage.salvage import mend_log
from runtime.storage.salvage_shards import mend_shards
from tests.sim.disk import FakeDisk, PowerCut
from tests.unit.storage.shards import PLACE, new_disk, open_writer, path_of, records_from, recover

VERSION = range(8, 10)
"""Bytes of a segment that say its format: a greater one is a newer version's, whose check is where that says, and is
refused rather than salvaged."""


def damaged_log(seed: int, *, closed: bool = True) -> tuple[FakeDisk, list[Record]]:
    """Several segments, one or two of which have a bad place."""
    random, disk = Random(seed), new_disk(seed)
    writer = open_writer(disk, random, segment_bytes=6000)
    written: list[Record] = []
    while len(writer.segments()) < 4:
        records = records_from(writer.next_lsn, 4, random)
        writer.write(records, sync=True)
        written += records
    if closed:
        writer.close()
    disk = disk.after_kill()
    for _ in range(random.choice((1, 2))):
        path = path_of(random.randrange(3), random.randrange(1, 4))
        if path[5:] not in _names(disk) or not disk.size(path):
            continue
        match random.choice(("flip", "flip", "remove", "cut")):
            case "flip":
                at = random.randrange(disk.size(path))
                disk.flip(path, at if at not in VERSION else at - len(VERSION))
            case "remove":
                _remove(disk, path)
            case "cut":
                disk.put(path, disk.read(path)[: random.randrange(disk.size(path))])
    return disk, written


def _names(disk: FakeDisk) -> set[str]:
    return {f"{shard}/{name}" for shard in range(3) for name in disk.list(f"/log/{shard}")}


def _remove(disk: FakeDisk, path: str) -> None:
    """Shard 0's file is made empty: a log that begins later than it did is none that is damaged."""
    if path.startswith("/log/0"):
        disk.put(path, b"")
    else:
        disk.remove(path)
        disk.sync_folder(path[:6])


def salvaged(disk: FakeDisk) -> tuple[list[Record], RecoveryReport]:
    return recover(disk, salvage=True)


@given(seed=st.integers(0, 1 << 20))
def test_a_mended_log_opens_and_goes_on(seed: int) -> None:
    disk, written = damaged_log(seed)
    found, report = salvaged(disk)
    assert report.gaps
    assert set(found) <= set(written)
    mended = mend_log(PLACE, disk, report)
    assert mended.mended == report.gaps
    assert mended.next_lsn == report.next_lsn
    again, clean = recover(disk)
    assert again == found
    assert not clean.gaps
    writer = open_writer(disk, Random(seed), segment_bytes=6000)
    more = records_from(writer.next_lsn, 3, Random(seed))
    writer.write(more, sync=True)
    assert recover(disk)[0] == found + more


def test_the_damaged_files_are_kept_beside() -> None:
    disk, _ = damaged_log(3)
    _, report = salvaged(disk)
    assert report.gaps
    mend_shards(PLACE, disk, report)
    assert any(name.endswith(DAMAGED) for shard in range(3) for name in disk.list(f"/log/{shard}"))


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_anywhere_while_mending_loses_nothing_that_salvage_found(seed: int) -> None:
    disk, _ = damaged_log(seed)
    wanted, report = salvaged(disk)
    assert report.gaps, "this seed damages nothing: take another one"
    probe = disk.after_kill()
    mend_shards(PLACE, probe, report)
    for cut_at in range(1, probe.operations + 1):
        for outcome in range(3):
            broken = disk.after_kill()
            broken.cut_at = cut_at
            with pytest.raises(PowerCut):
                mend_shards(PLACE, broken, report)
            after = broken.after_power_cut(outcome)
            try:
                found, _ = recover(after)
            except LogCorrupt:
                found, again = salvaged(after)
                mend_shards(PLACE, after, again)
                assert recover(after)[0] == found
            assert found == wanted

"""The fake disk does what its fault model says: a fake that is too kind proves nothing."""

from __future__ import annotations

import errno

import pytest

from tests.sim.disk import SECTOR_BYTES, FakeDisk, PowerCut

OUTCOMES = 300


def disk_with(content: bytes, synced: int = 0) -> FakeDisk:
    """A disk with one file whose first bytes are durable."""
    disk = FakeDisk()
    disk.make_folder("/f")
    file = disk.create("/f/a")
    file.write([content[:synced]])
    file.sync()
    disk.sync_folder("/f")
    file.write([content[synced:]])
    return disk


def contents(disk: FakeDisk) -> set[bytes]:
    return {disk.after_power_cut(seed).read("/f/a") for seed in range(OUTCOMES)}


def test_synced_bytes_are_always_kept() -> None:
    found = contents(disk_with(b"x" * 700 + b"y" * 2000, synced=700))
    assert all(one.startswith(b"x" * 700) for one in found)
    assert len(found) > 50


def test_unsynced_bytes_may_all_be_there_or_none() -> None:
    whole = b"x" * 100 + b"y" * 2000
    found = contents(disk_with(whole, synced=100))
    assert {whole, b"x" * 100} <= found


def test_a_later_sector_may_be_there_without_an_earlier_one() -> None:
    found = contents(disk_with(b"x" * 4 * SECTOR_BYTES))
    assert any(one[:SECTOR_BYTES].strip(b"\0") == b"" and one.endswith(b"x") for one in found)


def test_the_file_may_end_at_any_byte_or_in_zeros() -> None:
    found = contents(disk_with(b"x" * 100, synced=50))
    assert len({len(one) for one in found}) > 30
    assert any(one.endswith(b"\0") for one in found)


def test_a_cut_that_was_not_synced_may_be_undone() -> None:
    disk = disk_with(b"x" * 100, synced=100)
    disk.open("/f/a").truncate(10)
    assert disk.read("/f/a") == b"x" * 10
    assert {b"x" * 10, b"x" * 100} <= contents(disk)


def test_names_are_kept_only_when_their_folder_was_synced() -> None:
    disk = disk_with(b"x", synced=1)
    disk.rename("/f/a", "/f/b")
    disk.create("/f/c").close()
    outcomes = {tuple(sorted(disk.after_power_cut(seed).list("/f"))) for seed in range(OUTCOMES)}
    assert outcomes == {("a",), ("b",), ("a", "c"), ("b", "c")}
    disk.sync_folder("/f")
    assert {tuple(sorted(disk.after_power_cut(seed).list("/f"))) for seed in range(20)} == {("b", "c")}


def test_a_failed_sync_loses_the_bytes_whatever_comes_after() -> None:
    disk = disk_with(b"x" * 100, synced=50)
    disk.fail("sync", errno.EIO)
    file = disk.open("/f/a")
    with pytest.raises(OSError, match="nput/output"):
        file.sync()
    file.sync()
    assert disk.read("/f/a") == b"x" * 100
    assert contents(disk) == {b"x" * 50}


def test_a_killed_process_loses_nothing_and_makes_nothing_durable() -> None:
    disk = disk_with(b"x" * 100, synced=50)
    again = disk.after_kill()
    assert again.read("/f/a") == b"x" * 100
    assert len(contents(again)) > 20


def test_a_full_disk_takes_a_part_and_then_refuses() -> None:
    disk = disk_with(b"")
    disk.capacity = 10
    file = disk.open("/f/a")
    assert file.write([b"x" * 8]) == 8
    assert file.write([b"x" * 8]) == 2
    with pytest.raises(OSError, match="No space") as caught:
        file.write([b"x"])
    assert caught.value.errno == errno.ENOSPC
    file.truncate(5)
    assert file.write([b"x" * 8]) == 5


def test_space_is_given_out_in_blocks() -> None:
    disk = disk_with(b"x" * 10)
    disk.block_bytes, disk.capacity = 100, 250
    file = disk.open("/f/a")
    assert file.write([b"x" * 500]) == 190


def test_the_power_goes_at_the_operation_asked_for() -> None:
    disk = disk_with(b"")
    file = disk.open("/f/a")
    disk.cut_at = disk.operations + 2
    file.write([b"x"])
    with pytest.raises(PowerCut):
        file.write([b"y" * 100])
    assert disk.read("/f/a").startswith(b"x")


def test_the_same_seed_gives_the_same_disk() -> None:
    first, second = (disk_with(b"x" * 3000).after_power_cut(5) for _ in range(2))
    assert first.read("/f/a") == second.read("/f/a") if first.list("/f") else not second.list("/f")

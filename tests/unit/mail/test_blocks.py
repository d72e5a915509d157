"""Blocks: zeroed, shared, and gone with their last descriptor, however they are made."""

from __future__ import annotations

import fcntl
import os
from contextlib import closing
from pathlib import Path

import pytest

from runtime.mail import blocks
from runtime.mail.blocks import PAGE_BYTES, create_block, map_block
from tests.unit.mail.forks import forked

WAYS = ["memfd_create", "shm_open", "unlinked file"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to make a block, where the system has it."""
    if request.param == "memfd_create" and not hasattr(os, "memfd_create"):
        pytest.skip("no memfd_create here")
    if request.param != "memfd_create":
        monkeypatch.setattr(blocks, "_open_memfd", lambda label: None)
    if request.param == "unlinked file":
        monkeypatch.setattr(blocks, "_open_shared_memory", lambda: None)
    return str(request.param)


def test_a_block_is_zeroed_and_whole_pages(way: str) -> None:
    fd = create_block(PAGE_BYTES + 1)
    with closing(map_block(fd)) as memory:
        assert len(memory) == 2 * PAGE_BYTES
        assert memory[:] == bytes(2 * PAGE_BYTES)
    os.close(fd)


def test_a_block_is_shared_with_a_child_and_outlives_its_descriptor(way: str) -> None:
    fd = create_block(1)
    with closing(map_block(fd)) as memory:
        os.close(fd)

        def write() -> None:
            memory[:5] = b"hello"

        with forked(write):
            pass
        assert memory[:5] == b"hello"


def test_a_block_has_no_name(way: str, temporary_folder: Path) -> None:
    before = set(os.listdir(temporary_folder))
    shared = Path("/dev/shm")
    names = set(os.listdir(shared)) if shared.is_dir() else set()
    fd = create_block(1)
    assert set(os.listdir(temporary_folder)) == before
    if shared.is_dir():
        assert not [name for name in set(os.listdir(shared)) - names if name.startswith("mainspring")]
    os.close(fd)


def test_a_lockable_block_can_be_locked(way: str) -> None:
    fd = create_block(1, lockable=True)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)

    def try_lock() -> None:
        with pytest.raises(BlockingIOError):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)

    with forked(try_lock):
        pass
    os.close(fd)


def test_a_block_is_not_inherited_by_programs_unasked(way: str) -> None:
    fd = create_block(1)
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_a_block_that_cannot_be_sized_is_closed() -> None:
    with pytest.raises(OSError):
        create_block(-PAGE_BYTES)

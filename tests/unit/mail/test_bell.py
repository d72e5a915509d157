"""Bells: ring makes readable, drain makes quiet, neither ever blocks."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import closing

import pytest

from runtime.mail.bell import EVENTFD_AVAILABLE, Bell
from tests.unit.mail.forks import forked


@pytest.fixture(params=["eventfd", "pipe"])
def bell(request: pytest.FixtureRequest) -> Iterator[Bell]:
    """A bell of each make."""
    if request.param == "eventfd" and not EVENTFD_AVAILABLE:
        pytest.skip("no eventfd here")
    with closing(Bell.create(eventfd=request.param == "eventfd")) as made:
        yield made


def readable(bell: Bell, timeout_ms: int = 0) -> bool:
    """Whether a poll sees the bell."""
    poller = select.poll()
    poller.register(bell.read_fd, select.POLLIN)
    return bool(poller.poll(timeout_ms))


def test_a_new_bell_is_quiet(bell: Bell) -> None:
    assert not readable(bell)
    assert not bell.drain()


def test_rings_melt_into_one(bell: Bell) -> None:
    bell.ring()
    bell.ring()
    assert readable(bell)
    assert bell.drain()
    assert not readable(bell)
    assert not bell.drain()


def test_ringing_a_full_bell_neither_blocks_nor_raises(bell: Bell) -> None:
    if bell.read_fd == bell.write_fd:
        os.eventfd_write(bell.write_fd, 2**64 - 2)
    else:
        with pytest.raises(BlockingIOError):
            while True:
                os.write(bell.write_fd, bytes(4096))
    bell.ring()
    assert bell.drain()
    assert not readable(bell)


def test_a_child_rings(bell: Bell) -> None:
    with forked(bell.ring):
        assert readable(bell, 10_000)


def test_a_copy_is_the_same_bell(bell: Bell) -> None:
    with closing(bell.dup()) as copy:
        assert not set(copy) & set(bell)
        copy.ring()
        assert bell.drain()
        assert not copy.drain()


def test_the_descriptors_stay_with_this_program(bell: Bell) -> None:
    assert not any(map(os.get_inheritable, bell))

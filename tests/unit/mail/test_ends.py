"""Ends: a link is nothing but descriptors, which can be copied and passed on."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial

import pytest

from actors.protocol.errors import ProtocolError
from runtime.mail import ends as ends_module
from runtime.mail.bell import EVENTFD_AVAILABLE, Bell
from runtime.mail.blocks import create_block, map_block
from runtime.mail.ends import LinkEnds, create_link, layout_of
from runtime.mail.link import Link


@pytest.fixture(params=["eventfd", "pipe"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Bells of each make."""
    eventfd = request.param == "eventfd"
    if eventfd and not EVENTFD_AVAILABLE:
        pytest.skip("no eventfd here")
    monkeypatch.setattr(ends_module, "Bell", _BellMaker(eventfd))
    return str(request.param)


class _BellMaker:
    """Stands for the class `Bell` and makes bells of one kind."""

    def __init__(self, eventfd: bool) -> None:
        self.create = partial(Bell.create, eventfd=eventfd)

    def __call__(self, read_fd: int, write_fd: int) -> Bell:
        return Bell(read_fd, write_fd)


def test_ends_are_rebuilt_from_their_descriptors(make: str) -> None:
    ends = create_link(4096, 1024)
    with closing(ends):
        fds = ends.fds()
        assert len(fds) == len(set(fds)) == (5 if make == "eventfd" else 9)
        assert LinkEnds.from_fds(fds) == ends


def test_a_copy_has_descriptors_of_its_own(make: str) -> None:
    ends = create_link(4096, 1024)
    copy = ends.dup()
    assert not set(copy.fds()) & set(ends.fds())
    with closing(Link(ends, "a")) as a, closing(Link(LinkEnds.from_fds(copy.fds()), "b")) as b:
        assert b.arm()
        assert a.send(b"hello")
        assert b.wait(10)
        assert b.receive() == ([], [b"hello"])


def test_too_few_descriptors_are_no_link() -> None:
    with pytest.raises(ProtocolError):
        LinkEnds.from_fds([1, 2, 3])


def test_the_sides_mirror_each_other() -> None:
    with closing(create_link(4096, 1024)) as ends:
        fd = os.dup(ends.memory_fd)
        with closing(map_block(fd)) as memory, memoryview(memory) as view, view.cast("Q") as words:
            a, b = layout_of(words, "a"), layout_of(words, "b")
        os.close(fd)
        assert (a.outgoing, a.incoming) == (b.incoming, b.outgoing)
        assert (a.sleeping, a.wants, a.peer_sleeping, a.peer_wants) == (
            b.peer_sleeping,
            b.peer_wants,
            b.sleeping,
            b.wants,
        )
        assert [plan.data_bytes for plan in a.outgoing] == [1024, 4096]
        assert ends.bells("a") == ends.bells("b")[::-1]


def test_a_foreign_block_is_refused_and_stays_open() -> None:
    with closing(create_link(4096, 1024)) as ends:
        foreign = create_block(1 << 16)
        with pytest.raises(ProtocolError):
            Link(ends._replace(memory_fd=foreign), "a")
        os.close(foreign)

"""Messages with descriptors over a stream socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from runtime.host.channel import Channel


@pytest.fixture
def pair() -> Iterator[tuple[Channel, Channel]]:
    a, b = socket.socketpair()
    channels = Channel(a), Channel(b)
    yield channels
    for channel in channels:
        channel.close()


def test_messages_come_in_order_with_their_descriptors(pair: tuple[Channel, Channel]) -> None:
    read_fd, write_fd = os.pipe()
    pair[0].send({"n": 1})
    pair[0].send({"n": 2}, [read_fd, write_fd])
    pair[0].send({"n": 3}, [write_fd])
    found = pair[1].receive()
    assert [message.body for message in found] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [len(message.fds) for message in found] == [0, 2, 1]
    os.write(found[2].fds[0], b"x")
    assert os.read(found[1].fds[0], 1) == b"x"
    for fd in (read_fd, write_fd, *found[1].fds, *found[2].fds):
        assert not os.get_inheritable(fd)
        os.close(fd)


def test_nothing_there_is_no_message(pair: tuple[Channel, Channel]) -> None:
    assert pair[0].receive() == []
    assert not pair[0].closed


def test_a_message_in_pieces_is_delivered_whole(pair: tuple[Channel, Channel]) -> None:
    pair[0].post({"text": "x" * 1000})
    data = pair[1].sock.recv(100_000)
    for piece in (data[:3], data[3:10], data[10:]):
        assert pair[1].receive() == []
        pair[0].sock.send(piece)
    assert pair[1].receive()[0].body == {"text": "x" * 1000}


def test_paths_that_are_not_utf8_pass(pair: tuple[Channel, Channel]) -> None:
    pair[0].send({"path": "a\udcffb"})
    assert pair[1].receive()[0].body == {"path": "a\udcffb"}


def test_a_peer_that_does_not_read_does_not_stop_the_poster(pair: tuple[Channel, Channel]) -> None:
    count = 3000
    for n in range(count):
        pair[0].post({"n": n, "text": "x" * 500})
    assert pair[0].wants_write
    found = []
    while len(found) < count:
        found += [message.body["n"] for message in pair[1].receive()]
        pair[0].flush()
    assert found == list(range(count))
    assert not pair[0].wants_write


def test_the_end_of_the_stream_is_seen_after_the_last_message(pair: tuple[Channel, Channel]) -> None:
    pair[0].send({"last": True})
    pair[0].close()
    assert [message.body for message in pair[1].receive()] == [{"last": True}]
    assert pair[1].closed
    assert pair[1].receive() == []
    pair[1].post({"to": "nobody"})


def test_too_many_descriptors_are_refused(pair: tuple[Channel, Channel]) -> None:
    with pytest.raises(ValueError, match="at most"):
        pair[0].send({}, [0] * 65)

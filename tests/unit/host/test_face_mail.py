"""Mail of the face: control at once, submissions in slices, and no submission while the engine is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.graph import GraphColumns, encode
from runtime.host.face_mail import FREEZE_NODES_MIN, FaceMail
from runtime.host.post import Post
from runtime.mail.link import Link, create_link


class Face:
    """A mail, and the face at the other end of its link."""

    def __init__(self, near: Link, far: Link) -> None:
        self.post = Post(near)
        self.mail = FaceMail(self.post, lambda name: b"")
        self.link = far
        self.say(b'H{"session":"s","open_seq":1}', control=True)
        assert self.mail.receive() == ([msg.SessionOpened("s", 1)], [])

    def say(self, frame: bytes, *, control: bool = False) -> None:
        assert self.link.send(frame, control=control)

    def kinds(self) -> list[int]:
        """Numbers of the kinds that arrive in one turn."""
        return [message.kind_no for message in self.mail.receive()[1]]


@pytest.fixture
def face() -> Iterator[Face]:
    ends = create_link(65536, 4096)
    with closing(Link(ends, "a")) as near, closing(Link(ends.dup(), "b")) as far:
        yield Face(near, far)


def test_submissions_of_one_turn_are_taken_over_several_when_they_take_long(
    face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 10**9, 1_500_000))
    monkeypatch.setattr("runtime.host.face_mail.time.monotonic_ns", lambda: next(now))
    for number in range(5):
        face.say(b"K[%d,{}]" % number)
    assert face.kinds() == [0, 1]
    assert face.mail.unfinished
    face.mail.listen(intake_open=True)
    face.say(b"K[9,{}]")
    face.say(b'C[1,"s-1",null]', control=True)
    asked, submitted = face.mail.receive()
    assert asked == [msg.CancelAsked("s", 1, "s-1", None)], "control does not wait"
    assert [message.kind_no for message in submitted] == [2, 3]
    assert face.kinds() == [4]
    face.mail.listen(intake_open=True)
    assert face.kinds() == [9]


@pytest.mark.parametrize(("nodes", "frozen"), [(FREEZE_NODES_MIN - 1, 0), (FREEZE_NODES_MIN, 1)])
def test_what_a_large_graph_became_is_kept_from_the_collector(
    face: Face, monkeypatch: pytest.MonkeyPatch, nodes: int, frozen: int
) -> None:
    freezes: list[int] = []
    monkeypatch.setattr("runtime.host.face_mail.gc.freeze", lambda: freezes.append(1))
    monkeypatch.setattr("runtime.host.face_mail.time.monotonic_ns", lambda: 0)
    raw = encode(GraphColumns.edgeless(nodes, None), {"kinds": [{}]})
    face.mail._load_blob = lambda name: raw
    face.say(b"G" + (1).to_bytes(8, "little") + b"@graph")
    ((graph,),) = face.mail.receive()[1:]
    assert graph.columns.size == nodes
    assert freezes == [], "the core does not have it yet"
    for _ in range(3):
        face.mail.receive()
    assert len(freezes) == frozen


def test_a_full_engine_reads_no_submission_and_is_not_woken_by_one(face: Face) -> None:
    face.mail.listen(intake_open=False)
    face.say(b"K[1,{}]")
    assert face.post.link.arm()
    assert face.mail.receive() == ([], [])
    face.mail.listen(intake_open=True)
    assert not face.post.link.arm()
    assert face.kinds() == [1]


def test_a_face_that_does_not_read_is_not_read(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POST_BACKLOG_BYTES_MAX", 100)
    while not face.post.crowded:
        face.post.send(b"R" + b"x" * 1000)
    face.say(b"K[1,{}]")
    face.mail.listen(intake_open=True)
    assert face.kinds() == []
    received: list[Any] = []
    while not face.post.clear:
        received += face.link.receive()[1]
        face.post.flush()
    face.mail.listen(intake_open=True)
    assert face.kinds() == [1]


def test_a_face_that_watches_the_log_is_no_message_to_the_core(face: Face) -> None:
    face.say(b"W1", control=True)
    assert face.mail.receive() == ([], [])
    assert (face.mail.watches_log, face.mail.asks_log) == (True, True)
    face.say(b"W0", control=True)
    face.mail.receive()
    assert (face.mail.watches_log, face.mail.asks_log) == (False, False)

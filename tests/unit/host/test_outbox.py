"""Submissions keep their order and number through a full ring, a hole, an acknowledgement and a new engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol import limits
from runtime.errors import QueueFull
from runtime.host.outbox import Outbox, Slot
from runtime.mail.link import Link, create_link


@pytest.fixture
def sides() -> Iterator[tuple[Link, Link]]:
    """Face and engine, with a work lane of 4 KiB."""
    ends = create_link(4096, 4096)
    face, engine = Link(ends.dup(), "a"), Link(ends.dup(), "b")
    ends.close()
    yield face, engine
    face.close()
    engine.close()


def heard(engine: Link) -> list[bytes]:
    found: list[bytes] = []
    while frames := engine.receive()[1]:
        found += frames
    return found


def opened() -> Outbox:
    outbox = Outbox()
    outbox.open = True
    return outbox


def test_frames_go_out_in_order_and_are_forgotten_when_durable(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = opened()
    for i in range(5):
        outbox.put(b"T%d" % i, face)
    assert heard(engine) == [b"T0", b"T1", b"T2", b"T3", b"T4"]
    assert (outbox.seq, outbox.bytes_held) == (5, 10)
    outbox.acknowledge(3)
    assert list(outbox.sent) == [b"T3", b"T4"]
    assert outbox.bytes_held == 4
    outbox.acknowledge(2)
    outbox.acknowledge(5)
    assert (outbox.acked, outbox.bytes_held, len(outbox.sent)) == (5, 0, 0)


def test_nothing_is_sent_before_the_engine_said_hello(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = Outbox()
    outbox.define(b"{}", face)
    outbox.put(b"T0", face)
    assert heard(engine) == []
    outbox.resume(face)
    assert heard(engine) == [b"K[0,{}]", b"T0"]


def test_while_the_ring_is_full_a_submission_costs_one_look(
    sides: tuple[Link, Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    face, engine = sides
    outbox = opened()
    while not outbox.unsent:
        outbox.put(b"T" * 100, face)
    offered: list[int] = []
    monkeypatch.setattr(Link, "send_many", lambda _, frames: offered.append(len(frames)) or 0)
    for _ in range(100):
        outbox.put(b"T" * 100, face)
    assert offered == []
    monkeypatch.undo()
    count = 0
    while outbox.unsent:
        count += len(heard(engine))
        outbox.flush(face)
    assert count + len(heard(engine)) == outbox.seq


def test_a_full_ring_is_waited_for(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = opened()
    frames = [b"T%03d" % i + b"x" * 196 for i in range(60)]
    for frame in frames:
        outbox.put(frame, face)
    assert len(outbox.unsent) > 0
    got = []
    while len(got) < 60:
        got += heard(engine)
        outbox.flush(face)
    assert got == frames
    assert len(outbox.unsent) == 0


def test_a_definition_goes_ahead_of_what_needs_it_when_the_ring_is_full(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = opened()
    while not outbox.unsent:
        outbox.put(b"T" + b"x" * 199, face)
    number = outbox.define(b"{}", face)
    outbox.put(b"Tlast", face)
    got = []
    while outbox.unsent:
        got += heard(engine)
        outbox.flush(face)
    got += heard(engine)
    assert (number, got[-2:]) == (0, [b"K[0,{}]", b"Tlast"])
    outbox.acknowledge(outbox.seq)
    assert outbox.bytes_held == 0


def test_what_is_held_is_bounded(sides: tuple[Link, Link]) -> None:
    outbox = Outbox()
    outbox.check_room()
    outbox.bytes_held = limits.UNACKED_BYTES_MAX + 1
    with pytest.raises(QueueFull):
        outbox.check_room()


def test_a_hole_holds_back_what_comes_behind(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = opened()
    outbox.put(b"T1", face)
    hole = outbox.reserve()
    outbox.put(b"T3", face)
    assert heard(engine) == [b"T1"]
    outbox.fill(hole, b"T2", face)
    assert heard(engine) == [b"T2", b"T3"]
    assert outbox.seq == 3


def test_a_number_that_was_given_up_is_counted_and_not_sent(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = opened()
    hole = outbox.reserve()
    outbox.put(b"T2", face)
    outbox.fill(hole, b"", face)
    assert heard(engine) == [b"T2"]
    last = outbox.reserve()
    assert outbox.last_to_wait_for() == 3
    outbox.fill(last, b"", face)
    assert outbox.last_to_wait_for() == 2
    outbox.acknowledge(2)
    assert outbox.last_to_wait_for() == 2
    assert outbox.bytes_held == 0


def test_control_frames_wait_for_room_too(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = opened()
    frames = [b"Q%03d" % i + b"x" * 196 for i in range(60)]
    for frame in frames:
        outbox.say(frame, face)
    got: list[bytes] = []
    while len(got) < 60:
        control, _ = engine.receive()
        got += control
        outbox.flush(face)
    assert got == frames


def test_a_new_engine_gets_what_the_old_one_had_not_made_durable(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = opened()
    outbox.define(b"{}", face)
    for i in range(1, 5):
        outbox.put(b"T%d" % i, face)
    outbox.acknowledge(1)
    outbox.say(b"Q", face)
    heard(engine)
    outbox.pause()
    outbox.put(b"T5", face)
    assert heard(engine) == []
    outbox.acknowledge(3)  # the new one says that it has them
    outbox.resume(face)
    assert heard(engine) == [b"K[0,{}]", b"T4", b"T5"]
    assert outbox.bytes_held == 4


def test_kinds_that_were_given_up_are_kept_for_what_is_not_durable(sides: tuple[Link, Link]) -> None:
    face, engine = sides
    outbox = opened()
    outbox.define(b"{}", face)
    outbox.put(b"T1 of 0", face)
    assert outbox.define(b"{1}", face) == 1
    outbox.give_up(1, face)
    outbox.put(b"T2 of 1", face)
    assert heard(engine) == [b"K[0,{}]", b"T1 of 0", b"K[1,{1}]", b"U[1]", b"T2 of 1"]
    outbox.pause()
    outbox.resume(face)
    assert heard(engine) == [b"K[0,{}]", b"K[1,{1}]", b"T1 of 0", b"T2 of 1", b"U[1]"]
    outbox.acknowledge(1)
    assert (outbox.first_kind, list(outbox.kinds)) == (1, [b"K[1,{1}]"])
    assert outbox.define(b"{2}", face) == 2
    outbox.give_up(2, face)
    outbox.acknowledge(2)
    outbox.pause()
    outbox.resume(face)
    assert heard(engine)[-1:] == [b"K[2,{2}]"]


@given(st.lists(st.sampled_from(["put", "reserve", "fill", "give_up", "ack", "restart", "read"]), max_size=60))
def test_every_number_arrives_once_per_engine_and_in_order(steps: list[str]) -> None:
    ends = create_link(1024, 1024)
    face, engine = Link(ends.dup(), "a"), Link(ends.dup(), "b")
    ends.close()
    try:
        _play(steps, face, engine)
    finally:
        face.close()
        engine.close()


def _play(steps: list[str], face: Link, engine: Link) -> None:
    outbox = opened()
    holes: list[tuple[int, Slot]] = []
    given_up: set[int] = set()
    got: list[int] = []

    def read() -> None:
        got.extend(int(frame[1:4]) for frame in heard(engine))

    for step in steps:
        if step == "put":
            outbox.put(b"T%03d" % (outbox.seq + 1) + b"x" * 60, face)
        elif step == "reserve":
            slot = outbox.reserve()
            holes.append((outbox.seq, slot))
        elif step in ("fill", "give_up") and holes:
            seq, slot = holes.pop(0)
            if step == "give_up":
                given_up.add(seq)
            outbox.fill(slot, b"T%03d" % seq if step == "fill" else b"", face)
        elif step == "ack":
            read()
            outbox.acknowledge(max([outbox.acked, *got]))
        elif step == "restart":
            read()
            outbox.pause()
            outbox.resume(face)
            got = [seq for seq in got if seq <= outbox.acked]
        read()
        outbox.flush(face)
    while holes:
        seq, slot = holes.pop(0)
        outbox.fill(slot, b"T%03d" % seq, face)
    before = -1
    while len(got) != before:
        before = len(got)
        outbox.flush(face)
        read()
    assert got == [seq for seq in range(1, outbox.seq + 1) if seq not in given_up]
    outbox.acknowledge(outbox.seq)
    assert outbox.bytes_held == 0


def test_acknowledging_nothing_is_harmless() -> None:
    outbox = Outbox()
    outbox.acknowledge(0)
    assert outbox.last_to_wait_for() == 0

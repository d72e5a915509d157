"""Links: two lanes each way, no lost wake-up, no lost wish for room; alone and with a real second process."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from actors.protocol.errors import ProtocolError
from runtime.mail import link as link_module
from runtime.mail.bell import Bell
from runtime.mail.link import Link, LinkEnds, create_link
from tests.unit.mail.forks import forked

LONG_S = 20.0
"""Longer than any wait of a test that goes well."""


class Pair(NamedTuple):
    """Both sides in one process."""

    a: Link
    b: Link


@pytest.fixture(params=[False, True], ids=["ordered", "checked"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A small link: work lanes of 4 KiB and 64 slots, control lanes of 1 KiB and 16 slots."""
    ends = create_link(4096, 1024, checked=request.param)
    with closing(Link(ends, "a")) as a, closing(Link(ends.dup(), "b")) as b:
        yield Pair(a, b)


@pytest.fixture
def no_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the second look away, so that a lost wake-up is a timeout."""
    monkeypatch.setattr(link_module, "RECHECK_NS", int(2 * LONG_S * 1e9))


def readable(fd: int) -> bool:
    """Whether a bell rings."""
    return bool(select.select([fd], [], [], 0)[0])


def test_control_comes_beside_work_in_both_directions(pair: Pair) -> None:
    for sender, receiver in (pair, pair[::-1]):
        assert sender.send(b"work 1")
        assert sender.send(b"control", control=True)
        assert sender.send_many([b"work 2", b"work 3"]) == 2
        assert receiver.pending()
        assert receiver.receive() == ([b"control"], [b"work 1", b"work 2", b"work 3"])
        assert receiver.receive() == ([], [])
        assert not receiver.pending()


def test_a_sender_rings_only_a_sleeper_and_once(pair: Pair) -> None:
    pair.a.send(b"1")
    assert not readable(pair.b.fileno())
    pair.b.receive()
    assert pair.b.arm()
    pair.a.send(b"2")
    pair.a.send(b"3", control=True)
    assert pair.a.statistics().rings == 1
    assert readable(pair.b.fileno())
    assert not readable(pair.b.fileno(alternate=True))
    pair.b.drain_bell()
    assert not readable(pair.b.fileno())


def test_the_sleeping_word_says_which_bell(pair: Pair) -> None:
    assert pair.b.arm(alternate=True)
    pair.a.send_many([b"1"])
    assert readable(pair.b.fileno(alternate=True))
    assert not readable(pair.b.fileno())
    pair.b.drain_bell(alternate=True)
    assert not readable(pair.b.fileno(alternate=True))


def test_who_is_interrupted_while_ringing_rings_all_the_same(pair: Pair) -> None:
    """A signal handler may raise there. The word says already that nobody need ring."""

    class Interrupted(NamedTuple):
        bell: Bell
        calls: list[int]

        def ring(self) -> None:
            self.calls.append(len(self.calls))
            if len(self.calls) == 1:
                raise KeyboardInterrupt
            self.bell.ring()

    pair.a._peer_bells = tuple(Interrupted(bell, []) for bell in pair.a._peer_bells)  # type: ignore[assignment]
    assert pair.b.arm()
    with pytest.raises(KeyboardInterrupt):
        pair.a.send(b"1")
    assert readable(pair.b.fileno())
    assert pair.b.receive() == ([], [b"1"])


@pytest.mark.parametrize("control", [False, True])
def test_who_has_mail_does_not_fall_asleep(pair: Pair, control: bool) -> None:
    pair.a.send(b"1", control=control)
    assert not pair.b.arm()
    pair.a.send(b"2", control=control)
    assert pair.a.statistics().rings == 0


def test_who_is_awake_is_not_rung(pair: Pair) -> None:
    assert pair.b.arm()
    pair.b.disarm()
    pair.a.send(b"1")
    assert pair.a.statistics().rings == 0


def test_a_full_lane_refuses_and_the_other_lane_goes_on(pair: Pair) -> None:
    sent = 0
    while pair.a.send(b"%04d" % sent * 100):
        sent += 1
    assert sent == 10
    assert pair.a.send_many([b"x" * 400] * 3) == 0
    assert pair.a.send(b"urgent", control=True)
    assert pair.b.receive() == ([b"urgent"], [b"%04d" % number * 100 for number in range(10)])
    assert pair.a.statistics().refused == 2
    assert pair.a.send_many([b"x" * 400] * 3) == 3


def test_illegal_frames_are_bugs_of_the_sender(pair: Pair) -> None:
    for frame in (b"", bytes(1025)):
        with pytest.raises(ProtocolError):
            pair.a.send(frame)


@pytest.mark.parametrize("alternate", [False, True])
def test_room_is_announced_once_to_who_wants_it(pair: Pair, alternate: bool) -> None:
    while pair.a.send(bytes(400)):
        pass
    pair.a.want_room(alternate=alternate)
    assert not readable(pair.a.fileno(alternate=alternate))
    pair.b.receive(1)
    assert readable(pair.a.fileno(alternate=alternate))
    assert not readable(pair.a.fileno(alternate=not alternate))
    pair.a.drain_bell(alternate=alternate)
    pair.b.receive(1)
    assert not readable(pair.a.fileno(alternate=alternate))
    assert pair.b.statistics().rings == 1


def test_room_that_came_before_the_wish_is_announced_too(pair: Pair) -> None:
    while pair.a.send(bytes(400)):
        pass
    pair.b.receive()
    pair.a.want_room()
    assert readable(pair.a.fileno())
    pair.a.send(b"1")
    pair.b.receive()
    assert pair.b.statistics().rings == 0


def test_waiting_for_room_ends_with_the_timeout_or_the_room(pair: Pair) -> None:
    while pair.a.send(bytes(400)):
        pass
    assert not pair.a.wait_room(0)
    assert not pair.a.wait_room(0.003)
    pair.b.send(b"this is not room")
    assert not pair.a.wait_room(0)
    pair.b.receive()
    assert pair.a.wait_room(LONG_S)
    assert pair.a.send(bytes(400))


def test_wait_sees_mail_before_sleeping(pair: Pair) -> None:
    pair.a.send(b"1")
    assert pair.b.wait(0)
    assert pair.b.wait(None, 1000)
    assert pair.b.statistics().sleeps == 0


@pytest.mark.parametrize("timeout", [0.0, 0.0005, 0.003])
def test_wait_ends_with_its_timeout(pair: Pair, timeout: float) -> None:
    assert not pair.b.wait(timeout)
    assert not pair.b.wait(timeout, 100, alternate=True)
    pair.a.send(b"1")
    assert pair.a.statistics().rings == 0


def test_a_bell_that_rings_for_old_mail_does_not_end_a_wait(pair: Pair) -> None:
    assert pair.b.arm()
    pair.a.send(b"1")
    pair.b.receive()
    assert readable(pair.b.fileno())
    assert not pair.b.wait(0.002)
    assert not readable(pair.b.fileno())


def test_wait_also_ends_when_wanted_room_came(pair: Pair, no_net: None) -> None:
    while pair.a.send(bytes(400)):
        pass
    pair.a.want_room()
    pair.b.receive()
    assert not pair.a.wait(LONG_S)
    assert pair.a.statistics().sleeps == 0
    assert pair.a.send(bytes(400))
    assert not pair.a.wait(0)


def test_a_second_look_finds_what_was_not_rung_for(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    armed = pair.b.arm

    def arm_late(*, alternate: bool = False) -> bool:
        asleep = armed(alternate=alternate)
        pair.b.disarm()  # as if the sender had not seen that we sleep
        pair.a.send(b"1")
        return asleep

    monkeypatch.setattr(Link, "arm", lambda self, *, alternate=False: arm_late(alternate=alternate))
    assert pair.b.wait(LONG_S)
    assert pair.a.statistics().rings == 0


def test_spinning_that_does_not_pay_is_mostly_skipped(pair: Pair) -> None:
    for _ in range(link_module.SPIN_MISSES_MAX):
        assert not pair.b.wait(0, 10)
    assert not pair.b.wait(0, int(3600e9))  # would spin for an hour


def test_statistics_tell_both_directions(pair: Pair) -> None:
    pair.a.send(b"12345")
    pair.a.send(b"123", control=True)
    pair.b.send(b"1")
    pair.a.receive()
    statistics = pair.a.statistics()
    assert (statistics.work_bytes_sent, statistics.control_bytes_sent, statistics.frames_waiting) == (5, 3, 2)
    assert (statistics.work_bytes_received, statistics.control_bytes_received) == (1, 0)


def test_a_link_closes_once(pair: Pair) -> None:
    pair.a.close()
    pair.a.close()
    with pytest.raises(ValueError):
        pair.a.send(b"1")


def test_a_successor_takes_over_a_side() -> None:
    ends = create_link(4096, 1024)
    with closing(Link(ends, "a")) as a:
        with closing(Link(ends.dup(), "b")) as b:
            a.send_many([b"1", b"2", b"3"])
            assert b.receive(1) == ([], [b"1"])
            b.send(b"before")
        with closing(Link(ends.dup(), "b")) as b:
            b.send(b"after")
            assert b.receive() == ([], [b"2", b"3"])
        assert a.receive() == ([], [b"before", b"after"])


# --- two processes ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("spin_ns", [0, 5000])
@pytest.mark.parametrize("checked", [False, True], ids=["ordered", "checked"])
def test_no_wake_up_is_lost(no_net: None, spin_ns: int, checked: bool) -> None:
    rounds = 3000
    ends = create_link(4096, 1024, checked=checked)

    def echo() -> None:
        link = Link(ends, "b")
        for number in range(rounds):
            assert link.wait(LONG_S, spin_ns, alternate=number % 3 == 0)
            control, work = link.receive()
            assert len(control) + len(work) == 1
            for frame in control + work:
                assert link.send(frame, control=bool(control))

    with forked(echo), closing(Link(ends, "a")) as link:
        for number in range(rounds):
            frame, control = b"%d" % number, number % 5 == 0
            assert link.send(frame, control=control)
            assert link.wait(LONG_S, spin_ns)
            assert link.receive() == (([frame], []) if control else ([], [frame]))


@pytest.mark.slow
@pytest.mark.parametrize("checked", [False, True], ids=["ordered", "checked"])
def test_a_flood_through_a_small_ring_loses_nothing(no_net: None, checked: bool) -> None:
    frames = [b"%d " % number * (1 + number % 30) for number in range(20_000)]
    ends = create_link(8192, 1024, checked=checked)

    def send() -> None:
        link, sent = Link(ends, "b"), 0
        while sent < len(frames):
            sent += link.send_many(frames[sent : sent + sent % 50])
            if sent < len(frames) and not link.send(frames[sent]):
                assert link.wait_room(LONG_S)
            else:
                sent += 1

    with forked(send), closing(Link(ends, "a")) as link:
        received = 0
        while received < len(frames):
            assert link.wait(LONG_S)
            work = link.receive()[1]
            assert work == frames[received : received + len(work)]
            received += len(work)
        assert link.receive() == ([], [])


def test_ends_travel_through_a_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def serve() -> None:
            _, fds, _, _ = socket.recv_fds(theirs, 1, 16)
            link = Link(LinkEnds.from_fds(fds), "b")
            assert link.wait(LONG_S)
            assert link.send(link.receive()[1][0][::-1])

        with forked(serve):
            ends = create_link(4096, 1024)
            with closing(Link(ends, "a")) as link:
                socket.send_fds(ours, [b"x"], ends.fds())
                assert link.send(b"hello")
                assert link.wait(LONG_S)
                assert link.receive() == ([], [b"olleh"])


PROGRAM = """
import sys
from runtime.mail.link import Link, LinkEnds
link = Link(LinkEnds.from_fds([int(fd) for fd in sys.argv[1:]]), "b")
assert link.wait(20)
link.send(link.receive()[1][0][::-1])
"""


@pytest.mark.slow
def test_ends_are_inherited_by_a_program() -> None:
    ends = create_link(4096, 1024)
    with closing(Link(ends, "a")) as link:
        command = [sys.executable, "-c", PROGRAM, *map(str, ends.fds())]
        folder = os.path.dirname(os.path.dirname(os.path.dirname(link_module.__file__)))
        with subprocess.Popen(command, pass_fds=ends.fds(), cwd=folder) as child:
            assert link.send(b"hello")
            assert link.wait(LONG_S)
            assert link.receive() == ([], [b"olleh"])
            assert child.wait(LONG_S) == 0


def test_a_side_that_does_not_hear_work_leaves_it_and_is_not_woken_by_it(pair: Pair) -> None:
    pair.a.hears_work = False
    assert pair.b.send(b"work")
    assert not pair.a.pending()
    assert pair.a.arm()
    assert pair.b.send(b"control", control=True)
    assert readable(pair.a.fileno())
    assert pair.a.receive() == ([b"control"], [])
    pair.a.hears_work = True
    assert not pair.a.arm(), "what waited is there"
    assert pair.a.receive() == ([], [b"work"])

"""Places at the door and inside: who goes when there are too many."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from runtime.profile.web import callers as web_callers
from runtime.profile.web.callers import Callers


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now_s = [100.0]
    monkeypatch.setattr(web_callers.time, "monotonic", lambda: now_s[0])
    return now_s


def pairs(opened: ExitStack, number: int) -> list[tuple[socket.socket, socket.socket]]:
    made = [socket.socketpair() for _ in range(number)]
    for one, other in made:
        opened.enter_context(one)
        opened.enter_context(other)
        other.setblocking(False)
    return made


def is_shut(other: socket.socket) -> bool:
    try:
        return other.recv(1) == b""
    except BlockingIOError:
        return False


def test_time_at_the_door_ends_and_inside_it_does_not(clock: list[float]) -> None:
    with ExitStack() as opened:
        (first, at_first), (second, at_second), (third, at_third) = pairs(opened, 3)
        callers = Callers(3)
        assert callers.expire() is None
        assert callers.come(first)
        assert callers.come(second)
        clock[0] += 2.0
        assert callers.come(third)
        assert callers.expire() == web_callers.DOOR_S - 2.0
        assert callers.let_in(second)
        clock[0] += web_callers.DOOR_S - 2.0
        assert callers.expire() == 2.0
        assert [is_shut(at_first), is_shut(at_second), is_shut(at_third)] == [True, False, False]
        assert not callers.let_in(first), "he was sent away"


def test_a_place_is_free_when_the_thread_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_callers, "_LEAVES_S", 0.0)
    with ExitStack() as opened:
        (first, at_first), (second, _), (third, _) = pairs(opened, 3)
        callers = Callers(1)
        assert callers.come(first)
        assert not callers.come(second)
        assert is_shut(at_first)
        callers.leave(first)
        assert callers.come(second)
        assert callers.let_in(second)
        assert callers.come(third), "the door is free again"
        assert not callers.let_in(third), "inside is full"
        callers.leave(third)
        callers.leave(second)
        assert callers.come(first)
        assert callers.let_in(first)


def test_a_socket_that_is_closed_is_not_shut_down(clock: list[float]) -> None:
    """Its number may be another's by then."""
    with ExitStack() as opened:
        ((first, at_first),) = pairs(opened, 1)
        callers = Callers(1)
        assert callers.come(first)
        callers.close(first)
        clock[0] += 100.0
        assert callers.expire() is None
        callers.end()
        assert not is_shut(at_first)

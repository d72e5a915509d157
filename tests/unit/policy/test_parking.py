"""Parking: one probe, longer waits, and all at once when the handler is found."""

from __future__ import annotations

from actors.policy.parking import Parking
from actors.protocol import limits

LOOK = limits.PARKED_LOOK_MIN_NS


def always(place: tuple[int, int]) -> bool:
    return True


def never(place: tuple[int, int]) -> bool:
    return False


def test_one_probe_of_each_kind_goes_first() -> None:
    parking = Parking()
    for node in range(3):
        assert parking.park(1, (7, node), 0)
        assert parking.park(2, (8, node), 0)
    assert parking.due(LOOK - 1, always, never) == []
    assert parking.due(LOOK, always, never) == [(7, 0), (8, 0)]


def test_a_probe_that_comes_back_doubles_the_wait_up_to_its_bound() -> None:
    parking = Parking()
    parking.park(1, (7, 0), 0)
    now, waits = 0, []
    for _ in range(12):
        due = parking.next_ns()
        assert due is not None
        waits.append(due - now)
        assert parking.due(due, always, never) == [(7, 0)]
        now = due
        assert not parking.park(1, (7, 0), now)
    assert waits[:3] == [LOOK, 2 * LOOK, 4 * LOOK]
    assert waits[-1] == limits.PARKED_LOOK_MAX_NS


def test_all_follow_a_probe_that_does_not_come_back() -> None:
    parking = Parking()
    for node in range(3):
        parking.park(1, (7, node), 0)
    assert parking.due(LOOK, always, never) == [(7, 0)]
    assert parking.due(2 * LOOK, always, always) == [], "the probe still waits for a worker"
    assert parking.due(3 * LOOK, always, never) == [(7, 1), (7, 2)]
    assert not parking
    assert parking.next_ns() is None


def test_places_that_wait_no_more_are_forgotten() -> None:
    parking = Parking()
    parking.park(1, (7, 0), 0)
    assert parking.due(LOOK, never, never) == []
    assert not parking

"""Shares: lent while unused, and bounds that hold."""

from __future__ import annotations

import pytest

from actors.policy.shares import ALL, divide, owed, room

REALTIME, HIGH, NORMAL, LOW = range(4)
SHARES = {"realtime": (0.2, 1.0), "low": (0.1, 0.8)}


@pytest.mark.parametrize(
    ("slots", "held", "waiting", "lacking"),
    [
        (10, (0, 0, 10, 0), (REALTIME, NORMAL, LOW), [(REALTIME, 2), (LOW, 1)]),
        (10, (2, 0, 8, 0), (REALTIME, NORMAL), []),
        (10, (0, 0, 10, 0), (NORMAL,), []),
        (1, (0, 0, 0, 0), (REALTIME,), [(REALTIME, 1)]),
        (10, (5, 9, 9, 1), (REALTIME, HIGH, NORMAL, LOW), []),
    ],
)
def test_who_waits_below_its_share_comes_first(
    slots: int, held: tuple[int, ...], waiting: tuple[int, ...], lacking: list[tuple[int, int]]
) -> None:
    assert owed(SHARES, slots, held, waiting) == lacking


@pytest.mark.parametrize(
    ("slots", "held", "low"), [(10, 0, 8), (10, 7, 1), (10, 8, 0), (10, 9, 0), (1, 0, 1), (1, 1, 0), (2, 0, 1)]
)
def test_nobody_exceeds_its_share_and_nobody_is_shut_out(slots: int, held: int, low: int) -> None:
    assert room(SHARES, slots, (3, 3, 3, held)) == [ALL, ALL, ALL, low]


def test_binary_fractions_are_no_loss() -> None:
    assert room({"low": (0.0, 0.7)}, 10, (0, 0, 0, 0))[LOW] == 7
    assert owed({"low": (0.3, 1.0)}, 10, (0, 0, 0, 3), (LOW,)) == []


@pytest.mark.parametrize(
    ("shares", "matter"),
    [
        ({}, False),
        ({"realtime": (0.2, 1.0)}, False),
        ({"realtime": (0.2, 0.9)}, True),
        ({"low": (0.1, 1.0)}, True),
        ({"low": (0.0, 0.8)}, True),
        ({"low": (0.0, 1.0)}, False),
    ],
)
def test_what_the_best_class_keeps_changes_nothing_but_the_turns_of_the_aged(
    shares: dict[str, tuple[float, float]], matter: bool
) -> None:
    assert divide(shares) is matter

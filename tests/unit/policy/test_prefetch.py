"""Prefetch: capacity by duration, spreading by water filling."""

from __future__ import annotations

import pytest

from actors.policy.prefetch import capacity, smoothed, spread
from actors.protocol import limits


@pytest.mark.parametrize(
    ("average_ns", "prefetch", "held"),
    [
        (0, None, 4),
        (1_000_000, None, 4),
        (10_000_000_000, None, 2),
        (100, None, limits.PREFETCH_MAX),
        (100, 1, 2),
        (100, 5, 6),
    ],
)
def test_a_worker_holds_a_time_of_work_ahead(average_ns: float, prefetch: int | None, held: int) -> None:
    assert capacity(1, average_ns, prefetch) == held


def test_the_average_starts_with_the_first_sample_and_follows() -> None:
    assert smoothed(0, 100) == 100
    assert 100 < smoothed(100, 200) < 200


@pytest.mark.parametrize(
    ("ready", "room", "held", "average_ns", "shares"),
    [
        (10, [8, 8], [0, 0], 1e6, [5, 5]),
        (10, [8, 8], [4, 0], 1e6, [3, 7]),
        (10, [2, 3], [0, 0], 1e6, [2, 3]),
        (1, [8, 8], [3, 0], 1e6, [0, 1]),
        (10, [0, 0], [8, 8], 1e6, [0, 0]),
        (10, [16, 16], [0, 0], 100, [10, 0]),
        (4, [8, 8, 8], [0, 100, 0], 1e9, [2, 0, 2]),
        (4, [8, 8, 8], [0, 0, 0], 30_000, [4, 0, 0]),
        (4, [8, 8, 8], [0, 0, 0], 50_000, [2, 2, 0]),
        (6, [8, 8], [8, 2], 50_000, [0, 6]),
        (6, [8, 8], [8, 7], 50_000, [0, 6]),
        (60, [80, 80], [18, 18], 50_000, [30, 30]),
        (6, [8, 3], [8, 7], 50_000, [3, 3]),
    ],
)
def test_who_gets_how_much(ready: int, room: list[int], held: list[int], average_ns: float, shares: list[int]) -> None:
    assert spread(ready, room, held, average_ns) == shares


def test_all_that_fits_is_given() -> None:
    for ready in range(40):
        for room in ([3, 9, 0], [1, 1, 1], [20, 0, 5]):
            shares = spread(ready, room, [5, 0, 9], 1e6)
            assert sum(shares) == min(ready, sum(room))
            assert all(s <= r for s, r in zip(shares, room, strict=True))

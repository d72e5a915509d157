"""Lingering ends at once when something is there, and with its time when nothing is."""

from __future__ import annotations

import time

from runtime.host.linger import linger


class Ring:
    """A link that has something at the n-th look."""

    def __init__(self, look: int) -> None:
        self.look = look

    def pending(self) -> bool:
        self.look -= 1
        return self.look <= 0


def test_it_ends_with_the_first_answer() -> None:
    assert linger([Ring(10**9), Ring(3)], 10**10)  # type: ignore[list-item]


def test_it_ends_with_its_time() -> None:
    start = time.monotonic_ns()
    assert not linger([Ring(10**9)], 1_000_000)  # type: ignore[list-item]
    assert time.monotonic_ns() - start >= 1_000_000

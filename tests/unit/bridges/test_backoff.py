"""How long a bridge waits."""

from __future__ import annotations

import random

from runtime.bridges.backoff import FIRST_S, LONGEST_S, Backoff


def test_waits_double_up_to_a_bound_and_begin_anew() -> None:
    backoff = Backoff(random.Random(1))
    waits = [backoff.next_s() for _ in range(100)]
    for number, wait in enumerate(waits):
        longest = min(LONGEST_S, FIRST_S * 2.0**number)
        assert longest / 2 <= wait <= longest
    assert len(set(waits)) == 100, "no two bridges come back together"
    backoff.worked()
    assert backoff.next_s() <= FIRST_S

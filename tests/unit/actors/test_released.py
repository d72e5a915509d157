"""RELEASED records: numbers, and a time that older readers take for a number that no run has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.released import released, released_ns, released_payload

NUMBERS = st.lists(st.integers(1, 2**63 - 1))


@given(NUMBERS, st.integers(0, 2**63 - 1))
def test_numbers_and_time_come_back(numbers: list[int], wall_ns: int) -> None:
    payload = released_payload(numbers, wall_ns)
    assert released(payload) == numbers
    assert released_ns(payload) == (wall_ns or None)

"""Claim sizes: short tasks many at a time, long ones singly, never more than doubling."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.policy.claim import ClaimSize
from actors.protocol import limits


def test_an_unknown_kind_is_claimed_singly() -> None:
    size = ClaimSize()
    assert size.size() == 1
    assert size.long_or_unknown()


def test_the_size_doubles_up_to_the_bound() -> None:
    size = ClaimSize()
    seen = []
    for _ in range(11):
        size.ran(size.size(), 200 * size.size())
        seen.append(size.size())
    assert seen == [2, 4, 8, 16, 32, 64, 128, 256, 512, limits.CLAIM_MAX, limits.CLAIM_MAX]
    assert not size.long_or_unknown()


def test_a_long_task_makes_it_one_again_at_once() -> None:
    size = ClaimSize()
    for _ in range(10):
        size.ran(size.size(), 1_000 * size.size())
    size.ran(1, limits.CLAIM_TARGET_NS)
    assert size.size() == 1
    assert size.long_or_unknown()


def test_it_recovers_from_one_long_task() -> None:
    size = ClaimSize()
    size.ran(1, limits.CLAIM_TARGET_NS)
    for _ in range(60):
        size.ran(size.size(), 200 * size.size())
    assert size.size() == limits.CLAIM_MAX


def test_nothing_is_learned_from_an_empty_claim() -> None:
    size = ClaimSize()
    size.ran(0, 10)
    assert size.average_ns == 0


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(-5, 10**10)), max_size=30))
def test_it_stays_within_its_bounds(claims: list[tuple[int, int]]) -> None:
    size = ClaimSize()
    for count, elapsed_ns in claims:
        before = size.size()
        size.ran(count, elapsed_ns)
        assert 1 <= size.size() <= min(limits.CLAIM_MAX, max(2 * before, 1))

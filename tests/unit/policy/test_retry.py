"""Retry: bounds, jitter, policy."""

from __future__ import annotations

from actors.policy.retry import delay_ns, next_class, retries, uniform
from actors.protocol.kinds import RetryPolicy

POLICY = RetryPolicy(attempts_max=3, base_ns=1000, cap_ns=5000, factor=2.0)


def test_the_bound_doubles_up_to_the_cap() -> None:
    plain = RetryPolicy(attempts_max=9, base_ns=1000, cap_ns=5000, factor=2.0, jitter=False)
    assert [delay_ns(plain, n, 0) for n in (1, 2, 3, 4, 400)] == [1000, 2000, 4000, 5000, 5000]


def test_jitter_is_full_and_even() -> None:
    draws = [delay_ns(POLICY, 3, seed) for seed in range(2000)]
    assert min(draws) < 100
    assert max(draws) > 3900
    assert max(draws) < 4000
    assert 1800 < sum(draws) / len(draws) < 2200


def test_the_same_seed_draws_the_same() -> None:
    assert uniform(42) == uniform(42) != uniform(43)


def test_only_listed_kinds_are_retried_and_only_so_often() -> None:
    assert retries(POLICY, "error", 2)
    assert not retries(POLICY, "error", 3)
    assert not retries(POLICY, "payload", 1)


def test_each_retry_from_the_one_that_is_named_goes_one_class_down() -> None:
    def classes(lower_after: int) -> list[int]:
        found, policy = [1], RetryPolicy(attempts_max=9, lower_after=lower_after)
        for attempt in range(1, 6):
            found.append(next_class(policy, found[-1], attempt))
        return found

    assert classes(0) == [1] * 6
    assert classes(1) == [1, 2, 3, 3, 3, 3]
    assert classes(3) == [1, 1, 1, 2, 3, 3]

"""Whether, when and in which class an attempt that failed is tried again: exponential backoff, full jitter.

Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 ("full jitter": uniform between 0 and the bound).
The draw comes from a hash of what is retried, so the same inputs give the same decision (guarantee G10) while tasks
that fail together still spread out.
"""

from __future__ import annotations

from actors.protocol.kinds import PRIORITIES, RetryPolicy

_MASK = (1 << 64) - 1


def uniform(seed: int) -> float:
    """A number in [0, 1) from a seed: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) / (1 << 53)


def delay_ns(policy: RetryPolicy, attempt: int, seed: int) -> int:
    """Nanoseconds to wait after failed attempt number `attempt` (1, 2, ...)."""
    exponent = min(attempt - 1, 63)
    bound = min(policy.cap_ns, policy.base_ns * policy.factor**exponent)
    return int(bound * uniform(seed)) if policy.jitter else int(bound)


def retries(policy: RetryPolicy, failure_kind: str, attempt: int) -> bool:
    """Whether a failure of this kind at this attempt is tried again."""
    return attempt < policy.attempts_max and failure_kind in policy.on


def next_class(policy: RetryPolicy, class_: int, attempt: int) -> int:
    """Class of what follows failed attempt number `attempt` of a task of class `class_`: that, or the next one down."""
    lowers = 0 < policy.lower_after <= attempt
    return min(class_ + lowers, len(PRIORITIES) - 1)

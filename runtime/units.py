"""Times: seconds where people set and read them, whole nanoseconds everywhere else."""

from __future__ import annotations

from typing import Final

NS_PER_S: Final = 1_000_000_000


def seconds_to_ns(seconds: float | None) -> int | None:
    """Integer nanoseconds of a time in seconds; None stays None."""
    return None if seconds is None else int(seconds * NS_PER_S)

"""Figures of profiles for people."""

from __future__ import annotations

from datetime import UTC, datetime

from runtime.cli.report import duration_text
from runtime.profile.model import NANOSECONDS


def amount_text(value: int, unit: str) -> str:
    """A weight."""
    return duration_text(value) if unit == NANOSECONDS else f"{value:,}"


def rate_text(value: float, unit: str) -> str:
    """A side of a comparison: a time by the second, or a number."""
    return f"{duration_text(round(value))}/s" if unit == NANOSECONDS else f"{value:,.0f}"


def moment_text(wall_ns: int) -> str:
    """A time of the wall clock, the same in every zone."""
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

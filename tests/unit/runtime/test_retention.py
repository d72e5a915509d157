"""Retention: bounds, and the part of it that concerns the archive."""

from __future__ import annotations

import pytest

from actors.archived import ArchiveRule
from actors.protocol import limits
from runtime.errors import ConfigurationError
from runtime.retention import ARCHIVE_BYTES, Retention

DAY_NS = 86_400 * 10**9


def test_retention_is_bounded_by_the_limits() -> None:
    Retention(runs=1, nodes=1)
    with pytest.raises(ConfigurationError):
        Retention(runs=limits.RUNS_FINISHED_MAX + 1)
    with pytest.raises(ConfigurationError):
        Retention(nodes=0)


def test_a_week_unless_something_else_is_said() -> None:
    assert Retention().archive_rule() == ArchiveRule(7 * DAY_NS, {}, ARCHIVE_BYTES)
    assert hash(Retention()) == hash(Retention())


def test_some_stay_longer_than_others() -> None:
    retention = Retention(archive=86_400, archive_by={"state:failed": None, "type:gpu": 0.5}, archive_bytes=None)
    assert retention.archive_rule() == ArchiveRule(DAY_NS, {"state:failed": None, "type:gpu": 500_000_000}, None)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Retention(archive=-1, archive_by={"state:running": 1, "type:gpu": -1}, archive_bytes=-1)
    told = str(refused.value)
    for name in ("archive must be", "'state:running'", "'type:gpu'", "archive_bytes"):
        assert name in told

"""Which subjects a stream of NATS takes."""

from __future__ import annotations

import pytest

pytest.importorskip("nats")

from runtime.bridges.nats import covers


@pytest.mark.parametrize(
    ("pattern", "subject", "takes"),
    [
        ("a.>", "a.run.failed", True),
        ("a.*.*", "a.run.failed", True),
        ("a.*", "a.run.failed", False),
        ("a.run.failed", "a.run.failed", True),
        (">", "a", True),
        ("a.>", "a", False),
        ("b.>", "a.run.failed", False),
        ("a.run.failed.more", "a.run.failed", False),
    ],
)
def test_patterns_of_subjects(pattern: str, subject: str, takes: bool) -> None:
    assert covers(pattern, subject) is takes

"""What is judged of a long run: the first third does not count, what grows is said to."""

from __future__ import annotations

from runtime.bench.workloads.soak import Reading, judged


def readings(disk_per_s: float) -> list[Reading]:
    """Twelve minutes, of which the first two fill what is empty; written and cut again and again."""
    return [
        Reading(float(at), min(at, 120) * 1e5 + (at % 20) * 1e4 + disk_per_s * at, 5e7 + at % 7, 90.0)
        for at in range(720)
    ]


def test_what_fills_at_the_beginning_is_not_growth() -> None:
    extra, lines = judged(readings(0))
    assert [extra[f"{name}_flat"] for name in ("disk", "memory", "descriptors")] == [1, 1, 1]
    assert sum(": flat" in line for line in lines) == 3


def test_what_grows_is_said_to() -> None:
    extra, lines = judged(readings(1e4))
    assert extra["disk_flat"] == 0
    assert 5e5 < extra["disk_a_minute"] < 7e5
    assert "grows" in lines[0]
    assert extra["memory_flat"] == 1

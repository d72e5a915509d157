"""The table of `top`: it fits the terminal, and counts threads as `ps` does."""

from __future__ import annotations

import pytest

from runtime.profile.cli.top import table
from runtime.profile.ledger.books import Count
from runtime.profile.model import Process
from runtime.profile.presence.processes import Looked, ProcessChange

COUNTS = {"task": Count(1_234, 1_300, 66, 5), "thread": Count(9, 9, 0, 5), "descriptor": Count(375, 400, 25, 5)}
NOW = Looked(
    Process(21755, 1, "worker", 2, "http"),
    COUNTS,
    10,
    9,
    0,
    0,
    0,
    33 << 20,
    threads=4,
    self_ns=0,
    state="S",
    answers=True,
)
ROWS = [ProcessChange(NOW, 0.5, 0.25, 0.001, {})]


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40])
def test_columns_that_matter_least_are_left_out_where_there_is_no_room(width: int) -> None:
    lines = table(ROWS, width)
    assert max(map(len, lines)) <= width
    assert lines[0].split()[:2] == ["pid", "process"]
    assert ("messages" in lines[0]) == (width > 120)
    assert ("tasks" in lines[0]) == (width >= 60)


def test_into_a_file_all_is_written() -> None:
    head, line, _ = table(ROWS)
    assert head.split()[-2:] == ["profiler", "%"]
    assert line.split()[-3:] == ["4", "375", "0.10"], "threads as the kernel counts them"

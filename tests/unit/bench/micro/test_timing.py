"""Timing of small operations."""

from __future__ import annotations

import pytest

from bench.micro import __main__ as command
from bench.micro.timing import Operation, cost_ns


def test_cost_is_per_item() -> None:
    calls = []
    cost = cost_ns(Operation("append", lambda: calls.append(1), items=10), round_ns=10_000, rounds=2)
    assert 0 < cost < 10_000
    assert len(calls) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("part", command.PARTS)
def test_every_operation_of_every_part_runs(part: str) -> None:
    for operation in command.PARTS[part]():
        operation.run()
        operation.run()


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["frobnicate"]) == 2
    assert "known: primitives" in capsys.readouterr().err

"""Comparing two recorded runs: ratios always, absolute figures only on the same machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import compare

MACHINE = {"cpu": "fast", "cores": 2, "python": "CPython 3.11.7", "file_system": "ext4"}


def run(ratio: float, rate: float, *, durability: str = "fsync", **machine: Any) -> dict[str, Any]:
    row = {"scenario": "dag", "durability": durability, "ratio": ratio, "ratio_spread": [ratio * 0.9, ratio * 1.1]}
    return {"machine": {**MACHINE, **machine}, "results": [{**row, "tasks_per_second": rate, "p50_us": 1e6 / rate}]}


def test_a_gain_is_above_one_whatever_the_direction_of_the_figure() -> None:
    lines, good = compare.compare(run(8.0, 1000.0), run(16.0, 2000.0))
    assert good
    assert [line.split()[1] for line in lines[1:]] == ["ratio", "tasks_per_second", "p50_us"]
    assert all(line.endswith("2.00x") for line in lines[1:])


def test_below_the_old_spread_is_worse() -> None:
    lines, good = compare.compare(run(8.0, 1000.0), run(7.0, 1000.0))
    assert not good
    assert lines[1].endswith("worse than all of the old run")


def test_within_the_old_spread_is_not() -> None:
    assert compare.compare(run(8.0, 1000.0), run(7.5, 900.0))[1]


def test_other_machines_compare_ratios_only() -> None:
    lines, good = compare.compare(run(8.0, 1000.0), run(9.0, 10.0, cores=64))
    assert good
    assert [line.split()[1] for line in lines[2:]] == ["ratio"]


def test_other_promises_are_not_compared() -> None:
    lines, _ = compare.compare(run(8.0, 1000.0), run(9.0, 10.0, durability="none"))
    assert "not compared" in lines[1]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(run(8.0, 1000.0)))
    new.write_text(json.dumps(run(2.0, 1000.0)))
    assert compare.main([str(old), str(new)]) == 1
    assert compare.main([str(old)]) == 2
    assert compare.main([str(old), str(tmp_path / "none.json")]) == 2
    assert "dag" in capsys.readouterr().out

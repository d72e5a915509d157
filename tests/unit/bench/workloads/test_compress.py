"""The state of many runs by encoding: each way keeps account of what it writes, and reads it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.bench.figures import BenchError
from runtime.bench.lives import Lives
from runtime.bench.workloads import compress
from runtime.bench.workloads.base import Setup
from runtime.bench.workloads.compress import CHECKPOINTS, FORMAT_1, OURS, CompressScenario


@pytest.mark.slow
def test_the_table_has_a_row_for_each_way_and_ours_is_the_smallest(tmp_path: Path) -> None:
    sample = CompressScenario().run(Setup(10_000, 2, None, tmp_path, smoke=True))
    rows = [line.split(" | ") for line in sample.lines if line.startswith("| ") and "published" not in line][1:]
    sizes = {name.removeprefix("| "): int(size.replace(",", "")) for name, size, *_ in rows}
    assert {"JSON", "JSON, deltas", "columns, zstd", "columns, zstd, deltas", OURS, FORMAT_1} <= sizes.keys()
    assert min(sizes, key=sizes.__getitem__) == OURS
    assert 23 * sizes[OURS] < sizes["JSON"]
    assert sample.tasks == 10 * CHECKPOINTS
    assert sample.extra["checkpoint_db_checkpoint_bytes"] == pytest.approx(10 * sizes[OURS], rel=0.01)


def test_the_first_checkpoint_is_not_counted_and_what_is_lost_is_found(tmp_path: Path) -> None:
    lives = Lives(3, 200)
    way = compress._Own(str(tmp_path))
    way.checkpoint(lives.lives, 0)
    assert (way.bytes, way.writes, way.elapsed_ns) == (0, 0, 0)
    lives.move_on(4, 1_000_000_000)
    way.checkpoint(lives.lives, 1)
    assert way.bytes > 0
    assert way.writes == 3
    way.check(lives, lives.lives[2])
    lives.move_on(4, 1_000_000_000)
    with pytest.raises(BenchError, match="is not what was written"):
        way.check(lives, lives.lives[2])

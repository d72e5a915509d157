"""How often there are checkpoints in the scenario, and the last one of a folder that nobody has open."""

from __future__ import annotations

from pathlib import Path

from actors.protocol import limits
from runtime.bench.workloads import checkpoint as module
from runtime.bench.workloads import recovery
from runtime.bench.workloads.base import Setup
from runtime.storage.verify import verify
from tests.unit.storage.states import busy_log, make_folder


def test_the_last_one_has_all_that_the_log_says(tmp_path: Path) -> None:
    records = busy_log()
    make_folder(tmp_path, records)
    module._take(tmp_path)
    assert verify(tmp_path).checkpoint_lsn == records[-1].lsn + 1  # the mark that closes it in good order


def test_small_sizes_have_checkpoints_too(tmp_path: Path) -> None:
    for tasks in (10, 10_000, 1_000_000, 4_000_000):
        setup = Setup(tasks, 2, "fsync", tmp_path)
        least = recovery.checkpoint_bytes_of(setup)
        assert limits.CHECKPOINT_BYTES_MIN <= least <= limits.CHECKPOINT_BYTES
        assert least == limits.CHECKPOINT_BYTES_MIN or least < tasks / 2 * 20

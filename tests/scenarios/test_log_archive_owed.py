"""A folder with an archive that is opened without one for once: nothing that the archive should have is lost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from runtime import NodeType, Retention, Runtime
from tests.scenarios import handlers_payloads
from tests.scenarios.test_log_archive import opened, until_archived
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow

ONE = [NodeType("default", workers=1)]
NAMES = [f"large-{number}" for number in range(6)]


def without(state_dir: Path, **more: Any) -> Runtime:
    return Runtime(
        state_dir, node_types=ONE, durability="os", checkpoint_bytes=None, retention=Retention(runs=1), **more
    )


def names_in(state_dir: Path) -> set[str]:
    """Runs that have large values."""
    return {path.name for path in (state_dir / "blobs").iterdir()}


def forget_all(rt: Runtime) -> None:
    """Work until memory holds none of the runs."""

    def none_left() -> bool:
        rt.submit(math.sqrt, 2.0).result(timeout=30)
        return not {run.run_id for run in rt.runs(archived=False)} & set(NAMES)

    until(none_left, "a memory without them")


def test_large_values_on_their_way_to_the_archive_stay(state_dir: Path) -> None:
    """Some were let go of before, the others now; their own files go as ever."""
    with opened(state_dir, checkpoint_bytes=1 << 20) as rt:  # which is not reached
        for name in NAMES:
            rt.submit(handlers_payloads.make_array, 1 << 17, run_id=name).result(timeout=60)
        assert 0 < len({run.run_id for run in rt.runs(archived=False)} & set(NAMES)) < len(NAMES)
    for _ in range(2):
        with without(state_dir) as rt:
            forget_all(rt)
            for name in NAMES:
                assert float(rt.handle(name).result()[-1]) == (1 << 17) - 1
            assert {run.run_id for run in rt.runs()} >= set(NAMES)
            told = rt.query("SELECT run_id FROM runs WHERE archived = 1 AND run_id LIKE 'large-%' ORDER BY run_no")
            assert [row[0] for row in told] == NAMES
            rt.submit(handlers_payloads.make_array, 1 << 17, run_id="own").result(timeout=60)
            for _ in range(3):
                rt.submit(math.sqrt, 2.0).result(timeout=30)
            until(lambda: not (state_dir / "blobs" / "own").exists(), "the file of a run of its own to go")
    assert names_in(state_dir) >= set(NAMES)
    with opened(state_dir) as rt:
        until_archived(rt, *NAMES)
        for name in NAMES:
            assert float(rt.handle(name).result()[-1]) == (1 << 17) - 1
        until(lambda: not names_in(state_dir) & set(NAMES), "their first names to go")


def test_who_wants_no_archive_has_none(state_dir: Path) -> None:
    """With checkpoints, but no time in the archive, what is forgotten is forgotten."""
    with opened(state_dir, checkpoint_bytes=1 << 20) as rt:
        for name in NAMES:
            rt.submit(handlers_payloads.make_array, 1 << 17, run_id=name).result(timeout=60)
    with opened(state_dir, retention=Retention(runs=1, archive=0)) as rt:
        forget_all(rt)
        until(lambda: not names_in(state_dir) & set(NAMES), "their files to go")

"""Times of nodes, read from the frames in which their results came."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.run import Run
from actors.timing import first_start_ns, keep_frame, read_timing


def frame(*groups: tuple[int, list[int]], pid: int = 7) -> bytes:
    """Each node takes 10 ns; the groups of a frame begin at 1,000, 2,000, ..."""
    rows = [
        [1, no, nodes, [None] * len(nodes), 1000 * place, [10 * (i + 1) for i in range(len(nodes))]]
        for place, (no, nodes) in enumerate(groups, 1)
    ]
    return orjson.dumps([pid, rows])


def run_of(size: int) -> Run:
    return Run.of_tasks(1, "s-1", "s", 1, 0, [], None, [None] * size)


def test_times_follow_each_other_within_a_group_and_are_on_the_wall_clock() -> None:
    run = run_of(3)
    keep_frame(run, 50_000, frame((1, [2, 0])), [2, 0], 100)
    assert read_timing(run, range(3)) == {2: (51_000, 51_010, 7), 0: (51_010, 51_020, 7)}
    assert read_timing(run, range(1, 2)) == {}
    assert read_timing(run, range(0)) == {}


def test_a_frame_with_several_groups_is_kept_once() -> None:
    run = run_of(9)
    raw = frame((1, [3]), (2, [0]), (1, [8, 1]))
    keep_frame(run, 0, raw, [3], 100)
    keep_frame(run, 0, raw, [8, 1], 100)
    assert [(low, high) for _, _, low, high in run.frames] == [(1, 8)]
    assert sorted(read_timing(run, range(9))) == [1, 3, 8]


def test_an_attempt_without_success_counts_when_it_was_the_latest() -> None:
    run = run_of(2)
    run.own_rare().ended[1] = (5, 6, 9)
    assert read_timing(run, range(2)) == {1: (5, 6, 9)}


def test_only_frames_that_may_hold_the_nodes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(1000)
    for first in range(0, 1000, 10):
        nodes = range(first, first + 10)
        keep_frame(run, 0, frame((1, list(nodes))), nodes, 100)
    read: list[bytes] = []
    loads = orjson.loads

    def counted(raw: bytes) -> Any:
        read.append(raw)
        return loads(raw)

    monkeypatch.setattr("actors.timing.orjson.loads", counted)
    assert len(read_timing(run, range(500, 520))) == 20
    assert len(read) == 2


def test_the_first_start_is_that_of_any_attempt_of_the_run() -> None:
    run = run_of(4)
    assert first_start_ns(run) is None
    keep_frame(run, 50_000, frame((2, [0]), (1, [2])), [2], 100)
    assert first_start_ns(run) == 52_000
    run.own_rare().ended[3] = (51_000, 51_001, 9)
    assert first_start_ns(run) == 51_000

"""Cells are settled once; a batch enters each result once, in place or as it arrives."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from runtime.host.pending import ERROR, FAILED, MISSING, OPEN, VALUE, MapChunk, Pending


def test_a_cell_is_settled_once() -> None:
    cell, woken = Pending(), []  # type: ignore[var-annotated]
    assert not cell.done()
    cell.settle(VALUE, 1, woken)
    cell.settle(FAILED, 2, woken)
    assert (cell._state, cell._value, woken) == (VALUE, 1, [])
    assert cell.done()


def test_hooks_are_called_once() -> None:
    cell, woken, seen = Pending(), [], []  # type: ignore[var-annotated]
    cell._hooks = [seen.append, seen.append]
    cell.settle(VALUE, 1, woken)
    assert woken == [cell]
    assert seen == []
    cell.call_hooks()
    cell.call_hooks()
    assert seen == [cell, cell]


def filled(size: int, *groups: tuple[list[int] | int, list[Any]], sink: deque[Any] | None = None) -> MapChunk:
    batch = MapChunk(size, sink)
    for nodes, values in groups:
        batch.fill(nodes, values, True, [])
    return batch


@pytest.mark.parametrize(
    "groups",
    [
        [(0, [10, 11, 12, 13])],
        [([0, 1, 2, 3], [10, 11, 12, 13])],
        [([3, 1, 0, 2], [13, 11, 10, 12])],
        [([0, 1], [10, 11]), ([2, 3], [12, 13])],
        [([2, 3], [12, 13]), ([0, 1], [10, 11])],
        [([1], [11]), ([0, 1, 2, 3], [10, 99, 12, 13])],
        [(0, [10, 11]), ([0, 1, 2, 3], [99, 99, 12, 13])],
        [([0, 1], [10, 11]), ([1, 0], [99, 99]), ([3, 2], [13, 12])],
    ],
)
def test_results_find_their_places_and_come_twice_without_harm(groups: list[Any]) -> None:
    batch = filled(4, *groups)
    assert batch.values == [10, 11, 12, 13]
    assert batch._state == VALUE
    assert batch.missing == 0


def test_how_far_results_are_there() -> None:
    batch = filled(4, ([0, 1, 3], [10, 11, 13]))
    assert batch.ready_until(0) == 2
    assert batch.ready_until(2) == 2
    assert MapChunk(4).ready_until(0) == 0
    batch.fill([2], [12], True, [])
    assert batch.ready_until(2) == 4


def test_a_failure_takes_the_place_of_a_result() -> None:
    batch = filled(3, ([0, 2], [1, 3]))
    batch.fail(1, "failed", {"kind": "error"}, [])
    batch.fail(1, "failed", {"kind": "again"}, [])
    assert batch.failures == {1: ("failed", {"kind": "error"})}
    assert batch.values == [1, None, 3]
    assert batch._state == VALUE


def test_arrivals_go_to_the_sink_once() -> None:
    sink: deque[Any] = deque()
    batch = filled(4, ([1], [11]), ([0, 1, 2], [10, 99, 12]), sink=sink)
    batch.fail(3, "failed", {}, [])
    assert list(sink) == [([11], False), ([10, 12], False), (3, "failed", {})]


def test_a_stir_is_told_at_the_next_result_and_at_the_end() -> None:
    batch, woken = MapChunk(2), []  # type: ignore[var-annotated]
    for end in (lambda: batch.fill([0], [1], True, woken), lambda: batch.settle(ERROR, None, woken)):
        batch.stir = stir = Pending()
        end()
        assert stir._state != OPEN
        assert batch.stir is None


def test_a_frame_with_extensions_marks_the_batch() -> None:
    batch = MapChunk(2)
    batch.fill(0, [1], True, [])
    assert not batch.wire
    batch.fill([1], [{"!": ["tree"]}], False, [])
    assert batch.wire
    assert MISSING not in batch.values

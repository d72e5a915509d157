"""`map`: order, windows, chunks, failures at their place, and what happens to the rest."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from actors.protocol import limits
from runtime import Runtime, testing
from runtime.errors import CallerError, ConfigurationError, HandlerRefused, PayloadError, TaskFailed, UnknownNodeType
from runtime.mapping import Mapping, Source
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one, echo, gather, odd_only, through_gate

# --- the source -------------------------------------------------------------------------------------------------------


def test_chunks_grow_while_the_iterable_is_fast() -> None:
    source = Source(iter(range(10_000)), None)
    sizes = []
    while found := source.pull():
        sizes.append(len(found))
    assert sizes[0] == limits.MAP_CHUNK_FIRST
    assert sum(sizes) == 10_000
    assert max(sizes) <= limits.MAP_CHUNK_MAX
    assert source.exhausted


def test_a_slow_iterable_is_read_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAP_PULL_NS", -1)
    source = Source(iter(range(3)), None)
    assert [source.pull() for _ in range(4)] == [[0], [1], [2], []]
    assert source.exhausted


def test_chunks_are_bounded_by_size_and_rate() -> None:
    source = Source(itertools.count(), None)
    source.fast = True
    for _ in range(20):
        source.pull()
    source.limit(limits.FRAME_BYTES_MAX / 40, 0.0)
    assert len(source.pull()) == 10
    source.limit(10.0, 1000.0)
    assert len(source.pull()) == 1000 * limits.MAP_CHUNK_NS // 10**9
    source.limit(10.0, 1.0)
    assert len(source.pull()) == limits.MAP_CHUNK_FIRST
    assert len(Source(itertools.count(), 7).pull()) == 7


# --- results ----------------------------------------------------------------------------------------------------------


def test_results_in_order(rt: Runtime) -> None:
    assert list(rt.map(add_one, range(5000))) == list(range(1, 5001))
    assert list(rt.map(add_one, [])) == []


def test_results_as_they_come(rt: Runtime) -> None:
    assert sorted(rt.map(add_one, range(3000), ordered=False)) == list(range(1, 3001))


def test_several_iterables_end_with_the_shortest(rt: Runtime) -> None:
    assert list(rt.map(gather, range(3), "abcd")) == [[[i, c], {}] for i, c in zip(range(3), "abc", strict=True)]


def test_a_partial_ships_its_arguments(rt: Runtime) -> None:
    assert list(rt.map(functools.partial(gather, "x"), [1, 2])) == [[["x", 1], {}], [["x", 2], {}]]
    assert list(rt.map(functools.partial(gather, k=1), [1], [2])) == [[[1, 2], {"k": 1}]]


def test_values_of_all_kinds(rt: Runtime) -> None:
    values = [1, (2,), {3: 4}, b"5", 2**70, "x" * 100_000, None, [1.5], {"!": 1}]
    assert list(rt.map(echo, values)) == values
    assert list(rt.map(echo, values, ordered=False, chunk=2)).count((2,)) == 1
    assert [row[0] for row in rt.map(gather, values, values)] == [[v, v] for v in values]


def test_chunks_of_any_size(rt: Runtime) -> None:
    for chunk in (1, 3, 1024):
        assert sum(rt.map(add_one, range(100), chunk=chunk)) == sum(range(1, 101))


def test_items_too_large_for_one_frame_are_split(rt: Runtime) -> None:
    items = ["x" * 60_000] * 40
    assert list(rt.map(len, items)) == [60_000] * 40


def test_the_window_bounds_how_far_ahead_the_iterable_is_read(rt: Runtime) -> None:
    read = 0

    def source() -> Iterator[int]:
        nonlocal read
        while True:
            read += 1
            yield read

    with rt.map(add_one, source(), window=50) as results:
        for taken, _ in enumerate(results, 1):
            assert read - taken <= 50 + 50
            if taken == 500:
                break


def test_an_endless_iterable(rt: Runtime) -> None:
    assert list(itertools.islice(rt.map(add_one, itertools.count(), window=1000), 2000)) == list(range(1, 2001))


def test_nothing_is_submitted_before_the_first_result_is_asked_for(rt: Runtime) -> None:
    results = rt.map(add_one, range(10))
    assert rt._client.outbox.seq == 0
    assert next(results) == 1
    assert rt._client.outbox.seq > 0
    assert list(results) == list(range(2, 11))


def test_early_results_are_handed_out_before_the_chunk_is_done(rt: Runtime) -> None:
    results = rt.map(through_gate, range(4), chunk=4)
    handlers.GATE.set()
    assert next(results) == 0
    assert list(results) == [1, 2, 3]


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failing_item_raises_at_its_place(rt: Runtime) -> None:
    taken = []
    with pytest.raises(TaskFailed, match="4 is even") as failed:
        taken.extend(rt.map(odd_only, [1, 3, 4, 5]))
    assert taken == [1, 3]
    assert type(failed.value.__cause__) is ValueError
    assert any("item 2" in note for note in failed.value.__notes__)


@pytest.mark.parametrize("ordered", [True, False])
def test_failures_as_values(rt: Runtime, ordered: bool) -> None:
    found = list(rt.map(odd_only, range(100), return_exceptions=True, ordered=ordered))
    assert sum(isinstance(value, TaskFailed) for value in found) == 50
    assert sorted(value for value in found if isinstance(value, int)) == list(range(1, 100, 2))
    if ordered:
        assert [isinstance(value, TaskFailed) for value in found] == [True, False] * 50


def test_a_failure_among_arrivals_is_raised(rt: Runtime) -> None:
    with pytest.raises(TaskFailed, match="is even"):
        list(rt.map(odd_only, [1, 2, 3], ordered=False))


def test_an_item_that_cannot_be_stored_is_named(rt: Runtime) -> None:
    with pytest.raises(PayloadError) as refused:
        list(rt.map(echo, [1, 2, object()], chunk=2))
    assert refused.value.path.startswith("[2]")
    with pytest.raises(PayloadError) as refused:
        list(rt.map(gather, [1, 2], [1, object()]))
    assert refused.value.path.startswith("[1][1]")
    with pytest.raises(PayloadError) as refused:
        list(rt.map(functools.partial(gather, k=1), [1, object()]))
    assert refused.value.path.startswith("[1]")


def test_an_iterable_that_raises(rt: Runtime) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(rt.map(add_one, source()))


def test_bad_arguments_are_refused_at_once(rt: Runtime) -> None:
    for bad, error in (
        (lambda: rt.map(add_one), CallerError),
        (lambda: rt.map(add_one, [1], window=0), ConfigurationError),
        (lambda: rt.map(add_one, [1], chunk=0), ConfigurationError),
        (lambda: rt.map(add_one, [1], chunk=limits.MAP_CHUNK_MAX + 1), ConfigurationError),
        (lambda: rt.map(lambda x: x, [1]), HandlerRefused),
        (lambda: rt.options(node_type="gpu").map(add_one, [1]), UnknownNodeType),
        (lambda: rt.map(add_one, 5), TypeError),
    ):
        with pytest.raises(error):
            bad()


# --- the rest ---------------------------------------------------------------------------------------------------------


BEYOND_A_SHARE = 2 * testing._SHARE
"""Items of the first chunk, which may be all that was submitted: so many that some of them wait in the engine."""


def cancelled(rt: Runtime) -> int:
    return sum(run.counts.cancelled for run in rt.runs())


def test_closing_early_cancels_what_is_outstanding(rt: Runtime) -> None:
    results = rt.map(handlers.first_passes, range(400), chunk=BEYOND_A_SHARE, window=400)
    assert next(results) == 0
    results.close()
    with pytest.raises(StopIteration):
        next(results)
    for _ in range(10_000):  # each look is an answer of the engine
        if cancelled(rt):
            break
    else:
        pytest.fail("nothing was cancelled")


def test_dropping_the_iterator_cancels_too(rt: Runtime) -> None:
    for value in rt.map(handlers.first_passes, range(500), chunk=BEYOND_A_SHARE):
        assert value == 0
        break
    for _ in range(10_000):
        if cancelled(rt):
            break
    else:
        pytest.fail("nothing was cancelled")


def test_the_engine_is_full(rt: Runtime) -> None:
    outbox = rt._client.outbox
    mapping = Mapping(rt._dispatch, add_one, (range(100),), None, True, 10, False)
    mapping.submit_next()
    held, outbox.bytes_held = outbox.bytes_held, 1 << 40
    before = outbox.seq
    for _ in range(3):
        with pytest.raises(Exception, match="not durable"):
            mapping.submit_next()
    outbox.bytes_held = held
    mapping.submit_next()
    assert outbox.seq == before + 1
    found: list[Any] = []
    while not mapping.finished:
        values, error = mapping.take()
        assert error is None
        found += values
        if mapping.wants_more:
            mapping.submit_next()
        elif not values and (cell := mapping.stir()) is not None:
            assert rt._client.wait(cell, 10)
    assert found == list(range(1, 101))

"""Buckets: weights add up, and there are bounds."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from runtime.profile.sampling.buckets import (
    BUCKET_BYTES_MAX,
    BUCKET_NS,
    BUCKET_ROWS_MAX,
    CROWDED,
    RING_BYTES_MAX,
    RING_S,
    ROWS_MAX,
    Buckets,
    since,
)

CODES = [(lambda: None).__code__, (lambda: 1).__code__, (lambda: 2).__code__]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(-1, 3), st.sampled_from(["a", "b"]), st.integers(0, 9), st.booleans()),
        max_size=40,
    )
)
def test_weights_add_up(steps: list[tuple[int, int, str, int, bool]]) -> None:
    made, now_ns = Buckets(), 0
    for code, offset, label, ns, closes in steps:
        made.add((CODES[code],), (offset,), (("n", label),), "t", ns)
        now_ns += 1
        if closes:
            made.close(now_ns)
    made.close(now_ns + 1)
    rows = [row for bucket in made.closed(0) for row in bucket.rows.values()]
    if len(made.closed(0)) <= RING_S:
        assert sum(row.ns for row in rows) == sum(step[3] for step in steps)
        assert sum(row.seen for row in rows) == len(steps)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=30),
    st.integers(0, 10**9),
)
def test_ticks_of_a_second_stand_for_as_much_of_it_each(ticks: list[tuple[int, int, int]], rest_ns: int) -> None:
    """And what a call took beyond its gap is its own; the sum stays what the clock said."""
    made = Buckets()
    for code, even_ns, late_ns in ticks:
        made.ticked(made.add((CODES[code],), (0,), (), "t", late_ns), even_ns)
    made.add((CODES[0],), (9,), (), "other", 7)  # none of a timer
    made.open.even_ns += rest_ns  # of the gap that was going on
    made.close(1)
    (bucket,) = made.closed(0)
    assert sum(row.ns for row in bucket.rows.values()) == sum(even + late for _, even, late in ticks) + rest_ns + 7
    each_ns = (sum(even for _, even, _ in ticks) + rest_ns) / len(ticks)
    for row in bucket.rows.values():
        if row.thread == "t":
            late_ns = sum(late for code, _, late in ticks if (CODES[code],) == row.places)
            assert abs(row.ns - late_ns - each_ns * row.seen) <= len(ticks)


def test_equal_stacks_are_one_row_and_others_are_not() -> None:
    made = Buckets()
    for offset, label, thread in ((0, "a", "t"), (0, "a", "t"), (1, "a", "t"), (0, "b", "t"), (0, "a", "u")):
        made.add((CODES[0],), (offset,), (("n", label),), thread, 1)
    assert sorted(row.seen for row in made.open.rows.values()) == [1, 1, 1, 2]


def test_a_second_and_the_ring_have_bounds() -> None:
    made = Buckets()
    for number in range(BUCKET_ROWS_MAX + 10):
        made.add((CODES[0],), (number,), (), "t", 1)
    assert len(made.open.rows) == BUCKET_ROWS_MAX + 1
    assert sum(row.seen for row in made.open.rows.values() if row.places == (CROWDED,)) == 10
    for second in range(RING_S * 2):
        for number in range(1_000):
            made.add((CODES[0],), (number,), (), "t", 1)
        made.close(second)
    assert sum(len(bucket.rows) for bucket in made.ring) <= ROWS_MAX
    made.forget()
    assert made.closed(0) == []


def test_a_second_without_rows_is_none() -> None:
    made = Buckets()
    made.close(BUCKET_NS)
    assert made.closed(0) == []
    assert not made.is_over(BUCKET_NS + 1)
    assert made.is_over(2 * BUCKET_NS)


def test_only_what_began_since_then_is_read() -> None:
    made = Buckets()
    for second in range(1, 4):
        made.add((CODES[0],), (0,), (), "t", 1)
        made.close(second * BUCKET_NS)
    assert [bucket.begun_ns for bucket in made.closed(2 * BUCKET_NS)] == [2 * BUCKET_NS]


def test_a_second_that_nobody_closed_for_long_is_as_old_as_it_is() -> None:
    """Where little is computed the next tick, which closes it, comes late: what it found is of its own second."""
    made = Buckets()
    made.open.begun_ns = BUCKET_NS
    for closed_s in (41, 42, 50):
        made.add((CODES[0],), (0,), (), "t", 1)
        made.close(closed_s * BUCKET_NS)
    begun = {back_s: [one.begun_ns // BUCKET_NS for one in since(made.ring, back_s * BUCKET_NS)] for back_s in (0, 30)}
    assert begun == {0: [1, 41, 42], 30: [41, 42]}
    assert [one.begun_ns // BUCKET_NS for one in since(made.ring, 42 * BUCKET_NS + 7)] == [42], "that is cut"


def test_the_deepest_stacks_take_no_more_memory_than_is_said() -> None:
    """PROFILER.md 4.6: at most 16 MiB a process, of which a ring for what computes and one for what waits."""
    made, depth, offset = Buckets(), 192, 1_000
    tracemalloc.start()
    try:
        for second in range(8):
            for _ in range(300):
                offset += depth
                made.add((CODES[0],) * depth, tuple(range(offset, offset + depth)), (), "t", 1)
            made.close(second)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0 < used <= made.bytes + made.open.bytes + 100_000
    assert made.bytes <= RING_BYTES_MAX
    assert made.rows == sum(len(bucket.rows) for bucket in made.ring)
    assert made.bytes == sum(bucket.bytes for bucket in made.ring)
    crowded = [row.seen for bucket in made.ring for row in bucket.rows.values() if row.places == (CROWDED,)]
    assert all(bucket.bytes <= BUCKET_BYTES_MAX + 1_000 for bucket in made.ring)
    assert crowded
    assert 2 * RING_BYTES_MAX + BUCKET_BYTES_MAX <= 16 << 20

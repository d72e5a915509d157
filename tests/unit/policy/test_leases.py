"""Lease books: serials, fencing, counting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.leases import LeaseBook

KIND: Any = SimpleNamespace(priority=2)


def book_with(*sizes: int) -> LeaseBook[str]:
    book: LeaseBook[str] = LeaseBook()
    for size in sizes:
        book.grant("run", KIND, list(range(size)))
    return book


def test_serials_are_consecutive_over_groups_and_never_used_again() -> None:
    book = book_with(3, 2)
    assert book.open_serials() == [1, 2, 3, 4, 5]
    assert book.finish(1, 3) is not None
    assert book.grant("run", KIND, [7]).base == 6


@pytest.mark.parametrize(("serial", "count"), [(0, 1), (4, 1), (1, 4), (3, 2), (99, 1)])
def test_what_is_not_wholly_held_cannot_be_finished(serial: int, count: int) -> None:
    book = book_with(3)
    assert book.finish(serial, count) is None
    assert book.held == 3


def test_a_lease_is_finished_once() -> None:
    book = book_with(3)
    assert book.finish(2, 1) is not None
    assert book.finish(2, 1) is None
    assert book.finish(1, 3) is None
    assert book.open_serials() == [1, 3]
    book.check_invariants()


def test_leases_of_several_groups_are_finished_together() -> None:
    book = book_with(3, 2, 4)
    parts = book.finish_span(2, 6)
    assert [(group.base, start, count) for group, start, count in parts] == [(1, 1, 2), (4, 0, 2), (6, 0, 2)]
    assert book.open_serials() == [1, 8, 9]
    book.check_invariants()


@pytest.mark.parametrize(("serial", "count"), [(0, 2), (2, 4), (4, 3), (8, 3), (99, 1)])
def test_of_several_groups_all_are_finished_or_none(serial: int, count: int) -> None:
    book = book_with(3, 2, 4)
    book.finish(5, 1)
    assert book.finish_span(serial, count) == []
    assert book.open_serials() == [1, 2, 3, 4, 6, 7, 8, 9]
    book.check_invariants()


def test_empty_groups_go() -> None:
    book = book_with(2, 2, 2)
    book.finish(3, 2)
    assert [group.base for group in book.groups()] == [1, 5]
    assert book.find(3) is None
    assert book.find(5) is not None
    book.check_invariants()


def test_invariants_find_a_wrong_count() -> None:
    book = book_with(2)
    book.held += 1
    with pytest.raises(AssertionError, match="held"):
        book.check_invariants()


def test_what_is_held_is_counted_by_class() -> None:
    book: LeaseBook[str] = LeaseBook()
    for lane, size in ((2, 3), (0, 2), (2, 1)):
        book.grant("run", SimpleNamespace(priority=lane), list(range(size)))
    assert book.held_of == [2, 0, 4, 0]
    book.finish(4, 1)
    book.finish_span(2, 2)
    assert book.held_of == [1, 0, 2, 0]
    book.check_invariants()


def test_the_slot_of_an_attempt_that_serials_have_lapped_is_left_out() -> None:
    book: LeaseBook[str] = LeaseBook(slots=16)
    for _ in range(10):
        book.grant("run", KIND, [0])
    for serial in (*range(1, 4), *range(5, 11)):
        book.finish(serial, 1)
    assert book.free_run() == (11, 8)
    book.grant("run", KIND, list(range(8)))
    book.finish(11, 8)
    assert book.free_run() == (19, 1), "20 has the slot of 4, which is open"
    book.grant("run", KIND, [0])
    assert book.grant("run", KIND, [0]).base == 21
    assert book.open_serials() == [4, 19, 21]
    book.check_invariants()


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 1 << 16)), max_size=60))
def test_no_two_open_leases_share_a_slot(steps: list[tuple[int, int]]) -> None:
    """Grants of any size within what is free, and ends in any order: some leases stay open for many laps."""
    book: LeaseBook[str] = LeaseBook(slots=16)
    for wanted, ends in steps:
        _, room = book.free_run()
        if (count := min(wanted, room, 12 - book.held)) > 0:
            book.grant("run", KIND, list(range(count)))
        for serial in [s for i, s in enumerate(book.open_serials()) if ends >> i & 1]:
            assert book.finish(serial, 1) is not None
        book.check_invariants()


def test_leases_beyond_the_first_of_a_batch_are_counted() -> None:
    book = book_with(2)
    first = book.grant("run", KIND, [0, 1], batch=7)
    book.grant("other", KIND, [5], batch=7)
    book.grant("run", KIND, [2], batch=8)
    assert first.batch is not None
    assert (first.batch.open_serials(), first.batch.size) == ([3, 4, 5], 3)
    assert (book.held, book.surplus) == (6, 2)
    assert (book.held_of, book.units_of()) == ([0, 0, 6, 0], [0, 0, 4, 0])
    surplus = []
    for serial in (4, 6, 3, 5):
        assert book.finish(serial, 1) is not None
        book.check_invariants()
        surplus.append(book.surplus)
    assert surplus == [1, 1, 0, 0]


def test_a_wrong_surplus_is_found() -> None:
    book = book_with()
    book.grant("run", KIND, [0, 1], batch=1)
    book.surplus = 0
    with pytest.raises(AssertionError, match="batches"):
        book.check_invariants()

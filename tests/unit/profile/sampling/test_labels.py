"""Labels: where they come from, where they go, and how many are kept apart."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.profile.sampling.labels import (
    LABELS,
    MAIN,
    OTHER,
    THREADS,
    VALUE_CHARS_MAX,
    AttemptLabels,
    LabelSets,
    carrying,
    current,
    expand,
    label_main,
    labels,
)

KIND = {"handler": "shop:pay", "name": "pay", "tenant": "acme"}


def test_an_attempt_is_labelled_by_what_its_worker_knows() -> None:
    made = AttemptLabels(KIND, "checkout", "http", 2)
    expected = ("actor", "pay"), ("attempt", "2"), ("node_type", "http"), ("tenant", "acme"), ("workflow", "checkout")
    assert made.labels() == expected


def test_a_run_without_a_name_is_called_as_its_task_and_the_default_tenant_not_at_all() -> None:
    found = dict(AttemptLabels({"handler": "shop:pay"}, "", "http").labels())
    assert found == {"actor": "pay", "attempt": "1", "node_type": "http", "workflow": "pay"}


def test_labels_of_users_come_on_top_and_go() -> None:
    def inside() -> None:
        LABELS.set(AttemptLabels(KIND, "checkout", "http"))
        before = current()
        with labels(customer="x" * 1_000, attempt=7):
            found = dict(current())
            assert found["customer"] == "x" * VALUE_CHARS_MAX
            assert found["attempt"] == "7"
            assert found["workflow"] == "checkout"
            assert [name for name, _ in current()] == sorted(found)
        assert current() == before

    contextvars.Context().run(inside)


def test_tasks_and_threads_inherit_them() -> None:
    async def part() -> Any:
        return current()

    async def whole() -> None:
        with labels(customer="acme"):
            expected = current()
            task = asyncio.create_task(part())
            assert await asyncio.to_thread(current) == expected
        assert await task == expected
        assert current() == ()

    asyncio.run(whole())


def test_a_block_that_is_left_in_another_context_does_no_harm() -> None:
    block = labels(customer="acme")
    contextvars.Context().run(block.__enter__)
    contextvars.Context().run(block.__exit__)
    assert current() == ()


def test_a_thread_says_whose_work_it_does_while_it_does_it() -> None:
    seen: list[Any] = []

    def work() -> None:
        seen.append((expand(THREADS.by_thread[threading.get_ident()]), current()))

    with labels(customer="acme"):
        run = carrying()
        expected = current()
    thread = threading.Thread(target=run, args=(work,))
    thread.start()
    thread.join()
    assert seen == [(expected, expected)]
    assert thread.ident not in THREADS.by_thread


def test_the_main_thread_is_labelled_for_others_too() -> None:
    def inside() -> None:
        label_main(made)
        assert LABELS.get() is THREADS.by_thread[MAIN] is made
        label_main(None)
        assert current() == ()

    made = AttemptLabels(KIND, "checkout", "http")
    contextvars.Context().run(inside)


@given(st.lists(st.integers(0, 9) | st.none()), st.integers(1, 5))
def test_so_many_sets_are_kept_apart_in_a_generation(steps: list[int | None], most: int) -> None:
    sets = LabelSets(most)
    seen: set[Any] = set()
    lost = 0
    for step in steps:
        if step is None:
            sets.age()
            seen.clear()
            continue
        asked = (("n", str(step)),)
        found = sets.keep(asked)
        if asked in seen or len(seen) < most:
            assert found == asked
            seen.add(asked)
        else:
            assert found == OTHER
            lost += 1
    assert sets.overflowed == lost

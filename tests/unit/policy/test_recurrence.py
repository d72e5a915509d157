"""What is due, what of it was missed, and what of that is caught up; times on a plain grid."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.recurrence import Recurrence, Ripe, jitter_of, ripe
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError

S = 1_000_000_000
MINUTE = 60 * S


class Minutes:
    """Every whole minute, whatever is asked for."""

    looks = 0

    def next_ns(self, expression: str, zone: str, after_ns: int) -> int | None:
        self.looks += 1
        return (after_ns // MINUTE + 1) * MINUTE


def judged(after_ns: int, now_ns: int, **plan: Any) -> Ripe:
    return ripe(Recurrence(cron="*", **plan), "job", Minutes(), after_ns, now_ns)


def test_nothing_is_due_before_its_time() -> None:
    assert judged(0, MINUTE - 1) == Ripe()
    assert judged(0, MINUTE) == Ripe((MINUTE,), (), False, MINUTE)


def test_a_little_late_is_on_time() -> None:
    late = limits.SCHEDULE_LATE_NS
    for catch_up in ("none", "latest", "all"):
        assert judged(0, MINUTE + late, catch_up=catch_up).on_time == (MINUTE,)
    assert judged(0, MINUTE + late + 1, catch_up="none") == Ripe((), (), True, MINUTE)
    assert judged(0, MINUTE + late + 1, catch_up="latest") == Ripe((), (MINUTE,), False, MINUTE)


def test_of_what_was_missed_the_latest_is_kept_unless_something_is_on_time() -> None:
    now = 120 * MINUTE
    assert judged(0, now) == Ripe((now,), (), True, now)
    assert judged(0, now + 30 * S) == Ripe((), (now,), True, now)
    assert judged(0, now + 30 * S, catch_up="none") == Ripe((), (), True, now)
    everything = judged(0, now, catch_up="all")
    assert everything == Ripe((now,), tuple(n * MINUTE for n in range(1, 120)), False, now)


def test_all_is_bounded_and_long_ago_is_not_looked_at() -> None:
    now = 10_000_000 * MINUTE
    found = judged(0, now, catch_up="all")
    assert (len(found.missed) + len(found.on_time), found.dropped) == (limits.SCHEDULE_QUEUED_MAX, True)
    calendar = Minutes()
    ripe(Recurrence(cron="*"), "job", calendar, 0, now)
    assert calendar.looks < 100


def test_an_interval_is_as_a_grid() -> None:
    found = ripe(Recurrence(every_ns=10 * S, catch_up="all"), "job", Minutes(), 3, 35 * S)
    assert found == Ripe((30 * S + 3,), (10 * S + 3, 20 * S + 3), False, 30 * S + 3)


@given(name=st.text(min_size=1), due=st.integers(0, 1 << 62), jitter=st.integers(1, limits.SCHEDULE_JITTER_NS_MAX))
def test_jitter_is_bounded_and_the_same_each_time(name: str, due: int, jitter: int) -> None:
    found = jitter_of(name, due, jitter)
    assert 0 <= found < jitter
    assert found == jitter_of(name, due, jitter)
    assert jitter_of(name, due, 0) == 0


@given(
    after=st.integers(0, 10 * MINUTE),
    steps=st.lists(st.integers(1, 3 * MINUTE), min_size=1, max_size=30),
    every=st.one_of(st.none(), st.integers(S, 4 * MINUTE)),
    catch_up=st.sampled_from(("latest", "none", "all")),
    jitter=st.integers(0, S),
)
def test_each_due_time_is_judged_once_whenever_one_looks(
    after: int, steps: list[int], every: int | None, catch_up: str, jitter: int
) -> None:
    plan = Recurrence(cron=None if every else "*", every_ns=every, catch_up=catch_up, jitter_ns=jitter)
    begin, now = after, after
    kept: list[int] = []
    for step in steps:
        now += step
        found = ripe(plan, "job", Minutes(), after, now)
        assert all(due + jitter_of("job", due, jitter) <= now for due in (*found.missed, *found.on_time))
        kept += (*found.missed, *found.on_time)
        if found.until_ns is not None:
            assert found.until_ns > after
            after = found.until_ns
    assert kept == sorted(set(kept))
    due, grid = plan.next_ns(Minutes(), begin), []
    while due is not None and due <= after:
        grid.append(due)
        due = plan.next_ns(Minutes(), due)
    assert set(kept) <= set(grid)
    if catch_up == "all":
        assert kept == grid
    assert due is None or due + jitter_of("job", due, jitter) > now


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, ["either cron or every"]),
        ({"cron": "* * * * *", "every_ns": S}, ["either cron or every"]),
        ({"cron": ""}, ["cron must be a text"]),
        ({"cron": 5, "zone": ""}, ["cron must be a text", "zone must be"]),
        ({"cron": "x" * 500}, ["cron must be a text"]),
        ({"every_ns": 0}, ["every must be"]),
        ({"every_ns": 1.5}, ["every must be"]),
        ({"every_ns": True}, ["every must be"]),
        ({"every_ns": S, "zone": "Europe/Berlin"}, ["zone is for cron"]),
        ({"every_ns": S, "jitter_ns": 2 * S}, ["jitter must not be longer"]),
        ({"every_ns": S, "jitter_ns": -1, "catch_up": "x", "overlap": 7}, ["jitter must be", "catch_up", "overlap"]),
        ({"every_ns": S, "catch_up": "all", "overlap": "cancel"}, ["exclude each other"]),
    ],
)
def test_what_cannot_be_is_refused_with_all_problems(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Recurrence.of(data)
    assert [word for word in words if word not in refused.value.message] == []


def test_a_plan_comes_back_from_its_plain_form() -> None:
    for plan in (Recurrence(cron="@daily", zone="Europe/Berlin", jitter_ns=5), Recurrence(every_ns=S, overlap="queue")):
        assert Recurrence.of(plan.to_json()) == plan

"""Grades: what grows and stays is a leak, a backlog is none, and the arithmetic is that of the books."""

from __future__ import annotations

import math
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.profile.leak_check.grading import (
    INFO,
    LEAK,
    SUSPECT,
    Finding,
    Series,
    Signature,
    at_least,
    order,
    theil_sen,
    worst,
)
from runtime.profile.model import Frame, Process

S = 1_000_000_000
START = 1_000 * S
TTL = 10 * S


def graded(series: Series) -> str:
    return series.facts().grade()


def looked(alive_at: Sequence[Sequence[int]], warm: int = 0, ttl_ns: int = TTL) -> Series:
    """Windows of a second each; each has the births (in seconds) of those that live."""
    series = Series(ttl_ns, warm)
    for second, births in enumerate(alive_at):
        series.look(START + second * S, [START + born * S for born in births])
    return series


def test_what_is_never_released_is_a_leak() -> None:
    series = looked([range(-30, second) for second in range(30)])
    assert graded(series) == LEAK
    assert series.facts().slope.value == pytest.approx(1.0)


def test_a_leak_amid_healthy_ones_of_the_same_signature_is_a_leak() -> None:
    """A hundred live for two seconds each, and one in each second stays."""
    windows = [[*range(-60, second), *[second - 1] * 50, *[second - 2] * 50] for second in range(30)]
    assert graded(looked(windows)) == LEAK


def test_a_backlog_grows_and_is_old_and_is_no_leak() -> None:
    """Ten come in a second, five are taken, the oldest first: its head moves by half a second a second."""
    windows = [[-40 + item // 10 for item in range(second * 5, 400 + second * 10)] for second in range(40)]
    facts = looked(windows).facts()
    assert (facts.grows, facts.many, facts.old, facts.stays) == (True, True, True, False)
    assert facts.grade() == SUSPECT


def test_a_steady_queue_is_nothing_much() -> None:
    facts = looked([range(second - 8, second) for second in range(30)]).facts()
    assert not any((facts.grows, facts.stays, facts.many, facts.old))
    assert facts.grade() == ""


def test_services_that_were_there_when_it_was_warm_are_not_many() -> None:
    facts = looked([[-100] * 40] * 10, warm=40).facts()
    assert not facts.many
    assert not facts.grows
    assert facts.grade() == SUSPECT, "they stay and are old: declare them daemons"


def test_a_short_look_never_says_that_it_grows() -> None:
    assert graded(looked([range(-30, second * 10) for second in range(5)])) == SUSPECT


def test_one_fact_is_only_said() -> None:
    assert graded(looked([range(-5, 12)])) == INFO


def test_what_is_gone_is_nothing() -> None:
    assert graded(looked([range(-30, second) for second in range(30)] + [[]])) in ("", INFO)


def test_counts_without_times_can_grow_only() -> None:
    series = Series(TTL)
    for second in range(20):
        series.look(START + second * S, (), count=100 + second)
    facts = series.facts()
    assert (facts.grows, facts.stays, facts.many, facts.old) == (True, False, True, False)


def test_the_interval_is_that_of_the_books() -> None:
    """Squares of 0 to 5 have the slopes i + j: 1 2 3 3 4 4 5 5 5 6 6 7 7 8 9. Six points without ties have the variance
    28.3 of S, so the interval goes from the second to the last but one."""
    assert theil_sen(range(6), [n * n for n in range(6)]) == (5, 2, 8)
    assert theil_sen(range(3), [0, 1, 2]) == (1, -math.inf, math.inf), "three points say nothing"


POINTS = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), min_size=2, max_size=24, unique_by=lambda pair: pair[0]
)


@given(POINTS, st.integers(-1_000, 1_000), st.integers(-1_000, 1_000))
def test_a_line_that_is_added_adds_its_slope(points: list[tuple[int, int]], by: int, base: int) -> None:
    times = [float(time) for time, _ in points]
    before = theil_sen(times, [float(value) for _, value in points])
    after = theil_sen(times, [float(value + by * time + base) for time, value in points])
    assert math.isclose(after.value, before.value + by, rel_tol=1e-6, abs_tol=1e-6)


@given(POINTS)
def test_the_interval_holds_its_slope_and_mirrors(points: list[tuple[int, int]]) -> None:
    times = [float(time) for time, _ in points]
    slope = theil_sen(times, [float(value) for _, value in points])
    assert slope.low <= slope.value <= slope.high
    turned = theil_sen(times, [float(-value) for _, value in points])
    assert (turned.low, turned.value, turned.high) == (-slope.high, -slope.value, -slope.low)


@given(st.integers(1, 50), st.integers(0, 200), st.integers(7, 40))
def test_what_only_grows_is_found_from_any_beginning(rate: int, before: int, seconds: int) -> None:
    births = [-20] * before
    windows = []
    for second in range(seconds + 20):
        births = births + [second] * rate
        windows.append(list(births))
    assert graded(looked(windows)) == LEAK or len(births) <= 16


@given(st.lists(st.integers(0, 5), min_size=12, max_size=40), st.integers(1, 5))
def test_what_is_taken_within_its_time_is_never_a_leak(arrivals: list[int], life: int) -> None:
    windows = [
        [born for born in range(second) for _ in range(arrivals[born]) if born > second - life]
        for second in range(len(arrivals))
    ]
    assert graded(looked(windows)) != LEAK


def finding(grade: str = LEAK, count: int = 1, proved: bool = False) -> Finding:
    site, wait = (Frame("create", "app.py", 3),), (Frame("run", "app.py", 9),)
    process = Process(7, 8, "worker", 3, "http")
    return Finding(
        grade, "task", count, 60.0, 12.0, Signature("task", site, wait).id, site, wait, (("tenant", "a"),), "worker",
        "it grows", ("job",), "end it", proved, (("a", 1),), 5, "1", process,
    )  # fmt: skip


def test_findings_survive_json() -> None:
    found = finding()
    assert Finding.of_json(orjson.loads(orjson.dumps(found.as_json()))) == found
    assert "created at create (app.py:3), waits at run (app.py:9) in worker 3 [http] (pid 7)" in found.line()


def test_the_worst_comes_first() -> None:
    rows = [finding(INFO), finding(LEAK, 5), finding(SUSPECT), finding(LEAK, 1, proved=True)]
    ordered = sorted(rows, key=order)
    assert [(row.grade, row.proved) for row in ordered] == [
        (LEAK, True), (LEAK, False), (SUSPECT, False), (INFO, False),
    ]  # fmt: skip
    assert worst(rows) == LEAK
    assert worst(rows[:1]) == INFO
    assert worst([]) == ""
    assert len(at_least(rows, SUSPECT)) == 3


def test_a_signature_is_the_same_everywhere() -> None:
    one = Signature("task", (Frame("a", "f.py", 1),))
    assert one.id == Signature("task", (Frame("a", "f.py", 1),)).id
    assert one.id != Signature("task", (Frame("a", "f.py", 2),)).id

"""Answers of processes as one profile: what is added, what is said of those that are missing, and differences."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.errors import CallerError
from runtime.host import kernel
from runtime.profile.captures import capture
from runtime.profile.captures.capture import delta, kept, merged_answers
from runtime.profile.leak_check.survey import survey
from runtime.profile.model import COUNT, CPU, NANOSECONDS, Frame, Process, Profile, StackSample
from runtime.profile.presence.control import Answers
from runtime.profile.sampling.sampler import AwaitSampler, CpuSampler

ME = Process(os.getpid(), kernel.start_time(os.getpid()), "worker", 1, "http")
GONE = Process(os.getpid(), 1, "worker", 2, "http")
SAMPLE = StackSample((Frame("f", "a.py", 1),), (("node_type", "http"), ("tenant", "acme")), ME, "MainThread")


def profile_of(*values: int, unit: str = NANOSECONDS) -> Profile:
    made = Profile(CPU, unit, begun_ns=5, duration_ns=7)
    for line, value in enumerate(values):
        if value:
            made.add(SAMPLE._replace(stack=(Frame("f", "a.py", line),)), value)
    return made


def test_all_that_answered_is_one_profile_and_who_did_not_is_named() -> None:
    rows = [(ME, profile_of(3).to_json()), (GONE, profile_of(4).to_json()), (ME, b"nonsense")]
    found = merged_answers(Answers(rows, [ME._replace(number=3)], [(ME._replace(number=4), "why")]), Profile())
    assert found.total().value == 7
    assert found.duration_ns == 7
    pid = os.getpid()
    assert found.notes[1:] == [
        f"worker 2 [http] (pid {pid}) ended meanwhile; up to a second of it is missing",
        f"worker 4 [http] (pid {pid}) could not answer: why",
        f"worker 3 [http] (pid {pid}) could not be seen",
    ]
    assert found.notes[0].startswith(f"worker 1 [http] (pid {pid}): ")


def test_labels_that_are_not_asked_for_are_dropped_and_sums_stay() -> None:
    profile = profile_of(3)
    profile.add(SAMPLE._replace(labels=(("node_type", "http"), ("tenant", "umbrella"))), 5)
    found = kept(profile, ["node_type"])
    assert found.by("node_type", "tenant") == {("http", ""): found.total()}
    assert found.total() == profile.total()
    assert kept(profile, []) is profile


@given(st.lists(st.integers(0, 5), max_size=6), st.lists(st.integers(0, 5), max_size=6))
def test_a_difference_added_to_what_was_is_what_is(before: list[int], after: list[int]) -> None:
    was, now = profile_of(*before, unit=COUNT), profile_of(*after, unit=COUNT)
    found = delta(was, now)
    assert all(weight.value for _, weight in found)
    again = was.merge(found)
    values = {sample: weight.value for sample, weight in again if weight.value}
    assert values == {sample: weight.value for sample, weight in now}


@pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan"), float("inf"), "5"])
def test_times_out_of_range_are_refused_before_anybody_is_asked(seconds: Any) -> None:
    with pytest.raises(CallerError, match="patience must be above 0 and at most 3600, not"):
        capture.live("/nowhere", patience=seconds)
    for look in (capture.cpu, capture.flight):
        with pytest.raises(CallerError, match="seconds must be above 0 and at most 3600, not"):
            look("/nowhere", seconds)
    if seconds != 0:
        with pytest.raises(CallerError, match="seconds must be 0 to 3600, not"):
            capture.leaks("/nowhere", seconds=seconds)
    with pytest.raises(CallerError):
        capture.awaits("/nowhere", 1.0, hz=seconds)


def test_what_is_none_of_a_few_words_is_refused_with_all_of_them() -> None:
    """A grade, or a kind of flight; before anybody is asked."""
    for look in (partial(capture.leaks, "/nowhere"), partial(survey, "/nowhere")):
        with pytest.raises(ValueError, match="a grade is 'leak', 'suspect', 'info', not 'bad'"):
            look(min_grade="bad")
    with pytest.raises(CallerError, match="kind must be 'cpu' or 'await', not 'live'"):
        capture.flight("/nowhere", kind="live")


def test_rates_that_no_sampler_takes_are_refused_before_anybody_is_asked() -> None:
    for record, sampler, least, most in (
        (capture.cpu, CpuSampler, capture.HZ_MIN, capture.HZ_MAX),
        (capture.awaits, AwaitSampler, capture.AWAIT_HZ_MIN, capture.AWAIT_HZ_MAX),
    ):
        for hz in (least, most):
            sampler(hz)
        for hz in (least * 0.9, most * 1.1):
            with pytest.raises(ValueError, match="hz must be"):
                sampler(hz)
            with pytest.raises(CallerError, match="hz must be"):
                record("/nowhere", 1.0, hz=hz)

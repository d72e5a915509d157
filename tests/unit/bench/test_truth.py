"""Shares of a profile beside shares of clocks."""

from __future__ import annotations

import pytest

from runtime.bench.truth import Found, Shares, apart, leaves_of, work_of
from runtime.bench.workloads.profile_truth import table
from runtime.profile.model import Frame, Profile, StackSample
from runtime.profile.sampling.ticks import SELF


def test_how_far_apart_two_distributions_are() -> None:
    assert apart({"a": 1, "b": 1}, {"a": 50, "b": 50}) == (0.0, 0.0)
    assert apart({"a": 1}, {"b": 7}) == (1.0, 1.0)
    distance, worst = apart({"a": 60, "b": 36, "c": 4}, {"a": 60, "b": 40}, 0.05)
    assert (distance, worst) == (pytest.approx(0.04), pytest.approx(0.04))
    assert apart({"a": 97, "c": 3}, {"a": 98, "c": 2}, 0.5)[1] == pytest.approx(0.01)
    assert apart({}, {}) == (0.0, 0.0)


def test_stacks_are_of_the_kind_that_is_innermost_and_leaves_have_no_class() -> None:
    assert work_of((Frame("in_python"), Frame("load"), Frame("in_json"), Frame("JSONDecoder.raw_decode"))) == "in_json"
    assert work_of((Frame("main"),)) == "(other)"
    profile = Profile()
    profile.add(StackSample((Frame("JSONDecoder.raw_decode", "a.py", 3),)), 5)
    profile.add(StackSample((Frame("raw_decode", "a.py", 4),)), 6)
    profile.add(StackSample((Frame(SELF),)), 7)
    assert leaves_of(profile) == {"raw_decode": 11}


def test_a_table_has_all_three() -> None:
    shares = Shares({"in_json": 30, "in_zlib": 70}, {"in_json": 32, "in_zlib": 68})
    found = Found(shares, Shares({"refund": 1}, {"refund": 1}), 100, 99, 7, {})
    assert (found.functions.error(), found.sum_error()) == (pytest.approx(0.02), pytest.approx(0.01))
    assert Found.of_json([list(shares), list(found.workflows), *found[2:]]) == found
    spied = Profile()
    spied.add(StackSample((Frame("in_json"),)), 1)
    lines = table(found, spied)
    assert lines[1].split() == ["in_json", "30.0%", "32.0%", "100.0%"]
    assert lines[3].split() == ["refund", "100.0%", "100.0%", "-"]

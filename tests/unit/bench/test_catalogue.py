"""The catalogue: all scenarios by name, and a helpful refusal of others."""

from __future__ import annotations

import pytest

from runtime.bench import catalogue
from runtime.bench.figures import BenchError


def test_the_promised_scenarios_are_there() -> None:
    throughput = "map submit chain dag roundtrip wfformat memory coldstart recovery events retention mail metg".split()
    who_is_next = "mixed fair starvation headofline policy-cost polling".split()
    inside = "pool gc profile-cost profile-truth scale".split()
    the_log = "checkpoint compress openruns soak".split()
    assert [scenario.name for scenario in catalogue.SCENARIOS] == throughput + who_is_next + inside + the_log


def test_every_scenario_says_what_a_task_is_and_has_two_sizes() -> None:
    for scenario in catalogue.SCENARIOS:
        assert scenario.title
        assert 1 <= scenario.tasks_smoke <= scenario.tasks_default


def test_no_name_means_those_about_speed_and_others_are_asked_for() -> None:
    speed, who_is_next, the_log = (catalogue.named(names) for names in ([], ["next"], ["log"]))
    assert [speed[-1].name, who_is_next[0].name, the_log[0].name] == ["metg", "mixed", "checkpoint"]
    assert speed + who_is_next + the_log == catalogue.named(["all"]) == list(catalogue.SCENARIOS)
    assert [scenario.name for scenario in catalogue.named(["next", "map", "fair"])][-2:] == ["scale", "map"]


def test_names_in_the_order_given_each_once() -> None:
    assert [scenario.name for scenario in catalogue.named(["metg", "map", "metg"])] == ["metg", "map"]


def test_an_unknown_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(BenchError, match=r"unknown scenario 'chian', did you mean chain\? known: map, submit"):
        catalogue.named(["chian"])

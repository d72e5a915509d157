"""The policy as a value: what it takes, what it refuses (all at once), and how two words about it become one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.policy import policy as module
from actors.policy.policy import Policy, node_types_in
from actors.protocol import limits
from actors.protocol.errors import CallerError, ConfigurationError

FULL: dict[str, Any] = {
    "shares": {"realtime": [0.2, 1.0], "low": [0.0, 0.5]},
    "ageing_ns": 1_000,
    "weights": {"acme": 2.0, "": 0.5},
    "quotas": {"key:printer": 1, "tenant:": 4, "class:low": 2, "type:cpu": 8},
    "rates": {"api": [10.0, 5]},
    "paused": ["rate:api", "tenant:acme"],
}


def problems(change: dict[str, Any], policy: Policy | None = None) -> str:
    with pytest.raises(ConfigurationError) as refused:
        (policy or Policy()).changed(change)
    return refused.value.message


def test_its_json_makes_an_equal_one() -> None:
    policy = Policy.of(FULL)
    assert policy.to_json() == FULL
    assert Policy.of(orjson.loads(orjson.dumps(policy.to_json()))) == policy
    assert Policy.of({}) == Policy()
    assert Policy().ageing_ns == limits.AGEING_NS


def test_it_cannot_be_changed_in_place() -> None:
    policy = Policy.of(FULL)
    with pytest.raises(TypeError):
        policy.quotas["key:printer"] = 2  # type: ignore[index]
    data = {"quotas": {"key:a": 1}}
    made = Policy.of(data)
    data["quotas"]["key:a"] = 2
    assert made.quotas == {"key:a": 1}


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"shares": {"realtime": [-0.1, 1.0]}}, "realtime must keep 0 to 1"),
        ({"shares": {"realtime": [0.6, 0.5]}}, "keeps more"),
        ({"shares": {"realtime": [0.0, 0.0]}}, "more than 0"),
        ({"shares": {"realtime": [0.6, 1.0], "low": [0.6, 1.0]}}, "120% of the slots"),
        ({"shares": {"urgent": [0.1, 1.0]}}, "'urgent' is none of realtime, high, normal, low"),
        ({"shares": {"low": 0.5}}, "must be two numbers: Share("),
        ({"shares": {"low": [True, 1.0]}}, "must be two numbers"),
        ({"ageing_ns": -1}, "ageing"),
        ({"ageing_ns": 1.5}, "ageing"),
        ({"weights": {"acme": 0}}, "above 0"),
        ({"weights": {"acme": float("nan")}}, "above 0"),
        ({"weights": {5: 1.0}}, "cannot be a tenant's name"),
        ({"quotas": {"key:printer": 0}}, "whole number from 1"),
        ({"quotas": {"key:printer": 1.0}}, "whole number from 1"),
        ({"quotas": {"key:printer": True}}, "whole number from 1"),
        ({"quotas": {"key:": 1}}, "needs a name"),
        ({"quotas": {"key:\ud800": 1}}, "needs a name"),
        ({"quotas": {"printer": 1}}, "is none of class:NAME"),
        ({"quotas": {"rate:api": 1}}, "is none of class:NAME"),
        ({"quotas": {"class:urgent": 1}}, "class 'urgent'"),
        ({"quotas": [1]}, "must be a dictionary"),
        ({"rates": {"": [1.0, 1]}}, "cannot be a rate key"),
        ({"rates": {"api": [0, 1]}}, "once a year"),
        ({"rates": {"api": [1.0, 0]}}, "burst of at least 1"),
        ({"rates": {"api": 5}}, "must be a rate and a burst: Rate("),
        ({"pause": "tenant:acme"}, "must be a list"),
        ({"pause": ["x" * 10_000]}, "is none of class:NAME"),
        ({"resume": [5]}, "resume: 5"),
        ({"colour": "red"}, "unknown settings: 'colour'"),
    ],
)
def test_what_cannot_be_is_refused(part: dict[str, Any], problem: str) -> None:
    told = problems(part)
    assert problem in told
    assert len(told) < 400
    if not {"pause", "resume"} & set(part):
        with pytest.raises(CallerError):
            Policy.of(part)


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"weights": {"tenant:acme": 2.0}}, "weights: 'tenant:acme' is a scope; name the tenant alone: 'acme'"),
        ({"weights": {"tenant:": 2.0}}, "name the tenant alone: ''"),
        ({"rates": {"rate:api": [1.0, 1]}}, "rates: 'rate:api' is a scope; name the rate key alone: 'api'"),
        ({"shares": {"class:low": [0.1, 0.5]}}, "shares: 'class:low' is a scope; name the class alone: 'low'"),
    ],
)
def test_a_scope_in_the_place_of_a_name_is_refused_when_it_is_set(part: dict[str, Any], problem: str) -> None:
    for said in (lambda: Policy.of(part, new=True), lambda: Policy().changed(part, new=True)):
        with pytest.raises(ConfigurationError) as refused:
            said()
        assert refused.value.message.endswith(problem)


def test_a_scope_in_the_place_of_a_name_that_was_taken_once_is_read_and_taken_away() -> None:
    before = Policy.of({"weights": {"tenant:acme": 2.0}, "rates": {"rate:api": [1.0, 1]}})
    after = before.changed(
        {"weights": {"tenant:acme": None}, "rates": {"rate:api": None, "tenant:acme": [1.0, 1]}}, new=True
    )
    assert (after.weights, after.rates) == ({}, {"tenant:acme": (1.0, 1)})


def test_all_problems_are_named_at_once() -> None:
    told = problems(
        {
            "shares": {"realtime": [-1, 1], "urgent": [0.1, 1]},
            "weights": {"acme": 0},
            "quotas": {"key:": 1, "key:a": 0},
            "rates": {"api": [1.0, 0]},
            "pause": ["x"],
            "colour": 1,
        }
    )
    for word in ("realtime", "urgent", "acme", "'key:'", "'key:a'", "'api'", "pause", "colour"):
        assert word in told


def test_a_change_touches_what_it_names() -> None:
    policy = Policy.of(FULL)
    changed = policy.changed({"quotas": {"key:printer": 3}, "weights": {"acme": None}, "pause": ["key:x"]})
    assert changed.quotas["key:printer"] == 3
    assert changed.weights == {"": 0.5}
    assert changed.paused == {"rate:api", "tenant:acme", "key:x"}
    assert (changed.rates, changed.shares, changed.ageing_ns) == (policy.rates, policy.shares, policy.ageing_ns)
    assert policy == Policy.of(FULL)
    assert changed.changed({"resume": ["key:x", "key:never"]}).paused == policy.paused
    assert policy.changed({"quotas": {"key:never": None}}) == policy


def test_shares_are_judged_together_with_what_stands() -> None:
    policy = Policy.of({"shares": {"realtime": [0.7, 1.0]}})
    assert "110% of the slots" in problems({"shares": {"high": [0.4, 1.0]}}, policy)
    assert policy.changed({"shares": {"high": [0.3, 1.0]}}).shares["high"] == (0.3, 1.0)
    assert Policy.of({"shares": {"realtime": [0.7, 1], "high": [0.2, 1], "low": [0.1, 1]}}).shares


def test_its_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POLICY_BYTES_MAX", 200)
    policy = Policy().changed({"weights": {"a": 2.0}})
    assert "over 200" in problems({"weights": {f"tenant-{n}": 2.0 for n in range(20)}}, policy)


def test_the_latest_word_counts_for_each_entry() -> None:
    before = Policy.of({"quotas": {"key:a": 1, "key:b": 1, "key:gone": 1}, "ageing_ns": 5})
    own = before.changed({"quotas": {"key:a": 9, "key:b": 9, "key:c": 9}, "weights": {"t": 2}, "pause": ["key:a"]})
    now = Policy.of({"quotas": {"key:a": 1, "key:b": 2}, "ageing_ns": 6})
    found = own.rebased(before, now)
    assert found.quotas == {"key:a": 9, "key:b": 2, "key:c": 9}
    assert found.weights == {"t": 2.0}
    assert found.ageing_ns == 6
    assert found.paused == {"key:a"}
    assert own.rebased(before, before) == own


def test_what_was_taken_away_at_run_time_stays_away() -> None:
    before = Policy.of({"quotas": {"key:a": 1}})
    assert before.changed({"quotas": {"key:a": None}}).rebased(before, before).quotas == {}


def test_shares_that_no_longer_fit_give_way() -> None:
    before = Policy.of({"shares": {"high": [0.1, 1.0]}})
    own = before.changed({"shares": {"low": [0.8, 1.0]}})
    now = Policy.of({"shares": {"high": [0.5, 1.0]}})
    assert own.rebased(before, now).shares == now.shares


def test_node_types_are_found_in_what_is_set() -> None:
    assert node_types_in({"quotas": {"type:a": 1, "type:b": None, "key:c": 1}, "pause": ["type:d"]}) == {"a", "d"}
    assert node_types_in({"paused": ["type:e"], "resume": ["type:f"]}) == {"e"}
    assert node_types_in({"quotas": 5}) == set()
    assert module.QUOTA_SCOPES == ("class", "tenant", "type", "key")

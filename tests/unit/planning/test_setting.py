"""Settings of a simulation: what comes of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.policy import Policy
from actors.protocol.errors import ConfigurationError
from runtime.planning.setting import EVERY, Setting, change_to, scope_of
from tests.unit.planning.histories import History, node_type

POLICIES = st.fixed_dictionaries(
    {
        "weights": st.dictionaries(st.sampled_from(["a", "b", ""]), st.sampled_from([0.5, 1.0, 2.0])),
        "quotas": st.dictionaries(st.sampled_from(["class:low", "tenant:a", "key:k"]), st.integers(1, 9)),
        "rates": st.dictionaries(st.sampled_from(["api", "web"]), st.tuples(st.sampled_from([1.0, 9.5]), st.just(2))),
        "shares": st.dictionaries(st.sampled_from(["low", "high"]), st.just([0.1, 0.5])),
        "paused": st.lists(st.sampled_from(["tenant:a", "class:low"]), unique=True),
        "ageing_ns": st.sampled_from([0, 5, 10**9]),
    }
)


@given(POLICIES, POLICIES)
def test_a_change_leads_from_one_policy_to_another(one: dict[str, Any], other: dict[str, Any]) -> None:
    before, after = Policy.of(one), Policy.of(other)
    assert before.changed(change_to(before, after)) == after
    assert change_to(before, before) == {}


def test_numbers_hold_for_a_node_type_or_for_the_others() -> None:
    types = (node_type("default", 3), node_type("io", 1, mode="asyncio", slots=9))
    history = History(*types)
    setting = Setting(workers={EVERY: 7, "io": 2}, slots={EVERY: 50}, prefetch={"default": 0})
    default, io = setting.node_types(history.recording())
    assert (default["workers_min"], default["workers_max"], default["slots"], default["prefetch"]) == (7, 7, 1, 0)
    assert (io["workers_max"], io["slots"], io["prefetch"]) == (2, 50, None)
    same = Setting().node_types(history.recording())
    assert [(data["workers_max"], data["slots"]) for data in same] == [(3, 1), (1, 9)]
    assert Setting().is_recorded
    assert not setting.is_recorded
    assert setting.words()[:2] == ["workers 7", "workers 2 of io"]


def test_all_problems_are_named_at_once() -> None:
    setting = Setting(workers={"nix": 1, EVERY: 0}, slots={"default": 5}, prefetch={EVERY: 10**9})
    with pytest.raises(ConfigurationError) as refused:
        setting.node_types(History().recording())
    text = str(refused.value)
    for part in ("node type 'nix'", "workers must be 1 to", "one task at a time", "prefetch must be 0 to"):
        assert part in text


def test_what_no_task_has_is_not_changed() -> None:
    history = History()
    history.tasks(0, 1, tenant="a", rate_key="api", priority="high")
    recording = history.recording()
    Setting(policy={"weights": {"a": 2}, "rates": {"api": [1, 1]}, "quotas": {"class:high": 1}}).refuse_unknown(
        recording
    )
    wrong = Setting(
        policy={
            "weights": {"b": 2},
            "rates": {"nix": [1, 1]},
            "quotas": {"class:low": 1, "key:k": 2},
            "shares": {"low": [0, 1]},
        }
    )
    with pytest.raises(ConfigurationError) as refused:
        wrong.refuse_unknown(recording)
    for part in ("tenant 'b'", "rate key 'nix'", "class 'low'", "concurrency key 'k'", "what there is: api"):
        assert part in refused.value.message


def test_the_policy_is_the_recorded_one_with_the_change() -> None:
    setting = Setting(policy={"quotas": {"class:low": 2, "tenant:a": None}})
    policy = setting.policy_over({"quotas": {"tenant:a": 4, "key:k": 1}})
    assert dict(policy.quotas) == {"class:low": 2, "key:k": 1}
    with pytest.raises(ConfigurationError):
        Setting(policy={"quotas": {"nix:low": 2}}).policy_over({})


def test_a_class_stands_for_its_scope() -> None:
    assert [scope_of(text) for text in ("low", "class:low", "tenant:low")] == ["class:low", "class:low", "tenant:low"]

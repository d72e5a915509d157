"""Who paused what is noted, kept and told; nothing is decided by it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.pauses import PauseNote, cause_of, notes_of
from actors.policy.policy import Policy
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError

SCOPES = ["key:a", "tenant:", "type:cpu", "class:low"]


def paused(policy: Policy, *scopes: str, at_ns: int = 7, **told: Any) -> Policy:
    return policy.changed({"pause": list(scopes), **told}, at_ns=at_ns)


def test_who_pauses_is_noted_until_somebody_resumes() -> None:
    policy = paused(Policy(), "key:a", "tenant:", by="ann@shop", reason="stock-taking")
    assert policy.pauses == dict.fromkeys(("key:a", "tenant:"), PauseNote("ann@shop", "stock-taking", 7))
    assert str(policy.pauses["key:a"]) == "by ann@shop since 1970-01-01 00:00:00 UTC (stock-taking)"
    resumed = policy.changed({"resume": ["key:a"]})
    assert dict(resumed.pauses) == {"tenant:": PauseNote("ann@shop", "stock-taking", 7)}
    assert paused(Policy(), "key:a").pauses == {}, "nobody said who"
    assert str(PauseNote("ann", "", 0)) == "by ann since 1970-01-01 00:00:00 UTC"


def test_who_paused_first_is_kept_unless_a_reason_is_given() -> None:
    policy = paused(Policy(), "key:a", by="ann")
    assert paused(policy, "key:a", by="bob", at_ns=9) == policy
    assert paused(policy, "key:a", by="bob", reason="fire", at_ns=9).pauses == {"key:a": PauseNote("bob", "fire", 7)}
    assert paused(paused(Policy(), "key:a"), "key:a", by="bob", at_ns=9).pauses == {"key:a": PauseNote("bob", "", 9)}


def test_notes_stay_when_the_program_sets_something_else() -> None:
    before = Policy.of({"quotas": {"key:a": 1}})
    own = paused(before, "key:a", by="ann")
    assert own.rebased(before, Policy.of({"quotas": {"key:a": 2}})).pauses == own.pauses


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"pause": ["key:a"], "by": ""}, "by must be"),
        ({"pause": ["key:a"], "by": 5}, "by must be"),
        ({"pause": ["key:a"], "by": "\ud800"}, "by must be"),
        ({"pause": ["key:a"], "by": "x" * 2000}, "by must be"),
        ({"pause": ["key:a"], "by": "ann", "reason": 5}, "reason must be"),
        ({"pause": ["key:a"], "by": "ann", "reason": "x" * 2000}, "reason must be"),
        ({"pause": ["key:a"], "reason": "fire"}, "by= is missing"),
        ({"resume": ["key:a"], "by": "ann"}, "nothing is paused"),
        ({"reason": "fire"}, "nothing is paused"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        Policy().changed(change)


@pytest.mark.parametrize(
    "rows", [5, {}, [5], [["ann", "", 7]], [["", "", 7, []]], [["ann", None, 7, []]], [["ann", "", 7.5, []]]]
)
def test_rows_that_are_none_are_refused(rows: Any) -> None:
    with pytest.raises(ConfigurationError, match="pauses"):
        Policy.of({"paused": ["key:a"], "pauses": rows})


def test_notes_of_what_is_not_paused_are_left_out() -> None:
    policy = Policy.of({"paused": ["key:a"], "pauses": [["ann", "", 7, ["key:a", "key:b", ["key:c"]]]]})
    assert dict(policy.pauses) == {"key:a": PauseNote("ann", "", 7)}


def test_a_form_without_notes_is_as_it_was() -> None:
    assert "pauses" not in paused(Policy(), "key:a").to_json()
    assert Policy.of({"paused": ["key:a"]}).pauses == {}


def test_notes_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POLICY_BYTES_MAX", 300)
    policy = paused(Policy(), "key:a", by="ann", reason="x" * 200)
    with pytest.raises(ConfigurationError, match="over 300"):
        paused(policy, "key:b", by="bob", reason="y" * 200)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["pause", "resume"]),
        st.lists(st.sampled_from(SCOPES), min_size=1, unique=True),
        st.sampled_from([None, "ann", "bob@shop"]),
        st.sampled_from(["", "fire", "ö"]),
    ),
    max_size=12,
)


@given(CHANGES)
def test_notes_follow_a_model_and_survive_the_log(changes: list[tuple[str, list[str], str | None, str]]) -> None:
    policy, model, held = Policy(), {}, set[str]()  # type: ignore[var-annotated]
    for at_ns, (what, scopes, by, reason) in enumerate(changes):
        told = {"by": by, "reason": reason} if what == "pause" and by is not None else {}
        policy = policy.changed({what: scopes, **told}, at_ns=at_ns)
        for scope in scopes:
            if what == "resume":
                held.discard(scope)
                model.pop(scope, None)
                continue
            held.add(scope)
            if by is not None and (scope not in model or reason):
                model[scope] = PauseNote(by, reason, model[scope].at_ns if scope in model else at_ns)
        assert (dict(policy.pauses), policy.paused) == (model, held)
        data = orjson.loads(orjson.dumps(policy.to_json()))
        assert Policy.of(data) == policy
        assert notes_of(data) == model


def test_a_change_in_words() -> None:
    assert cause_of({"pause": ["key:a", "key:b"], "by": "ann", "reason": "fire"}) == "key:a, key:b paused by ann: fire"
    assert cause_of({"pause": ["key:a"], "resume": ["key:b"]}) == "key:a paused; key:b resumed"
    assert cause_of({"quotas": {"key:a": 1}, "rates": {"api": [5.5, 2]}}) == "quota of key:a 1; rate of api 5.5 2"
    assert cause_of({"weights": {"": None}}) == "weight of the default tenant none"

"""Scopes: which a kind has, and what is said of a text that is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.policy.scopes import CLASS_SCOPES, QUOTA_WORDS, WORDS, Scope, name_problem, parse, problem, scopes_of
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from tests.unit.policy.scoped import FakeKind


def test_a_plain_kind_has_class_tenant_and_type() -> None:
    assert scopes_of(FakeKind()) == ("class:normal", "tenant:", "type:cpu")


def test_keys_come_behind() -> None:
    kind = FakeKind("gpu", 0, "acme", "printer", "api")
    assert scopes_of(kind) == ("class:realtime", "tenant:acme", "type:gpu", "key:printer", "rate:api")


def test_classes_are_named_by_their_index() -> None:
    assert CLASS_SCOPES == ("class:realtime", "class:high", "class:normal", "class:low")


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        (3, "text that begins with one of class:, tenant:, type:, key:, rate:, not 3"),
        (None, "not None"),
        ("acme", "'acme' does not say what it names"),
        ("", "'' does not say"),
        ("team:x", "unknown word"),
        (" tenant:x", "unknown word"),
        ("Tenant:x", "unknown word"),
        ("class:fast", "unknown class: classes are realtime, high, normal, low"),
        ("class:", "unknown class"),
        ("key:", "the name is empty"),
        ("type:", "the name is empty"),
        ("rate:", "the name is empty"),
        ("key:\ud800", "cannot be stored"),
        ("key:" + "é" * limits.NAME_BYTES_MAX, "2,048 bytes, 1,024 are allowed"),
    ],
)
def test_what_is_no_scope_is_refused_with_the_reason(scope: object, said: str) -> None:
    assert said in problem(scope)
    assert len(problem(scope)) < 250
    with pytest.raises(ConfigurationError, match=r"MS101"):
        parse(scope)


def test_a_rate_has_no_quota_and_can_be_paused() -> None:
    assert "cannot have a quota" in problem("rate:api", QUOTA_WORDS)
    assert parse("rate:api", WORDS) == Scope("rate", "api")


def test_the_default_tenant_has_an_empty_name() -> None:
    assert parse("tenant:") == Scope("tenant", "")


def test_a_name_may_hold_colons() -> None:
    assert parse("key:db:orders") == Scope("key", "db:orders")


@pytest.mark.parametrize(
    ("name", "fits"), [("x", True), ("", False), (7, False), ("x" * 1024, True), ("é" * 513, False)]
)
def test_names(name: object, fits: bool) -> None:
    assert (name_problem(name) == "") is fits


@pytest.mark.slow
@given(
    st.sampled_from(["cpu", "a:b", "é"]),
    st.integers(0, 3),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_every_scope_of_a_kind_can_be_parsed_and_written_back(
    node_type: str, priority: int, tenant: str, key: str | None
) -> None:
    for scope in scopes_of(FakeKind(node_type, priority, tenant, key, key)):
        assert parse(scope).text == scope

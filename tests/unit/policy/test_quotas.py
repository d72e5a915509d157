"""Quotas: places of several scopes at once, none lost, and a word when there is room again."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.policy import quotas as module
from actors.policy.quotas import Quotas
from actors.policy.scopes import scopes_of
from actors.protocol.errors import CallerError, ConfigurationError, InvariantBroken
from tests.unit.policy.scoped import FakeKind

PRINTER = FakeKind(tenant="acme", concurrency_key="printer")
ACME = FakeKind(tenant="acme", priority=3)
OTHER = FakeKind("gpu", 0)


def test_without_limits_all_may_start() -> None:
    quotas = Quotas()
    assert quotas.take(PRINTER, 1_000_000) == (1_000_000, "")
    assert quotas.give_back(PRINTER, 1_000_000) == []


def test_one_of_a_key() -> None:
    quotas = Quotas({"key:printer": 1})
    assert quotas.take(PRINTER, 3) == (1, "key:printer")
    assert quotas.take(PRINTER, 2) == (0, "key:printer")
    assert quotas.take(ACME, 2) == (2, "")
    assert quotas.give_back(PRINTER, 1) == ["key:printer"]
    assert quotas.take(PRINTER, 1) == (1, "")


def test_a_node_takes_all_its_places_or_none() -> None:
    quotas = Quotas({"key:printer": 5, "tenant:acme": 2})
    assert quotas.take(ACME, 2) == (2, "")
    assert quotas.take(PRINTER, 1) == (0, "tenant:acme")
    assert quotas.held("key:printer") == 0
    assert quotas.give_back(ACME, 1) == ["tenant:acme"]
    assert quotas.take(PRINTER, 4) == (1, "tenant:acme")
    assert (quotas.held("key:printer"), quotas.held("tenant:acme")) == (1, 2)


def test_the_scope_with_the_least_room_blocks_and_the_first_of_equals() -> None:
    quotas = Quotas({"tenant:acme": 3, "key:printer": 2, "type:cpu": 2})
    assert quotas.take(PRINTER, 9) == (2, "type:cpu")
    quotas.set("type:cpu", None)
    assert quotas.take(PRINTER, 9) == (0, "key:printer")


def test_a_limit_that_is_set_later_counts_what_runs() -> None:
    quotas = Quotas()
    quotas.take(PRINTER, 3)
    quotas.take(OTHER, 5)
    assert quotas.held("tenant:acme") == 3
    assert not quotas.set("tenant:acme", 4)
    assert quotas.take(ACME, 9) == (1, "tenant:acme")
    assert quotas.take(OTHER, 9) == (9, "")


def test_a_lower_limit_takes_nothing_away_and_says_when_there_is_room() -> None:
    quotas = Quotas({"tenant:acme": 5})
    quotas.take(ACME, 5)
    assert not quotas.set("tenant:acme", 2)
    assert quotas.take(ACME, 1) == (0, "tenant:acme")
    assert [quotas.give_back(ACME, 1) for _ in range(5)] == [[], [], [], ["tenant:acme"], []]


def test_nobody_is_blocked_who_wants_nothing() -> None:
    quotas = Quotas({"tenant:acme": 2})
    quotas.take(ACME, 2)
    quotas.set("tenant:acme", 1)
    assert quotas.take(ACME, 0) == (0, "")


def test_set_says_whether_there_is_more_room() -> None:
    quotas = Quotas({"tenant:acme": 2})
    quotas.take(ACME, 2)
    assert not quotas.set("tenant:acme", 1)
    assert not quotas.set("tenant:acme", 2)
    assert quotas.set("tenant:acme", 3)
    assert not quotas.set("tenant:acme", 3)
    assert quotas.set("tenant:acme", None)
    assert not quotas.set("tenant:acme", None)
    assert quotas.limits == {}


def test_what_was_not_taken_cannot_be_given_back() -> None:
    quotas = Quotas({"tenant:acme": 2})
    quotas.take(ACME, 1)
    for kind, count in ((ACME, 2), (PRINTER, 1), (ACME, -1)):
        with pytest.raises(InvariantBroken):
            quotas.give_back(kind, count)
    assert quotas.held("tenant:acme") == 1


@pytest.mark.parametrize(
    ("scope", "limit"),
    [("rate:api", 1), ("printer", 1), ("class:fast", 1), ("key:a", 0), ("key:a", -1), ("key:a", True), ("key:a", 1.5)],
)
def test_senseless_quotas_are_refused(scope: str, limit: int) -> None:
    quotas = Quotas()
    with pytest.raises(ConfigurationError):
        quotas.set(scope, limit)
    assert quotas.limits == {}


def test_the_number_of_limits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.bounds, "SCOPES_LIMITED_MAX", 2)
    quotas = Quotas({"key:a": 1, "key:b": 1})
    with pytest.raises(CallerError):
        quotas.set("key:c", 1)
    assert not quotas.set("key:b", 1)
    assert quotas.set("key:a", None)
    quotas.set("key:c", 1)


def test_kinds_that_hold_nothing_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.bounds, "KINDS_MAX", 10)
    quotas = Quotas({"type:cpu": 3})
    for number in range(100):
        kind = FakeKind(concurrency_key=str(number))
        assert quotas.take(kind, 1) == (1, "")
        quotas.give_back(kind, 1)
    assert quotas._by_kind == {}
    assert len(quotas._scopes) <= 10
    assert quotas._held == {"type:cpu": 0}


KINDS = [
    FakeKind(node_type, priority, tenant, key)
    for node_type, priority, tenant, key in (
        ("cpu", 2, "", None),
        ("cpu", 2, "", None),
        ("cpu", 0, "a", "p"),
        ("gpu", 0, "a", "q"),
        ("gpu", 3, "b", "p"),
    )
]
SCOPES = sorted({scope for kind in KINDS for scope in scopes_of(kind)})


class QuotaMachine(RuleBasedStateMachine):
    """Against a list of all nodes that run, counted anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.quotas = Quotas()
        self.running: list[FakeKind] = []
        self.limits: dict[str, int] = {}
        self.waiting: set[str] = set()
        """Scopes that were named as blocking and of which it was not said since that they have room."""

    def room(self, scope: str) -> int:
        return self.limits[scope] - sum(scope in scopes_of(kind) for kind in self.running)

    @rule(kind=st.sampled_from(KINDS), wanted=st.integers(0, 6))
    def take(self, kind: FakeKind, wanted: int) -> None:
        started = 0
        while started < wanted and all(self.room(scope) > 0 for scope in scopes_of(kind) if scope in self.limits):
            self.running.append(kind)
            started += 1
        count, blocking = self.quotas.take(kind, wanted)
        assert count == started
        assert (blocking != "") == (count < wanted)
        if blocking:
            assert blocking in scopes_of(kind)
            assert self.room(blocking) <= 0
            self.waiting.add(blocking)

    @rule(kind=st.sampled_from(KINDS), count=st.integers(1, 4))
    def give_back(self, kind: FakeKind, count: int) -> None:
        count = min(count, self.running.count(kind))
        before = {scope for scope in self.limits if self.room(scope) <= 0}
        for _ in range(count):
            self.running.remove(kind)
        freed = self.quotas.give_back(kind, count)
        assert sorted(freed) == sorted(scope for scope in before if self.room(scope) > 0)
        self.waiting -= set(freed)

    @rule(scope=st.sampled_from(SCOPES), limit=st.none() | st.integers(1, 5))
    def set(self, scope: str, limit: int | None) -> None:
        before = max(self.room(scope), 0) if scope in self.limits else 1_000
        self.limits.pop(scope, None)
        if limit is not None:
            self.limits[scope] = limit
        after = max(self.room(scope), 0) if scope in self.limits else 1_000
        more = self.quotas.set(scope, limit)
        assert more == (after > before)
        if more:
            self.waiting.discard(scope)

    @invariant()
    def counts_agree(self) -> None:
        self.quotas.check_invariants()
        assert self.quotas.limits == self.limits
        for scope in SCOPES:
            assert self.quotas.held(scope) == sum(scope in scopes_of(kind) for kind in self.running)

    @invariant()
    def nothing_waits_where_there_is_room(self) -> None:
        assert all(scope in self.limits and self.room(scope) <= 0 for scope in self.waiting)


TestQuotaMachine = pytest.mark.slow(QuotaMachine.TestCase)
TestQuotaMachine.settings = settings(max_examples=40, stateful_step_count=30)


def test_places_move_to_another_kind_even_where_there_are_none() -> None:
    low, high = FakeKind(priority=3, tenant="acme"), FakeKind(priority=1, tenant="acme")
    quotas = Quotas({"class:low": 2, "class:high": 1, "tenant:acme": 2})
    assert quotas.take(low, 2) == (2, "")
    assert quotas.move(low, high, 2) == ["class:low"], "the tenant has no more room than before"
    assert (quotas.held("class:low"), quotas.held("class:high"), quotas.held("tenant:acme")) == (0, 2, 2)
    assert quotas.move(low, high, 0) == []
    quotas.check_invariants()
    assert quotas.give_back(high, 1) == ["tenant:acme"]
    assert quotas.give_back(high, 1) == ["class:high"]
    with pytest.raises(InvariantBroken):
        quotas.move(low, high, 1)

"""The ledger: books that balance, sites that are right, and nothing that a fork takes along."""

from __future__ import annotations

import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from runtime.profile.ledger.books import EVENTS_MAX, KIND_BITS, Ledger
from runtime.profile.ledger.kinds import CHECKOUT, KINDS, KINDS_MAX, NAMES, TASK, kind_named


def test_the_kinds_are_the_22_of_the_specification() -> None:
    assert [kind.no for kind in KINDS] == list(range(1, 23))
    assert len(set(NAMES)) == 22
    assert kind_named("task") == KINDS[0]
    assert kind_named("nothing") is None


def test_an_entry_says_where_it_was_created_and_with_what() -> None:
    ledger = Ledger()
    ledger.label_set = lambda: (("node_type", "http"),)
    line = sys._getframe().f_lineno + 1
    token = ledger.track(CHECKOUT, "sessions", owner="pool", ttl=2.5, daemon=True, site_depth=2)
    (entry,) = ledger.entries(CHECKOUT)
    assert entry == ledger.entry(token)
    assert (entry.key, entry.owner, entry.ttl_ns, entry.daemon) == ("sessions", "pool", 2_500_000_000, True)
    assert (entry.site[-1].name, entry.site[-1].file, entry.site[-1].line) == (
        test_an_entry_says_where_it_was_created_and_with_what.__name__,
        __file__,
        line,
    )
    assert len(entry.site) == 2
    assert entry.labels == (("node_type", "http"),)
    ledger.release(token)
    assert not list(ledger.entries())
    assert ledger.entry(token) is None


def test_the_creation_line_may_be_that_of_a_handler() -> None:
    ledger = Ledger()
    token = ledger.track(TASK, code=test_the_kinds_are_the_22_of_the_specification.__code__)
    found = ledger.entry(token)
    assert found is not None
    assert found.site[-1].line == test_the_kinds_are_the_22_of_the_specification.__code__.co_firstlineno
    assert found.ttl_ns == KINDS[0].ttl_s * 1e9


def test_counts_know_the_oldest() -> None:
    ledger = Ledger()
    tokens = [ledger.track(TASK) for _ in range(5)]
    for token in tokens[:2]:
        ledger.release(token)
    count = ledger.counts()[TASK]
    assert count == (3, 5, 2, tokens[2] >> KIND_BITS)


def test_gauges_are_added_and_what_raises_counts_nothing() -> None:
    ledger = Ledger()
    gauge = ledger.gauge("lease", lambda: (7, 10, 55))
    ledger.gauge("lease", lambda: (1, 0, 99))
    ledger.gauge("lease", lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    assert ledger.counts()["lease"] == (8, 11, 3, 55)
    ledger.remove_gauge("lease", gauge)
    ledger.remove_gauge("lease", gauge)
    assert ledger.counts()["lease"] == (1, 1, 0, 99)


def test_a_release_that_came_twice_or_never_counted_shows() -> None:
    ledger = Ledger()
    token = ledger.track(TASK)
    ledger.release(token)
    assert ledger.balance() == {}
    ledger.release(token)
    ledger.release(0)
    assert ledger.balance() == {"?": 1}


def test_a_broken_release_hook_shows() -> None:
    """Row 22: the entry went, and nobody counted that."""
    ledger = Ledger()
    token = ledger.track(TASK)
    del ledger.book(TASK).live[token]
    assert ledger.balance() == {TASK: 1}


def test_an_audit_compares_with_another_truth() -> None:
    ledger = Ledger()
    ledger.track(TASK)
    ledger.audit(TASK, lambda: 0)
    assert ledger.balance() == {TASK: 1}


def test_events_are_bounded() -> None:
    ledger = Ledger()
    for number in range(EVENTS_MAX + 5):
        ledger.note("destroyed", number, Ledger.note.__code__)
    kept = [entry.key for entry in ledger.entries("destroyed")]
    assert kept == list(range(5, EVENTS_MAX + 5))
    assert ledger.balance() == {}


def test_kinds_of_users_follow_and_are_limited() -> None:
    ledger = Ledger()
    kind = ledger.register_kind("tensor", ttl=3.0, budget=5)
    assert (kind.no, kind.ttl_s, kind.ceiling) == (23, 3.0, 5)
    assert ledger.register_kind("tensor", ttl=4.0).no == 23
    token = ledger.track("tensor")
    assert ledger.counts()["tensor"].live == 1
    ledger.release(token)
    for number in range(KINDS_MAX - 23):
        ledger.register_kind(f"kind {number}")
    with pytest.raises(ValueError, match="no room"):
        ledger.register_kind("one more")


def test_a_fork_begins_with_empty_books() -> None:
    ledger = Ledger()
    ledger.register_kind("tensor", ttl=3.0)
    token = ledger.track(TASK)
    ledger.forked()
    ledger.release(token)
    assert ledger.balance() == {}
    assert ledger.counts()[TASK] == (0, 0, 0, 0)
    assert ledger.kinds()[-1].name == "tensor"


class Books(RuleBasedStateMachine):
    """Whatever is tracked and released, created - released = live, and the entries are those not released."""

    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.live: dict[int, tuple[str, int]] = {}
        self.number = 0

    @rule(target=tokens, kind=st.sampled_from(NAMES), depth=st.integers(1, 3), daemon=st.booleans())
    def track(self, kind: str, depth: int, daemon: bool) -> int:
        self.number += 1
        token = self.ledger.track(kind, self.number, site_depth=depth, daemon=daemon)
        assert token not in self.live
        self.live[token] = (kind, self.number)
        return token

    @rule(token=consumes(tokens))
    def release(self, token: int) -> None:
        self.ledger.release(token)
        del self.live[token]

    @invariant()
    def balances(self) -> None:
        assert self.ledger.balance() == {}
        assert {entry.token: (entry.kind, entry.key) for entry in self.ledger.entries()} == self.live
        counts = self.ledger.counts()
        assert sum(count.live for count in counts.values()) == len(self.live)
        assert all(count.created - count.released == count.live for count in counts.values())


TestBooks = pytest.mark.slow(Books.TestCase)
TestBooks.settings = settings(max_examples=40)

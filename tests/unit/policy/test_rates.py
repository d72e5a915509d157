"""Rates by key: what survives a restart, what a clock that is set does, what is kept."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from actors.policy import rates as module
from actors.policy.rates import Rates
from actors.protocol.errors import CallerError, ConfigurationError, ProtocolError
from actors.protocol.moments import NS_PER_S
from tests.unit.policy.scoped import FakeKind

S = NS_PER_S
API = FakeKind(rate_key="api")
HEAVY = FakeKind(rate_key="api", rate_cost=2.5)
SLOW = FakeKind(rate_key="slow")


def made(*keys: tuple[str, float | Fraction, float]) -> Rates:
    rates = Rates()
    for key, per_s, burst in keys:
        rates.set(key, per_s, burst)
    return rates


def test_kinds_without_a_rate_are_free() -> None:
    rates = made(("api", 1, 1))
    assert rates.take(FakeKind(), 1000, 7) == (1000, 7)
    assert rates.take(SLOW, 1000, 7) == (1000, 7)
    assert rates.changes(7, 0) is None


def test_a_burst_then_one_at_a_time() -> None:
    rates = made(("api", 10, 5))
    assert rates.take(API, 8, 0) == (5, S // 10)
    assert rates.take(API, 3, S // 10 - 1) == (0, S // 10)
    assert rates.take(API, 3, S // 10) == (1, 2 * S // 10)
    assert rates.next_ns(API, S // 10) == 2 * S // 10
    assert rates.take(API, 1, 10 * S) == (1, 10 * S)


def test_kinds_of_one_key_share_its_meter_each_at_its_cost() -> None:
    rates = made(("api", 1, 5))
    assert rates.take(HEAVY, 1, 0) == (1, 0)
    assert rates.take(API, 9, 0) == (2, S // 2)
    assert rates.next_ns(HEAVY, 0) == 2 * S


def test_what_was_used_counts_after_a_change() -> None:
    rates = made(("api", 1, 10))
    rates.take(API, 10, 0)
    rates.set("api", 10, 10, 5 * S)
    assert rates.take(API, 10, 5 * S) == (5, 5 * S + S // 10)
    assert rates.rate("api") == (10, 10)


def test_a_change_without_a_time_counts_from_the_last_call() -> None:
    rates = made(("api", 1, 10))
    rates.take(API, 10, 0)
    rates.set("api", 10, 10)
    assert rates.take(API, 1, S // 10 - 1) == (0, S // 10)


def test_a_rate_can_be_taken_away() -> None:
    rates = made(("api", 1, 1))
    rates.take(API, 1, 0)
    rates.set("api", None)
    assert rates.rate("api") is None
    assert rates.take(API, 100, 0) == (100, 0)
    assert rates.changes(0, 0) is None
    assert rates.state(0, 0)["busy_ns"] == {}


def test_a_clock_that_is_set_back_neither_blocks_nor_gives_twice() -> None:
    rates = made(("api", 1, 3))
    assert rates.take(API, 9, 3600 * S) == (3, 3601 * S)
    assert rates.take(API, 9, 0) == (0, S)
    assert rates.take(API, 9, S - 1) == (0, S)
    assert rates.take(API, 9, S) == (1, 2 * S)
    assert rates.take(API, 9, 0) == (0, S)


def test_a_clock_that_jumps_ahead_gives_one_burst() -> None:
    rates = made(("api", 1, 3))
    rates.take(API, 3, 0)
    assert rates.take(API, 1_000, 10**9 * S)[0] == 3


def test_a_restart_keeps_what_was_used_and_counts_the_time_between() -> None:
    rates = made(("api", Fraction(1, 3), 4), ("slow", 1, 1), ("idle", 1, 1))
    rates.take(API, 4, 100 * S)
    rates.take(SLOW, 1, 100 * S)
    state = json.loads(orjson.dumps(rates.state(101 * S, 5_000 * S)))
    assert state == {"wall_ns": 5_000 * S, "busy_ns": {"api": 11 * S}}
    after = made(("api", Fraction(1, 3), 4), ("slow", 1, 1))
    after.restore(state, 7, 5_001 * S)
    assert after.take(API, 9, 7) == (0, 7 + 1 * S)
    assert after.take(API, 9, 7 + S) == (1, 7 + 4 * S)


def test_a_wall_clock_that_was_set_back_while_it_was_down_only_costs_that_time() -> None:
    rates, after = made(("api", 1, 2)), made(("api", 1, 2))
    rates.take(API, 2, 0)
    after.restore(rates.state(0, 10**6 * S), 0, 0)
    assert after.take(API, 9, 0) == (0, S)


def test_changes_name_what_was_taken_from_since() -> None:
    rates = made(("api", 1, 2), ("slow", 1, 2))
    rates.take(API, 1, 0)
    assert rates.changes(0, 50) == {"wall_ns": 50, "busy_ns": {"api": S}}
    assert rates.changes(0, 50) is None
    rates.take(SLOW, 2, 0)
    rates.take(API, 2, 0)
    assert rates.changes(S // 2, 60) == {"wall_ns": 60, "busy_ns": {"api": 3 * S // 2, "slow": 3 * S // 2}}
    rates.take(API, 9, 10 * S)
    rates.state(10 * S, 70)
    assert rates.changes(10 * S, 70) is None


def test_a_refused_take_changes_nothing() -> None:
    rates = made(("api", 1, 1))
    rates.take(API, 1, 0)
    rates.changes(0, 0)
    assert rates.take(API, 1, 0) == (0, S)
    assert rates.changes(0, 0) is None


def test_a_change_that_gives_back_room_is_told_too() -> None:
    rates, after = made(("api", 1, 10)), made(("api", 10, 10))
    rates.take(API, 10, 0)
    after.restore(changes(rates, 0, 0), 0, 0)
    rates.set("api", 1e9, 10, 0)
    after.restore(changes(rates, S, 1), 0, 1)
    assert after.take(API, 99, 0)[0] == 10


def changes(rates: Rates, now_ns: int, wall_ns: int) -> dict[str, Any]:
    found = rates.changes(now_ns, wall_ns)
    assert found is not None
    return found


def test_a_state_is_json_whatever_the_rate() -> None:
    rates = made(("api", 1e-9, 1e9))
    rates.take(API, 10**9, 0)
    assert orjson.loads(orjson.dumps(rates.state(0, 0)))["busy_ns"]["api"] == module.BUSY_NS_MAX


@pytest.mark.parametrize(
    "state",
    [{}, {"wall_ns": 1}, {"wall_ns": "1", "busy_ns": {}}, {"wall_ns": 1, "busy_ns": {"api": -1}}]
    + [{"wall_ns": 1, "busy_ns": {"api": 1.5}}, {"wall_ns": 1, "busy_ns": [1]}],
)
def test_a_malformed_state_changes_nothing(state: dict[str, Any]) -> None:
    rates = made(("api", 1, 1))
    with pytest.raises(ProtocolError):
        rates.restore(state, 0, 0)
    assert rates.take(API, 1, 0)[0] == 1


@pytest.mark.parametrize(("key", "per_s", "burst"), [("", 1, 1), ("x" * 1025, 1, 1), ("api", 0, 1), ("api", 1, 0)])
def test_senseless_rates_are_refused(key: str, per_s: float, burst: float) -> None:
    rates = made(("api", 2, 3))
    with pytest.raises(ConfigurationError):
        rates.set(key, per_s, burst)
    assert rates.rate("api") == (2, 3)


def test_the_number_of_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.limits, "SCOPES_LIMITED_MAX", 2)
    rates = made(("a", 1, 1), ("b", 1, 1))
    with pytest.raises(CallerError):
        rates.set("c", 1, 1)
    rates.set("a", None)
    rates.set("c", 1, 1)
    rates.restore({"wall_ns": 0, "busy_ns": {"a": 5, "c": 5}}, 0, 0)
    assert rates.state(0, 0)["busy_ns"] == {"c": 5}


class RateMachine(RuleBasedStateMachine):
    """Against exact tokens, over restarts and clocks that are set."""

    @initialize(per_s=st.fractions(Fraction(1, 10), 100, max_denominator=60), burst=st.integers(1, 20))
    def start(self, per_s: Fraction, burst: int) -> None:
        self.per_s, self.burst = per_s, burst
        self.rates = made(("api", per_s, burst))
        self.now, self.wall = 5 * S, 10**6 * S
        self.tokens = Fraction(burst)
        self.rounded = 0
        """Nanoseconds by which restarts may have rounded up."""

    def passes(self, span_ns: int) -> None:
        self.tokens = min(self.tokens + self.per_s * span_ns / S, Fraction(self.burst))

    @rule(span_ns=st.integers(0, 3 * S), cost=st.sampled_from([1.0, 0.25, 1.5]), wanted=st.integers(0, 30))
    def take(self, span_ns: int, cost: float, wanted: int) -> None:
        self.now += span_ns
        self.wall += span_ns
        self.passes(span_ns)
        exact, rounding = Fraction(cost), self.per_s * self.rounded / S
        if exact <= self.burst:
            most, least = math.floor(self.tokens / exact), math.floor((self.tokens - rounding) / exact)
        else:
            most, least = int(self.tokens == self.burst), 0
        count, due = self.rates.take(FakeKind(rate_key="api", rate_cost=cost), wanted, self.now)
        assert min(max(least, 0), wanted) <= count <= min(max(most, 0), wanted)
        self.tokens -= count * exact
        lacking = min(exact, Fraction(self.burst)) - self.tokens
        expected = self.now + max(math.ceil(lacking / self.per_s * S), 0)
        assert expected <= due <= expected + self.rounded

    @rule(step_ns=st.integers(1, 100 * S))
    def clock_is_set_back(self, step_ns: int) -> None:
        self.now = max(self.now - step_ns, 0)
        self.rates.next_ns(API, self.now)

    @rule(down_ns=st.integers(-100 * S, 3 * S), now=st.integers(0, 100 * S))
    def restart(self, down_ns: int, now: int) -> None:
        state = orjson.loads(orjson.dumps(self.rates.state(self.now, self.wall)))
        self.wall += down_ns
        self.now = now
        self.passes(max(down_ns, 0))
        self.rounded += 1
        self.rates = made(("api", self.per_s, self.burst))
        self.rates.restore(state, now, self.wall)


TestRateMachine = pytest.mark.slow(RateMachine.TestCase)
TestRateMachine.settings = settings(max_examples=60, stateful_step_count=25)

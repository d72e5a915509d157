"""Circuit breaker: what opens it, what closes it, and that nothing else does."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.policy.breaker import CircuitBreaker, outcome
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, IllegalTransition, ProtocolError
from actors.protocol.states import BREAKER_TABLE, BreakerEvent, BreakerState, FailureKind, step


def made(**changes: Any) -> CircuitBreaker:
    options: dict[str, Any] = {
        "ended_min": 4,
        "window_ns": 100,
        "cooldown_ns": 1000,
        "cooldown_max_ns": 3000,
        "probes": 2,
    }
    return CircuitBreaker(**(options | changes))


def opened(now_ns: int = 0) -> CircuitBreaker:
    breaker = made()
    breaker.record(False, now_ns, 4)
    assert breaker.state is BreakerState.OPEN
    return breaker


def test_it_opens_when_enough_ended_and_the_share_failed() -> None:
    breaker = made()
    breaker.record(False, 0, 3)
    assert breaker.allow(0, 50) == 50
    breaker.record(True, 0, 5)
    breaker.record(False, 0, 1)
    assert breaker.counts(0) == (9, 4)
    assert breaker.allow(0, 50) == 50
    breaker.record(False, 0, 1)
    assert breaker.state is BreakerState.OPEN
    assert breaker.allow(0, 50) == 0
    assert breaker.until_ns(0) == 1000


def test_a_success_does_not_open_it() -> None:
    breaker = made()
    breaker.record(False, 0, 3)
    breaker.record(True, 0, 1)
    assert breaker.state is BreakerState.CLOSED
    breaker.record(False, 0)
    assert breaker.state is BreakerState.OPEN


def test_failures_older_than_the_window_do_not_count() -> None:
    breaker = made()
    breaker.record(False, 0, 3)
    assert breaker.counts(99) == (3, 3)
    assert breaker.counts(100) == (0, 0)
    breaker.record(False, 100)
    assert breaker.state is BreakerState.CLOSED


def test_after_the_cooldown_probes_start_and_their_success_closes_it() -> None:
    breaker = opened()
    assert breaker.allow(999, 9) == 0
    assert breaker.allow(1000, 9) == 2
    assert breaker.state is BreakerState.HALF_OPEN
    assert breaker.until_ns(1000) is None
    assert breaker.allow(1000, 9) == 0
    breaker.record(True, 1001)
    assert breaker.allow(1001, 9) == 0
    breaker.record(True, 1001)
    assert breaker.allow(1001, 9) == 9
    assert breaker.counts(1001) == (0, 0)


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_a_bound() -> None:
    breaker, now = opened(), 0
    for cooldown in (2000, 3000, 3000):
        now = breaker.until_ns(now) or 0
        assert breaker.allow(now, 1) == 1
        breaker.record(False, now)
        assert breaker.until_ns(now) == now + cooldown
    now += 3000
    breaker.allow(now, 2)
    breaker.record(True, now, 2)
    breaker.record(False, now, 4)
    assert breaker.until_ns(now) == now + 1000


def test_probes_that_say_nothing_are_replaced() -> None:
    breaker = opened()
    assert breaker.allow(1000, 9) == 2
    breaker.returned()
    assert breaker.allow(1000, 9) == 1
    breaker.record(True, 1000, 1)
    breaker.returned(5)
    assert breaker.allow(1000, 9) == 1


def test_attempts_from_before_are_no_probes() -> None:
    breaker = opened()
    assert breaker.allow(1000, 9) == 2
    breaker.record(True, 1001, 9, started_ns=999)
    breaker.record(False, 1001, 9, started_ns=999)
    breaker.returned(9, started_ns=999)
    assert breaker.state is BreakerState.HALF_OPEN
    assert breaker.allow(1001, 9) == 0
    breaker.record(False, 1001, 1, started_ns=1000)
    assert breaker.until_ns(1001) == 3001


def test_what_ends_while_it_is_open_changes_nothing() -> None:
    breaker = opened()
    breaker.record(True, 1, 100)
    breaker.record(False, 2, 100)
    assert breaker.until_ns(2) == 1000
    assert breaker.allow(1000, 9) == 2


def test_a_clock_that_is_set_back_takes_no_time() -> None:
    breaker = opened(10**6)
    assert breaker.until_ns(0) == 1000
    assert breaker.allow(999) == 0
    assert breaker.allow(1000) == 1


@pytest.mark.parametrize(
    ("kind", "says"),
    [(None, True), ("error", False), ("timeout", False), ("crash", False), ("cancelled", None), ("skipped", None)]
    + [("payload", None), ("no-handler", None), ("memory", None), (FailureKind.ERROR, False)],
)
def test_what_an_end_says(kind: str | None, says: bool | None) -> None:
    assert outcome(kind) is says


def test_what_the_table_does_not_have_is_illegal() -> None:
    with pytest.raises(IllegalTransition):
        step(BREAKER_TABLE, BreakerState.CLOSED, BreakerEvent.PROVED)
    with pytest.raises(IllegalTransition):
        opened().restore({"wall_ns": 0, "open_ns": 1, "cooldown_ns": 1}, 0, 0)


def test_an_open_one_is_open_after_a_restart_for_the_rest_of_its_time() -> None:
    breaker, after = opened(), made()
    breaker.allow(1000, 1)
    breaker.record(False, 1000)
    state = orjson.loads(orjson.dumps(breaker.to_json(1500, 70)))
    assert state == {"wall_ns": 70, "open_ns": 1500, "cooldown_ns": 2000}
    after.restore(state, 5, 470)
    assert after.allow(1104, 9) == 0
    assert after.allow(1105, 9) == 2
    after.record(False, 1105)
    assert after.until_ns(1105) == 1105 + 3000


def test_a_half_open_one_probes_anew_after_a_restart() -> None:
    breaker, after = opened(), made()
    assert breaker.allow(1000, 2) == 2
    after.restore(breaker.to_json(1000, 0), 0, 0)
    assert after.allow(0, 9) == 2


def test_a_wall_clock_that_was_set_back_does_not_prolong() -> None:
    after = made()
    after.restore({"wall_ns": 10**9, "open_ns": 1000, "cooldown_ns": 10**9}, 0, 0)
    assert after.until_ns(0) == 1000
    after.allow(1000)
    after.record(False, 1000)
    assert after.until_ns(1000) == 4000


def test_a_closed_one_leaves_nothing() -> None:
    breaker = made()
    breaker.record(False, 0, 3)
    assert breaker.to_json(0, 0) is None
    breaker.restore(None, 0, 0)
    assert breaker.state is BreakerState.CLOSED


@pytest.mark.parametrize("state", [{}, {"wall_ns": 1, "open_ns": "1", "cooldown_ns": 1}])
def test_a_malformed_state_changes_nothing(state: dict[str, Any]) -> None:
    breaker = made()
    with pytest.raises(ProtocolError):
        breaker.restore(state, 0, 0)
    assert breaker.allow(0) == 1


@pytest.mark.parametrize(
    "changes",
    [{"ended_min": 0}, {"probes": 0}, {"window_ns": 9}, {"failure_ratio": 0.0}, {"failure_ratio": 1.1}]
    + [{"failure_ratio": float("nan")}, {"cooldown_ns": 0}, {"cooldown_ns": 3001}],
)
def test_senseless_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        made(**changes)


def test_defaults_come_from_the_limits() -> None:
    breaker = CircuitBreaker()
    assert (breaker.ended_min, breaker.probes) == (limits.BREAKER_ENDED_MIN, limits.BREAKER_PROBES)
    assert breaker.slice_ns * limits.BREAKER_SLICES == limits.BREAKER_WINDOW_NS


class BreakerMachine(RuleBasedStateMachine):
    """Against a list of all ends since the last change of state, looked through anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = made(failure_ratio=0.5)
        self.now = 0
        self.ends: list[tuple[int, bool]] = []
        self.state = "closed"
        self.until = 0
        self.cooldown = 1000
        self.out = 0
        self.proved = 0

    def cool(self) -> None:
        if self.state == "open" and self.now >= self.until:
            self.state, self.out, self.proved = "half_open", 0, 0

    def open(self) -> None:
        self.state, self.until, self.ends = "open", self.now + self.cooldown, []

    def recent(self) -> list[bool]:
        return [ok for time, ok in self.ends if time // 10 > self.now // 10 - 10]

    @rule(step_ns=st.one_of(st.integers(0, 30), st.integers(900, 3000)))
    def time_passes(self, step_ns: int) -> None:
        self.now += step_ns

    @rule(wanted=st.integers(0, 4))
    def allow(self, wanted: int) -> None:
        self.cool()
        allowed = 0
        while allowed < wanted and (
            self.state == "closed" or (self.state == "half_open" and self.out + self.proved < 2)
        ):
            allowed += 1
            self.out += self.state == "half_open"
        assert self.breaker.allow(self.now, wanted) == allowed

    @rule(ok=st.booleans(), count=st.integers(1, 3))
    def record_while_all_may_start(self, ok: bool, count: int) -> None:
        self.cool()
        if self.state == "half_open":
            return
        self.breaker.record(ok, self.now, count)
        if self.state == "closed":
            self.ends += [(self.now, ok)] * count
            recent = self.recent()
            if not ok and len(recent) >= 4 and 2 * recent.count(False) >= len(recent):
                self.open()

    @precondition(lambda self: self.out > 0)
    @rule(ok=st.booleans())
    def a_probe_ends(self, ok: bool) -> None:
        self.breaker.record(ok, self.now)
        self.out -= 1
        if not ok:
            self.out, self.cooldown = 0, min(2 * self.cooldown, 3000)
            self.open()
            return
        self.proved += 1
        if self.proved == 2:
            self.state, self.cooldown, self.out = "closed", 1000, 0

    @precondition(lambda self: self.out > 0)
    @rule()
    def a_probe_is_lost(self) -> None:
        self.breaker.returned()
        self.out -= 1

    @invariant()
    def they_agree(self) -> None:
        self.cool()
        assert self.breaker.until_ns(self.now) == (self.until if self.state == "open" else None)
        assert self.breaker.state == self.state
        recent = self.recent()
        assert self.breaker.counts(self.now) == (len(recent), recent.count(False))


TestBreakerMachine = pytest.mark.slow(BreakerMachine.TestCase)
TestBreakerMachine.settings = settings(max_examples=80, stateful_step_count=40)

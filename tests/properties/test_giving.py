"""All mechanisms that decide who runs next, together: queues, shares, quotas, rates, pauses and ageing behind `Giving`.

`GivingMachine` keeps a slow model beside it: lists of what waits and what is leased, quotas counted anew each time, and
for each rate a token bucket in exact fractions. Workers end tasks, are killed with what they hold, and the policy
changes at any moment.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.giving import Giving
from actors.policy.fair import LOOKS_PER_AGEING
from actors.policy.policy import Policy
from actors.policy.scopes import scopes_of
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES, Kind
from actors.state_column import LEASED, READY, SUCCEEDED

BASE: Final = Kind.of(0, {"handler": "m:f", "node_type": "cpu", "shape": "one"})
KINDS: Final = tuple(
    replace(BASE, no=no, priority=priority, tenant=tenant, concurrency_key=key, rate_key=rate, rate_cost=cost)
    for no, (priority, tenant, key, rate, cost) in enumerate(
        [
            (0, "", None, None, 1.0),
            (0, "acme", "a", None, 1.0),
            (2, "", None, None, 1.0),
            (2, "", "a", "r", 1.0),
            (2, "acme", None, "r", 3.0),
            (2, "acme", "b", None, 1.0),
            (3, "", "b", "r", 0.5),
            (3, "acme", None, None, 1.0),
        ]
    )
)
SESSIONS: Final = ("s1", "s2")
WORKERS: Final = 3
SLOTS: Final = 6
QUOTAS: Final = ("key:a", "key:b", "tenant:", "tenant:acme", "class:low", "class:normal", "type:cpu")
SCOPES: Final = (*QUOTAS, "rate:r")
MECHANISMS: Final = ("quotas", "rates", "shares", "pauses", "turns")
ROUNDED: Final = Fraction(1, 1_000_000)
"""A meter whose rate is changed may lack a tick more than the bucket."""


@dataclass(eq=False)
class Run:
    """What `Giving` asks of a run: independent nodes of one kind."""

    session: str
    kinds: list[Kind]
    state: bytearray
    columns: None = None
    is_graph: bool = False
    is_map: bool = False

    def kind(self, node: int) -> Kind:
        return self.kinds[0]


@dataclass
class Bucket:
    """A rate as a token bucket: slow and exact."""

    per_s: Fraction
    burst: Fraction
    level: Fraction
    at_ns: int
    slack: Fraction = Fraction(0)

    def fill(self, now_ns: int) -> None:
        passed = Fraction(now_ns - self.at_ns, 1_000_000_000)
        self.level, self.at_ns = min(self.burst, self.level + passed * self.per_s), now_ns


@dataclass
class Leased:
    """A node that a worker holds."""

    worker: int
    run: Run
    node: int

    @property
    def kind(self) -> Kind:
        return self.run.kinds[0]


Lane = tuple[Kind, str]


@dataclass
class Model:
    """What waits and what is leased."""

    waiting: dict[Lane, list[tuple[Run, int]]] = field(default_factory=dict)
    leased: list[Leased] = field(default_factory=list)
    buckets: dict[str, Bucket] = field(default_factory=dict)

    def held(self, scope: str) -> int:
        return sum(scope in scopes_of(lease.kind) for lease in self.leased)

    def held_of(self) -> list[int]:
        found = [0] * len(PRIORITIES)
        for lease in self.leased:
            found[lease.kind.priority] += 1
        return found


def has(mechanism: str) -> Any:
    """For rules that change a mechanism: only in runs that have it."""
    return precondition(lambda machine: mechanism in machine.mechanisms)


class GivingMachine(RuleBasedStateMachine):
    """See the module. Each run has some of the mechanisms, so that none is always hidden behind the others."""

    def __init__(self) -> None:
        super().__init__()
        self.giving: Any = Giving(["cpu"])
        self.model = Model()
        self.runs: list[Run] = []
        self.now_ns = 1_000_000_000
        self.ended = self.pushed = 0
        self.mechanisms: set[str] = set()
        self.room = 1
        self.giving.apply(Policy.of({"ageing_ns": 0}), [], self.now_ns)

    @property
    def policy(self) -> Policy:
        policy: Policy = self.giving.policy
        return policy

    @initialize(mechanisms=st.sets(st.sampled_from(MECHANISMS), min_size=1, max_size=3), room=st.integers(1, 3))
    def begin(self, mechanisms: set[str], room: int) -> None:
        self.mechanisms, self.room = mechanisms, room

    # --- what happens ---------------------------------------------------------------------------------------------

    @rule(no=st.integers(0, len(KINDS) - 1), session=st.sampled_from(SESSIONS), count=st.integers(1, 12))
    def push(self, no: int, session: str, count: int) -> None:
        kind = KINDS[no]
        run = Run(session, [kind], bytearray([READY] * count))
        self.runs.append(run)
        self.pushed += count
        self.giving.push(kind, run, range(count), self.now_ns)
        self.model.waiting.setdefault((kind, session), []).extend((run, node) for node in range(count))

    @rule(
        counts=st.lists(st.integers(1, 6), min_size=1, max_size=WORKERS),
        worst=st.none() | st.none() | st.integers(0, 3),
    )
    def take(self, counts: list[int], worst: int | None) -> None:
        offer = msg.Offer("cpu", tuple((worker, count) for worker, count in enumerate(counts) if count), worst)
        if self.policy.shares:
            offer = offer._replace(slots=SLOTS, held=tuple(self.model.held_of()))
        owed, before = self.owed(), self.model.held_of()
        left = dict(offer.shares)
        taken: list[Kind] = []
        found: dict[Lane, list[tuple[int, tuple[Run, int]]]] = {}
        for worker, run, kind, nodes, _ in self.giving.take(offer, self.now_ns):
            left[worker] -= len(nodes)
            assert left[worker] >= 0, "a worker gets more than it has room for"
            for node in nodes:
                found.setdefault((kind, run.session), []).append((worker, (run, node)))
                run.state[node] = LEASED
                self.model.leased.append(Leased(worker, run, node))
                taken.append(kind)
        for lane, gone in found.items():
            self.check_order(lane, gone)
        self.check_limits(taken, worst)
        self.check_shares(taken, owed if worst is None else {}, before, sum(counts))
        if len(taken) < sum(counts):
            for (kind, _), lane in self.model.waiting.items():
                assert not lane or self.stopped(kind, worst), f"nothing stops kind {kind.no}, and it does not start"

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Some of what a worker holds of a run ends, in one answer."""
        if not self.model.leased:
            return
        one = data.draw(st.sampled_from(self.model.leased))
        alike = [lease for lease in self.model.leased if (lease.run, lease.worker) == (one.run, one.worker)]
        done = alike[: data.draw(st.integers(1, len(alike)))]
        for lease in done:
            self.model.leased.remove(lease)
            lease.run.state[lease.node] = SUCCEEDED
        self.giving.ended(one.run, [lease.node for lease in done])
        self.ended += len(done)
        self.offer()

    @rule(worker=st.integers(0, WORKERS - 1), begun=st.integers(0, 2))
    def kill(self, worker: int, begun: int) -> None:
        """What it had begun is tried again, behind the others; what it held ahead comes back before them."""
        lost = [lease for lease in self.model.leased if lease.worker == worker]
        self.model.leased = [lease for lease in self.model.leased if lease.worker != worker]
        for number, lease in enumerate(lost):
            lease.run.state[lease.node] = READY
            self.giving.ended(lease.run, [lease.node])
            front = number >= begun
            self.giving.push(lease.kind, lease.run, [lease.node], self.now_ns, front=front)
            lane = self.model.waiting.setdefault((lease.kind, lease.run.session), [])
            lane.insert(0 if front else len(lane), (lease.run, lease.node))
        self.offer()

    @rule(ns=st.sampled_from([1, 1_000, 100_000_000, 333_333_333, 1_000_000_000, 10_000_000_000]))
    def pass_time(self, ns: int) -> None:
        self.now_ns += ns
        self.giving.fire(self.now_ns)

    @has("rates")
    @rule()
    def pass_time_until_a_rate_allows(self) -> None:
        """To the very nanosecond: not one later may be looked."""
        times = []
        for kind, _ in (lane for lane, waiting in self.model.waiting.items() if waiting):
            bucket = self.model.buckets.get(kind.rate_key or "")
            if bucket is not None and bucket.level < Fraction(kind.rate_cost):
                lack = Fraction(kind.rate_cost) - bucket.level + bucket.slack
                times.append(bucket.at_ns + math.ceil(lack / bucket.per_s * 1_000_000_000))
        if times:
            self.now_ns = max(self.now_ns, min(times))
            self.giving.fire(self.now_ns)
            self.offer()

    # --- what is changed ------------------------------------------------------------------------------------------

    @has("quotas")
    @rule(scope=st.sampled_from(QUOTAS), limit=st.none() | st.integers(1, 3) | st.integers(1, 3))
    def set_quota(self, scope: str, limit: int | None) -> None:
        self.change(quotas={scope: limit})

    @has("rates")
    @rule(rate=st.tuples(st.sampled_from([0.1, 1.0, 3.0, 7.5]), st.sampled_from([3, 4, 10])))
    def set_rate(self, rate: tuple[float, int] | None) -> None:
        before = self.model.buckets.pop("r", None)
        if rate is not None:
            per_s, burst = Fraction(rate[0]), Fraction(rate[1])
            self.model.buckets["r"] = bucket = Bucket(per_s, burst, burst, self.now_ns)
            if before is not None:
                before.fill(self.now_ns)
                bucket.level = burst - (before.burst - before.level)
                bucket.slack = before.slack + ROUNDED
        self.change(rates={"r": None if rate is None else list(rate)})

    @has("rates")
    @rule()
    def lift_rate(self) -> None:
        self.set_rate(None)

    @has("shares")
    @rule(
        class_=st.sampled_from(PRIORITIES),
        share=st.none() | st.sampled_from([(0.2, 1.0), (0.25, 1.0), (0.25, 0.5), (0.0, 0.1), (0.0, 0.7)]),
    )
    def set_share(self, class_: str, share: tuple[float, float] | None) -> None:
        self.change(shares={class_: None if share is None else list(share)})

    @has("pauses")
    @rule(scope=st.sampled_from(SCOPES))
    def pause(self, scope: str) -> None:
        self.change(pause=[scope])

    @has("pauses")
    @rule()
    def resume(self) -> None:
        self.change(resume=[*self.policy.paused])

    @has("turns")
    @rule(weight=st.sampled_from([0.5, 1.0, 3.0]), ageing_ns=st.sampled_from([0, 1_000_000, 1_000_000_000]))
    def set_turns(self, weight: float, ageing_ns: int) -> None:
        self.change(weights={"acme": weight}, ageing_ns=ageing_ns)

    def change(self, **change: Any) -> None:
        self.giving.apply(self.policy.changed(change), self.runs, self.now_ns)
        self.offer()

    def offer(self) -> None:
        """As pools do after whatever happened: those that have room say so."""
        held = Counter(lease.worker for lease in self.model.leased)
        room = [max(0, self.room - held[worker]) for worker in range(WORKERS)]
        if any(room):
            self.take(room, None)

    # --- what must hold -------------------------------------------------------------------------------------------

    def check_order(self, lane: Lane, gone: list[tuple[int, tuple[Run, int]]]) -> None:
        """Equals start first in, first out: the longest waiting, and each worker gets its part in order."""
        waiting = self.model.waiting[lane]
        first, self.model.waiting[lane] = waiting[: len(gone)], waiting[len(gone) :]
        place = {entry: number for number, entry in enumerate(first)}
        assert all(entry in place for _, entry in gone), "first in, first out among equals"
        for worker in range(WORKERS):
            of_it = [place[entry] for at, entry in gone if at == worker]
            assert of_it == sorted(of_it), "a worker gets equals out of order"

    def check_limits(self, taken: list[Kind], worst: int | None) -> None:
        scopes = {scope for kind in taken for scope in scopes_of(kind)}
        for scope, limit in self.policy.quotas.items():
            assert scope not in scopes or self.model.held(scope) <= limit, f"quota of {scope} exceeded"
        assert not scopes & self.policy.paused, "something of a paused scope started"
        assert worst is None or all(kind.priority <= worst for kind in taken)
        for key, bucket in self.model.buckets.items():
            bucket.fill(self.now_ns)
            used = sum(Fraction(kind.rate_cost) for kind in taken if kind.rate_key == key)
            bucket.level -= used  # below nothing where the burst became smaller than what was used of it
            assert not used or bucket.level >= -bucket.slack, f"rate of {key} exceeded"

    def most(self, class_: int) -> int:
        _, most = self.policy.shares.get(PRIORITIES[class_], (0.0, 1.0))
        return 1 << 62 if most >= 1 else max(1, math.floor(Fraction(most).limit_denominator(100) * SLOTS))

    def owed(self) -> dict[int, int]:
        """By class, best first: how much of it must come before others. Only where no gate has a say."""
        policy, held = self.policy, self.model.held_of()
        if policy.quotas or policy.rates or policy.paused:
            return {}
        waits: Counter[int] = Counter()
        for (kind, _), lane in self.model.waiting.items():
            waits[kind.priority] += len(lane)
        least = {no: policy.shares.get(name, (0.0, 1.0))[0] for no, name in enumerate(PRIORITIES)}
        lack = {no: math.ceil(Fraction(least[no]).limit_denominator(100) * SLOTS) - held[no] for no in least}
        return {no: min(lack[no], waits[no]) for no in least if lack[no] > 0 and waits[no]}

    def check_shares(self, taken: list[Kind], owed: dict[int, int], before: list[int], count: int) -> None:
        if not self.policy.shares:
            return
        got = Counter(kind.priority for kind in taken)
        for class_, number in got.items():
            assert before[class_] + number <= self.most(class_), f"class {class_} has more than its most"
        left = count
        for class_, lack in owed.items():
            assert got[class_] >= min(lack, left), f"class {class_} lacks its least share, and others started"
            left = max(0, left - lack)

    def stopped(self, kind: Kind, worst: int | None) -> bool:
        """Whether nothing more of a kind may start now."""
        policy, scopes = self.policy, scopes_of(kind)
        bucket = self.model.buckets.get(kind.rate_key or "")
        return (
            not policy.paused.isdisjoint(scopes)
            or any(self.model.held(scope) >= policy.quotas[scope] for scope in scopes if scope in policy.quotas)
            or (bucket is not None and any(self.lacks(bucket, other) for other in self.before_it(kind)))
            or (worst is not None and kind.priority > worst)
            or (bool(policy.shares) and self.model.held_of()[kind.priority] >= self.most(kind.priority))
        )

    def before_it(self, kind: Kind) -> list[Kind]:
        """The kind, and those that wait for its rate and may not be overtaken by it."""
        waiting = [other for (other, _), lane in self.model.waiting.items() if lane]
        return [kind, *(o for o in waiting if o.rate_key == kind.rate_key and o.priority <= kind.priority)]

    @staticmethod
    def lacks(bucket: Bucket, kind: Kind) -> bool:
        return bucket.level < Fraction(kind.rate_cost) + bucket.slack

    @invariant()
    def nothing_is_lost_or_leaked(self) -> None:
        self.giving.check_invariants(self.runs)
        for scope in self.policy.quotas:
            assert self.giving.quotas.held(scope) == self.model.held(scope)
        queue = self.giving.ready["cpu"]
        waiting = sum(map(len, self.model.waiting.values()))
        assert queue.size + queue.blocked_size == waiting
        assert waiting + len(self.model.leased) + self.ended == self.pushed

    def teardown(self) -> None:
        """Without limits everything ends, and no place is held for ever."""
        everything = Policy.of({"ageing_ns": 0})
        self.model.buckets.clear()
        self.giving.apply(everything, self.runs, self.now_ns)
        self.take([limits.QUOTA_MAX], None)
        for lease in self.model.leased:
            lease.run.state[lease.node] = SUCCEEDED
            self.giving.ended(lease.run, [lease.node])
        self.giving.apply(everything.changed({"quotas": dict.fromkeys(QUOTAS, 1)}), self.runs, self.now_ns)
        assert not any(self.giving.quotas.held(scope) for scope in QUOTAS)
        assert not self.giving.ready["cpu"].size


GivingMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
TestGivingMachine = pytest.mark.slow(GivingMachine.TestCase)


def used_up() -> GivingMachine:
    """The rate of "r" is used up: the machine as it is then."""
    machine = GivingMachine()
    machine.set_rate((3.0, 3))
    machine.push(4, "s1", 1)
    machine.take([1], None)
    return machine


def test_a_rate_lets_start_at_its_very_nanosecond() -> None:
    machine = used_up()
    machine.push(3, "s1", 2)
    machine.take([2], None)
    assert len(machine.model.leased) == 1
    machine.room = 3
    machine.pass_time_until_a_rate_allows()
    assert len(machine.model.leased) == 2


def test_what_a_rate_refuses_holds_no_place() -> None:
    machine = used_up()
    machine.change(quotas={"key:a": 1})
    machine.push(3, "s1", 2)
    machine.take([2], None)
    machine.nothing_is_lost_or_leaked()
    machine.push(1, "s1", 1)
    machine.take([2], None)
    assert machine.model.held("key:a") == 1


@pytest.mark.slow
@given(
    ageing_ns=st.integers(160, 5_000),
    steps=st.lists(st.tuples(st.integers(1, 400), st.integers(1, 4), st.booleans()), min_size=20, max_size=80),
    quota=st.sampled_from([1, 100]),
)
@settings(deadline=None)
def test_the_lowest_class_runs_within_its_bound_under_endless_load_of_the_best(
    ageing_ns: int, steps: list[tuple[int, int, bool]], quota: int
) -> None:
    """Also where a quota lets less start than the workers have room for, and workers are killed."""
    giving: Any = Giving(["cpu"])
    high, low = (
        Run("s1", [replace(BASE, priority=priority, concurrency_key=key)], bytearray([READY] * 10_000))
        for priority, key in ((0, "a"), (3, None))
    )
    giving.apply(Policy.of({"ageing_ns": ageing_ns, "quotas": {"key:a": quota}}), [high, low], 0)
    giving.push(high.kinds[0], high, range(10_000), 0)
    giving.push(low.kinds[0], low, range(10_000), 0)
    now_ns = last_ns = 0
    longest_ns = max(step_ns for step_ns, _, _ in steps)
    for step_ns, count, killed in steps:
        now_ns += step_ns
        taken = list(giving.take(msg.Offer("cpu", ((1, count),)), now_ns))
        if any(run is low for _, run, *_ in taken):
            last_ns = now_ns
        assert now_ns - last_ns <= ageing_ns + ageing_ns // LOOKS_PER_AGEING + longest_ns, "it starves"
        for _, run, kind, nodes, _ in taken:
            giving.ended(run, nodes)
            if killed:
                giving.push(kind, run, nodes, now_ns, front=True)
        assert giving.quotas.held("key:a") == 0

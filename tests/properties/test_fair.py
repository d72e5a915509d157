"""The fair queue against a list of all that waits, and the shares that its turns give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.policy.fair import NO_BOUND, FairQueue
from actors.protocol.kinds import PRIORITIES, Kind
from actors.protocol.limits import QUANTUM

BASE = Kind.of(0, {"handler": "m:f", "node_type": "cpu", "shape": "one"})
KINDS = [
    replace(BASE, no=no, priority=priority, tenant=tenant, concurrency_key=key)
    for no, (priority, tenant, key) in enumerate(
        [
            (2, "", None),
            (2, "", "a"),
            (2, "acme", "a"),
            (2, "acme", "b"),
            (2, "acme", None),
            (0, "acme", "a"),
            (3, "", "b"),
        ]
    )
]
SCOPES = ["key:a", "key:b", "tenant:acme", "tenant:", "class:normal", "type:cpu", "type:gpu"]
FLOWS = ["s:1", "s:2", "r:1"]


class Run:
    """Compared by identity, like the engine's."""


RUNS = [Run() for _ in range(4)]
Lane = tuple[int, str, Kind]
Entry = tuple[int, int, Run, int]
"""Serial, place, run and node: in the order of the flow."""


class FairMachine(RuleBasedStateMachine):
    """`lanes` holds every waiting node by class, flow and kind; `blocked` says which lanes are held back, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: FairQueue[Run] = FairQueue(ageing_ns=0)
        self.lanes: dict[Lane, list[Entry]] = {}
        self.blocked: dict[Lane, str] = {}
        self.serial = self.front = self.node = self.now_ns = 0

    @rule(
        kind=st.sampled_from(KINDS),
        run=st.sampled_from(RUNS),
        flow=st.sampled_from(FLOWS),
        count=st.integers(0, 5) | st.just(200),
        front=st.booleans(),
        listed=st.booleans(),
    )
    def push(self, kind: Kind, run: Run, flow: str, count: int, front: bool, listed: bool) -> None:
        self.now_ns += 1
        nodes = range(self.node, self.node + count)
        self.node += count
        self.queue.push(kind, run, list(nodes) if listed else nodes, self.now_ns, flow, front=front)
        self.serial, self.front = self.serial + (not front), self.front - front
        serial = self.front if front else self.serial
        if count:
            entries = self.lanes.setdefault((kind.priority, flow, kind), [])
            entries += [(serial, place, run, node) for place, node in enumerate(nodes)]
            entries.sort(key=lambda entry: entry[:2])

    @rule(count=st.integers(0, 12) | st.just(500), room=st.none() | st.lists(st.integers(0, 6), min_size=4, max_size=4))
    def pop(self, count: int, room: list[int] | None) -> None:
        self.check_pop(self.queue.pop(count, self.now_ns, room or NO_BOUND), count, room or NO_BOUND)

    @rule(count=st.integers(0, 12) | st.just(500), left=st.dictionaries(st.sampled_from("ab"), st.integers(0, 5)))
    def pop_with_a_gate(self, count: int, left: dict[str, int]) -> None:
        may_all, denied = 0, 0

        def gate(kind: Kind, wanted: int) -> tuple[int, str]:
            nonlocal may_all, denied
            assert wanted > 0
            key = kind.concurrency_key
            may = wanted if key is None else min(wanted, left.get(key, 0))
            if key is not None:
                left[key] = left.get(key, 0) - may
            may_all += may
            denied += may < wanted
            return may, "" if may == wanted else f"key:{key}"

        before = len(self.blocked)
        taken = self.queue.pop(count, self.now_ns, gate=gate)
        for lane, entries in self.lanes.items():
            place = self.queue.position(entries[-1][2], entries[-1][3])
            if place is not None and place.blocked_by and lane not in self.blocked:
                assert place.blocked_by == f"key:{lane[2].concurrency_key}"
                self.blocked[lane] = place.blocked_by
        assert len(self.blocked) - before == denied
        assert sum(len(nodes) for _, _, nodes in taken) == may_all
        self.check_pop(taken, count, NO_BOUND)

    def check_pop(self, taken: list[Any], count: int, room: Any) -> None:
        """Whether this could be taken, in this order; then it waits no more."""
        pairs = [(piece[0], piece[1]) for piece in taken]
        assert all(one != other for one, other in zip(pairs, pairs[1:], strict=False)), "pieces are joined"
        of_class: Counter[int] = Counter()
        last: dict[tuple[int, str, str], tuple[int, int]] = {}
        for run, kind, nodes in taken:
            for node in nodes:
                lane, entry = next(
                    (lane, entries[0])
                    for lane, entries in self.lanes.items()
                    if lane[2] is kind and entries[0][2] is run and entries[0][3] == node
                )
                flow = (lane[0], kind.tenant, lane[1])
                assert last.get(flow, entry[:2]) <= entry[:2], "first in, first out"
                last[flow] = entry[:2]
                assert not of_class or lane[0] >= max(of_class), "the best class first"
                of_class[lane[0]] += 1
                self.lanes[lane].pop(0)
                if not self.lanes[lane]:
                    del self.lanes[lane]
        open_left = Counter(lane[0] for lane in self.lanes if lane not in self.blocked)
        for lane, entries in self.lanes.items():
            flow = (lane[0], lane[2].tenant, lane[1])
            assert lane in self.blocked or last.get(flow, entries[0][:2]) <= entries[0][:2], "nothing was passed over"
        assert all(of_class[no] <= room[no] for no in range(4))
        if sum(of_class.values()) < count:
            assert all(not open_left[no] or of_class[no] == room[no] for no in range(4)), "more could be taken"
        assert sum(of_class.values()) <= count

    @rule(scope=st.sampled_from(SCOPES))
    def block(self, scope: str) -> None:
        self.queue.block(scope)
        for lane in self.lanes:
            kind = lane[2]
            names = (f"key:{kind.concurrency_key}", f"tenant:{kind.tenant}", f"class:{PRIORITIES[lane[0]]}", "type:cpu")
            if lane not in self.blocked and scope in names:
                self.blocked[lane] = scope

    @rule(scope=st.sampled_from(SCOPES))
    def release(self, scope: str) -> None:
        lanes = [lane for lane, why in self.blocked.items() if why == scope]
        assert self.queue.release(scope) == sum(len(self.lanes[lane]) for lane in lanes)
        for lane in lanes:
            del self.blocked[lane]

    @rule(tenant=st.sampled_from(["", "acme"]), weight=st.sampled_from([0.01, 0.5, 1, 1.5, 40]))
    def set_weight(self, tenant: str, weight: float) -> None:
        self.queue.set_weight(tenant, weight)
        assert self.queue.weight(tenant) == weight

    def extract(self, run: Run, besides: int = -1) -> list[tuple[Lane, list[Entry]]]:
        found = []
        for lane, entries in list(self.lanes.items()):
            mine = [entry for entry in entries if entry[2] is run]
            if mine and lane[0] != besides:
                found.append((lane, mine))
                self.lanes[lane] = [entry for entry in entries if entry[2] is not run]
                if not self.lanes[lane]:
                    del self.lanes[lane]
                    self.blocked.pop(lane, None)
        return found

    @rule(run=st.sampled_from(RUNS))
    def drop_run(self, run: Run) -> None:
        assert self.queue.drop_run(run) == sum(len(mine) for _, mine in self.extract(run))

    @rule(run=st.sampled_from(RUNS), class_=st.integers(0, 3))
    def reprioritize(self, run: Run, class_: int) -> None:
        found = self.extract(run, besides=class_)
        assert self.queue.reprioritize(run, class_) == sum(len(mine) for _, mine in found)
        for (_, flow, kind), mine in found:
            entries = self.lanes.setdefault((class_, flow, kind), [])
            entries += mine
            entries.sort(key=lambda entry: entry[:2])

    @invariant()
    def sizes(self) -> None:
        queue = self.queue
        held = sum(len(self.lanes[lane]) for lane in self.blocked)
        sizes = {lane: len(entries) for lane, entries in self.lanes.items()}
        assert (queue.size, queue.blocked_size) == (sum(sizes.values()) - held, held)
        assert queue.counts() == [sum(size for lane, size in sizes.items() if lane[0] == no) for no in range(4)]
        tenants = {lane[2].tenant for lane in sizes}
        assert queue.tenants() == {
            name: sum(size for lane, size in sizes.items() if lane[2].tenant == name) for name in tenants
        }
        waiting = Counter((run, node) for run, nodes in queue.segments() for node in nodes)
        assert waiting == Counter((entry[2], entry[3]) for entries in self.lanes.values() for entry in entries)
        remembered = sum(level.count for level in queue._levels)
        assert len(self.lanes) <= remembered <= len(self.lanes) + len(PRIORITIES), "what waits no more is forgotten"

    def teardown(self) -> None:
        for scope in SCOPES:
            self.queue.release(scope)
        self.blocked.clear()
        self.check_pop(self.queue.pop(1 << 40, self.now_ns), 1 << 40, NO_BOUND)
        assert not self.lanes


FairMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestFairMachine = pytest.mark.slow(FairMachine.TestCase)

COUNTS = st.lists(st.integers(1, 40) | st.integers(1, 1000), min_size=1, max_size=40)
WEIGHTS = st.lists(st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0, 3.0]), min_size=2, max_size=5)


def shares_differ_by(served: list[int], weights: list[float]) -> Fraction:
    shares = [Fraction(count) / Fraction(weight) for count, weight in zip(served, weights, strict=True)]
    return max(shares) - min(shares)


@pytest.mark.slow
@given(weights=WEIGHTS, counts=COUNTS, piece=st.integers(1, 100))
@settings(deadline=None)
def test_tenants_that_always_wait_get_their_shares_within_a_turn(
    weights: list[float], counts: list[int], piece: int
) -> None:
    queue: FairQueue[str] = FairQueue()
    kinds = [replace(BASE, tenant=str(no)) for no in range(len(weights))]
    for no, weight in enumerate(weights):
        queue.set_weight(str(no), weight)
    check_shares(queue, kinds, ["s:1"] * len(kinds), weights, counts, piece)


@pytest.mark.slow
@given(flows=st.integers(2, 5), counts=COUNTS, piece=st.integers(1, 100))
@settings(deadline=None)
def test_flows_of_a_tenant_that_always_wait_get_the_same_within_a_turn(
    flows: int, counts: list[int], piece: int
) -> None:
    names = [f"r:{no}" for no in range(flows)]
    check_shares(FairQueue(), [BASE] * flows, names, [1.0] * flows, counts, piece)


def check_shares(
    queue: FairQueue[str], kinds: list[Kind], flows: list[str], weights: list[float], counts: list[int], piece: int
) -> None:
    """All wait with more than is taken; each is its own run."""
    runs = [f"run {no}" for no in range(len(kinds))]
    for kind, run, flow in zip(kinds, runs, flows, strict=True):
        for start in range(0, 1000 * len(counts), piece * 10):
            queue.push(kind, run, range(start, start + piece * 10), 1, flow)
    served = dict.fromkeys(runs, 0)
    for count in counts:
        for run, _, nodes in queue.pop(count, 1):
            served[run] += len(nodes)
        allowed = Fraction(QUANTUM) + 2 * max(1 / Fraction(weight) for weight in weights)
        assert shares_differ_by([*served.values()], weights) <= allowed


@pytest.mark.slow
@given(
    ageing_ns=st.integers(16, 200),
    steps=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 80)), min_size=5, max_size=60),
)
@settings(deadline=None)
def test_an_aged_class_gets_a_turn_however_much_better_work_there_is(
    ageing_ns: int, steps: list[tuple[int, int]]
) -> None:
    queue: FairQueue[str] = FairQueue(ageing_ns)
    best, low = replace(BASE, priority=0), replace(BASE, priority=3)
    queue.push(best, "best", range(1 << 20), 0, "s:1")
    queue.push(low, "low", range(1 << 20), 0, "s:1")
    now_ns = since_ns = 0
    longest_step_ns = max(step_ns for step_ns, _ in steps)
    for step_ns, count in steps:
        now_ns += step_ns
        got = sum(len(nodes) for run, _, nodes in queue.pop(count, now_ns) if run == "low")
        if got:
            assert now_ns - since_ns >= ageing_ns
            assert got == min(QUANTUM, max(1, count // 8))
            since_ns = now_ns
        assert now_ns - since_ns <= ageing_ns + ageing_ns // 16 + longest_step_ns


def one_at_a_time(queue: FairQueue[str], rounds: int, ask: Callable[[], int]) -> Counter[str]:
    """Serve from behind a limit of one: whoever is let through is done before the next."""
    served: Counter[str] = Counter()
    for _ in range(rounds):
        free = 1

        def gate(kind: Kind, wanted: int) -> tuple[int, str]:
            nonlocal free
            may = min(wanted, free)
            free -= may
            return may, "" if may == wanted else "key:printer"

        for run, _, nodes in queue.pop(ask(), 1, gate=gate):
            served[run] += len(nodes)
        queue.release("key:printer")
    return served


@pytest.mark.slow
@given(weights=st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=2, max_size=4), asked=st.sampled_from([4, 60, 900]))
@settings(deadline=None)
def test_who_waits_for_the_same_limit_shares_it_by_weight(weights: list[float], asked: int) -> None:
    queue: FairQueue[str] = FairQueue()
    for no, weight in enumerate(weights):
        queue.set_weight(str(no), weight)
        kind = replace(BASE, tenant=str(no), concurrency_key="printer")
        queue.push(kind, str(no), range(1000), 1, "s:1")
    served = one_at_a_time(queue, 200, lambda: asked)
    assert shares_differ_by([served[str(no)] for no in range(len(weights))], weights) <= 4

"""Guards: a breaker holds a node type back and lets it go on, whatever becomes of probes; a budget spreads retries."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from tests.unit.actors.rig import Rig, kind, node_type

S = 1_000_000_000
BREAKER = {
    "ended_min": 4,
    "failure_ratio": 0.5,
    "window_ns": 10 * S,
    "cooldown_ns": 5 * S,
    "cooldown_max_ns": 20 * S,
    "probes": 2,
}
PATIENT = {"max_attempts": 9, "base_ns": 0, "cap_ns": 0, "factor": 1.0, "jitter": False, "on": ["error"]}


def guarded(**more: Any) -> Rig:
    return Rig(node_type(**{"breaker": BREAKER, "workers_min": 4, "workers_max": 4, "prefetch": 1, **more}))


def submit(rig: Rig, count: int, first: int = 1, **options: Any) -> None:
    rows = [[seq, first, seq] for seq in range(first, first + count)]
    rig.say(msg.KindDefined("s", first, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


def tripped(rig: Rig, count: int = 20) -> list[tuple[int, int, int]]:
    """A rig whose first four attempts failed; returns the leases that were given before, and are out still."""
    submit(rig, count)
    leases = rig.leases()
    assert len(leases) == 8, "one runs at each worker, and one waits there"
    for lease in leases[:4]:
        rig.fail(*lease)
    return leases[4:]


def why(rig: Rig, task: int = 20) -> str:
    return str(rig.ask("why", run=f"s-{task}")["text"])


def test_failures_open_it_once_and_nothing_starts_until_its_time() -> None:
    rig = guarded()
    rest = tripped(rig)
    assert [(one.code, one.text) for one in rig.taken(fx.Announce)] == [
        ("MS210", "the breaker of node type default opened: 4 of 4 attempts failed; its tasks wait")
    ]
    given = rig.leases()
    for lease in [*rest, *given]:
        rig.fail(*lease)
    assert rig.leases() == []
    assert rig.taken(fx.Announce) == []
    text = why(rig)
    assert text.startswith("it is held back: the breaker of node type default is open: 4 of 4 attempts failed; ")
    assert text.endswith("it tries again in 5.0 s")
    assert rig.taken(fx.WakeAt), "somebody wakes it"
    rig.later(5 * S - 1_000)
    assert rig.leases() == []
    rig.later(1_000)
    assert len(rig.leases()) == 2, "probes"
    assert "half open: 2 tasks must succeed" in why(rig)


def settled(rig: Rig) -> None:
    """Open, and nothing of before is out."""
    rest = tripped(rig, 40)
    for lease in [*rest, *rig.leases()]:
        rig.fail(*lease)
    assert rig.leases() == []
    rig.taken(fx.Announce)


def test_probes_that_succeed_close_it_once() -> None:
    rig = guarded()
    settled(rig)
    rig.later(5 * S)
    first, second = rig.leases()
    rig.succeed(*first)
    assert rig.leases() == []
    rig.succeed(*second)
    assert [(one.code, one.text) for one in rig.taken(fx.Announce)] == [
        ("", "the breaker of node type default closed: its tasks succeed again")
    ]
    assert len(rig.leases()) == 8


def test_a_probe_that_fails_opens_it_for_twice_as_long_and_is_not_said_again() -> None:
    rig = guarded()
    settled(rig)
    rig.later(5 * S)
    first, second = rig.leases()
    rig.fail(*first)
    rig.succeed(*second)
    assert rig.leases() == []
    assert why(rig, 40).endswith("an attempt to see whether it works again failed; it tries again in 10.0 s")
    rig.later(10 * S - 1_000)
    assert rig.leases() == []
    rig.later(1_000)
    assert len(rig.leases()) == 2
    assert rig.taken(fx.Announce) == []


def test_a_probe_that_comes_back_untouched_or_is_cancelled_makes_room_for_another() -> None:
    rig = guarded()
    settled(rig)
    rig.later(5 * S)
    (dead, _, _), (worker, serial, node) = rig.leases()
    rig.die(dead)
    assert len(rig.leases()) == 1
    seq = 1 + node
    rig.say(msg.CancelAsked("s", 9, f"s-{seq}", None), msg.LeasesRevoked(worker, (), (serial,)))
    rig.fail(worker, serial, node, "cancelled")
    assert len(rig.leases()) == 1


def test_what_was_given_before_it_opened_says_nothing_of_the_time_after() -> None:
    rig = guarded(breaker={**BREAKER, "probes": 1})
    before, *_ = tripped(rig)
    rig.leases()
    rig.later(5 * S)
    (probe,) = rig.leases()
    rig.fail(*before)
    rig.succeed(*probe)
    assert [one.code for one in rig.taken(fx.Announce)] == ["MS210", ""]


@pytest.mark.parametrize("failure_kind", ["payload", "skipped", "cancelled"])
def test_what_is_not_the_fault_of_the_node_type_does_not_open_it(failure_kind: str) -> None:
    rig = guarded()
    submit(rig, 20)
    for lease in rig.leases():
        rig.fail(*lease, failure_kind)
    assert len(rig.leases()) == 8


def test_tasks_that_are_killed_because_they_were_cancelled_do_not_open_it() -> None:
    rig = guarded()
    submit(rig, 20)
    for worker, serial, node in rig.leases()[:4]:
        rig.say(msg.CancelAsked("s", 9, f"s-{1 + node}", None), msg.LeasesRevoked(worker, (), (serial,)))
        rig.fail(worker, serial, node, "crash")
    assert len(rig.leases()) == 4


def test_others_are_not_held_back() -> None:
    rig = Rig(
        node_type("down", breaker=BREAKER, workers_min=1, workers_max=1, prefetch=1),
        node_type("up", workers_min=1, workers_max=1, prefetch=1),
    )
    submit(rig, 9, node_type="down", retry=PATIENT)
    for _ in range(4):
        rig.fail(*rig.leases()[0])
    submit(rig, 9, first=10, node_type="up")
    up = rig.workers[1]
    assert [worker for worker, _, _ in rig.leases() if worker == up] == [up, up]


def test_a_cancelled_run_that_waits_for_probes_leaves_their_places_to_others() -> None:
    """The first that are let through are cancelled by then, so that they do not start."""
    rig = guarded()
    settled(rig)
    submit(rig, 6, first=41, tenant="acme")
    for seq in range(9, 41):
        rig.say(msg.CancelAsked("s", 9, f"s-{seq}", None))
    rig.later(5 * S)
    assert len(rig.leases()) == 2


def test_a_quota_and_a_breaker_hold_back_both() -> None:
    rig = guarded()
    settled(rig)
    rig.ask("policy", change={"quotas": {"type:default": 1}})
    rig.later(5 * S)
    (first,) = rig.leases()
    rig.succeed(*first)
    (second,) = rig.leases()
    rig.succeed(*second)
    assert len(rig.leases()) == 1
    assert [one.code for one in rig.taken(fx.Announce)] == [""]


def test_retries_above_the_budget_are_spread_over_time() -> None:
    rig = Rig(node_type(retry_budget={"ratio": 0.5, "min_per_s": 1.0}, prefetch=1))
    submit(rig, 8, retry=PATIENT)
    failed = 0
    retried: list[int] = []
    begin_ns = rig.now_ns
    while len(retried) < 6:
        leases = rig.leases()
        for lease in leases:
            if failed >= 8:
                retried.append((rig.now_ns - begin_ns) // S)
                rig.succeed(*lease)
            else:
                failed += 1
                rig.fail(*lease)
        if not leases:
            rig.later(S // 4)
    assert retried == sorted(retried)
    assert retried[-1] >= 1
    assert retried.count(0) >= 3, "first attempts have deposited these"
    assert all(retried.count(second) <= 1 for second in range(1, 10))


def test_without_a_budget_they_come_at_once() -> None:
    rig = Rig(node_type(prefetch=1))
    submit(rig, 8, retry=PATIENT)
    failed = 0
    while failed < 8:
        for lease in rig.leases():
            failed += 1
            rig.fail(*lease)
    assert rig.leases()


def test_a_graph_of_two_node_types_counts_for_each() -> None:
    one = {**BREAKER, "ended_min": 2, "failure_ratio": 1.0}
    rig = Rig(node_type("default", breaker=one), node_type("up", breaker=one))
    builder = GraphBuilder()
    for index in (0, 1, 0, 1):
        builder.add(index, [])
    raw = encode(builder.finish(), {"kinds": [kind("parents"), kind("parents", node_type="up")], "name": "graph"})
    rig.say(msg.GraphSubmitted("s", 1, *decode(raw), raw))
    for worker, serial, node in rig.leases():
        if node % 2:
            rig.fail(worker, serial, node)
        else:
            rig.succeed(worker, serial, node)
    assert set(rig.core.scheduler.giving.guards.tripped) == {"up"}

"""Giving: quotas come back however an attempt ends, pauses hold, rates last over a restart, shares bind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, folded, kind, node_type

PRINTER = {"concurrency_key": "printer"}


def rig_with(policy: dict[str, Any], **node_type_options: Any) -> Rig:
    return Rig(node_type(**node_type_options), scheduler=Scheduler(["default"], policy=policy))


def submit(rig: Rig, count: int, first: int = 1, **options: Any) -> None:
    rows = [[seq, first, seq] for seq in range(first, first + count)]
    rig.say(msg.KindDefined("s", first, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


def change(rig: Rig, **changes: Any) -> None:
    rig.ask("policy", change=changes)


Ending = Callable[[Rig, int, int], None]


def succeeds(rig: Rig, worker: int, serial: int) -> None:
    rig.succeed(worker, serial, 0)


def fails(rig: Rig, worker: int, serial: int) -> None:
    rig.fail(worker, serial, 0)


def is_cancelled_early(rig: Rig, worker: int, serial: int) -> None:
    rig.say(msg.CancelAsked("s", 9, "s-1", None), msg.LeasesRevoked(worker, (serial,), (serial,)))


def is_cancelled_running(rig: Rig, worker: int, serial: int) -> None:
    rig.say(msg.CancelAsked("s", 9, "s-1", None), msg.LeasesRevoked(worker, (), (serial,)))
    rig.fail(worker, serial, 0, "cancelled")


def dies(rig: Rig, worker: int, serial: int) -> None:
    rig.die(worker, serial, (serial,))


@pytest.mark.parametrize("ends", [succeeds, fails, is_cancelled_early, is_cancelled_running, dies])
def test_a_place_comes_back_however_the_attempt_ends(ends: Ending) -> None:
    rig = rig_with({"quotas": {"key:printer": 1}}, workers_min=2, workers_max=2)
    submit(rig, 3, **PRINTER, poison=1)
    ((worker, serial, node),) = rig.leases()
    assert node == 0
    ends(rig, worker, serial)
    assert [node for _, _, node in rig.leases()] == [1]


def test_what_a_dead_worker_held_untouched_gives_its_place_back_and_is_no_attempt() -> None:
    rig = rig_with({"quotas": {"key:printer": 1}}, workers_min=2, workers_max=2)
    submit(rig, 2, **PRINTER)
    ((worker, _, _),) = rig.leases()
    rig.die(worker)
    ((other, _, node),) = rig.leases()
    assert (other != worker, node) == (True, 0)
    assert rig.ask("status", run="s-1")["state"] == "running"


def test_a_quota_that_comes_later_counts_what_runs_by_then() -> None:
    rig = rig_with({}, workers_min=2, workers_max=2, prefetch=1)
    submit(rig, 9, **PRINTER)
    running = rig.leases()
    assert len(running) == 4
    change(rig, quotas={"key:printer": 3})
    for worker, serial, node in running[:2]:
        rig.succeed(worker, serial, node)
    assert len(rig.leases()) == 1, "two of four ended, and three may run"
    change(rig, quotas={"key:printer": None})
    assert len(rig.leases()) == 1


def test_others_pass_what_has_no_place() -> None:
    rig = rig_with({"quotas": {"key:printer": 1}}, prefetch=1)
    submit(rig, 5, **PRINTER)
    submit(rig, 1, first=6)
    assert [node for _, _, node in rig.leases()] == [0, 0], "the first of the printer's, and the one without"


def test_a_pause_lets_run_what_runs_and_holds_back_what_waits_and_what_comes() -> None:
    rig = rig_with({}, prefetch=1)
    submit(rig, 3, tenant="acme")
    started = rig.leases()
    change(rig, pause=["tenant:acme"])
    submit(rig, 1, first=4, tenant="acme")
    for worker, serial, node in started:
        rig.succeed(worker, serial, node)
    assert rig.leases() == []
    assert rig.ask("why", run="s-3")["text"] == "it is held back: tenant:acme is paused"
    change(rig, resume=["tenant:acme"])
    assert len(rig.leases()) == 2


def test_a_rate_lets_start_what_is_due_and_is_kept_over_a_restart() -> None:
    rig = rig_with({"rates": {"bank": [1.0, 2]}})
    submit(rig, 5, rate_key="bank")
    assert len(rig.leases()) == 2
    assert "rate:bank is used up; it has room in 1.0" in rig.ask("why", run="s-5")["text"]
    rig.later(999_999_000)
    assert rig.leases() == []
    rig.later(1_000)
    assert len(rig.leases()) == 1
    scheduler = Scheduler(["default"], policy={"rates": {"bank": [1.0, 2]}})
    folded(rig.records, scheduler).finish(rig.now_ns, rig.now_ns, {"pid": 1}, rig.records[-1].lsn + 1)
    taken = scheduler.giving.take(msg.Offer("default", ((1, 9),)), rig.now_ns)
    assert list(taken) == [], "what was used counts still"
    assert [record.type for record in rig.records].count(RecordType.RATES) == 2


def test_a_dear_task_that_waits_for_a_rate_does_not_make_cheap_ones_wait_as_long() -> None:
    rig = rig_with({"rates": {"bank": [1.0, 3]}})
    submit(rig, 1, rate_key="bank", rate_cost=3)
    submit(rig, 1, first=2, rate_key="bank", rate_cost=0.5)
    assert len(rig.leases()) == 1
    submit(rig, 1, first=3, rate_key="bank", rate_cost=3)
    rig.later(500_000_000)
    ((_, serial, _),) = rig.leases()
    assert serial == 2
    assert "rate:bank is used up" in rig.ask("why", run="s-3")["text"]


def test_a_class_never_has_more_than_its_share_and_its_rest_is_free_at_once() -> None:
    rig = rig_with({"shares": {"low": [0.0, 0.5]}}, workers_min=4, workers_max=4, prefetch=1)
    submit(rig, 9, priority="low")
    assert len({worker for worker, _, _ in rig.leases()}) == 2
    submit(rig, 1, first=10, priority="realtime")
    assert len(rig.leases()) == 1


def test_a_class_below_its_share_has_the_first_turn() -> None:
    rig = rig_with({"shares": {"low": [0.5, 1.0]}}, workers_min=1, workers_max=1, prefetch=1)
    submit(rig, 4, priority="high")
    submit(rig, 1, first=5, priority="low")
    ((worker, serial, node), _) = rig.leases()
    rig.succeed(worker, serial, node)
    (given,) = rig.taken(fx.LeaseWork)
    assert given.kind.priority == 3


@pytest.mark.parametrize(("shares", "next_class"), [({}, 3), ({"realtime": [0.2, 1.0]}, 0)])
def test_what_the_best_class_keeps_comes_before_the_turn_of_what_has_waited(
    shares: dict[str, Any], next_class: int
) -> None:
    rig = rig_with({"shares": shares, "ageing_ns": 1_000}, workers_min=1, workers_max=1, prefetch=0)
    submit(rig, 2, priority="low")
    ((worker, serial, node),) = rig.leases()
    rig.later(10_000)
    submit(rig, 1, first=3, priority="realtime")
    rig.taken(fx.LeaseWork)
    rig.succeed(worker, serial, node)
    (given,) = rig.taken(fx.LeaseWork)
    assert given.kind.priority == next_class


@pytest.mark.parametrize("limit", [{"quotas": {"key:printer": 2}}, {"shares": {"normal": [0.0, 0.5]}}])
def test_what_may_run_at_once_does_not_stand_behind_each_other(limit: dict[str, Any]) -> None:
    rig = rig_with(limit, workers_min=4, workers_max=4)
    submit(rig, 9, **PRINTER)
    assert len({worker for worker, _, _ in rig.leases()}) == 2


@pytest.mark.parametrize(
    "limit", [{"quotas": {"key:db": 8}}, {"rates": {"db": [1.0, 8]}}, {"quotas": {"tenant:": 8, "class:normal": 9}}]
)
def test_where_limits_have_room_for_all_a_worker_gets_its_share_whole(limit: dict[str, Any]) -> None:
    rig = rig_with(limit, workers_min=2, workers_max=2)
    rig.let_hold(4)
    submit(rig, 8, concurrency_key="db", rate_key="db")
    assert [list(lease.nodes) for lease in rig.taken(fx.LeaseWork)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_weights_change_while_work_waits() -> None:
    rig = rig_with({"weights": {"a": 3}}, prefetch=1)
    submit(rig, 40, tenant="a")
    submit(rig, 40, first=41, tenant="b")
    assert rig.core.scheduler.ready["default"].weight("a") == 3
    change(rig, weights={"a": None})
    assert rig.core.scheduler.ready["default"].weight("a") == 1


def test_a_change_that_is_wrong_changes_nothing() -> None:
    rig = rig_with({})
    answer = rig.ask("policy", change={"quotas": {"key:": 0}, "pause": ["nothing"]})
    assert answer["code"] == "MS101"
    assert rig.core.scheduler.policy.quotas == {}


def test_a_policy_record_of_the_log_is_obeyed_after_a_restart() -> None:
    rig = rig_with({})
    change(rig, pause=["class:normal"])
    submit(rig, 2)
    replay = Replay(scheduler := Scheduler(["default"]))
    for record in rig.records:
        replay.fold(Record(*record))
    replay.finish(rig.now_ns, rig.now_ns, {"pid": 1}, rig.records[-1].lsn + 1)
    assert list(scheduler.giving.take(msg.Offer("default", ((1, 9),)), rig.now_ns)) == []
    assert dict(scheduler.giving.held_back()) == {"class:normal": 2}


def test_what_was_being_cancelled_when_the_engine_died_holds_no_place() -> None:
    rig = rig_with({})
    change(rig, quotas={"key:printer": 1})
    submit(rig, 2, **PRINTER)
    ((worker, serial, _),) = rig.leases()
    rig.say(msg.CancelAsked("s", 9, "s-1", None), msg.LeasesRevoked(worker, (), (serial,)))
    replay = Replay(scheduler := Scheduler(["default"]))
    for record in rig.records:
        replay.fold(record)
    replay.finish(rig.now_ns, rig.now_ns, {"pid": 1}, rig.records[-1].lsn + 1)
    scheduler.check_invariants()
    assert scheduler.giving.quotas.held("key:printer") == 0


def test_a_dear_task_of_a_rate_is_not_overtaken_for_ever_by_cheap_ones() -> None:
    """Twice as much comes as the rate lets through, and each of it is a tenant of its own."""
    rig = rig_with({"rates": {"api": [10.0, 10]}}, prefetch=64)
    submit(rig, 15, tenant="early", rate_key="api")
    submit(rig, 1, first=16, tenant="dear", rate_key="api", rate_cost=10.0)
    for tick in range(40):
        submit(rig, 2, first=100 + 2 * tick, tenant=f"t{tick}", rate_key="api")
        rig.later(100_000_000)
        leased = rig.taken(fx.LeaseWork)
        for lease in leased:
            for place, node in enumerate(lease.nodes):
                rig.succeed(lease.worker, lease.serial + place, node, run=lease.run.no)
        if any(lease.kind.tenant == "dear" for lease in leased):
            return
    raise AssertionError("it did not start within four seconds, of which the rate needs one")


def test_what_waits_for_a_rate_lets_better_classes_before() -> None:
    rig = rig_with({"rates": {"api": [1.0, 10]}}, prefetch=64)
    submit(rig, 5, rate_key="api")
    submit(rig, 1, first=6, rate_key="api", rate_cost=10.0)
    rig.leases()
    submit(rig, 1, first=7, rate_key="api")
    assert rig.leases() == []
    submit(rig, 1, first=8, rate_key="api", priority="high")
    assert len(rig.leases()) == 1


def test_who_waits_for_a_dear_task_does_not_wait_for_one_that_was_cancelled() -> None:
    rig = rig_with({"rates": {"api": [1.0, 1000]}}, prefetch=64)
    rig.let_hold(9)
    submit(rig, 5, tenant="early", rate_key="api")
    submit(rig, 1, first=6, tenant="dear", rate_key="api", rate_cost=1000.0)
    for worker, serial, node in rig.leases():
        rig.succeed(worker, serial, node)
    submit(rig, 1, first=7, tenant="cheap", rate_key="api")
    assert rig.ask("why", run="s-6")["text"] == "it is held back: rate:api is used up; it has room in 5.000 s"
    assert "keeps its room for what was before it" in rig.ask("why", run="s-7")["text"]
    rig.later(1_000_000_000)
    assert rig.leases() == []
    rig.say(msg.CancelAsked("s", 9, "s-6", None))
    rig.later(1_000_000_000)
    assert len(rig.leases()) == 1


@pytest.mark.parametrize("before", [(None,), (None, None, None)], ids=["expired", "past its deadline"])
def test_what_was_cancelled_or_is_too_late_takes_nothing_of_a_rate(before: tuple[None, ...]) -> None:
    rig = rig_with({"rates": {"api": [1.0, 1]}}, prefetch=64)
    now = rig.wall_ns
    rows = [[seq, 1, seq, *before, now + 100_000_000 if seq > 1 and seq % 2 else None] for seq in range(1, 40)]
    rows.append([40, 1, 40])
    rig.say(msg.KindDefined("s", 1, kind(rate_key="api")), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    assert len(rig.leases()) == 1
    rig.say(*(msg.CancelAsked("s", seq, f"s-{seq}", None) for seq in range(2, 40, 2)))
    rig.later(200_000_000)
    rig.later(800_000_000)
    assert [node for _, _, node in rig.leases()] == [39]


def graph(rig: Rig, seq: int, size: int, **options: Any) -> None:
    builder = GraphBuilder()
    for _ in range(size):
        builder.add(0, [])
    raw = encode(builder.finish(), {"kinds": [kind("parents", **options)], "name": "graph"})
    header, columns = decode(raw)
    rig.say(msg.GraphSubmitted("s", seq, header, columns, raw))


def test_tasks_that_are_graphs_of_one_node_take_the_turns_of_one() -> None:
    """Else whoever names keys would have a turn for each of its tasks, and each would be looked at at each release."""
    rig = rig_with({}, prefetch=2)
    rig.core.scheduler.change_policy({"pause": ["class:normal"]})
    for seq in range(1, 41):
        graph(rig, seq, 1)
    graph(rig, 41, 40)
    levels = rig.core.scheduler.ready["default"]._levels
    assert len([*levels[2].found()]) == 2
    order: list[bool] = []
    rig.ask("policy", change={"resume": ["class:normal"]})
    while leased := rig.taken(fx.LeaseWork):
        for lease in leased:
            for place, node in enumerate(lease.nodes):
                order.append(lease.run.base_size > 1)
                rig.succeed(lease.worker, lease.serial + place, node, run=lease.run.no)
    assert len(order) == 80
    assert 15 <= sum(order[:40]) <= 25

"""Calls: who waits holds nothing, goes on when all has ended however it ended, and nothing is done twice."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.records import RecordType
from actors.scheduler import Scheduler
from actors.state_column import CANCELLED, FAILED, PENDING, READY, SUCCEEDED
from tests.unit.actors.rig import Rig, kind, node_type, recovered

RULES = ("all_succeeded", "all_done", "any_succeeded", "none_failed")


def calls(rig: Rig, worker: int, serial: int, node: int, *names: str, run: int = 1, **options: Any) -> None:
    """The handler of this lease waits for so many calls."""
    block = {
        "n": len(names),
        "kinds": [kind("args", **options)],
        "kind_of": [0] * len(names),
        "items": [[name] for name in names],
        "calls": list(names),
    }
    raw = orjson.dumps([serial, run, node, block])
    row = [serial, run, node, rig.now_ns, rig.now_ns + 5, {"kind": "waits", "type": "", "message": "", "traceback": ""}]
    rig.say(msg.WorkerSpawned(worker, serial, block, raw), msg.WorkerFailed(worker, [row]))


def fails(rig: Rig, worker: int, serial: int, node: int) -> None:
    rig.fail(worker, serial, node)


def succeeds(rig: Rig, worker: int, serial: int, node: int) -> None:
    rig.succeed(worker, serial, node, value=node * 10)


def run_of(rig: Rig, no: int = 1) -> Any:
    book = rig.core.scheduler.book
    return book.live.get(no) or book.finished[no]


def caller(rig: Rig, **options: Any) -> tuple[int, int]:
    """A task that runs at the only worker: its worker and serial."""
    rig.submit(1, **options)
    ((worker, serial, _),) = rig.leases()
    return worker, serial


def test_what_is_called_runs_where_its_caller_ran_and_the_caller_goes_on_with_the_results() -> None:
    rig = Rig(node_type(prefetch=1))
    worker, serial = caller(rig)
    calls(rig, worker, serial, 0, "a", "b")
    assert run_of(rig).state[0] == PENDING
    (first, second) = rig.leases()
    assert (first[2], second[2]) == (1, 2)
    assert rig.ask("why", run="s-1")["text"] == (
        "it waits for 2 of the 2 tasks that it called: 1 (with a worker), 2 (with a worker)"
    )
    succeeds(rig, *first)
    assert rig.leases() == []
    succeeds(rig, *second)
    (lease,) = rig.taken(fx.LeaseWork)
    assert (lease.nodes[0], lease.attempts) == (0, [[1, [["a", 3, 10], ["b", 3, 20]]]])
    rig.succeed(worker, lease.serial, 0, value=7)
    assert rig.told("R") == [[[1, [0], [7]]]]


def test_a_caller_goes_on_when_what_it_called_failed_and_the_run_does_not_fail_by_that() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph([[]])
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 0, "a", "b")
    (first, second) = rig.leases()
    fails(rig, *first)
    succeeds(rig, *second)
    (lease,) = rig.taken(fx.LeaseWork)
    ((_, outcomes),) = lease.attempts
    assert [row[1] for row in outcomes] == [FAILED, SUCCEEDED]
    assert outcomes[0][2]["message"] == "no"
    rig.succeed(worker, lease.serial, 0)
    assert rig.told("N")[-1][0][2] == "succeeded"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("last", [fails, succeeds])
def test_a_caller_goes_on_whatever_its_own_rule_says(rule: str, last: Any) -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph([[]], trigger=rule)
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 0, "a", "b")
    (first, second) = rig.leases()
    fails(rig, *first)
    assert run_of(rig).state[0] == PENDING
    last(rig, *second)
    assert [lease.nodes[0] for lease in rig.taken(fx.LeaseWork)] == [0]


def test_what_is_called_goes_before_what_waits_and_so_does_who_goes_on() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit(4)
    (_, first, _), (worker, second, _) = rig.leases()
    del second
    calls(rig, worker, first, 0, "a")
    assert [node for _, _, node in rig.leases()] == [4]


def test_what_is_called_has_at_least_the_class_of_its_caller() -> None:
    rig = Rig(node_type(prefetch=1))
    worker, serial = caller(rig, priority="high")
    calls(rig, worker, serial, 0, "a", priority="low")
    assert [lease.kind.priority for lease in rig.taken(fx.LeaseWork)] == [1]


def test_who_waits_has_no_place_of_a_quota() -> None:
    rig = Rig(scheduler=Scheduler(["default"], policy={"quotas": {"key:k": 1}}))
    worker, serial = caller(rig, concurrency_key="k")
    calls(rig, worker, serial, 0, "a", concurrency_key="k")
    ((_, other, node),) = rig.leases()
    succeeds(rig, worker, other, node)
    assert [node for _, _, node in rig.leases()] == [0]


def test_a_retry_has_the_outcomes_of_the_calls_that_were_made_before() -> None:
    rig = Rig(node_type(prefetch=1))
    worker, serial = caller(rig, retry={"max_attempts": 2, "base_ns": 1, "cap_ns": 1})
    calls(rig, worker, serial, 0, "a")
    succeeds(rig, *rig.leases()[0])
    ((_, again, _),) = rig.leases()
    rig.fail(worker, again, 0)
    rig.later(10)
    (lease,) = rig.taken(fx.LeaseWork)
    assert lease.attempts == [[2, [["a", 3, 10]]]]


def test_a_retry_makes_those_calls_anew_that_failed() -> None:
    rig = Rig(node_type(prefetch=1))
    worker, serial = caller(rig, retry={"max_attempts": 2, "base_ns": 1, "cap_ns": 1})
    calls(rig, worker, serial, 0, "a", "b")
    first, second = rig.leases()
    fails(rig, *first)
    succeeds(rig, *second)
    ((_, again, _),) = rig.leases()
    rig.fail(worker, again, 0)
    rig.later(10)
    (lease,) = rig.taken(fx.LeaseWork)
    assert lease.attempts == [[2, [["b", 3, 20]]]]
    calls(rig, worker, lease.serial, 0, "a")
    ((_, anew, node),) = rig.leases()
    assert node == 3
    run = next(iter(recovered(rig.records).book.live.values()))
    assert (run.rare.calls[0].nodes, run.rare.calls[0].digests) == ([2, 3], ["b", "a"])
    succeeds(rig, worker, anew, node)
    (lease,) = rig.taken(fx.LeaseWork)
    assert lease.attempts == [[2, [["b", 3, 20], ["a", 3, 30]]]]


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_restart_goes_on_where_the_calls_were(ended: int) -> None:
    rig = Rig(node_type(prefetch=1))
    worker, serial = caller(rig)
    calls(rig, worker, serial, 0, "a", "b")
    for lease in rig.leases()[:ended]:
        succeeds(rig, *lease)
    run = next(iter(recovered(rig.records).book.live.values()))
    assert list(run.state) == [PENDING if ended < 2 else READY, *[SUCCEEDED] * ended, *[READY] * (2 - ended)]
    assert run.rare.calls[0].nodes == [1, 2]
    assert [record.type for record in rig.records].count(RecordType.LENT) == 1


def test_a_cancel_of_a_caller_takes_what_it_called_and_what_that_called() -> None:
    rig = Rig(node_type(prefetch=1))
    worker, serial = caller(rig)
    calls(rig, worker, serial, 0, "a", "b")
    (_, first, _), second = rig.leases()
    calls(rig, worker, first, 1, "c")
    rig.say(msg.CancelAsked("s", 9, "s-1", 0))
    run = run_of(rig)
    assert [run.state[n] for n in (0, 1)] == [CANCELLED, CANCELLED]
    assert run.open == len([s for s in run.state if s == 9])
    rig.fail(*second, "cancelled")
    assert set(recovered(rig.records).book.finished[1].state) == {CANCELLED}


def test_a_caller_that_is_being_cancelled_when_it_wants_to_wait_ends() -> None:
    rig = Rig()
    worker, serial = caller(rig)
    rig.say(msg.CancelAsked("s", 9, "s-1", None), msg.LeasesRevoked(worker, (), (serial,)))
    calls(rig, worker, serial, 0, "a")
    assert (run_of(rig).size, run_of(rig).state[0]) == (1, CANCELLED)


def test_calls_that_are_too_many_or_too_deep_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CALLS_PER_NODE_MAX", 2)
    monkeypatch.setattr(limits, "CALL_DEPTH_MAX", 1)
    rig = Rig(node_type(prefetch=1))
    worker, serial = caller(rig)
    calls(rig, worker, serial, 0, "a", "b", "c")
    assert "at most 2 calls, not 3" in rig.told("F")[-1][0][3]["message"]
    rig.say(msg.TasksSubmitted("s", [[2, 1, 2]], b"[[2,1,2]]"))
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 0, "a", run=2)
    ((_, deeper, node),) = rig.leases()
    calls(rig, worker, deeper, node, "a", run=2)
    assert "nested at most 1 deep" in run_of(rig, 2).failure(1)["message"]


def test_a_worker_that_dies_before_it_waits_has_called_nothing() -> None:
    rig = Rig()
    worker, serial = caller(rig, retry={"max_attempts": 2, "base_ns": 1, "cap_ns": 1})
    block = {"n": 1, "kinds": [kind("args")], "kind_of": [0], "items": [[1]], "calls": ["a"]}
    rig.say(msg.WorkerSpawned(worker, serial, block, orjson.dumps([serial, 1, 0, block])))
    rig.die(worker, serial, (serial,))
    assert run_of(rig).size == 1
    assert next(iter(recovered(rig.records).book.live.values())).size == 1


def test_crashes_count_anew_after_each_wait() -> None:
    rig = Rig()
    worker, serial = caller(rig, poison=2, retry={"max_attempts": 9, "base_ns": 1, "cap_ns": 1})
    for round_ in range(3):
        rig.die(worker, serial, (serial,))
        worker = rig.taken(fx.StartWorker)[-1].worker
        rig.say(msg.WorkerHello(worker, 100 + worker))
        rig.later(10)
        ((_, serial, _),) = rig.leases()
        calls(rig, worker, serial, 0, f"call {round_}")
        succeeds(rig, *rig.leases()[0])
        ((_, serial, _),) = rig.leases()
    rig.succeed(worker, serial, 0, value=7)
    assert rig.told("R") == [[[1, [0], [7]]]]

"""Pools: leases, escalation, taking back, replacement."""

from __future__ import annotations

import orjson
import pytest

from actors.policy.leases import LeaseBook
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.run import Run
from tests.unit.actors.rig import Rig, kind, node_type


def test_a_result_counts_once() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node, value=7)
    rig.succeed(worker, serial, node, value=8)
    assert rig.told("R") == [[[1, 0, [7]]]]
    assert rig.core.pools["default"].discarded == 1
    events = rig.ask("story", run="s-1")["events"]
    assert [event[2:4] for event in events if event[2] == "discarded"] == [["discarded", "a late result of worker 1"]]


def test_s07_a_result_of_an_attempt_that_was_given_up_is_discarded() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.observe(worker, serial, rig.now_ns, stopped=True)
    rig.observe(worker, serial, rig.now_ns, stopped=True)
    assert [e.signal for e in rig.taken(fx.SignalWorker)] == ["KILL"]
    rig.die(worker, serial, (serial,))
    rig.succeed(worker, serial, node, value=7)
    assert rig.told("R") == []
    assert rig.ask("status", run="s-1")["state"] == "running"


def test_s07_a_worker_that_is_stopped_for_a_moment_is_not_given_up() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, _),) = rig.leases()
    for stopped in (True, None, False, True, False, None, True):
        rig.observe(worker, serial, rig.now_ns, stopped=stopped)
    assert rig.taken(fx.SignalWorker) == []


def test_s07_a_draining_worker_that_is_frozen_is_given_up_too() -> None:
    rig = Rig(node_type(recycle_rss_bytes=100))
    rig.submit(1)
    ((worker, serial, _),) = rig.leases()
    rig.say(msg.WorkerObserved(worker, serial, rig.now_ns, 200, 0))
    assert rig.taken(fx.DrainWorker) == [fx.DrainWorker(worker)]
    rig.observe(worker, serial, rig.now_ns, stopped=True)
    rig.observe(worker, serial, rig.now_ns, stopped=True)
    assert [e.signal for e in rig.taken(fx.SignalWorker)] == ["KILL"]


def test_escalation_asks_then_terminates_then_kills() -> None:
    rig = Rig(node_type(grace_ns=100))
    rig.submit(1, timeout_ns=1000)
    ((worker, serial, _),) = rig.leases()
    rig.observe(worker, serial, rig.now_ns)
    assert rig.taken(fx.AskCancel) == []
    rig.later(1000, msg.WorkerObserved(worker, serial, rig.now_ns - 10, 0, 0))
    assert rig.taken(fx.AskCancel) == [fx.AskCancel(worker, serial, 2)]
    rig.later(101)
    assert rig.taken(fx.SignalWorker) == [fx.SignalWorker(worker, "TERM")]
    rig.later(101)
    assert rig.taken(fx.SignalWorker) == [fx.SignalWorker(worker, "KILL")]
    rig.die(worker, serial, (serial,))
    assert rig.told("F")[0][0][3]["kind"] == "timeout"
    assert len(rig.taken(fx.StartWorker)) == 1


def test_s15_a_worker_whose_attempt_ends_between_two_steps_goes_and_is_replaced() -> None:
    rig = Rig(node_type(grace_ns=100))
    rig.submit(1, timeout_ns=1000)
    ((worker, serial, node),) = rig.leases()
    rig.later(1000, msg.WorkerObserved(worker, serial, rig.now_ns - 10, 0, 0))
    rig.later(101)
    assert rig.taken(fx.SignalWorker) == [fx.SignalWorker(worker, "TERM")]
    rig.succeed(worker, serial, node)
    assert rig.taken(fx.DrainWorker) == [fx.DrainWorker(worker)]
    rig.die(worker, signal=0)
    assert len(rig.taken(fx.StartWorker)) == 1


def test_a_worker_that_never_says_hello_is_replaced() -> None:
    rig = Rig(boot=False)
    rig.submit(1)
    rig.later(limits.WORKER_START_NS - 10_000)
    assert rig.taken(fx.SignalWorker) == []
    rig.later(10_000)
    (worker,) = rig.workers
    assert rig.taken(fx.SignalWorker) == [fx.SignalWorker(worker, "KILL")]
    assert "said nothing for 30 s" in rig.ask("why", run="s-1")["text"]
    rig.die(worker)
    (start,) = rig.taken(fx.StartWorker)
    rig.say(msg.WorkerHello(start.worker, 7))
    assert len(rig.leases()) == 1


def test_a_stopped_attempt_that_ends_by_itself_ends_the_escalation() -> None:
    rig = Rig()
    rig.submit(1, timeout_ns=1000)
    ((worker, serial, node),) = rig.leases()
    rig.later(2000, msg.WorkerObserved(worker, serial, 1, 0, 0))
    rig.fail(worker, serial, node, "timeout")
    rig.later(10_000)
    assert rig.taken(fx.SignalWorker) == []


def test_only_the_task_that_ran_is_blamed_for_a_crash() -> None:
    rig = Rig()
    rig.submit(3, retry={"max_attempts": 2, "base_ns": 0, "jitter": False})
    leases = rig.leases()
    worker = leases[0][0]
    serials = tuple(serial for _, serial, _ in leases)
    rig.die(worker, serials[1], serials)
    rig.say(msg.WorkerHello(worker + 1, 7))
    attempts = {n: e.attempts[i] if e.attempts else 1 for e in rig.taken(fx.LeaseWork) for i, n in enumerate(e.nodes)}
    rig.later(10)
    attempts |= {n: e.attempts[i] if e.attempts else 1 for e in rig.taken(fx.LeaseWork) for i, n in enumerate(e.nodes)}
    assert attempts == {0: 1, 1: 2, 2: 1}


def test_s03_a_poison_task_fails_after_its_crash_limit() -> None:
    rig = Rig()
    rig.submit(1, poison=2)
    for number in (1, 2):
        leases = rig.leases()
        if not leases:
            rig.later(1_000_000_000)
            leases = rig.leases()
        ((worker, serial, _),) = leases
        rig.die(worker, serial, (serial,))
        rig.say(msg.WorkerHello(worker + 1, number))
    ((row,),) = rig.told("F")
    assert row[2] == "failed"
    assert row[3]["kind"] == "crash"
    assert "out of memory" in row[3]["message"]


def test_cancel_takes_back_what_is_not_claimed_and_asks_what_runs() -> None:
    rig = Rig()
    rig.submit(2)
    (worker, first, _), (_, second, _) = rig.leases()
    for number in (1, 2):
        rig.say(msg.CancelAsked("s", number, f"s-{number}", None))
    revokes = rig.taken(fx.Revoke)
    assert [e.serials for e in revokes] == [(first,), (second,)]
    rig.say(msg.LeasesRevoked(worker, (), (first,)), msg.LeasesRevoked(worker, (second,), (second,)))
    assert rig.taken(fx.AskCancel) == [fx.AskCancel(worker, first, 1)]
    assert [row[0][2] for row in rig.told("F")] == ["cancelled"]


def test_many_that_are_cancelled_at_once_cost_one_look_at_the_book(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.core.pools["default"].measured(1_000, 2)
    rig.submit_graph([[]] * 1000)
    given = tuple(serial for _, serial, _ in rig.leases())
    (worker,) = rig.workers
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    looks: list[LeaseBook[Run]] = []
    look = LeaseBook.open_serials
    monkeypatch.setattr(LeaseBook, "open_serials", lambda book: looks.append(book) or look(book))
    rig.say(msg.LeasesRevoked(worker, (), given))
    assert [asked.serial for asked in rig.taken(fx.AskCancel)] == list(given)
    assert len(given) == 1000
    assert len(looks) <= 2, "not one for each of them"


def test_an_idle_worker_takes_what_a_stuck_one_holds_ahead() -> None:
    rig = Rig(node_type(workers_min=2, workers_max=2), boot=False)
    first, second = rig.workers
    rig.say(msg.WorkerHello(first, 1))
    rig.submit(4)
    serials = [serial for _, serial, _ in rig.leases()]
    rig.say(msg.WorkerHello(second, 2))
    rig.later(10_000_000)
    (revoke,) = rig.taken(fx.Revoke)
    assert revoke.worker == first
    assert set(revoke.serials) < set(serials[1:])
    rig.say(msg.LeasesRevoked(first, revoke.serials, revoke.serials))
    assert {worker for worker, _, _ in rig.leases()} == {second}


def two_workers(held: int, average_ns: int) -> tuple[Rig, int, int, list[int]]:
    """The first worker holds so many tasks of a graph, which usually take so long, and the second is idle."""
    rig = Rig(node_type(workers_min=2, workers_max=2), boot=False)
    first, second = rig.workers
    rig.say(msg.WorkerHello(first, 1))
    rig.core.pools["default"].measured(average_ns, 2)
    rig.submit_graph([*([] for _ in range(held)), list(range(held))])
    serials = [serial for _, serial, _ in rig.leases()]
    rig.say(msg.WorkerHello(second, 2))
    return rig, first, second, serials


def test_an_idle_worker_takes_half_of_much_work_at_once() -> None:
    rig, first, second, serials = two_workers(held=9, average_ns=100_000)
    (revoke,) = rig.taken(fx.Revoke)
    assert (revoke.worker, list(revoke.serials)) == (first, serials[5:])
    rig.say(msg.LeasesRevoked(first, revoke.serials, revoke.serials))
    assert {worker for worker, _, _ in rig.leases()} == {second}


def test_little_work_is_left_where_it_is_unless_its_worker_is_stuck() -> None:
    rig, first, _, _ = two_workers(held=4, average_ns=50_000)
    assert rig.taken(fx.Revoke) == []
    rig.later(10_000_000)
    assert [revoke.worker for revoke in rig.taken(fx.Revoke)] == [first]


def test_results_of_a_graph_are_asked_for_while_a_worker_is_idle() -> None:
    rig, first, _, serials = two_workers(held=4, average_ns=50_000)
    assert rig.taken(fx.AskResults) == [fx.AskResults(first, True)]
    rig.say(msg.TimePassed())
    assert rig.taken(fx.AskResults) == []
    for node, serial in enumerate(serials):
        rig.succeed(first, serial, node)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    assert rig.taken(fx.AskResults)[-1] == fx.AskResults(first, False)


def test_results_of_single_tasks_are_not_asked_for() -> None:
    rig = Rig(node_type(workers_min=2, workers_max=2))
    rig.submit(1)
    assert rig.taken(fx.AskResults) == []


def test_one_answer_for_leases_of_several_groups_is_kept_as_it_came() -> None:
    rig = Rig()
    rig.submit_graph([[], [], [0], [1], [2, 3]])
    ((worker, serial, _), *_) = leases = rig.leases()
    assert len(leases) == 2
    rig.succeed(worker, serial, 0)
    rig.leases()
    raw = orjson.dumps([100 + worker, [[serial + 1, 1, [1, 2], [5, 6], rig.now_ns, [10, 20]]]])
    rig.say(msg.WorkerDone(worker, orjson.loads(raw)[1], raw))
    assert rig.records[-1].payload == raw
    assert [node for _, _, node in rig.leases()] == [3]


def test_a_worker_is_replaced_after_its_number_of_tasks() -> None:
    rig = Rig(node_type(recycle_tasks=1))
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.succeed(worker, serial, node)
    assert rig.taken(fx.DrainWorker) == [fx.DrainWorker(worker)]
    assert [e.worker for e in rig.taken(fx.StartWorker)] == [worker + 1]


def test_a_worker_is_not_given_more_than_its_number_of_tasks() -> None:
    """A task that must find its process fresh (recycle_tasks=1) does; the others wait for the next worker."""
    rig = Rig(node_type(recycle_tasks=2))
    rig.submit(5)
    first = rig.leases()
    assert len(first) == 2
    for worker, serial, node in first:
        rig.succeed(worker, serial, node)
    assert rig.leases() == []
    (start,) = rig.taken(fx.StartWorker)
    rig.say(msg.WorkerHello(start.worker, 2))
    assert [worker for worker, _, _ in rig.leases()] == [start.worker] * 2


def test_a_worker_of_coroutines_takes_others_beside_a_long_one() -> None:
    rig = Rig(node_type(recycle_tasks=2, mode="asyncio", slots=4))
    rig.submit(5)
    assert len(rig.leases()) > 2


def test_a_pool_grows_when_work_waits_and_shrinks_when_it_is_idle() -> None:
    rig = Rig(node_type(workers_min=1, workers_max=2))
    rig.submit(200)
    (start,) = rig.taken(fx.StartWorker)
    rig.say(msg.WorkerHello(start.worker, 2))
    while leases := rig.leases():
        for worker, serial, node in leases:
            rig.succeed(worker, serial, node)
    rig.later(31_000_000_000)
    assert len(rig.taken(fx.DrainWorker)) == 1


def test_a_worker_that_dies_between_two_tasks_cannot_do_so_for_ever() -> None:
    rig = Rig()
    rig.submit(1, poison=2)
    for _ in range(2):
        leases = rig.leases()
        if not leases:
            rig.later(1_000_000_000)
            leases = rig.leases()
        ((worker, serial, _),) = leases
        rig.die(worker, 0, (serial,))
        rig.say(msg.WorkerHello(worker + 1, 1))
    ((row,),) = rig.told("F")
    assert row[3]["kind"] == "crash"


@pytest.mark.parametrize("claimed", [True, False])
def test_s42_every_lease_of_a_dead_worker_comes_back(claimed: bool) -> None:
    rig = Rig()
    rig.submit(2)
    leases = rig.leases()
    worker = leases[0][0]
    rig.die(worker, 0, tuple(serial for _, serial, _ in leases) if claimed else ())
    assert rig.core.held() == 0
    rig.say(msg.WorkerHello(worker + 1, 7))
    given = [node for _, _, node in rig.leases()]
    rig.later(1_000_000_000)
    given += [node for _, _, node in rig.leases()]
    assert sorted(given) == [0, 1]


def test_a_slot_of_the_lease_table_is_not_used_again_before_the_worker_passed_it() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, first, _),) = rig.leases()
    rig.core.pools["default"].measured(100, 2)
    highest = first
    for seq in range(2, 12):
        items = list(range(limits.PREFETCH_MAX))
        rig.say(msg.MapSubmitted("s", seq, 1, items, orjson.dumps([seq, 1, items])))
        given = tuple(serial for _, serial, _ in rig.leases())
        highest = max((highest, *given))
        if seq < 11:
            rig.say(msg.CancelAsked("s", 1, f"s-{seq}", None), msg.LeasesRevoked(worker, given, given))
    assert limits.PREFETCH_MAX < highest - first <= limits.LEASE_SLOTS - limits.CLAIM_MAX
    rig.observe(worker, first, 1, passed=highest)
    assert rig.leases(), "once the worker passed them, it is given work again"


def test_each_task_of_an_asyncio_worker_has_its_own_time() -> None:
    rig = Rig(node_type(mode="asyncio", slots=10))
    rig.submit(2, timeout_ns=1000)
    (worker, first, _), (_, second, _) = rig.leases()
    start = rig.now_ns
    rig.later(900, msg.WorkerObserved(worker, 0, 0, 0, 0, running=((first, start), (second, 0))))
    assert rig.taken(fx.AskCancel) == []
    rig.later(200, msg.WorkerObserved(worker, 0, 0, 0, 0, running=((first, start), (second, start + 900))))
    assert rig.taken(fx.AskCancel) == [fx.AskCancel(worker, first, 2)]


def test_a_task_behind_a_long_one_gets_a_worker_of_its_own() -> None:
    rig = Rig(node_type(workers_min=1, workers_max=2))
    rig.core.pools["default"].measured(100, 2)
    rig.submit(2)
    rig.leases()
    rig.later(30_000_000)
    (start,) = rig.taken(fx.StartWorker)
    rig.say(msg.WorkerHello(start.worker, 2))
    rig.later(10_000_000)
    (revoke,) = rig.taken(fx.Revoke)
    rig.say(msg.LeasesRevoked(revoke.worker, revoke.serials, revoke.serials))
    assert [worker for worker, _, _ in rig.leases()] == [start.worker]


def test_a_worker_that_knows_too_many_kinds_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 3)
    rig = Rig()
    rig.core.scheduler.book.runs_max = 1
    replaced: list[int] = []
    for seq in range(1, 7):
        row = [seq, 1, 0]
        rig.say(msg.KindDefined("s", 1, kind(handler=f"m:f{seq}")), msg.TasksSubmitted("s", [row], orjson.dumps([row])))
        ((worker, serial, node),) = rig.leases()
        rig.succeed(worker, serial, node, run=seq)
        rig.say(msg.Told(rig.core.scheduler.lsn))
        drained = [effect.worker for effect in rig.taken(fx.DrainWorker)]
        if drained:
            replaced.append(seq)
            break
    assert replaced == [5], "the fifth number is more than three above the first"
    (new,) = rig.taken(fx.StartWorker)
    assert new.worker != worker

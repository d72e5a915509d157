"""The size of a pool in the whole core: it follows its policy, lets only idle workers go, and tells of each step."""

from __future__ import annotations

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from tests.unit.actors.rig import Rig, node_type

COOLDOWN_NS = 1_000_000_000
MS = 1_000_000


def elastic(low: int, high: int) -> Rig:
    return Rig(node_type(workers_min=low, workers_max=high, cooldown_ns=COOLDOWN_NS))


def started(rig: Rig) -> list[int]:
    return [effect.worker for effect in rig.taken(fx.StartWorker)]


def finish_all(rig: Rig) -> None:
    while leases := rig.leases():
        for worker, serial, node in leases:
            rig.succeed(worker, serial, node)


def test_a_pool_may_be_empty_and_starts_a_worker_in_the_turn_in_which_work_comes() -> None:
    rig = elastic(0, 3)
    assert rig.workers == []
    rig.submit(1)
    (worker,) = started(rig)
    assert rig.taken(fx.Scaled) == [fx.Scaled("default", 0, 1, "1 task waits and there is no worker")]
    rig.say(msg.WorkerHello(worker, 7))
    assert [lease[0] for lease in rig.leases()] == [worker]
    assert started(rig) == []


def test_an_idle_pool_becomes_empty_and_starts_again() -> None:
    rig = elastic(0, 3)
    rig.submit(1)
    (worker,) = started(rig)
    rig.say(msg.WorkerHello(worker, 7))
    finish_all(rig)
    rig.taken(fx.Scaled)
    rig.later(COOLDOWN_NS)
    assert rig.taken(fx.DrainWorker) == []
    rig.later(2 * COOLDOWN_NS)
    assert rig.taken(fx.DrainWorker) == [fx.DrainWorker(worker)]
    (scaled,) = rig.taken(fx.Scaled)
    assert (scaled.before, scaled.after, scaled.number) == (1, 0, 0)
    assert scaled.reason.startswith("idle: not needed for 2 s")
    rows = [[2, 1, 0]]
    rig.say(msg.TasksSubmitted("s", rows, b"[[2,1,0]]"))
    assert started(rig) == [worker + 1], "though the other has not gone yet"


def test_the_engine_wakes_by_itself_to_shrink() -> None:
    rig = elastic(0, 1)
    rig.submit(1)
    (worker,) = started(rig)
    rig.say(msg.WorkerHello(worker, 7))
    finish_all(rig)
    for _ in range(5):
        if rig.taken(fx.DrainWorker):
            break
        due = min(effect.due_ns for effect in rig.taken(fx.WakeAt) if effect.due_ns > rig.now_ns)
        rig.later(due - rig.now_ns)
    else:
        raise AssertionError("it did not shrink when it had asked to be woken")
    assert rig.now_ns < 3 * COOLDOWN_NS


def test_a_worker_of_an_empty_pool_that_cannot_boot_is_started_again() -> None:
    rig = elastic(0, 1)
    rig.submit(1)
    (worker,) = started(rig)
    rig.die(worker)
    assert started(rig) == [worker + 1]


def test_one_step_starts_several_and_the_next_waits_for_them() -> None:
    rig = elastic(1, 6)
    rig.core.pools["default"].measured(10 * MS, 2)
    rig.submit(30)
    first = started(rig)
    assert first == [2, 3, 4, 5, 6]
    assert [effect.after for effect in rig.taken(fx.Scaled)] == [6]


def test_busy_workers_are_not_let_go() -> None:
    rig = elastic(0, 2)
    rig.core.pools["default"].measured(100 * MS, 2)
    rig.submit(2)
    rig.say(*(msg.WorkerHello(worker, worker) for worker in started(rig)))
    leases = rig.leases()
    assert {worker for worker, *_ in leases} == {1, 2}
    rig.succeed(*leases[0])
    rig.later(COOLDOWN_NS)
    rig.later(2 * COOLDOWN_NS)
    assert rig.taken(fx.DrainWorker) == [fx.DrainWorker(leases[0][0])]


def test_a_worker_that_is_killed_keeps_its_place_until_it_is_gone() -> None:
    rig = elastic(1, 1)
    rig.submit(2, timeout_ns=10)
    ((worker, serial, _), *_) = rig.leases()
    for _ in range(4):
        rig.observe(worker, serial, 1)
        rig.later(1000)
    assert rig.taken(fx.SignalWorker)[-1].signal == "KILL"
    rig.later(limits.POOL_WAIT_NS)
    assert started(rig) == []
    rig.die(worker, serial)
    assert started(rig) == [worker + 1]


def test_a_busy_machine_is_asked_for_and_holds_growth_back() -> None:
    rig = elastic(1, 4)
    assert not rig.core.wants_machine
    rig.core.pools["default"].measured(10 * MS, 2)
    rig.say(msg.MachineSeen(0.99, 0.01, 2))
    rig.submit(30)
    assert started(rig) == []
    assert rig.core.wants_machine
    (row,) = rig.ask("engine")["pools"]
    assert row["held_back"] == "1% of the machine's memory is free"
    assert rig.ask("why", run="s-30")["text"].endswith("no worker is added: 1% of the machine's memory is free")
    rig.later(limits.MACHINE_LOOK_NS, msg.MachineSeen(0.5, 0.5, 2))
    assert started(rig) == [2, 3, 4]


def test_the_engine_tells_of_the_latest_step() -> None:
    rig = elastic(0, 2)
    assert rig.ask("engine")["pools"][0]["scaled"] is None
    rig.submit(1)
    at_ns = rig.now_ns
    (row,) = rig.ask("engine")["pools"]
    assert row["workers_range"] == [0, 2]
    scaled = row["scaled"]
    assert (scaled["from"], scaled["to"], scaled["reason"]) == (0, 1, "1 task waits and there is no worker")
    assert 0 < at_ns - scaled["at_ns"] < 5 or scaled["at_ns"] == at_ns


# --- the program is asked -------------------------------------------------------------------------------------


def asking(low: int, high: int) -> Rig:
    return Rig(node_type(workers_min=low, workers_max=high, cooldown_ns=COOLDOWN_NS, asks_scale=True))


def test_a_program_that_wants_to_know_is_asked_before_anything_starts() -> None:
    rig = asking(0, 3)
    rig.submit(1)
    assert started(rig) == []
    (asked,) = rig.taken(fx.Scaled)
    assert asked[:4] == ("default", 0, 1, "1 task waits and there is no worker")
    assert 0 < asked.number <= rig.now_ns
    assert asked.figures is not None
    assert (asked.figures["waiting"], asked.figures["workers_range"]) == (1, [0, 3])
    assert rig.ask("scale", node_type="default", number=asked.number, size=None) == {"heard": True}
    assert len(started(rig)) == 1
    assert [(step.after, step.number) for step in rig.taken(fx.Scaled)] == [(1, 0)]


def test_a_program_may_want_more_or_nothing() -> None:
    rig = asking(0, 3)
    rig.submit(1)
    (asked,) = rig.taken(fx.Scaled)
    rig.ask("scale", node_type="default", number=asked.number, size=0)
    assert started(rig) == []
    kept = "on_scale keeps it at 0 workers instead of 1"
    assert rig.ask("engine")["pools"][0]["held_back"] == kept
    assert rig.ask("why", run="s-1")["text"].endswith(f"no worker is added: {kept}")
    rig.later(limits.SCALE_KEPT_NS)
    (again,) = rig.taken(fx.Scaled)
    rig.ask("scale", node_type="default", number=again.number, size=9)
    assert len(started(rig)) == 3, "no more than the pool may have"
    (row,) = rig.ask("engine")["pools"]
    assert row["scaled"]["reason"] == "on_scale asks for 9 instead of 1; 1 task waits and there is no worker"
    assert (row["grown"], row["shrunk"], len(row["steps"])) == (1, 0, 1)


def test_a_program_that_hangs_is_not_waited_for() -> None:
    rig = asking(0, 3)
    rig.submit(1)
    (asked,) = rig.taken(fx.Scaled)
    rig.later(limits.SCALE_ANSWER_NS)
    assert len(started(rig)) == 1
    assert rig.ask("scale", node_type="default", number=asked.number, size=0) == {"heard": False}
    assert rig.ask("scale", node_type="nobody", number=1, size=0) == {"heard": False}


def test_a_veto_of_shrinking_keeps_the_workers_for_another_cooldown() -> None:
    rig = asking(0, 1)
    rig.submit(1)
    (asked,) = rig.taken(fx.Scaled)
    rig.ask("scale", node_type="default", number=asked.number, size=None)
    (worker,) = started(rig)
    rig.say(msg.WorkerHello(worker, 7))
    finish_all(rig)
    rig.taken(fx.Scaled)
    rig.later(COOLDOWN_NS)
    rig.later(2 * COOLDOWN_NS)
    (asked,) = rig.taken(fx.Scaled)
    rig.ask("scale", node_type="default", number=asked.number, size=1)
    assert rig.taken(fx.DrainWorker) == []
    rig.later(COOLDOWN_NS // 2)
    assert rig.taken(fx.Scaled) == []
    rig.later(COOLDOWN_NS)
    (asked,) = rig.taken(fx.Scaled)
    rig.ask("scale", node_type="default", number=asked.number, size=None)
    assert rig.taken(fx.DrainWorker) == [fx.DrainWorker(worker)]

"""Nodes go again: what was skipped behind them, too, and nothing else; the log says the same."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.records import RecordType
from actors.protocol.states import NodeState
from actors.scheduler import Scheduler
from actors.state_column import rule_met
from tests.unit.actors.rig import Rig, kind, node_type, recovered

DIAMOND: list[list[int]] = [[], [0], [0], [1, 2], [3]]


def work(rig: Rig, *failing: int, until: int = 1000) -> list[int]:
    """Run what is given, in order; these nodes fail. Returns the nodes that ran."""
    ran: list[int] = []
    while len(ran) < until and (leases := rig.leases()):
        for worker, serial, node in leases:
            ran.append(node)
            (rig.fail if node in failing else rig.succeed)(worker, serial, node)
    return ran


def states(rig: Rig, no: int = 1) -> list[str]:
    book = rig.core.scheduler.book
    run = book.live.get(no) or book.finished[no]
    return [NodeState(state).name.lower() for state in run.state]


def both(rig: Rig, no: int = 1) -> tuple[list[str], list[str]]:
    """States as they are, and as they are after a restart; what waits or is held is the same there."""
    book = recovered(rig.records).book
    run = book.live.get(no) or book.finished[no]
    again = [NodeState(state).name.lower() for state in run.state]
    return [state.replace("leased", "ready") for state in states(rig, no)], again


def test_the_failed_subtree_runs_again_and_nothing_else() -> None:
    rig = Rig()
    rig.submit_graph(DIAMOND)
    assert work(rig, 1) == [0, 1, 2]
    assert states(rig) == ["succeeded", "failed", "succeeded", "skipped", "skipped"]
    assert rig.told("N")[0][0][2] == "failed"
    assert rig.ask("rerun", run="s-1") == {"count": 3}
    assert rig.ask("status", run="s-1")["state"] == "running"
    live, back = both(rig)
    assert live == back == ["succeeded", "ready", "succeeded", "pending", "pending"]
    assert work(rig) == [1, 3, 4]
    assert rig.told("N")[0][0][2:4] == ["succeeded", [0, 0, 0, 5, 0, 0, 0]]
    assert recovered(rig.records).book.finished[1].results == [1, 1, 1, 1, 1]


def test_a_letter_goes_alone_and_what_another_holds_back_stays_skipped() -> None:
    rig = Rig()
    rig.submit_graph([[], [], [0, 1], [0], [3]])
    work(rig, 0, 1)
    assert states(rig) == ["failed", "failed", "skipped", "skipped", "skipped"]
    assert rig.ask("replay", letters=["s-1/0"])["count"] == 1
    assert states(rig)[1:] == ["failed", "pending", "pending", "pending"]
    assert work(rig) == [0, 3, 4]
    assert states(rig) == ["succeeded", "failed", "skipped", "succeeded", "succeeded"]
    assert both(rig)[0] == both(rig)[1]
    assert rig.told("N")[-1][0][2] == "failed"


def test_it_fails_again_and_again() -> None:
    rig = Rig()
    rig.submit_graph(DIAMOND)
    work(rig, 1)
    for _ in range(3):
        rig.ask("rerun", run="s-1")
        assert work(rig, 1) == [1]
        assert states(rig) == both(rig)[1] == ["succeeded", "failed", "succeeded", "skipped", "skipped"]


def test_a_revived_parent_is_waited_for() -> None:
    """Both are letters; the one behind the other waits for it."""
    rig = Rig()
    rig.submit_graph([[], [0]], trigger="all_done")
    assert work(rig, 0, 1) == [0, 1]
    assert rig.ask("replay")["count"] == 2
    assert states(rig) == ["leased", "pending"]
    assert work(rig) == [0, 1]
    assert rig.ask("status", run="s-1")["state"] == "succeeded"


def test_what_ran_because_its_parent_had_failed_is_not_undone() -> None:
    rig = Rig()
    rig.submit_graph([[], [0], [1]], trigger="all_done")
    assert work(rig, 0) == [0, 1, 2]
    rig.ask("rerun", run="s-1")
    assert work(rig) == [0]
    assert states(rig) == both(rig)[1] == ["succeeded"] * 3


def test_a_replay_beside_a_running_branch() -> None:
    rig = Rig(node_type(prefetch=1, workers_min=2, workers_max=2))
    rig.submit_graph([[], [], [0, 1], [0], [2]])
    first, second = sorted(rig.leases(), key=lambda lease: lease[2])
    rig.fail(*first)
    assert states(rig) == ["failed", "leased", "pending", "skipped", "pending"]
    rig.ask("replay", letters=["s-1/0"])
    assert states(rig) == ["leased", "leased", "pending", "pending", "pending"]
    rig.succeed(*second)
    assert states(rig)[2] == "pending", "it waits for the node that goes again"
    assert sorted(work(rig)) == [0, 2, 3, 4]
    assert both(rig)[1] == ["succeeded"] * 5


def test_a_wave_that_is_under_way_is_taken_to_its_end_first() -> None:
    rig = Rig(scheduler=Scheduler(["default"], wave_edges_max=1))
    rig.submit_graph([[], *[[0]] * 20, *[[n] for n in range(1, 21)]])
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    assert "pending" in states(rig)
    assert rig.ask("replay")["count"] == 1
    assert states(rig) == ["leased"] + ["pending"] * 40
    while rig.core.unfinished:
        rig.say()
    assert len(work(rig)) == 41
    assert both(rig)[1] == ["succeeded"] * 41


def test_a_cancelled_run_goes_on_where_it_was() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph(DIAMOND)
    work(rig, until=1)
    held = rig.leases()
    rig.say(msg.CancelAsked("s", 5, "s-1", None))
    assert rig.ask("rerun", run="s-1")["code"] == "MS129"
    for lease in held:
        rig.fail(*lease, failure_kind="cancelled")
    assert rig.ask("status", run="s-1")["state"] == "cancelled"
    assert rig.ask("rerun", run="s-1") == {"count": 4}
    assert both(rig)[0] == both(rig)[1]
    assert sorted(work(rig)) == [1, 2, 3, 4]
    assert states(rig) == both(rig)[1] == ["succeeded"] * 5


def test_a_cancelled_task_of_the_queue_is_there_once() -> None:
    rig = Rig(boot=False)
    rig.submit(3)
    rig.say(msg.CancelAsked("s", 5, "s-2", None))
    assert rig.ask("rerun", run="s-2") == {"count": 1}
    assert rig.ask("policy")["waiting"]["normal"] == 3
    rig.say(msg.WorkerHello(rig.workers[0], 100))
    assert sorted(node for _, _, node in rig.leases()) == [0, 1, 2]


def test_attempts_begin_anew() -> None:
    rig = Rig()
    rig.submit(1, retry={"max_attempts": 2, "base_ns": 10, "jitter": False})
    for _ in range(2):
        for _ in range(2):
            rig.fail(*rig.leases()[0])
            rig.later(1000)
        assert rig.ask("dead")["rows"][0][9] == 2
        rig.ask("replay", letters=["s-1"])
        assert rig.ask("nodes", run="s-1")["rows"][0][4] == 0
    assert [e[2] for e in rig.ask("story", run="s-1")["events"]].count("replayed") == 2


def test_what_took_its_workers_with_it_may_do_so_again() -> None:
    rig = Rig(node_type(workers_min=1, workers_max=1))
    rig.submit(1, poison=1)
    ((worker, serial, _),) = rig.leases()
    rig.die(worker, serial, (serial,))
    assert rig.ask("dead")["rows"][0][6] == "crash"
    rig.ask("replay")
    assert states(rig) == ["ready"]
    assert recovered(rig.records).book.live[1].rare.crashes == {}


def test_what_expired_does_not_expire_again() -> None:
    rig = Rig(boot=False)
    row = [1, 1, 5, None, rig.wall_ns + 1000]
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", [row], orjson.dumps([row])))
    rig.later(10_000_000)
    assert rig.ask("dead")["rows"][0][6] == "expired"
    rig.ask("replay")
    rig.later(10_000_000)
    assert states(rig) == both(rig)[1] == ["ready"]


def test_a_run_under_way_keeps_what_the_log_has_of_it() -> None:
    scheduler = Scheduler(["default"], retention={"runs": 1, "nodes": 10})
    rig = Rig(scheduler=scheduler)
    rig.submit(1)
    rig.fail(*rig.leases()[0])
    rig.ask("replay")
    (held,) = rig.leases()
    for seq in range(2, 30):
        rig.say(msg.MapSubmitted("s", seq, 1, [7], orjson.dumps([seq, 1, [7]])), msg.Told(1 << 40))
        rig.leases()
    assert scheduler.book.floor(1 << 40) == scheduler.book.live[1].lsn
    rig.succeed(*held)
    assert (
        scheduler.book.bytes_finished
        == scheduler.book.finished[1].items_bytes + scheduler.book.finished[1].results_bytes
    )


def test_the_answer_waits_for_the_disk() -> None:
    rig = Rig()
    rig.submit(1)
    rig.fail(*rig.leases()[0])
    rig.disk_held = True
    rig.say(msg.Queried("s", 1, "replay", {}))
    assert rig.told("Q") == []
    rig.disk_held = False
    rig.write()
    assert rig.told("Q") == [[1, {"count": 1, "next": None}, None]]
    assert rig.records[-1].type == RecordType.DEAD


def test_nothing_to_do_is_not_logged() -> None:
    rig = Rig()
    rig.submit_graph(DIAMOND)
    work(rig)
    before = len(rig.records)
    assert rig.ask("rerun", run="s-1") == {"count": 0}
    assert rig.ask("replay") == {"count": 0, "next": None}
    assert len(rig.records) == before
    assert rig.ask("status", run="s-1")["state"] == "succeeded"


def test_who_watches_is_told_of_the_second_end() -> None:
    rig = Rig()
    rig.submit_graph(DIAMOND)
    work(rig, 0)
    rig.say(msg.SessionOpened("other", 1))
    rig.ask("rerun", run="s-1")
    rig.say(msg.Queried("other", 9, "status", {"run": "s-1", "watch": True}))
    rig.taken(fx.Tell)
    work(rig)
    assert [tell.session for tell in rig.taken(fx.Tell) if tell.frame == "N"] == ["other", "s"]


def ask(rig: Rig, what: str, **args: Any) -> None:
    """Ask, and pass over the answer: that of a cancel that had to wait may come behind it."""
    rig.say(msg.Queried("s", 1, what, args))
    assert 1 in [body[0] for body in rig.told("Q")]


RULES = ("all_succeeded", "all_done", "any_succeeded", "none_failed")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_fails_and_goes_again_ends_as_the_rules_say(data: st.DataObject) -> None:
    """In any graph: replays and reruns at any moment, restarts, and in the end every state is explained."""
    size = data.draw(st.integers(1, 9))
    edges = [
        data.draw(st.lists(st.integers(0, node - 1), max_size=3, unique=True)) if node else [] for node in range(size)
    ]
    rule = data.draw(st.sampled_from(RULES))
    rig = Rig(
        node_type(prefetch=2), scheduler=Scheduler(["default"], wave_edges_max=data.draw(st.sampled_from([1, 2, 4096])))
    )
    rig.submit_graph(edges, trigger=rule)
    held: list[tuple[int, int, int]] = []
    succeeded: set[int] = set()
    for _ in range(data.draw(st.integers(1, 30))):
        held += rig.leases()
        step = data.draw(st.sampled_from(["work", "work", "work", "fail", "replay", "rerun", "cancel"]))
        if step in ("work", "fail") and held:
            worker, serial, node = held.pop(0)
            assert node not in succeeded, "what succeeded does not run again"
            if step == "work":
                succeeded.add(node)
                rig.succeed(worker, serial, node)
            else:
                rig.fail(worker, serial, node)
        elif step == "replay":
            ask(rig, "replay")
        elif step == "rerun":
            ask(rig, "rerun", run="s-1")
        elif step == "cancel" and not held:
            rig.say(msg.CancelAsked("s", 5, "s-1", data.draw(st.none() | st.integers(0, size - 1))))
    ask(rig, "rerun", run="s-1")
    while rig.core.unfinished or (held := held + rig.leases()):
        rig.say()
        for worker, serial, node in held:
            rig.succeed(worker, serial, node)
        held = []
    live, recovered = both(rig)
    assert live == recovered
    run = rig.core.scheduler.book.finished[1]
    for node in range(size):
        parents = [run.state[p] for p in edges[node]]
        assert run.state[node] in (NodeState.SUCCEEDED, NodeState.SKIPPED, NodeState.FAILED, NodeState.CANCELLED)
        if run.state[node] == NodeState.SKIPPED:
            assert not rule_met(run.kind(node).trigger, parents)
    assert succeeded <= {node for node in range(size) if run.state[node] == NodeState.SUCCEEDED}

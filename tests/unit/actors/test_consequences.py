"""Consequences in slices: what comes in between is right, and the log comes to the same."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.graph import GraphColumns, decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from actors.state_column import CANCELLED, CANCELLING, FAILED, PENDING, READY, SKIPPED
from tests.unit.actors.rig import Rig, folded, kind, node_type

EDGES = 20
CHILDREN = 100


def rig_of(edges: list[list[int]], slots: int = 1, **options: Any) -> tuple[Rig, list[tuple[int, int, int]]]:
    """A rig with a graph and few edges a turn; and the leases of its roots."""
    rig = Rig(node_type(slots=slots), scheduler=Scheduler(["default"], wave_edges_max=EDGES))
    rig.submit_graph(edges, **options)
    return rig, rig.leases()


def star(more: int = 0, **options: Any) -> tuple[Rig, list[tuple[int, int, int]]]:
    """One root with many children; `more` roots behind them, each with a child."""
    roots = [[] for _ in range(1 + more)]
    own = [[1 + n] for n in range(more)]
    return rig_of([*roots, *([0] for _ in range(CHILDREN)), *own], slots=1 + more, **options)


def chain_of(length: int) -> GraphColumns:
    builder = GraphBuilder()
    for node in range(length):
        builder.add(0, [node - 1] if node else [])
    return builder.finish()


def finish(rig: Rig) -> int:
    """Turns until nothing is left to do."""
    turns = 0
    while rig.core.unfinished:
        rig.say()
        turns += 1
    return turns


def run_of(scheduler: Scheduler) -> Any:
    (run,) = [r for r in (*scheduler.book.live.values(), *scheduler.book.finished.values()) if r.is_graph]
    return run


def test_a_failure_takes_turns_and_the_run_ends_with_the_last() -> None:
    rig, ((worker, serial, node),) = star()
    rig.fail(worker, serial, node)
    run = run_of(rig.core.scheduler)
    assert run.state.count(SKIPPED) <= EDGES * 2, "the first slices came with the failure and the write of its record"
    assert rig.core.scheduler.book.live
    assert rig.told("N") == []
    assert finish(rig) >= CHILDREN // EDGES - 2
    assert run.state.count(SKIPPED) == CHILDREN
    ((ending,),) = rig.told("N")
    assert ending[2:4] == ["failed", [0, 0, 0, 0, 1, 0, CHILDREN]]
    events = [(event[2], event[3]) for event in rig.ask("story", run="s-1")["events"]]
    assert ("skipped others", f"{CHILDREN} nodes behind it") in events


def test_a_crash_in_between_changes_nothing() -> None:
    rig, ((worker, serial, node),) = star()
    rig.fail(worker, serial, node)
    assert rig.core.unfinished
    again = folded(rig.records).scheduler
    finish(rig)
    assert run_of(again).state == run_of(rig.core.scheduler).state
    assert list(again.book.finished) == list(rig.core.scheduler.book.finished)


def test_a_recovery_that_ends_a_cancelled_node_goes_on_in_slices() -> None:
    rig, _ = star()
    rig.say(msg.CancelAsked("s", 1, "s-1", 0))
    scheduler = Scheduler(["default"], wave_edges_max=EDGES)
    replay = Replay(scheduler)
    for record in rig.records:
        replay.fold(record)
    replay.finish(1, 1, {"pid": 2})
    run = run_of(scheduler)
    assert run.open
    assert scheduler.unfinished
    again = Rig(scheduler=scheduler)
    finish(again)
    assert not run.open


def test_others_get_work_between_slices() -> None:
    rig, ((worker, serial, node),) = star()
    rig.fail(worker, serial, node)
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", [[2, 1, 5]], b"[[2,1,5]]"))
    assert rig.core.unfinished
    assert len(rig.leases()) == 1


def test_two_runs_take_turns() -> None:
    rig, ((worker, serial, node),) = star()
    raw = encode(chain_of(EDGES), {"kinds": [kind("parents")], "name": "second"})
    rig.say(msg.GraphSubmitted("s", 2, *decode(raw), raw))
    ((_, other, root),) = rig.leases()
    rig.fail(worker, serial, node)
    failure = {"kind": "error", "type": "", "message": "", "traceback": ""}
    rig.say(msg.WorkerFailed(worker, [[other, 2, root, 1, 2, failure]]))
    first, second = (rig.core.scheduler.book.live[no] for no in (1, 2))
    progress = [(first.open, second.open)]
    while first.open and second.open:
        rig.say()
        progress.append((first.open, second.open))
    both = [(a - b, c - d) for (a, c), (b, d) in itertools.pairwise(progress)]
    assert any(a for a, _ in both[:2]), both
    assert any(b for _, b in both[:2]), both
    finish(rig)
    assert {body[0][0] for body in rig.told("N")} == {1, 2}


def test_ready_nodes_of_a_slice_are_given_at_once() -> None:
    rig, ((worker, serial, node),) = star(trigger="all_done")
    rig.fail(worker, serial, node)
    assert rig.core.unfinished
    assert rig.leases()
    finish(rig)
    assert run_of(rig.core.scheduler).state.count(PENDING) == 0


def test_a_success_with_many_children_takes_turns() -> None:
    rig, ((worker, serial, node),) = star()
    rig.succeed(worker, serial, node)
    run = run_of(rig.core.scheduler)
    assert run.state.count(PENDING) > 0
    assert finish(rig)
    assert run.state.count(PENDING) == 0
    assert run_of(folded(rig.records).scheduler).state.count(READY) == CHILDREN


def test_a_cancel_of_the_run_in_between_stops_what_runs_and_keeps_what_was_skipped() -> None:
    rig, leases = star(more=1)
    (worker, serial, node), (_, other, second) = leases
    rig.fail(worker, serial, node)
    rig.taken(fx.Revoke)
    rig.say(msg.CancelAsked("s", 9, "s-1", None))
    assert rig.told("Q") == [[9, True, None]]
    assert [e.serials for e in rig.taken(fx.Revoke)] == [(other,)], "it does not wait for the slices"
    run = run_of(rig.core.scheduler)
    assert run.state[second] == CANCELLING
    assert run.state.count(PENDING) > 0
    assert finish(rig)
    assert run.state.count(SKIPPED) == CHILDREN, "the failure came first"
    assert run.state[-1] == CANCELLED
    assert rig.told("N") == []
    rig.fail(worker, other, second, "cancelled")
    ((ending,),) = rig.told("N")
    assert ending[2:4] == ["failed", [0, 0, 0, 0, 1, 2, CHILDREN]]
    assert run_of(folded(rig.records).scheduler).state == run.state


def test_what_ends_after_the_cancel_reaches_nobody() -> None:
    rig, leases = star(more=1)
    (worker, serial, node), (_, other, second) = leases
    rig.fail(worker, serial, node)
    rig.say(msg.CancelAsked("s", 9, "s-1", None))
    assert rig.core.unfinished
    rig.fail(worker, other, second)
    finish(rig)
    run = run_of(rig.core.scheduler)
    assert run.state[-1] == CANCELLED, "its parent ended after the cancel"
    assert run_of(folded(rig.records).scheduler).state == run.state


def test_nothing_becomes_ready_after_a_cancel() -> None:
    rig, ((worker, serial, node),) = star(trigger="all_done")
    rig.fail(worker, serial, node)
    rig.say(msg.CancelAsked("s", 9, "s-1", None))
    finish(rig)
    run = run_of(rig.core.scheduler)
    assert run.state.count(READY) == run.state.count(PENDING) == 0
    again = run_of(folded(rig.records).scheduler)
    assert again.state == run.state


@pytest.mark.parametrize(("which", "answer", "state"), [(CHILDREN, False, SKIPPED), (CHILDREN + 2, True, CANCELLED)])
def test_a_cancel_of_a_node_that_waits_is_decided_after_the_slices(which: int, answer: bool, state: int) -> None:
    rig, leases = star(more=1)
    (worker, serial, node), _ = leases
    rig.fail(worker, serial, node)
    run = run_of(rig.core.scheduler)
    assert run.state[which] == PENDING
    rig.say(msg.CancelAsked("s", 9, "s-1", which))
    assert rig.core.unfinished
    assert rig.told("Q") == []
    finish(rig)
    assert rig.told("Q") == [[9, answer, None]]
    assert run.state[which] == state
    cancels = [orjson.loads(r.payload)[:3] for r in rig.records if r.type == RecordType.CANCEL]
    assert cancels == ([[1, which, []]] if answer else [])
    assert run_of(folded(rig.records).scheduler).state[: which + 1][which] == state


def test_cancels_that_waited_are_not_all_taken_up_in_one_turn() -> None:
    rig, ((worker, serial, node),) = star()
    rig.fail(worker, serial, node)
    for number in range(5):
        rig.say(msg.CancelAsked("s", number, "s-1", CHILDREN))
    while rig.core.scheduler.waves:
        rig.say()
    assert len(rig.told("Q")) <= 1
    assert rig.core.unfinished
    assert finish(rig) >= 3
    assert not run_of(rig.core.scheduler).open


def test_who_leaves_a_map_cancels_many_runs_over_some_turns() -> None:
    rig = Rig()
    rig.say(msg.KindDefined("s", 1, kind()))
    items = list(range(limits.MAP_CHUNK_MAX))
    runs = range(1, 9)
    for seq in runs:
        rig.say(msg.MapSubmitted("s", seq, 1, list(items), orjson.dumps([seq, 1, items])))
    rig.disk_held = True
    rig.say(*(msg.CancelAsked("s", seq, f"s-{seq}", None) for seq in runs))
    live = rig.core.scheduler.book.live.values()
    assert 1 <= sum(run.cancel_asked for run in live) <= 4
    rig.disk_held = False
    rig.write()
    finish(rig)
    assert sorted(answer[0] for answer in rig.told("Q")) == list(runs)
    rows = [row for body in rig.told("F") for row in body]
    assert len(rows) == len({(row[0], row[1]) for row in rows}) >= len(runs) * len(items) - limits.PREFETCH_MAX
    assert {row[2] for row in rows} == {"cancelled"}


def test_a_cancel_of_a_running_node_does_not_wait() -> None:
    rig, leases = star(more=1)
    (worker, serial, node), (_, other, second) = leases
    rig.fail(worker, serial, node)
    rig.taken(fx.Revoke)
    rig.say(msg.CancelAsked("s", 9, "s-1", second))
    assert rig.core.unfinished
    assert rig.told("Q") == [[9, True, None]]
    assert [e.serials for e in rig.taken(fx.Revoke)] == [(other,)]


def test_a_retry_and_its_end_in_between() -> None:
    rig, leases = star(more=1, retry={"max_attempts": 2, "base_ns": 10, "jitter": False})
    (worker, serial, node), (_, other, second) = leases
    rig.fail(worker, serial, node)
    rig.later(100)
    again = {n: s for _, s, n in rig.leases()}
    rig.fail(worker, again[node], node)
    assert rig.core.unfinished
    rig.fail(worker, other, second)
    rig.later(100)
    assert [n for _, _, n in rig.leases()] == [second]
    finish(rig)
    run = run_of(rig.core.scheduler)
    assert run.state[0] == FAILED
    assert run.open == 2


def test_a_node_that_grows_the_run_in_between() -> None:
    rig, leases = star(more=1)
    (worker, serial, node), (_, other, second) = leases
    rig.fail(worker, serial, node)
    block = {"n": 2, "kinds": [kind("args")], "kind_of": [0, 0], "deps": [[], [0]], "items": [[1], [2]]}
    rig.say(msg.WorkerSpawned(worker, other, block, orjson.dumps([other, 1, second, block])))
    assert rig.core.unfinished
    rig.succeed(worker, other, second)
    finish(rig)
    run = run_of(rig.core.scheduler)
    assert run.size == 1 + 1 + CHILDREN + 1 + 2
    assert run.state.count(SKIPPED) == CHILDREN
    assert run_of(folded(rig.records).scheduler).state.count(SKIPPED) == CHILDREN


def test_an_engine_that_drains_says_first_how_the_run_ended() -> None:
    rig, ((worker, serial, node),) = star()
    rig.say(msg.CloseAsked("s", True, 10**12))
    rig.fail(worker, serial, node)
    assert rig.core.unfinished
    assert rig.taken(fx.StopEngine) == []
    finish(rig)
    assert rig.told("N")
    assert len(rig.taken(fx.StopEngine)) == 1


def test_a_large_run_that_is_gone_is_freed_in_slices() -> None:
    scheduler = Scheduler(["default"], retention={"runs": 1, "nodes": 100})
    rig = Rig(scheduler=scheduler)
    rig.submit_graph([[] for _ in range(3 * limits.WAVE_EDGES_MAX)])
    rig.leases()
    rig.say(msg.CancelAsked("s", 1, "s-1", None), msg.KindDefined("s", 1, kind()))
    rig.die(1)
    run = run_of(scheduler)
    assert not run.open
    rig.say(msg.Told(scheduler.lsn), msg.TasksSubmitted("s", [[2, 1, 5]], b"[[2,1,5]]"))
    finish(rig)
    assert len(run.results) == run.size
    rig.say(msg.WorkerHello(2, 102))
    ((worker, serial, node),) = rig.leases()
    rig.disk_held = True
    rig.succeed(worker, serial, node, run=2)
    assert scheduler.book.get("s-1") is None
    left = [len(run.results)]
    while scheduler.waste:
        rig.say()
        left.append(len(run.results))
    assert left[-1] == 0
    assert max(before - after for before, after in itertools.pairwise(left)) <= limits.WAVE_EDGES_MAX
    assert not rig.core.unfinished


def test_an_engine_that_drains_does_not_wait_for_memory() -> None:
    rig = Rig()
    rig.core.scheduler.waste.append([0] * 10**6)
    rig.say(msg.CloseAsked("s", True, 10**12))
    assert rig.core.unfinished
    assert len(rig.taken(fx.StopEngine)) == 1


def test_an_engine_that_must_stop_does_not_wait_for_slices() -> None:
    rig, ((worker, serial, node),) = star()
    rig.fail(worker, serial, node)
    rig.say(msg.CloseAsked("s", False, 0))
    assert rig.core.unfinished
    assert len(rig.taken(fx.StopEngine)) == 1


def test_why_a_node_waits_whose_parents_ended() -> None:
    rig, ((worker, serial, node),) = star()
    rig.fail(worker, serial, node)
    rig.say(msg.Queried("s", 1, "why", {"run": "s-1", "node": CHILDREN}))
    assert "worked out" in rig.told("Q")[-1][1]["text"]

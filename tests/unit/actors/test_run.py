"""Runs: release of children, trigger rules against their truth table, cancel, spawned nodes."""

from __future__ import annotations

from itertools import product

import pytest

from actors import wave
from actors.growth import append_block
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.kinds import Kind
from actors.protocol.states import TERMINAL, NodeState, RunState
from actors.run import TALLY_NODES_MIN, Run
from actors.state_column import CANCELLED, CANCELLING, FAILED, LEASED, PENDING, READY, SKIPPED, SUCCEEDED

RULES = ("all_succeeded", "all_done", "any_succeeded", "none_failed")


def kind(rule: str = "all_succeeded", shape: str = "parents") -> Kind:
    return Kind.of(1, {"handler": "m:f", "node_type": "default", "shape": shape, "trigger": rule})


def run_of(edges: list[list[int]], rules: list[str] | None = None) -> Run:
    builder = GraphBuilder()
    for node, parents in enumerate(edges):
        builder.add(RULES.index(rules[node]) if rules else 0, parents)
    return Run.of_graph(1, "s-1", "s", 1, 0, [kind(rule) for rule in RULES], builder.finish())


def lease_and_succeed(run: Run, nodes: list[int]) -> list[int]:
    run.lease(nodes)
    ready = run.succeed(nodes, [n * 10 for n in nodes])
    run.check_invariants()
    return ready


def settle(run: Run, node: int, ending: int) -> list[int]:
    """End a node without success, and all that follows from it; returns what became READY."""
    run.own_rare().failures[node] = {}
    run.settle([node], ending)
    run.check_invariants()
    ready, _, left = wave.advance(run, 10**9)
    assert left > 0
    run.check_invariants()
    return ready


def test_a_diamond_releases_each_node_once() -> None:
    run = run_of([[], [0], [0], [1, 2]])
    assert list(run.roots()) == [0]
    assert list(run.roots()) == [], "they are taken once"
    assert lease_and_succeed(run, [0]) == [1, 2]
    assert lease_and_succeed(run, [2]) == []
    assert lease_and_succeed(run, [1]) == [3]
    assert run.build_items(run.kind(3), [3]) == [[10, 20]]
    assert lease_and_succeed(run, [3]) == []
    assert run.run_state() is RunState.SUCCEEDED


def test_a_parent_used_twice_counts_twice() -> None:
    run = run_of([[], [0, 0]])
    run.roots()
    assert lease_and_succeed(run, [0]) == [1]
    assert run.build_items(run.kind(1), [1]) == [[0, 0]]


def expected(rule: str, parents: tuple[int, ...]) -> int:
    """The truth table of the README, written down a second time."""
    if rule == "all_succeeded":
        return READY if all(p == SUCCEEDED for p in parents) else SKIPPED
    if rule == "any_succeeded":
        return READY if SUCCEEDED in parents else SKIPPED
    if rule == "none_failed":
        return SKIPPED if FAILED in parents or CANCELLED in parents else READY
    return READY


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("endings", list(product((SUCCEEDED, FAILED, CANCELLED, SKIPPED), repeat=2)))
def test_s33_trigger_rules(rule: str, endings: tuple[int, int]) -> None:
    run = run_of([[], [], [0, 1]], ["all_succeeded", "all_succeeded", rule])
    run.roots()
    for node, ending in enumerate(endings):
        early = rule == "any_succeeded" and SUCCEEDED in endings[:node]
        assert run.state[2] == (READY if early else PENDING), "judged before the rest ended"
        run.lease([node])
        if ending == SUCCEEDED:
            run.succeed([node], [1])
        else:
            settle(run, node, ending)
        run.check_invariants()
    assert run.state[2] == expected(rule, endings)


def test_a_long_chain_is_skipped_without_recursion() -> None:
    run = run_of([[], *([n] for n in range(20_000))])
    run.roots()
    run.lease([0])
    assert settle(run, 0, FAILED) == []
    assert run.open == 0
    assert run.state.count(SKIPPED) == 20_000
    assert run.run_state() is RunState.FAILED


def test_cancel_of_all_leaves_only_the_leased_ones() -> None:
    run = run_of([[], [], [0]])
    run.roots()
    run.lease([0])
    assert run.cancel_all() == [0]
    assert list(run.state) == [CANCELLING, CANCELLED, CANCELLED]
    assert run.open == 1
    settle(run, 0, CANCELLED)
    assert run.open == 0
    assert run.run_state() is RunState.CANCELLED


def test_cancelled_nodes_are_not_leased() -> None:
    run = run_of([[], []])
    waiting = run.roots()
    run.cancel_one(0)
    assert run.lease(waiting) == [1]


def test_nodes_that_look_like_a_range_are_not_taken_for_one() -> None:
    run = run_of([[] for _ in range(10)])
    run.roots()
    run.lease([5, 9, 7])
    assert [n for n in range(10) if run.state[n] == LEASED] == [5, 7, 9]


def test_give_back_returns_only_leased_nodes() -> None:
    run = run_of([[], []])
    run.roots()
    run.lease([0, 1])
    run.cancel_one(1)
    assert run.give_back([0, 1]) == [0]


def test_spawned_nodes_extend_the_run() -> None:
    run = Run.of_tasks(1, "s-1", "s", 1, 0, [kind(shape="one")], None, [5, 6])
    run.lease([0])
    block = {
        "n": 3,
        "kind_of": [0, 0, 0],
        "deps": [[], [0], [0, 1]],
        "after": [[], [], []],
        "items": None,
        "ids": ["a", None, "c"],
    }
    assert append_block(run, block, [kind()]) == [2]
    assert (run.size, run.open, run.node_id(4)) == (5, 5, "c")
    assert run.succeed([0], [1]) == []
    assert lease_and_succeed(run, [2]) == [3]
    assert lease_and_succeed(run, [3]) == [4]
    assert run.build_items(run.kind(4), [4]) == [[20, 30]]
    assert run.kind(1).shape == "one"


def test_terminal_states_are_those_from_succeeded_to_skipped() -> None:
    assert sorted(TERMINAL) == [NodeState(s) for s in range(SUCCEEDED, SKIPPED + 1)]


def test_a_large_run_counts_its_states_as_they_change() -> None:
    size = TALLY_NODES_MIN
    run = run_of([[] if node < 100 else [node - 100] for node in range(size)])
    assert run.counts()[:2] == [size - 100, 100]
    assert run.tally is not None
    ready = list(run.roots())
    lease_and_succeed(run, ready[:50])
    run.lease(ready[50:])
    assert run.give_back([50]) == [50]
    assert run.cancel_one(51) == [51]
    assert run.cancel_one(52 + 100) == []
    wave.finish(run)
    lease_and_succeed(run, [51, 53])
    settle(run, 54, FAILED)
    append_block(run, {"n": 2, "kind_of": [0, 0], "deps": [[], [0]]}, [kind()])
    run.check_invariants()
    run.cancel_all()
    run.check_invariants()
    run.counts()
    for node in [n for n in range(run.size) if run.state[n] == CANCELLING]:
        settle(run, node, CANCELLED)
    assert run.open == 0
    assert run.counts()[:3] == [0, 0, 0]
    assert run.first_failure() == 54


def test_a_small_run_keeps_no_count() -> None:
    run = run_of([[]])
    assert run.counts() == [0, 1, 0, 0, 0, 0, 0]
    assert run.tally is None


def test_nodes_cancelled_before_they_started_say_so_without_an_entry_each() -> None:
    run = run_of([[], [0]])
    run.roots()
    run.cancel_all()
    assert run.failure(1) == {
        "kind": "cancelled",
        "type": "",
        "message": "cancelled before it started",
        "traceback": "",
    }
    assert run.rare.failures == {}
    assert run.first_failure() == 0

"""The wave: any slicing and any order come to the same states, and a slice is a slice."""

from __future__ import annotations

from random import Random

import pytest

from actors import wave
from actors.growth import append_block
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.kinds import Kind
from actors.run import Run
from actors.state_column import CANCELLED, FAILED, LEASED, PENDING, READY, SKIPPED, SUCCEEDED

RULES = ("all_succeeded", "all_done", "any_succeeded", "none_failed")
KINDS = [
    Kind.of(no, {"handler": "m:f", "node_type": "default", "shape": "parents", "trigger": rule})
    for no, rule in enumerate(RULES)
]


def run_of(edges: list[list[int]], rules: list[int] | None = None) -> Run:
    builder = GraphBuilder()
    for node, parents in enumerate(edges):
        builder.add(rules[node] if rules else 0, parents)
    run = Run.of_graph(1, "s-1", "s", 1, 0, KINDS, builder.finish())
    run.roots()
    return run


def fail(run: Run, node: int) -> None:
    run.own_rare().failures[node] = {}
    run.settle([node], FAILED)


def star(children: int) -> Run:
    run = run_of([[], *([0] for _ in range(children))])
    run.lease([0])
    return run


def test_a_slice_ends_inside_the_children_of_one_node() -> None:
    run = star(100)
    fail(run, 0)
    taken = []
    while run.wave:
        before = run.open
        ready, skipped, left = wave.advance(run, 30)
        run.check_invariants()
        assert (ready, skipped) == ([], before - run.open)
        taken.append(skipped)
    assert taken == [30, 30, 30, 10]
    assert left == 30 - 10 - wave.NODE_EDGES
    assert run.state.count(SKIPPED) == 100


def test_a_success_with_more_children_than_a_turn_takes_joins_the_wave() -> None:
    run = star(100)
    assert run.succeed([0], [1], edges_max=60) == []
    assert wave.advance(run, 60)[0] == list(range(1, 61))
    run.check_invariants()
    assert wave.advance(run, 60)[0] == list(range(61, 101))
    run.check_invariants()
    assert not run.wave


def test_many_results_with_few_children_in_all_take_the_short_way() -> None:
    run = run_of([*([] for _ in range(10)), *([0] for _ in range(9))])
    run.lease(range(1, 10))
    assert run.succeed(list(range(1, 10)), [1] * 9, edges_max=20) == []
    assert run.wave is None


def test_a_long_chain_takes_turns() -> None:
    run = run_of([[], *([n] for n in range(1000))])
    run.lease([0])
    fail(run, 0)
    assert 0 < wave.advance(run, 100)[1] <= 100 // wave.NODE_EDGES + 1
    wave.finish(run)
    assert run.open == 0


def test_nodes_that_were_added_meanwhile_are_not_touched() -> None:
    run = star(100)
    fail(run, 0)
    wave.advance(run, 50)
    assert append_block(run, {"n": 2, "kind_of": [0, 0], "deps": [[], [0]]}, KINDS[:1]) == [101]
    wave.finish(run)
    run.check_invariants()
    assert list(run.state[101:]) == [READY, PENDING]
    run.lease([101])
    fail(run, 101)
    wave.finish(run)
    run.check_invariants()
    assert run.open == 0


@pytest.mark.parametrize("late", [False, True])
def test_a_node_ended_before_its_parents_told_it_stays_as_it_is(late: bool) -> None:
    run = star(3)
    fail(run, 0)
    if late:
        wave.advance(run, 1)
    run.cancel_one(2)
    wave.finish(run)
    run.check_invariants()
    assert list(run.state) == [FAILED, SKIPPED, CANCELLED, SKIPPED]


def life(seed: int, slice_edges: int) -> bytes:
    """A run whose nodes end as the seed says by node number, in an order that also depends on the slices."""
    plan, order = Random(seed), Random(f"{seed} {slice_edges}")
    size = plan.randrange(2, 40)
    edges = [[plan.randrange(n) for _ in range(plan.randrange(4))] if n else [] for n in range(size)]
    run = run_of(edges, [plan.randrange(len(RULES)) for _ in range(size)])
    fails = [plan.random() < 0.3 for _ in range(size)]
    while run.open:
        ready, _, _ = wave.advance(run, slice_edges)
        run.check_invariants()
        assert all(run.state[node] == READY for node in ready)
        waiting = [n for n in range(size) if run.state[n] == READY]
        nodes = order.sample(waiting, min(len(waiting), order.randrange(3)))
        run.lease(nodes)
        for node in nodes:
            assert run.state[node] == LEASED
            if fails[node]:
                fail(run, node)
            else:
                run.succeed([node], [1], edges_max=slice_edges)
            run.check_invariants()
    return bytes(run.state)


@pytest.mark.parametrize("seed", range(40))
def test_however_it_is_sliced_the_end_is_the_same(seed: int) -> None:
    ends = {life(seed, slice_edges) for slice_edges in (1, 3, 10_000)}
    assert len(ends) == 1
    assert set(ends.pop()) <= {SUCCEEDED, FAILED, SKIPPED}

"""The graph of who waits for whom: put together from what processes say, and what in it can never go on."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from runtime.profile.captures.graph import WORKER, Graph, WaitEdge, WaitNode
from runtime.profile.cli.tree import tree_lines


def node(ident: str, kind: str = "task", state: str = "waiting", awaits: str = "") -> WaitNode:
    return WaitNode(ident, kind, ident, state, "f (a.py:1)", "worker 1", 7, awaits=awaits)


def answer(nodes: list[WaitNode], edges: list[tuple[str, str]]) -> bytes:
    rows = [[*WaitEdge(one, other, "awaits")] for one, other in edges]
    return orjson.dumps({"nodes": [[*one] for one in nodes], "edges": rows})


def reached(after: dict[str, list[str]], begin: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(after.get(begin, ()))
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += after.get(one, ())
    return seen


EDGES = st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=20)


@given(EDGES)
def test_every_node_with_an_edge_is_below_some_root_and_is_shown(edges: list[tuple[str, str]]) -> None:
    graph = Graph.merged([answer([node(one) for one in "abcdefg"], edges)])
    roots = {one.id for one in graph.roots()}
    after = {one: list(others) for one, others in graph.after.items()}
    below = roots.union(*(reached(after, one) for one in roots)) if roots else set()
    assert below == set("abcdefg")
    text = "\n".join(line for line, _ in tree_lines(graph, every=True))
    assert all(f"task {one}," in text for one in "abcdefg")


@given(EDGES)
def test_cycles_are_exactly_what_reaches_itself(edges: list[tuple[str, str]]) -> None:
    graph = Graph.merged([answer([node(one) for one in "abcdefg"], edges)])
    after = {one: list(others) for one, others in graph.after.items()}
    assert {one for ring in graph.cycles() for one in ring} == {one for one in "abcdefg" if one in reached(after, one)}


def test_what_a_worker_runs_is_its_task_or_else_its_main_thread() -> None:
    nodes = [node("node:1:0", "node"), node("node:1:1", "node")]
    engine = answer(nodes, [("node:1:0", f"{WORKER}7"), ("node:1:1", f"{WORKER}8")])
    engine = engine.replace(b'"awaits"]', b'"in"]')
    worker = answer([node("task:7:a"), node("thread:7:main", "thread")], [("node:1:0", "task:7:a")])
    worker = worker.replace(b'"awaits"]', b'"in"]')
    other = answer([node("thread:8:main", "thread")], [])
    graph = Graph.merged([engine, worker, other])
    assert graph.after == {"node:1:0": {"task:7:a": "in"}, "node:1:1": {"thread:8:main": "in"}}


def test_who_is_named_by_nobody_is_left_out() -> None:
    graph = Graph.merged([answer([node("a")], [("a", "gone"), ("gone", "a")])])
    assert graph.after == {}
    assert [one.id for one in graph.roots()] == ["a"]


def test_a_ring_is_marked_and_many_that_are_alike_are_one_line() -> None:
    naps = [node(f"nap {number}", awaits="Future") for number in range(50)]
    graph = Graph.merged([answer([node("a"), node("b"), *naps], [("a", "b"), ("b", "a")])])
    lines = list(tree_lines(graph))
    assert lines[0] == ("cycle of 2: a → b → a", True)
    assert sum("50 tasks as nap 0" in line for line, _ in lines) == 1
    assert [marked for line, marked in lines if "task a" in line or "task b" in line] == [True, True, True]
    assert len(list(tree_lines(graph, every=True))) > 50

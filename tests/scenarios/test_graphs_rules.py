"""S33: skips and trigger rules, against the truth table of the README, live and replayed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Final

import pytest

from runtime import Flow, Node, NodeState, NodeType, Runtime, TriggerRule, errors
from runtime.views import NodeStatus
from tests.scenarios import handlers
from tests.scenarios import handlers_graphs as graphs
from tests.scenarios.waiting import await_lines, lines, until, words
from tests.tidy.tree import read

pytestmark = pytest.mark.slow

POOL: Final = [NodeType("cpu", workers=2)]
ENDINGS: Final = ("succeeded", "failed", "cancelled", "skipped")
RULES: Final = [str(rule) for rule in TriggerRule]


def table() -> dict[tuple[frozenset[str], str], NodeState]:
    """The README's table: (how parents ended, rule) -> state of the node."""
    (text,) = re.findall(
        r"<!-- trigger rules: begin.*?-->\n(.*?)<!-- trigger rules: end -->", read("README.md"), re.DOTALL
    )
    head, _, *rows = [[cell.strip(" `") for cell in line.strip("|\n").split("|")] for line in text.splitlines()]
    found: dict[tuple[frozenset[str], str], NodeState] = {}
    for endings, *cells in rows:
        for rule, cell in zip(head[1:], cells, strict=True):
            state = {"starts": NodeState.SUCCEEDED, "is skipped": NodeState.SKIPPED}[cell]
            found[frozenset(endings.replace(" or ", ", ").split(", ")), rule] = state
    return found


def ruled(parents: tuple[str, ...], rule: str) -> NodeState:
    """What the README says: rows name failed and cancelled together, as one."""
    named = {"failed", "cancelled"} if {"failed", "cancelled"} & set(parents) else set()
    return table()[frozenset(set(parents) | named), rule]


@dataclass
class Case:
    """A node of the big flow: its rule, how its parents end, and whether they are data parents."""

    rule: str
    parents: tuple[str, ...]
    node: Node[object]


def parents_of(flow: Flow, gate: Path) -> dict[str, list[Node[object]]]:
    """Three nodes for each ending, all behind one gate; those to be cancelled are, by the test."""
    root = flow.add(handlers.wait_for, str(gate), id="root")
    handler = {"succeeded": graphs.same, "failed": graphs.fail, "skipped": graphs.skip, "cancelled": graphs.same}
    return {
        ending: [flow.add(handler[ending], "value", id=f"{ending} {number}", after=[root]) for number in range(3)]
        for ending in ENDINGS
    }


def every_case(path: Path, gate: Path) -> tuple[Flow, list[Case]]:
    """All endings of one, two and three parents under all rules; by data and by control edges."""
    flow = Flow("truth table")
    parents, cases = parents_of(flow, gate), []
    for count, rule in product((1, 2, 3), RULES):
        for endings in combinations_with_replacement(ENDINGS, count):
            nodes = [parents[ending][place] for place, ending in enumerate(endings)]
            name = f"{rule} of {', '.join(endings)}"
            data = flow.add(graphs.collect_all, str(path), *nodes, id=f"data {name}", trigger=rule)
            control = flow.add(graphs.step, str(path), "control", after=nodes, id=f"control {name}", trigger=rule)
            cases += [Case(rule, endings, data), Case(rule, endings, control)]
    return flow, cases


@pytest.fixture
def ended(state_dir: Path, tmp_path: Path) -> Iterator[tuple[Runtime, list[Case], Path]]:
    """The big flow, run."""
    gate, path = tmp_path / "gate", tmp_path / "runs"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow, cases = every_case(path, gate)
        run = rt.submit(flow, run_id="rules")
        for number in range(3):
            assert run.node(f"cancelled {number}").cancel()
        gate.touch()
        assert run.wait(timeout=60) == "failed"
        yield rt, cases, path


def check_states(nodes: list[NodeStatus], cases: list[Case]) -> None:
    states = {node.index: node.state for node in nodes}
    wrong = [
        (case.node.id, states[case.node.index])
        for case in cases
        if states[case.node.index] != ruled(case.parents, case.rule)
    ]
    assert not wrong


def test_s33_every_rule_at_every_ending(ended: tuple[Runtime, list[Case], Path]) -> None:
    """Each node that the table starts ran once, the others did not; missing results are None."""
    rt, cases, path = ended
    run = rt.handle("rules")
    check_states(run.nodes(), cases)
    results = run.results()
    started = [case for case in cases if ruled(case.parents, case.rule) == NodeState.SUCCEEDED]
    for case in started:
        if case.node.id.startswith("data"):
            found, full = results[case.node.id], [{"succeeded": "value"}.get(ending) for ending in case.parents]
            if case.rule == "any_succeeded":  # it starts at the first success: what had not ended then reads as None
                assert "value" in found
                assert all(one in (None, whole) for one, whole in zip(found, full, strict=True))
            else:
                assert found == full
    assert sum(words(path).values()) == len(started)
    assert run.wait() == "failed"


def test_s33_the_same_after_a_restart(ended: tuple[Runtime, list[Case], Path]) -> None:
    rt, cases, path = ended
    before = sum(words(path).values())
    rt.close()
    with Runtime(rt.state_dir, node_types=POOL, durability="os") as again:
        check_states(again.handle("rules").nodes(), cases)
    assert sum(words(path).values()) == before


def test_s33_a_branch_that_is_skipped_skips_nobody_too_early(state_dir: Path, tmp_path: Path) -> None:
    """Y needs none-failed of X, which a branch skips, and of Z, which takes its time: Y waits for Z, then runs."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("branch")
        branch = flow.add(graphs.skip, id="branch")
        x = flow.add(graphs.step, str(path), "X", branch, id="X")
        z = flow.add(handlers.hold, str(path), "Z", str(gate), id="Z")
        flow.add(graphs.step, str(path), "Y", x, z, id="Y", trigger="none_failed")
        run = rt.submit(flow)
        await_lines(path, 1)
        until(lambda: run.node("X").status().state == NodeState.SKIPPED, "X to be skipped")
        assert run.node("Y").status().state == NodeState.PENDING
        assert "Z" in run.node("Y").why()
        gate.touch()
        assert run.wait(timeout=30) == "succeeded"
        assert run.node("Y").status().state == NodeState.SUCCEEDED
        with pytest.raises(errors.TaskSkipped):
            run.result("X")
    assert [line.word for line in lines(path)] == ["Z", "Y"]


def test_s33_clean_up_waits_for_all(state_dir: Path, tmp_path: Path) -> None:
    """One parent failed long ago, one was cancelled, one is skipped behind the failure; the last one still runs."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("clean-up")
        bad = flow.add(graphs.fail, id="bad")
        behind = flow.add(graphs.step, str(path), "behind", bad, id="behind")
        slow = flow.add(handlers.hold, str(path), "slow", str(gate), id="slow")
        never = flow.add(graphs.step, str(path), "never", after=[slow], id="never")
        flow.add(
            graphs.step, str(path), "clean-up", after=[bad, behind, slow, never], id="clean-up", trigger="all_done"
        )
        run = rt.submit(flow)
        await_lines(path, 1)
        assert run.node("never").cancel()
        until(lambda: run.status().counts.done == 3, "all but the slow one")
        assert run.node("clean-up").status().state == NodeState.PENDING
        gate.touch()
        assert run.wait(timeout=30) == "failed"
        assert run.node("clean-up").status().state == NodeState.SUCCEEDED
    assert [line.word for line in lines(path)] == ["slow", "clean-up"]


def test_s33_a_run_whose_nodes_were_skipped_by_will_has_succeeded(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs"
    with Runtime(state_dir, node_types=POOL, durability="os") as rt:
        flow = Flow("nothing to do")
        first = flow.add(graphs.skip)
        second = flow.add(graphs.step, str(path), "never", first)
        flow.add(graphs.step, str(path), "done", after=[first, second], trigger="all_done")
        run = rt.run(flow, timeout=30)
        assert run.status().state == "succeeded"
    assert words(path) == {"done": 1}


def test_s33_an_unknown_rule_is_refused(state_dir: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="all_succeeded"):
        Flow("typing error").add(graphs.same, 1, trigger="all_success")

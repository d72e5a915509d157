"""Tasks that call tasks, in the simulation: what they call, and what must hold of it.

- Who is told how its calls ended is told of all of them, in the order in which it made them, as they ended.
- What was called and ended is not executed again; a caller is executed only while nothing that it called is open.
- Between the actors: a waiting caller waits for something, and nothing goes on that a caller had called which was
  cancelled, or whose deadline passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from actors.protocol.states import NodeState
from actors.run import Run
from actors.scheduler import Scheduler

if TYPE_CHECKING:
    from tests.sim.workers import Lease

CALLED = "called"
"""First argument of what was called; behind it: rounds and breadth of its own calls, and whether it fails."""
OVER = (NodeState.SUCCEEDED, NodeState.FAILED, NodeState.CANCELLED, NodeState.SKIPPED)


@dataclass(frozen=True)
class Plan:
    """So many rounds of so many calls; the called do the same, so many levels down."""

    rounds: int
    breadth: int
    depth: int
    fails: bool

    @staticmethod
    def draw(random: Random) -> Plan:
        """A plan."""
        return Plan(random.choice((1, 1, 2)), random.choice((1, 1, 2)), random.choice((0, 0, 1)), random.random() < 0.3)

    def next_block(self, outcomes: Sequence[Any], kind: dict[str, Any]) -> dict[str, Any] | None:
        """The next calls of a task that knows how these ended: what is missing of a round; None after the last."""
        known = {row[0] for row in outcomes}
        for first in range(0, self.rounds * self.breadth, max(1, self.breadth)):
            missing = [i for i in range(first, first + self.breadth) if f"call-{i}" not in known]
            if missing:
                break
        else:
            return None
        below = [1, min(self.breadth, 2), self.depth - 1] if self.depth else [0, 0, 0]
        return {
            "n": len(missing),
            "kinds": [kind],
            "kind_of": [0] * len(missing),
            "items": [[CALLED, *below, int(self.fails and not i)] for i in missing],
            "calls": [f"call-{i}" for i in missing],
        }


def of_item(item: Any) -> Plan | None:
    """The plan of what was called; None for what was spawned."""
    if not isinstance(item, list) or not item or item[0] != CALLED:
        return None
    return Plan(*item[1:4], fails=False)


def execute_called(lease: Lease, kind: dict[str, Any]) -> tuple[str, Any]:
    """Something that nobody submitted is executed."""
    plan = of_item(lease.item)
    if plan is None:
        return "ok", 1
    check_lease(lease)
    block = plan.next_block(lease.outcomes, kind)
    if block is not None:
        return "waits", block
    return ("error", "planned") if lease.item[4] else ("ok", 1)


def check_lease(lease: Lease) -> None:
    """An execution starts of something that may have called."""
    run, node = lease.run, lease.node
    assert run.state[node] not in OVER, f"node {node} of run {run.no} is executed after its end"
    calls = run.rare.calls.get(node)
    made = [] if calls is None else [*zip(calls.nodes, calls.digests, strict=True)]
    names = [row[0] for row in lease.outcomes]
    assert len({*names}) == len(names), f"node {node} of run {run.no} has two outcomes of one call: {names}"
    for (called, digest), (name, state, value) in zip(made, lease.outcomes, strict=False):
        if digest != name:  # the worker got this before it died
            continue
        assert state in OVER, f"node {node} of run {run.no} goes on, and {called} has not ended"
        assert state == run.state[called]
        assert value == 1 if state == NodeState.SUCCEEDED else value["kind"], f"{called} ended with {value}"


def check_runs(scheduler: Scheduler) -> None:
    """Between the actors."""
    for run in scheduler.book.live.values():
        for caller, calls in run.rare.calls.items():
            _check_caller(run, caller, [n for n in calls.nodes if run.state[n] not in OVER])


def _check_caller(run: Run, caller: int, open_: list[int]) -> None:
    state = run.state[caller]
    where = f"node {caller} of run {run.no}"
    if state == NodeState.PENDING:
        assert open_ or run.wave or run.waits[caller], f"{where} waits for nothing"
    elif state in (NodeState.CANCELLED, NodeState.FAILED):
        left = [n for n in open_ if run.state[n] != NodeState.CANCELLING]
        assert not left or run.wave, f"{where} ended while it waited, and {left}, which it called, go on"
    else:
        assert not open_, f"{where} is {state}, and {open_}, which it called, have not ended"

"""Guards of node types: a retry budget and a circuit breaker each, where the program asks for them.

    outcomes ──► ended(ok) ──► CircuitBreaker ── trips ──► `tripped`: the gate in `giving` holds the work back
        └─ retry_delay_ns ──► RetryMeter        under the scope "breaker:<node type>" until its timer is due
    scheduler ──► leased: first attempts are counted, and who starts in half open is a probe

Probes are known by their nodes, so an attempt that was given before the breaker opened says nothing of what is after
it, however it ends; and a probe that comes back untouched makes room for another one (guarantee G6).

While a breaker is closed it costs a count for each group of results, and no gate.

Invariant (`check_invariants`): the probes of a breaker are leased, and as many as it has let through.

State is not logged. After a restart each breaker is closed and counts anew, and each budget has its first second.
Known limits: what workers hold when a breaker opens still runs. What was leased and came back untouched is counted as a
first attempt again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.policy.breaker import CircuitBreaker
from actors.policy.retry_budget import RetryMeter
from actors.protocol import effects as fx
from actors.protocol.errors import BreakerOpen, InvariantBroken
from actors.protocol.kinds import Kind
from actors.protocol.states import BreakerState
from actors.protocol.words import counted
from actors.run import Run
from actors.state_column import CANCELLING, LEASED

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

BREAKER: Final = "breaker"
"""Word of the scopes of open breakers. Nobody sets quotas for these, or pauses them."""


class Change(NamedTuple):
    """A breaker opened or closed."""

    is_open: bool
    text: str


class Guard:
    """What one node type has."""

    __slots__ = ("breaker", "budget", "cause", "name", "probes")

    def __init__(self, name: str, budget: RetryMeter | None, breaker: CircuitBreaker | None) -> None:
        self.name = name
        self.budget = budget
        self.breaker = breaker
        self.cause = ""
        """Why it is open, in words."""
        self.probes: set[tuple[int, int]] = set()
        """Run number and node of those that are out; at most as many as the breaker lets through."""


class Guards:
    """Those of all node types. `tripped`: those whose breaker is not closed."""

    def __init__(self, node_types: Iterable[Mapping[str, Any]] = ()) -> None:
        self.by_type: dict[str, Guard] = {}
        self.tripped: dict[str, Guard] = {}
        for wire in node_types:
            budget, breaker = wire.get("retry_budget"), wire.get("breaker")
            if budget is not None or breaker is not None:
                self.by_type[wire["name"]] = Guard(
                    wire["name"],
                    None if budget is None else RetryMeter(**budget),
                    None if breaker is None else CircuitBreaker(**breaker),
                )

    # --- giving work ----------------------------------------------------------------------------------------------

    def allow(self, node_type: str, wanted: int, now_ns: int) -> int:
        """How many may start now of those that are ready."""
        guard = self.tripped.get(node_type)
        return wanted if guard is None or guard.breaker is None else guard.breaker.allow(now_ns, wanted)

    def unused(self, node_type: str, count: int) -> None:
        """So many that were allowed do not start after all."""
        guard = self.tripped.get(node_type)
        if count and guard is not None and guard.breaker is not None:
            guard.breaker.returned(count)

    def leased(self, run: Run, kind: Kind, nodes: Sequence[int], attempts: list[int] | None, now_ns: int) -> None:
        """These nodes were given out, for these attempts (None: all for their first)."""
        guard = self.by_type.get(kind.node_type)
        if guard is None:
            return
        if guard.budget is not None:
            guard.budget.first(now_ns, len(nodes) if attempts is None else attempts.count(1))
        if kind.node_type in self.tripped:
            guard.probes.update((run.no, node) for node in nodes)

    # --- what became of it ----------------------------------------------------------------------------------------

    def record(self, guard: Guard, run: Run, nodes: Sequence[int], ok: bool | None, now_ns: int) -> Change | None:
        """Attempts ended, all well, all badly, or (None) in a way that says nothing; returns what changed."""
        breaker = guard.breaker
        if breaker is None:
            return None
        if guard.name not in self.tripped:
            if ok is None:
                return None
            ended, failed = breaker.counts(now_ns)
            breaker.record(ok, now_ns, len(nodes))
            if breaker.state is BreakerState.CLOSED:
                return None
            self.tripped[guard.name] = guard
            guard.cause = f"{failed + len(nodes)} of {counted(ended + len(nodes), 'attempt')} failed"
            return Change(True, f"the breaker of node type {guard.name} opened: {guard.cause}; its tasks wait")
        probes = guard.probes.intersection((run.no, node) for node in nodes)
        if not probes:
            return None
        guard.probes -= probes
        if ok is None:
            breaker.returned(len(probes))
            return None
        breaker.record(ok, now_ns, len(probes))
        if breaker.state is BreakerState.CLOSED:
            del self.tripped[guard.name]
            guard.probes.clear()
            return Change(False, f"the breaker of node type {guard.name} closed: its tasks succeed again")
        if breaker.state is BreakerState.OPEN:
            guard.probes.clear()
            guard.cause = "an attempt to see whether it works again failed"
        return None

    # --- questions ------------------------------------------------------------------------------------------------

    def reason(self, node_type: str, now_ns: int) -> str:
        """Why nothing of a node type starts, in words."""
        guard = self.tripped.get(node_type)
        if guard is None or guard.breaker is None:
            return f"the breaker of node type {node_type} is closed"
        until_ns = guard.breaker.until_ns(now_ns)
        if until_ns is None:
            tried = counted(guard.breaker.probes, "task")
            return f"the breaker of node type {node_type} is half open: {tried} must succeed before others start"
        wait_s = max(0, until_ns - now_ns) / 1e9
        return f"the breaker of node type {node_type} is open: {guard.cause}; it tries again in {wait_s:.1f} s"

    def check_invariants(self, live: Mapping[int, Run]) -> None:
        """Raise InvariantBroken when probes are not out, or others than the breaker knows."""
        for guard in self.by_type.values():
            breaker = guard.breaker
            out = 0 if breaker is None or breaker.state is not BreakerState.HALF_OPEN else breaker.out
            if len(guard.probes) != out:
                raise InvariantBroken(f"{breaker_scope(guard.name)}: {out} probes are out, known are {guard.probes}")
            for no, node in guard.probes:
                if no not in live or live[no].state[node] not in (LEASED, CANCELLING):
                    scope = breaker_scope(guard.name)
                    raise InvariantBroken(f"{scope}: node {node} of run {no} is no probe, nobody has it")


def breaker_scope(node_type: str) -> str:
    """Under which scope its work waits while its breaker lets none through."""
    return f"{BREAKER}:{node_type}"


def ended(scheduler: Scheduler, run: Run, nodes: Sequence[int], ok: bool | None) -> None:
    """Leases of these nodes ended: all well, all badly, or in a way that says nothing of their node types."""
    giving = scheduler.giving
    giving.ended(run, nodes)
    if not giving.guards.by_type:
        return
    columns = run.columns
    kind_of = None if columns is None else columns.kind_of
    if kind_of is None or not run.mixed:
        _ended(scheduler, run, run.kinds[0].node_type, nodes, ok)
        return
    by_type: dict[str, list[int]] = {}
    for node in nodes:
        by_type.setdefault(run.kinds[kind_of[node]].node_type, []).append(node)
    for node_type, members in by_type.items():
        _ended(scheduler, run, node_type, members, ok)


def _ended(scheduler: Scheduler, run: Run, node_type: str, nodes: Sequence[int], ok: bool | None) -> None:
    guards, now_ns = scheduler.giving.guards, scheduler.now_ns
    guard = guards.by_type.get(node_type)
    if guard is None or guard.breaker is None:
        return
    before = guard.breaker.state
    change = guards.record(guard, run, nodes, ok, now_ns)
    if change is not None:
        scheduler.note(run, nodes[-1], "breaker opened" if change.is_open else "breaker closed", change.text)
        scheduler.put(fx.Announce(BreakerOpen.code if change.is_open else "", change.text))
    if before is BreakerState.CLOSED and change is None:
        return
    until_ns = guard.breaker.until_ns(now_ns)
    if until_ns is None:  # closed, or there may be room for a probe
        scheduler.giving.release(node_type, breaker_scope(node_type))
    else:
        scheduler.giving.due.set(breaker_scope(node_type), until_ns)


def retry_delay_ns(scheduler: Scheduler, kind: Kind, delay_ns: int) -> int:
    """How long a retry waits that would wait so long if there were no budget."""
    guard = scheduler.giving.guards.by_type.get(kind.node_type)
    if guard is None or guard.budget is None:
        return delay_ns
    return max(delay_ns, guard.budget.retry(scheduler.now_ns) - scheduler.now_ns)

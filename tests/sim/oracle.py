"""What must hold, judged by a slow and separate reading of what was submitted and what was told.

- G1: what was acknowledged is there after every recovery.
- G2: a node is told one terminal state, the same each time; nothing is executed again after its end was told.
- G3: executions of a node have ascending attempt numbers unless the earlier one never ended.
- G4: a node is executed only with its rule met, and with exactly its parents' results.
- What somebody asked to go again may be told another end, unless it had succeeded.
- A task with a time is not executed before it, nor begun when it has expired or its deadline has passed; only what may
  expire does, and only what has a deadline fails for one.
- A retry has the class of the first attempt, or as many classes below as its kind asks for.
- A submission that repeats another under its key is never executed, and is told that it stands for that one.
- Of a unique task one is open at a time. A debounced task has the arguments of the latest call that stands for it.
- What holds for batches: see `tests.sim.batches`.
- G5: leases at a worker stay within the stated bound.
- In the end: each node's state follows from its parents' states, its own plan and the cancels that were asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.core import EngineCore
from actors.inversion import GIVES_WAY
from actors.protocol import limits
from actors.protocol.kinds import PRIORITIES
from actors.protocol.states import NodeState
from actors.run import Run
from actors.scheduler import Scheduler
from tests.sim import calls
from tests.sim.batches import BatchOracle
from tests.sim.user import kind

if TYPE_CHECKING:
    from tests.sim.user import Submission, User
    from tests.sim.workers import Lease

EXPIRY_SLACK_NS = 1_000_000
"""What expires within so much ends together (`limits.EXPIRY_GRAIN_NS`). What was claimed by then may start."""
OK, FAILED, CANCELLED, SKIPPED = "succeeded", "failed", "cancelled", "skipped"


def value_of(submission: Submission, node: int, inputs: list[Any]) -> int:
    """The result that a node must have, given its inputs."""
    value = 17 * submission.seq + node
    for one in inputs:
        value = (value * 31 + (7 if one is None else one)) % 1_000_003
    return value


def _gone_again(run: Run, node: int) -> set[int]:
    """What may have begun anew with a node that was replayed: all behind it may have been skipped because of it."""
    found = [node]
    if run.columns is not None and run.waits:
        off, succ = run.columns.succ_off, run.columns.succ
        for one in found:  # it grows meanwhile
            found += {*succ[off[one] : off[one + 1]]}.difference(found)
    return {*found}


class Oracle:
    """See the module."""

    def __init__(self) -> None:
        self.executions: dict[tuple[int, int], int] = {}
        self.batches = BatchOracle()

    def execute(self, lease: Lease, user: User) -> tuple[str, Any]:
        """An execution starts: check that it may, and say how it will end."""
        submission, node = user.of_lease(lease.run.session, lease.run.seq, lease.node, lease.run)
        key = (submission.seq, node)
        told = user.told.get(key)
        assert not submission.repeats, f"submission {submission.seq} is executed, and repeats {submission.repeats}"
        again = submission.revived and told is not None and told[0] != OK
        assert told is None or again, f"node {key} is executed after it was told to be {told}"
        if node >= submission.size:
            return calls.execute_called(lease, kind("args"))
        assert lease.run.state[lease.node] not in (NodeState.SUCCEEDED, NodeState.SKIPPED), (
            f"{key} executed after its end"
        )
        if not submission.revived:
            if not lease.outcomes:
                self._check_times(submission, user, lease.claimed_wall_ns)
            self._check_class(submission, user, lease)
        inputs = submission.inputs(node)
        if inputs is not None:
            values = lease.item
            assert len(values) == len(inputs)
            for parent, value in zip(inputs, values, strict=True):
                expected = user.values.get((submission.seq, parent))
                assert expected is None or value is None or expected == value, f"{key} got a wrong input from {parent}"
        count = self.executions[key] = self.executions.get(key, 0) + 1
        del count
        if node in submission.calls:
            calls.check_lease(lease)
            block = submission.calls[node].next_block(lease.outcomes, kind("args", priority="low"))
            if block is not None:
                return "waits", block
        if lease.attempt <= submission.fails.get(node, 0):
            return "error", f"planned failure {lease.attempt}"
        value = value_of(submission, node, lease.item if inputs is not None else [])
        if submission.joins:
            value = lease.item
        user.values[key] = value
        if node in submission.spawns:
            return "spawn", (submission.spawns[node], value)
        return "ok", value

    def execute_batch(self, leases: Sequence[Lease], user: User) -> list[tuple[str, Any]]:
        """A batch is executed: check that it may, and say how its calls will end. One may drag all others down."""
        self.batches.starts(leases, user)
        outcomes = [self.execute(lease, user) for lease in leases]
        if any(what == "error" for what, _ in outcomes) and user.world.batching.random() < 0.3:
            for lease in leases:
                submission, node = user.of_lease(lease.run.session, lease.run.seq, lease.node, lease.run)
                self.batches.dragged.add((submission.seq, node))
            return [("error", "one of them failed")] * len(leases)
        return outcomes

    @staticmethod
    def _check_class(submission: Submission, user: User, lease: Lease) -> None:
        if submission.columns is not None or submission.joins or lease.run.rare.classes:
            return
        if lease.kind.batch is not None or not user.lower_after:
            return
        first, lower_after = user.class_of(submission)
        down = max(0, lease.attempt - lower_after) if lower_after else 0
        expected = min(first + down, len(PRIORITIES) - 1)
        assert lease.kind.priority == expected, (
            f"attempt {lease.attempt} of {submission.seq} has class {lease.kind.priority}, not {expected}"
        )

    @staticmethod
    def _check_times(submission: Submission, user: User, claimed_wall_ns: int) -> None:
        clock = user.world.clock
        if submission.due_ns and (submission.appointed or not user.world.jumps):
            assert clock.wall_ns >= submission.due_ns, f"{submission.seq} is executed before it is due"
        if submission.expires_ns and not user.world.jumps:
            late_ns = claimed_wall_ns - submission.expires_ns
            assert late_ns <= EXPIRY_SLACK_NS, f"{submission.seq} is claimed {late_ns} ns after it expired"
        if submission.ends_ns and not user.world.jumps:
            late_ns = claimed_wall_ns - submission.ends_ns
            assert late_ns <= EXPIRY_SLACK_NS, f"{submission.seq} is claimed {late_ns} ns after its deadline"

    def recovered(self, scheduler: Scheduler, user: User) -> None:
        """After a recovery: nothing acknowledged is missing, nothing told is undone."""
        session = scheduler.book.sessions.get(user.session)
        last = session.seq_last if session else 0
        assert last >= user.acked, f"acknowledged up to {user.acked}, recovered up to {last}"
        for (seq, node), (state, value) in user.told.items():
            run = scheduler.book.session(user.session).find(seq)
            if run is None:
                continue
            at = node if run.is_graph or run.is_map else seq - run.seq
            if state != OK and user.submissions[seq].revived:
                continue
            found = NodeState(run.state[at]).name.lower()
            assert found == state, f"{(seq, node)} was told {state}, recovered as {found}"
            assert state != OK or run.results[at] == value

    def check_scheduler(self, core: EngineCore, user: User) -> None:
        """Between the actors: what is leased is in a book, what is ready is in a queue, what is unique is open once."""
        scheduler = core.scheduler
        runs = [run for run in scheduler.book.live.values() if run.session == user.session]
        names = [user.submissions[run.seq].joins for run in runs if run.is_graph]
        unique = [name for name in names if name.startswith("unique")]
        assert len(unique) == len(set(unique)), f"these are open: {sorted(unique)}"
        leased = sum(
            run.state.count(int(s))
            for run in scheduler.book.live.values()
            for s in (NodeState.LEASED, NodeState.CANCELLING)
        )
        assert leased == core.held(), f"{leased} nodes are leased, the books hold {core.held()}"
        ready = sum(run.state.count(int(NodeState.READY)) for run in scheduler.book.live.values())
        queued = sum(
            1
            for queue in scheduler.ready.values()
            for run, nodes in queue.segments()
            for node in nodes
            if run.state[node] == NodeState.READY
        )
        assert ready == queued, f"{ready} nodes are ready, {queued} are queued"
        calls.check_runs(scheduler)
        self._check_inversion(scheduler)
        for pool in core.pools.values():
            for worker in pool.workers.values():
                assert worker.book.held <= limits.PREFETCH_MAX + 4 * pool.slots

    @staticmethod
    def _check_inversion(scheduler: Scheduler) -> None:
        """Work is turned away for what has a limit, and a node gives way to better work once, until it is replayed."""
        giving = scheduler.giving
        assert giving.denied.keys() <= giving.policy.quotas.keys()
        assert giving.asked.keys() <= giving.denied.keys()
        for run in scheduler.book.live.values():
            gave: set[int] = set()
            for _, node, event, text, _ in run.rare.events:
                if event == "replayed" and gave:
                    gave -= gave if node < 0 else _gone_again(run, node)
                elif event == "returned" and GIVES_WAY in text:
                    assert node not in gave, f"node {node} of run {run.no} gave way twice"
                    gave.add(node)

    def final(self, user: User) -> None:
        """Everything ended: is every state explained?"""
        for submission in user.submissions.values():
            for node in range(0 if submission.seq in user.stands else submission.size):
                self._explain(submission, node, user)
            if submission.joins.startswith("debounce") and submission.seq not in user.stands:
                state, value = user.final[(submission.seq, 0)]
                calls = [submission.seq, *(seq for seq, first in user.stands.items() if first == submission.seq)]
                assert state != OK or value == max(calls), f"{submission.seq} ran with {value} after calls {calls}"

    def _explain(self, submission: Submission, node: int, user: User) -> None:
        key = (submission.seq, node)
        state, _ = user.final[key]
        cancelled = submission.cancelled_all or node in submission.cancelled
        parents = [user.final[(submission.seq, p)][0] for p in submission.parents(node)]
        rule = submission.rule(node)
        met = {
            "all_succeeded": all(s == OK for s in parents),
            "all_done": True,
            "any_succeeded": not parents or any(s == OK for s in parents),
            "none_failed": not any(s in (FAILED, CANCELLED) for s in parents),
        }[rule]
        if state == SKIPPED:
            assert not met, f"{key} was skipped although its rule {rule} is met by {parents}"
        elif state == CANCELLED:
            assert cancelled, f"{key} was cancelled although nobody asked"
        elif not submission.revived:  # else it may have run because of what its parents were before
            assert met, f"{key} is {state} although its rule {rule} is not met by {parents}"
        if key in user.expired:
            assert submission.expires_ns, f"{key} expired although it never does"
        elif key in user.overdue:
            assert submission.ends_ns, f"{key} failed for a deadline that it does not have"
        elif state == FAILED and not submission.revived:
            chances, dragged = user.world.chances, key in self.batches.dragged
            assert submission.fails.get(node, 0) or dragged or chances.crash or chances.hang, (
                f"{key} failed without a cause"
            )

"""A simulated world whose user, workers and faults follow a script, for scenarios that have a name.

What is pretended and what is checked after each step is as in `tests.sim.world`; only what is random there is given
here: the tasks and their times, the policy, and what breaks. Delays of mail and durations of tasks stay random, by
seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import orjson

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES
from tests.sim.user import Submission, User, kind
from tests.sim.workers import Chances, FakeWorker, Lease
from tests.sim.world import World

MS: Final = 1_000_000
S: Final = 1_000_000_000
BOOT_NS: Final = 5 * MS
FIRST_NS: Final = MS // 2
"""Before the first worker is up: what is submitted then waits together."""
POLICY_QUERY: Final = 900_000


class Planned(NamedTuple):
    """A single task: when it is submitted, its options, and when it is due after that (`appointed`: by the clock)."""

    at_ns: int = FIRST_NS
    options: dict[str, Any] = {}
    delay_ns: int = 0
    appointed: bool = False


class Began(NamedTuple):
    """An execution began: the number of the task from 0, its attempt, the worker, and both clocks."""

    number: int
    attempt: int
    worker: int
    now_ns: int
    wall_ns: int


class ScriptedUser(User):
    """Submits what is planned, in order of time."""

    def __init__(self, world: Scripted, plan: Sequence[Planned], policy: dict[str, Any]) -> None:
        super().__init__(world, Random(0))
        self.lower_after = []
        self.planner.rest()
        self._plan, self._policy = list(plan), policy
        assert self._plan == sorted(self._plan, key=lambda each: each.at_ns), "numbers are in order of time"
        self._kinds: list[dict[str, Any]] = []
        for each in self._plan:
            if each.options not in self._kinds:
                self._kinds.append(each.options)
        self.sent_ns: dict[int, int] = {}
        self.planner.drop()

    def begin(self) -> None:
        """Plan what will be submitted, after the policy."""
        clock, self._sent = self.world.clock, 0
        for number, each in enumerate(self._plan):
            submission = Submission(number + 1, None, 1, kind_no=self._kinds.index(each.options) + 1)
            self.submissions[number + 1] = submission
            clock.at(clock.now_ns + each.at_ns, lambda seq=number + 1: self.send(seq))  # type: ignore[misc]
        self._plain = len(self.submissions)

    def connect(self, queue: Any) -> None:
        """A new engine: the policy goes before all that it is about."""
        self._queue = None
        open_seq = min((s for s in self.submissions if not self._complete(s)), default=0)
        queue.post(msg.SessionOpened(self.session, open_seq))
        for number, options in enumerate(self._kinds, 1):
            queue.post(msg.KindDefined(self.session, number, kind("one", **options)))
        if self._policy:
            queue.post(msg.Queried(self.session, POLICY_QUERY, "policy", {"change": self._policy}))
        self._greeting = queue

    def class_of(self, submission: Submission) -> tuple[int, int]:
        """The class in which a task is submitted: nothing goes down."""
        return PRIORITIES.index(self._kinds[submission.kind_no - 1].get("priority", "normal")), 0

    def _task(self, submission: Submission) -> msg.TasksSubmitted:
        each, clock = self._plan[submission.seq - 1], self.world.clock
        self.sent_ns[submission.seq - 1] = clock.now_ns
        row: list[Any] = [submission.seq, submission.kind_no, submission.seq]
        if each.delay_ns:
            submission.due_ns, submission.appointed = clock.wall_ns + each.delay_ns, each.appointed
            row += [submission.due_ns, None, int(each.appointed)]
        return msg.TasksSubmitted(self.session, [row], orjson.dumps([row]))


class Scripted(World):
    """See the module.

    Args:
        seed: Decides delays and durations.
        plan: The tasks.
        workers: Of the only node type; each holds `prefetch` tasks ahead.
        policy: A change of the policy, made before the first task comes.
        down: Whether an attempt that begins now fails.
        guards: Breaker and retry budget of the node type.
        worker: What workers are made of.
    """

    def __init__(
        self,
        seed: int,
        plan: Sequence[Planned],
        *,
        workers: int = 2,
        prefetch: int = 1,
        policy: dict[str, Any] | None = None,
        down: Callable[[int], bool] = lambda now_ns: False,
        guards: dict[str, Any] | None = None,
        worker: type[FakeWorker] = FakeWorker,
    ) -> None:
        super().__init__(seed)
        self.node_types = [
            {
                "name": "default", "workers_min": workers, "workers_max": workers, "mode": "process", "slots": 1,
                "prefetch": prefetch, "recycle_tasks": None, "recycle_rss_bytes": None, "grace_ns": 20 * MS,
                **(guards or {}),
            }
        ]  # fmt: skip
        self.chances, self.kills_left, self.jumps = Chances(), 0, False
        self.began: list[Began] = []
        self.workers_started: list[int] = []
        self.script: ScriptedUser = ScriptedUser(self, plan, policy or {})
        self.user = self.script
        self._down, self._made_of = down, worker

    def at(self, offset_ns: int, action: Callable[[], None]) -> None:
        """Do something so long after the beginning."""
        self.clock.at(self.clock.now_ns + offset_ns, action)

    def _start_worker(self, effect: fx.StartWorker) -> None:
        number = effect.worker
        self.workers_started.append(number)

        def execute(leases: list[Lease]) -> list[tuple[str, Any]]:
            now_ns, wall_ns = self.clock.now_ns, self.clock.wall_ns
            self.began += [Began(e.run.seq + e.node - 1, e.attempt, number, now_ns, wall_ns) for e in leases]
            outcomes = self._execute(leases)
            return [("error", "down")] * len(leases) if self._down(now_ns) else outcomes

        worker = self._made_of(number, self.clock, self.random, self.chances, self._worker_said, execute, self._broke)
        self.workers[number] = worker
        self.clock.at(self.clock.now_ns + BOOT_NS, worker.boot)

    _does = {**World._does, fx.StartWorker: _start_worker}

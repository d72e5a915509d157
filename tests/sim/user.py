"""The user's program: submits, cancels, and remembers what it was told. Resends what was not acknowledged after a
crash.

It is the real protocol of a session, without the bytes: hello with the lowest open number, numbers without gaps,
answers ignored when they come twice, and a complaint when a second answer differs from the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.graph import GraphColumns, decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.kinds import PRIORITIES
from actors.protocol.places import unpacked
from tests.sim.calls import Plan
from tests.sim.operator import Operator, sharing

if TYPE_CHECKING:
    from tests.sim.clock import Queue
    from tests.sim.world import World

RULES = ("all_succeeded", "all_succeeded", "all_succeeded", "all_done", "any_succeeded", "none_failed")


SPAWNED = 1_000_000
"""Stands for the number of a node that a task added; above any that was submitted."""


def kind(shape: str, rule: str = "all_succeeded", **more: Any) -> dict[str, Any]:
    """A task kind with retries fast enough for a simulation."""
    retry = {"max_attempts": 3, "base_ns": 1_000_000, "cap_ns": 5_000_000}
    return {
        "handler": "m:f",
        "node_type": "default",
        "shape": shape,
        "trigger": rule,
        "retry": retry,
        "timeout_ns": 100_000_000,
        **more,
    }


@dataclass
class Submission:
    """One submission, and what is planned for its nodes."""

    seq: int
    message: Any
    size: int
    columns: GraphColumns | None = None
    rules: list[str] = field(default_factory=list)
    fails: dict[int, int] = field(default_factory=dict)
    spawns: dict[int, dict[str, Any]] = field(default_factory=dict)
    calls: dict[int, Plan] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    cancelled_all: bool = False
    due_ns: int = 0
    expires_ns: int = 0
    appointed: bool = False
    kind_no: int = 1
    repeats: int = 0
    """Number of the submission that it repeats under the same key."""

    def inputs(self, node: int) -> list[int] | None:
        """Data parents in argument order; None where the item is not made of results."""
        if self.columns is None:
            return None
        return list(self.columns.deps[self.columns.deps_off[node] : self.columns.deps_off[node + 1]])

    def parents(self, node: int) -> list[int]:
        """All parents."""
        return [] if self.columns is None else self.columns.parents(node)

    def rule(self, node: int) -> str:
        """The node's trigger rule."""
        return self.rules[node] if self.rules else "all_succeeded"


class User:
    """See the module."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.session = "sim"
        self.submissions: dict[int, Submission] = {}
        self.acked = 0
        self.told: dict[tuple[int, int], tuple[str, Any]] = {}
        self.final: dict[tuple[int, int], tuple[str, Any]] = {}
        self.values: dict[tuple[int, int], int] = {}
        self.ended: dict[int, tuple[str, list[int]]] = {}
        self.expired: set[tuple[int, int]] = set()
        self._random = random
        self._classes = Random(f"classes {world.seed}")
        self.operator = Operator(self, world.seed)
        self._sharing = [sharing(self._classes) for _ in PRIORITIES]
        self._calls = Random(f"calls {world.seed}")
        self._keys = Random(f"keys {world.seed}")
        self._plain = 0
        self._stands: set[int] = set()
        self._times = Random(f"times {world.seed}")
        self._queue: Queue | None = None
        self._next_query = 1
        self._cancels: dict[int, tuple[Submission, int | None]] = {}

    def begin(self) -> None:
        """Plan what will be submitted, over some time."""
        for seq in range(1, self._random.randrange(3, 12)):
            submission = self._invent(seq)
            self.submissions[seq] = submission
        due = self.world.clock.now_ns
        for seq in self.submissions:
            due += self._random.randrange(3_000_000)
            self.world.clock.at(due, lambda seq=seq: self._send(seq))  # type: ignore[misc]
        self._plain = len(self.submissions)
        self._begin_keyed()
        for _ in range(self._random.choice((0, 1, 3))):
            self.world.clock.at(due + self._random.randrange(20_000_000), self._cancel_something)
        self._sent = 0
        self.operator.begin(self.world.clock.now_ns)

    def _begin_keyed(self) -> None:
        """After the others, and while they run: submissions under two keys, most of them for the second time."""
        due, firsts = self.world.clock.now_ns + 3_000_000 * self._plain, {}
        for seq in range(self._plain + 1, self._plain + 1 + self._keys.randrange(7)):
            key = self._keys.choice("ab")
            builder = GraphBuilder()
            builder.add(0)
            columns = builder.finish()
            header = {"kinds": [kind("parents")], "name": "keyed", "key": [key, 1 << 60, "digest"]}
            message = msg.GraphSubmitted(self.session, seq, header, columns, encode(columns, header))
            self.submissions[seq] = Submission(seq, message, 1, columns, repeats=firsts.get(key, 0))
            firsts.setdefault(key, seq)
            due += self._keys.randrange(10_000_000)
            self.world.clock.at(due, lambda seq=seq: self._send(seq))  # type: ignore[misc]

    def ask(self, question: msg.Queried) -> None:
        """Ask the engine that is there now, if one is."""
        if self._queue is not None:
            self._queue.post(question)

    # --- submitting -----------------------------------------------------------------------------------------------

    def _invent(self, seq: int) -> Submission:
        what = self._random.choice(("task", "map", "graph", "graph"))
        kind_no = self._classes.randrange(len(PRIORITIES)) + 1
        if what == "task":
            submission = Submission(seq, None, 1)
            submission.kind_no = kind_no
        elif what == "map":
            size = self._random.randrange(1, 20)
            items = list(range(size))
            submission = Submission(
                seq, msg.MapSubmitted(self.session, seq, kind_no, items, orjson.dumps([seq, kind_no, items])), size
            )
        else:
            submission = self._invent_graph(seq)
        for node in range(submission.size):
            if self._random.random() < 0.15:
                submission.fails[node] = self._random.choice((1, 1, 2, 9))
            if self._random.random() < (0.05 if what == "graph" else 0.1):
                submission.spawns[node] = {
                    "n": 2,
                    "kinds": [kind("args")],
                    "kind_of": [0, 0],
                    "deps": [[], [0]],
                    "items": [[1], [2]],
                }
            if self._calls.random() < (0.03 if what == "graph" else 0.05):
                submission.calls[node] = Plan.draw(self._calls)
        return submission

    def _invent_graph(self, seq: int) -> Submission:
        size = self._random.randrange(1, 25)
        builder = GraphBuilder()
        kinds = [kind("parents", rule) for rule in RULES[2:]] + [kind("parents", node_type="io")]
        for each in kinds:
            each["priority"] = self._classes.choice(PRIORITIES)
            each.update(sharing(self._classes))
        rules: list[str] = []
        for node in range(size):
            chosen = self._random.randrange(len(kinds))
            deps = [self._random.randrange(node) for _ in range(self._random.randrange(4))] if node else []
            after = [self._random.randrange(node)] if node and self._random.random() < 0.2 else []
            builder.add(chosen, deps, after)
            rules.append(kinds[chosen]["trigger"])
        columns = builder.finish()
        header = {"kinds": kinds, "name": f"graph-{seq}"}
        return Submission(
            seq, msg.GraphSubmitted(self.session, seq, header, columns, encode(columns, header)), size, columns, rules
        )

    def _task(self, submission: Submission) -> msg.TasksSubmitted:
        """A single task as it is submitted now: every other one with times."""
        seq, times = submission.seq, self._times
        row = [seq, submission.kind_no, seq]
        due = times.randrange(-5_000_000, 100_000_000) if times.random() < 0.5 else None
        expires = times.choice((500_000, 5_000_000, 60_000_000)) if times.random() < 0.5 else None
        submission.appointed = due is not None and times.random() < (0.9 if self.world.jumps else 0.3)
        wall_ns = self.world.clock.wall_ns
        if due is not None:
            submission.due_ns = wall_ns + due
        if expires is not None:
            submission.expires_ns = wall_ns + expires
        if due is not None or expires is not None:
            row += [submission.due_ns or None, submission.expires_ns or None, int(submission.appointed)]  # type: ignore[list-item]
        return msg.TasksSubmitted(self.session, [row], orjson.dumps([row]))

    def note_due(self) -> None:
        """Somebody sets the wall clock: what was due by now may start whatever the clock says then."""
        for submission in self.submissions.values():
            if submission.due_ns <= self.world.clock.wall_ns:
                submission.due_ns = 0

    def _send(self, seq: int) -> None:
        self._sent = max(self._sent, seq)
        submission = self.submissions[seq]
        if submission.message is None:
            submission.message = self._task(submission)
        if self._queue is not None:
            self._queue.post(self._message(seq))

    def _message(self, seq: int) -> Any:
        """The submission as it arrives: decoded anew each time, because the engine owns what it gets."""
        message = self.submissions[seq].message
        if isinstance(message, msg.MapSubmitted):
            return message._replace(items=orjson.loads(message.raw)[2])
        if isinstance(message, msg.GraphSubmitted):
            header, columns = decode(message.raw)
            return msg.GraphSubmitted(self.session, seq, header, columns, message.raw)
        return message

    def connect(self, queue: Queue) -> None:
        """A new engine: say hello; the rest follows its answer."""
        self._queue = None
        open_seq = min((s for s in self.submissions if not self._complete(s)), default=0)
        queue.post(msg.SessionOpened(self.session, open_seq))
        for number, priority in enumerate(PRIORITIES, 1):
            more = self._sharing[number - 1]
            queue.post(msg.KindDefined(self.session, number, kind("one", priority=priority, **more)))
        self._greeting = queue

    def disconnect(self) -> None:
        """The engine died."""
        self._queue = None

    def _cancel_something(self) -> None:
        if self._queue is None or not self._sent:
            return
        submission = self.submissions[self._random.randrange(1, min(self._sent, self._plain) + 1)]
        self._cancel(submission, None if self._random.random() < 0.5 else self._random.randrange(submission.size))

    def meddle(self, seq: int, random: Random) -> None:
        """Cancel this submission, or a node of it: something is under way there."""
        submission = self.submissions[seq]
        if self._queue is not None and submission.columns is not None:
            self._cancel(submission, None if random.random() < 0.3 else random.randrange(submission.size))

    def _cancel(self, submission: Submission, node: int | None) -> None:
        assert self._queue is not None
        if node is None:
            submission.cancelled_all = True
        else:
            submission.cancelled.add(node)
        self._queue.post(msg.CancelAsked(self.session, self._next_query, f"{self.session}-{submission.seq}", node))
        self._next_query += 1

    # --- being told -----------------------------------------------------------------------------------------------

    def receive(self, tell: object) -> None:
        """A frame arrives."""
        assert isinstance(tell, fx.Tell)
        body = tell.body
        if tell.frame == "H":
            self._greeted(body["acked_seq"])
        elif tell.frame == "A":
            self.acked = max(self.acked, body[0])
        elif tell.frame == "R":
            for seq, nodes, values in body:
                for node, value in zip(unpacked(nodes, len(values)), values, strict=True):
                    self._note_loose(seq, node, ("succeeded", value))
        elif tell.frame == "F":
            for seq, node, state, failure in body:
                if failure["kind"] == "expired":
                    self.expired.add((seq, 0 if node is None else node))
                self._note((seq, 0 if node is None else node), (state, None))
        elif tell.frame == "N":
            for seq, _, state, counts, _ in body:
                self._note_ended(seq, state, counts)
        elif tell.frame == "Q":
            self.operator.hear(body[0])
        elif tell.frame == "D":
            self._note_repeated(*body)
        elif tell.frame == "J":
            raise AssertionError(f"refused: {body}")

    def _greeted(self, last: int) -> None:
        assert last >= self.acked
        self._queue = self._greeting
        for seq in range(last + 1, self._sent + 1):
            self._queue.post(self._message(seq))

    def _note_loose(self, seq: int, node: int, what: tuple[str, Any]) -> None:
        """Bundles of single tasks answer with their first number and an offset."""
        first = self.submissions[seq]
        if first.size == 1 and isinstance(first.message, msg.TasksSubmitted):
            self._note((seq + node, 0), what)
        else:
            self._note((seq, node), what)

    def _note(self, key: tuple[int, int], what: tuple[str, Any]) -> None:
        before = self.told.setdefault(key, what)
        assert before == what, f"{key} was told {before}, now {what}"
        self.final[key] = what

    def _note_ended(self, seq: int, state: str, counts: list[int]) -> None:
        before = self.ended.setdefault(seq, (state, counts))
        assert before == (state, counts), f"run {seq} ended {before}, now {(state, counts)}"
        self._read_states(seq)

    def _note_repeated(self, seq: int, run: str, ending: list[Any] | None) -> None:
        first = self.submissions[seq].repeats
        assert run == f"{self.session}-{first}", f"submission {seq} stands for {run}, and not for {first}"
        self._stands.add(seq)
        self.acked = max(self.acked, seq)
        if ending is not None:
            self._note_ended(first, ending[2], ending[3])

    def _read_states(self, seq: int) -> None:
        """What a query would say about the nodes of a run that ended."""
        core = self.world.core
        run = None if core is None else core.scheduler.book.session(self.session).find(seq)
        if run is None:
            return
        for node in range(self.submissions[seq].size):
            name = ("pending", "ready", "leased", "succeeded", "failed", "cancelled", "skipped")[run.state[node]]
            self._note((seq, node), (name, run.results[node] if name == "succeeded" else None))

    def of_lease(self, session: str, seq: int, node: int, run: Any) -> tuple[Submission, int]:
        """The submission and node that a lease belongs to."""
        assert session == self.session
        if node >= run.base_size:  # spawned: nobody asked for it
            return self.submissions[seq], SPAWNED
        if run.is_graph or run.is_map:
            return self.submissions[seq], node
        return self.submissions[seq + node], 0

    # --- the end --------------------------------------------------------------------------------------------------

    def _complete(self, seq: int) -> bool:
        first = self.submissions[seq].repeats
        if first:
            return seq in self._stands and self._complete(first)
        return all((seq, node) in self.told for node in range(self.submissions[seq].size))

    def satisfied(self) -> bool:
        """Whether everything was answered."""
        return all(self._complete(seq) for seq in self.submissions)

    def missing(self) -> list[tuple[int, int]]:
        """What was not."""
        return [
            (seq, n)
            for seq, s in self.submissions.items()
            for n in range(s.size)
            if (seq not in self._stands if s.repeats else (seq, n) not in self.told)
        ]

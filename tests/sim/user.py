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
from actors.protocol.states import NodeState
from tests.sim.batches import AFTER_NS, BatchUser
from tests.sim.calls import Plan
from tests.sim.operator import Operator, sharing
from tests.sim.planner import Planner

if TYPE_CHECKING:
    from tests.sim.clock import Queue
    from tests.sim.world import World

RULES = ("all_succeeded", "all_succeeded", "all_succeeded", "all_done", "any_succeeded", "none_failed")


RETRY = {"max_attempts": 3, "base_ns": 1_000_000, "cap_ns": 5_000_000}
SPAWNED = 1_000_000
"""Stands for the number of a node that a task added; above any that was submitted."""


def kind(shape: str, rule: str = "all_succeeded", **more: Any) -> dict[str, Any]:
    """A task kind with retries fast enough for a simulation."""
    return {
        "handler": "m:f",
        "node_type": "default",
        "shape": shape,
        "trigger": rule,
        "retry": RETRY,
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
    ends_ns: int = 0
    ends_at: bool = False
    kind_no: int = 1
    revived: bool = False
    """Whether somebody asked that what did not succeed of it goes again."""
    repeats: int = 0
    """Number of the submission that it repeats under the same key."""
    joins: str = ""
    """What it may join: a unique task, or a debounced call, of a name."""

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
        self.planner = Planner(self, world.seed)
        self._sharing = [sharing(self._classes) for _ in PRIORITIES]
        lowers = Random(f"lowers {world.seed}")
        self.lower_after = [lowers.choice((0, 0, 1, 2)) for _ in PRIORITIES]
        """From which retry on tasks of a class go down."""
        self.batches = BatchUser(self, world.seed)
        self._calls = Random(f"calls {world.seed}")
        self._keys = Random(f"keys {world.seed}")
        self._plain = 0
        self._sent = 0
        self.stands: dict[int, int] = {}
        """Submissions that started nothing, and the number of the one that they stand for."""
        self.overdue: set[tuple[int, int]] = set()
        self._times = Random(f"times {world.seed}")
        self._deadlines = Random(f"deadlines {world.seed}")
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
            self.world.clock.at(due, lambda seq=seq: self.send(seq))  # type: ignore[misc]
        self._plain = len(self.submissions)
        joined = self._begin_joining(self._begin_keyed())
        calls = self.batches.invent(len(self.submissions) + 1, Submission)
        self.submissions.update((call.seq, call) for call in calls)
        self.batches.plan(max(joined, self.world.clock.now_ns + 3_000_000 * self._plain) + AFTER_NS, calls)
        for _ in range(self._random.choice((0, 1, 3))):
            self.world.clock.at(due + self._random.randrange(20_000_000), self._cancel_something)
        self.operator.begin(self.world.clock.now_ns)
        self.planner.begin(self.world.clock.now_ns)

    def _begin_keyed(self) -> int:
        """After the others, and while they run: submissions under two keys, most of them for the second time.

        Returns when the last one is sent."""
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
            self.world.clock.at(due, lambda seq=seq: self.send(seq))  # type: ignore[misc]
        return due

    def _begin_joining(self, due: int) -> int:
        """After those: unique tasks and debounced calls of a few names, some of which are cancelled.

        Returns when the last one is sent."""
        clock, random = self.world.clock, Random(f"joining {self.world.seed}")
        first = len(self.submissions) + 1
        for seq in range(first, first + random.choice((0, 3, 10))):
            word, name = random.choice(("unique", "debounce")), random.choice("ab")
            builder = GraphBuilder()
            builder.add(0, item=b"%d" % seq)
            header: dict[str, Any] = {"kinds": [kind("one", node_type=random.choice(("default", "io")))], word: name}
            if word == "debounce":
                wait_ns = random.randrange(500_000, 8_000_000)
                header[word] = [name, wait_ns, wait_ns + random.randrange(10_000_000)]
            columns = builder.finish()
            message = msg.GraphSubmitted(self.session, seq, header, columns, encode(columns, header))
            self.submissions[seq] = Submission(seq, message, 1, joins=f"{word} {name}")
            due += random.randrange(5_000_000)
            clock.at(due, lambda seq=seq: self.send(seq))  # type: ignore[misc]
            if random.random() < 0.15:
                clock.at(due + random.randrange(10_000_000), lambda seq=seq: self._cancel_whole(seq))  # type: ignore[misc]
        return due

    def _cancel_whole(self, seq: int) -> None:
        if self._queue is not None:
            self._cancel(self.submissions[seq], None)

    def will_go_again(self, seqs: list[int], *, mended: bool) -> None:
        """Somebody is about to ask that these go again; `mended`: handlers do not fail any more as it was planned."""
        if self._queue is not None:
            for submission in (self.submissions[seq] for seq in seqs):
                submission.revived = True
                if mended:
                    submission.fails.clear()

    def class_of(self, submission: Submission) -> tuple[int, int]:
        """The class in which a task is submitted, and from which retry on it goes down; 0: never."""
        return submission.kind_no - 1, self.lower_after[submission.kind_no - 1]

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
        elif what == "map":
            size = self._random.randrange(1, 20)
            items = list(range(size))
            submission = Submission(
                seq, msg.MapSubmitted(self.session, seq, kind_no, items, orjson.dumps([seq, kind_no, items])), size
            )
        else:
            submission = self._invent_graph(seq)
        submission.kind_no = kind_no
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
        if self._deadlines.random() < 0.4:
            submission.ends_ns = wall_ns + self._deadlines.choice((100_000, 2_000_000, 20_000_000, 200_000_000))
            submission.ends_at = self._deadlines.random() < 0.5
            row += [None] * (6 - len(row)) + [submission.ends_ns, int(submission.ends_at)]  # type: ignore[list-item]
        return msg.TasksSubmitted(self.session, [row], orjson.dumps([row]))

    def note_due(self) -> None:
        """Somebody sets the wall clock: what was due by now may start whatever the clock says then."""
        for submission in self.submissions.values():
            if submission.due_ns <= self.world.clock.wall_ns:
                submission.due_ns = 0

    def send(self, seq: int) -> None:
        """Submit this one now."""
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
        open_seq = min((n for n, s in self.submissions.items() if s.revived or not self._complete(n)), default=0)
        queue.post(msg.SessionOpened(self.session, open_seq))
        for number, priority in enumerate(PRIORITIES, 1):
            more = dict(self._sharing[number - 1])
            if lower_after := self.lower_after[number - 1]:
                more["retry"] = {**RETRY, "lower_after": lower_after}
            queue.post(msg.KindDefined(self.session, number, kind("one", priority=priority, **more)))
        for number, more in self.batches.kinds():
            queue.post(msg.KindDefined(self.session, number, kind("one", **more)))
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

    def cancel(self, submission: Submission, node: int | None) -> None:
        """Cancel a submission, or a node of it, if it was sent and an engine is there."""
        if self._queue is not None and submission.seq <= self._sent:
            self._cancel(submission, node)

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
                if failure["kind"] in ("expired", "deadline"):
                    late = self.expired if failure["kind"] == "expired" else self.overdue
                    late.add((seq, 0 if node is None else node))
                self._note((seq, 0 if node is None else node), (state, None))
                self.operator.hear_of_end(seq)
        elif tell.frame == "N":
            for seq, _, state, counts, _ in body:
                self._note_ended(seq, state, counts, tell.lsn)
        elif tell.frame == "Q":
            self.operator.hear(body[0])
            self.planner.hear(body[0], body[2])
        elif tell.frame == "D":
            self._note_repeated(*body, tell.lsn)
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
        before = self.told.get(key, what)
        again = self.submissions[key[0]].revived and before[0] != "succeeded"
        assert before == what or again, f"{key} was told {before}, now {what}"
        self.told[key] = self.final[key] = what

    def _note_ended(self, seq: int, state: str, counts: list[int], lsn: int) -> None:
        before = self.ended.get(seq, (state, counts))
        again = self.submissions[seq].revived
        assert before == (state, counts) or again, f"run {seq} ended {before}, now {(state, counts)}"
        self.ended[seq] = (state, counts)
        if state != "succeeded":
            self.operator.hear_of_end(seq)
        self._read_states(seq, lsn)

    def _note_repeated(self, seq: int, run: str, ending: list[Any] | None, lsn: int) -> None:
        submission, first = self.submissions[seq], int(run.removeprefix(f"{self.session}-"))
        if submission.joins:
            assert self.submissions[first].joins == submission.joins, f"submission {seq} joined {run}"
        else:
            assert first == submission.repeats, f"submission {seq} stands for {run}, and not for {submission.repeats}"
        before = self.stands.setdefault(seq, first)
        assert before == first, f"submission {seq} stood for {before}, now for {first}"
        self.acked = max(self.acked, seq)
        if ending is not None:
            self._note_ended(first, ending[2], ending[3], lsn)

    def _read_states(self, seq: int, lsn: int) -> None:
        """What a query would say about the nodes of a run that ended. One that goes on, or ended a second time since
        this was said, will be told again."""
        core = self.world.core
        run = None if core is None else core.scheduler.book.session(self.session).find(seq)
        if run is None or core is None:
            return
        if self.submissions[seq].revived and (run.open or core.scheduler.book.ended_lsn(run.no) > lsn):
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
        if seq in self.stands:
            return self._complete(self.stands[seq])
        return not self.submissions[seq].repeats and all(
            (seq, node) in self.told for node in range(self.submissions[seq].size)
        )

    def satisfied(self) -> bool:
        """Whether everything was answered, and what went again has ended again."""
        if self.operator.planned or not self.planner.done:
            return False
        return all(self._complete(seq) and (not s.revived or self._settled(seq)) for seq, s in self.submissions.items())

    def _settled(self, seq: int) -> bool:
        """Whether what was told last is what is there."""
        core = self.world.core
        run = None if core is None or self.submissions[seq].repeats else core.scheduler.book.session("sim").find(seq)
        if run is None:
            return core is not None
        first = 0 if run.is_graph or run.is_map else seq - run.seq
        states = [NodeState(state).name.lower() for state in run.state[first : first + self.submissions[seq].size]]
        return states == [self.told[(seq, node)][0] for node in range(self.submissions[seq].size)]

    def missing(self) -> list[tuple[int, int]]:
        """What was not."""
        return [
            (seq, n)
            for seq, s in self.submissions.items()
            for n in range(s.size)
            if not self._complete(seq) and (seq, n) not in self.told
        ]

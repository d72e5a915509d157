"""Scheduler: admits runs, keeps their graphs, decides what runs next, reacts to results, timers and cancels.

One mutator, `receive(batch, now_ns, wall_ns)`: messages in, effects and messages to pools out. A recovery
(`actors.replay`) is the life of the engine read again through the same code, not a second implementation.

States of nodes: `actors.protocol.states.NODE_TABLE`, moved by `actors.run.Run`.

Invariants (`check_invariants`)
- A READY node is in exactly one segment of the ready queue of its node type; a LEASED one is in exactly one lease book.
- The book's live runs are those with an open node.
- `lsn` is the number of the last record that was appended.

Concurrency: none; one caller. Limits: `actors.protocol.limits`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import orjson

from actors import admission, calls, consequences, deadline, expiry, growth, kept, news, once, outcomes, timetable
from actors.books import RunBook
from actors.cancels import on_cancel
from actors.checkpoints import on_taken
from actors.consequences import Spreading
from actors.giving import Giving
from actors.keys import Keys
from actors.policy.parking import Parking
from actors.policy.policy import Policy
from actors.policy.timers import Timers
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import InvariantBroken, UnknownNodeType
from actors.protocol.kinds import Kind, KindTable
from actors.protocol.log_messages import CheckpointTaken
from actors.protocol.records import Record, RecordType
from actors.protocol.states import NodeState
from actors.rates_log import note_rates
from actors.released import released_payload
from actors.run import Run
from actors.schedules import Schedules
from actors.standing import Standing
from actors.state_column import CANCELLED, where

FLOOR_EVERY_RECORDS: Final = 4096
"""Records between two looks at what the log must keep."""
_NAMES: Final = tuple(state.name.lower() for state in NodeState)


class Scheduler:
    """See the module. `node_types` are the names that exist; tasks of another one are refused."""

    def __init__(
        self,
        node_types: Sequence[str],
        *,
        missing_handler: str = "park",
        retention: dict[str, int] | None = None,
        wave_edges_max: int = limits.WAVE_EDGES_MAX,
        policy: dict[str, Any] | None = None,
    ) -> None:
        self.standing = Standing(policy)
        self.kinds = KindTable()
        self.keys = Keys()
        self.schedules = Schedules()
        self.book = RunBook(**(retention or {}))
        self.giving = Giving(node_types)
        self.ready = self.giving.ready
        self.lsn = 0
        self.draining = False  # what is due now is judged after the next start
        self.missing_handler = missing_handler
        self.timers: Timers[tuple[int, int]] = Timers()  # monotonic, as all but the next
        self.appointments: Timers[tuple[int, int]] = Timers()  # on the wall clock: tasks due at a time of day
        self.expiries: Timers[int] = Timers()
        self.deadlines = deadline.Deadlines()
        self.parking = Parking()
        self.handlers_announced: set[tuple[str, str]] = set()
        """Node type and name of handlers whose absence was said; at most KINDS_MAX, then it is said again."""
        self.session_kinds: dict[tuple[str, int], Kind] = {}
        self.kinds_refused: dict[tuple[str, int], dict[str, Any]] = {}
        self.wave_edges_max = self.wave_edges_left = wave_edges_max
        self.waves: OrderedDict[int, Spreading] = OrderedDict()
        self.waste: list[list[Any]] = []  # columns of large runs that are gone
        self.postponed: deque[msg.CancelAsked] = deque()  # not more than the session has questions open
        self._out: list[Any] = []
        self.now_ns = self.wall_ns = 0
        self._floor_lsn = self._floor_look_lsn = self.progress_due_ns = 0
        self.stirred: dict[int, Run] = {}
        self.watchers: dict[int, set[str]] = {}
        self.ended_ns: dict[int, int] = {}
        self.obey_policy()

    # --- the mutator ----------------------------------------------------------------------------------------------

    def receive(self, batch: Sequence[Any], now_ns: int, wall_ns: int) -> list[Any]:
        """React to a batch; returns effects and messages to pools, in order.

        While something is `unfinished`, each call takes a slice of it, but one that only gives work.
        """
        self.set_time(now_ns, wall_ns)
        self.kinds.stuffed = False
        self.wave_edges_left = self.wave_edges_max
        for message in batch:
            self._on[type(message)](self, message)
        if self.timers or self.appointments or self.expiries or self.deadlines:
            self._fire_timers()
        if self.giving.due:
            self.giving.fire(now_ns)
            note_rates(self)
        if self.parking:
            outcomes.look_for_handlers(self)
        if self.unfinished and type(batch[-1]) is not msg.Offer:
            consequences.go_on(self)
        if self.stirred:
            news.report_progress(self)
        if self.book.crowded or self.lsn >= self._floor_look_lsn:
            self._retire()
        return self.taken()

    def taken(self) -> list[Any]:
        """Effects and messages since the last call."""
        out, self._out = self._out, []
        return out

    def set_time(self, now_ns: int, wall_ns: int) -> None:
        """Time is an input: monotonic for intervals, wall clock for what is persisted."""
        self.now_ns, self.wall_ns = now_ns, wall_ns

    # --- giving work ----------------------------------------------------------------------------------------------

    def give(self, message: msg.Offer) -> list[Any]:
        """Answer an offer of room: grants of ready work, and what follows from that."""
        self._on_offer(message)
        return self.taken()

    def _on_offer(self, message: msg.Offer) -> None:
        giving = self.giving
        for worker, run, kind, waiting, batch in giving.take(message, self.now_ns):
            nodes = run.lease(timetable.in_time(self, run, waiting))
            self.book.touch(run)
            giving.unused(kind, len(waiting) - len(nodes))
            if nodes:
                attempts = calls.attempts_of(run, nodes)
                if giving.guards.by_type:
                    giving.guards.leased(run, kind, nodes, attempts, self.now_ns)
                told, items = calls.told_attempts(run, nodes, attempts), run.build_items(kind, nodes)
                self._out.append(msg.Grant(worker, run, kind, nodes, told, items, batch))
            elif run.cancel_asked:
                giving.drop(message.node_type, run)
        if giving.policy.rates or giving.batches.types:
            note_rates(self)

    def queue(self, run: Run, nodes: Sequence[int], front: bool = False) -> None:
        """Put READY nodes into the queues of their kinds."""
        if not nodes:
            return
        columns, kinds, push = run.columns, run.kinds, self.giving.push
        if not run.mixed or columns is None or columns.kind_of is None:
            push(kinds[0], run, nodes, self.now_ns, front=front)
            return
        kind_of = columns.kind_of
        groups: dict[int, list[int]] = {}
        for node in nodes:
            groups.setdefault(kind_of[node], []).append(node)
        for index, members in groups.items():
            push(kinds[index], run, members, self.now_ns, front=front)

    def interned(self, kinds: Sequence[dict[str, Any]]) -> list[Kind]:
        """The kinds of these dictionaries.

        Raises:
            UnknownNodeType: One needs a node type that this engine does not have. CallerError: there are too many
            kinds. ProtocolError: one is malformed.
        """
        found: list[Kind] = []
        for data in kinds:
            kind = self.kinds.intern(data, lambda: self._kinds_in_use(found))
            if kind.node_type not in self.ready:
                known = ", ".join(sorted(self.ready))
                raise UnknownNodeType(f"task {kind.name!r} needs node type {kind.node_type!r}; known: {known}")
            found.append(kind)
        return found

    def _kinds_in_use(self, more: Iterable[Kind]) -> set[Kind]:
        """All that an open run, a session or a waiting block refers to; of ended runs no worker gets a kind again."""
        used = {*more, *self.session_kinds.values()}
        for run in self.book.live.values():
            used.update(run.kinds)
            for _, kinds in run.rare.spawned.values():
                used.update(kinds)
        return used

    def repeat(self, message: Any) -> None:
        """React to a message that had to wait."""
        self._on[type(message)](self, message)

    def _on_noted(self, message: msg.Noted) -> None:
        self.note(message.run, message.node, message.event, message.text)

    def _on_late(self, message: msg.LateResult) -> None:
        run = self.book.live.get(message.run_no) or self.book.finished.get(message.run_no)
        if run is not None and message.node < run.size:
            self.note(run, message.node, "discarded", f"a late result of worker {message.worker}")

    def _on_told(self, message: msg.Told) -> None:
        self.book.told_lsn = message.lsn

    def _on_time(self, message: msg.TimePassed) -> None:
        """Timers fire after every batch; nothing else to do."""

    # --- endings, timers, retention -------------------------------------------------------------------------------

    def finish_if_over(self, run: Run) -> None:
        if not run.open:
            self._finish(run)

    def _finish(self, run: Run) -> None:
        if not self.book.finish(run, self.lsn):
            return
        self.stirred.pop(run.no, None)
        self.ended_ns[run.no] = self.wall_ns
        timetable.forget(self, run)
        if run.no in self.schedules.by_run:
            self.schedules.ended(self, run)
        told = self.watchers.pop(run.no, set())
        if run.is_graph:
            self.note(run, -1, f"run {run.run_state()}", "")
            told.add(run.session)
        for session in sorted(told):
            self.tell(session, "N", [self._ending(run)])

    def _fire_timers(self) -> None:
        timetable.fire(self)
        if self.expiries:
            expiry.expire(self)
        if self.deadlines:
            expiry.end_passed(self)
        timetable.wake(self)

    def _retire(self) -> None:
        if gone := self.book.retire():
            self.log(RecordType.RELEASED, released_payload([run.no for run in gone], self.wall_ns))
            self._out.extend(fx.ForgetRun(name) for run in gone for name in once.folders(run))
            for run in gone:
                self.ended_ns.pop(run.no, None)
                self.waste += run.heavy_columns()
        elif self.lsn < self._floor_look_lsn:
            return
        self._floor_look_lsn = self.lsn + FLOOR_EVERY_RECORDS
        floor = self.standing.kept(self, kept.carry(self), self._floor_lsn)
        if floor > self._floor_lsn:
            note_rates(self, whole=True)
            self.keys.carry(self, floor)
            self.schedules.carry(self, floor)
            self._floor_lsn = floor
            self._out.append(fx.RaiseFloor(floor))

    @property
    def policy(self) -> Policy:
        """Who runs next and how much at once, as it stands."""
        return self.standing.policy

    def change_policy(self, change: dict[str, Any]) -> dict[str, Any]:
        """Change it and log that; returns it as it is now. Raises ConfigurationError: then nothing was changed."""
        self.standing.change(self, change)
        self.obey_policy()
        return self.policy.to_json()

    def obey_policy(self) -> None:
        """Give work as the policy now says."""
        if self.policy is not self.giving.policy:
            self.giving.apply(self.policy, self.book.live.values(), self.now_ns)

    # --- log and tell ---------------------------------------------------------------------------------------------

    def put(self, effect: Any) -> None:
        """Add an effect, or a message to a pool, to what this turn returns."""
        self._out.append(effect)

    def log(self, record_type: RecordType, payload: bytes) -> int:
        """Add a record to the log; returns its LSN. What an actor returns and is a record goes to the persister."""
        self.lsn = lsn = self.lsn + 1
        self._out.append(Record(lsn, int(record_type), payload))
        return lsn

    def log_attempt(
        self,
        run: Run,
        node: int,
        outcome: str,
        attempt: int,
        failure: dict[str, Any],
        message: msg.AttemptFailed | None,
        due: int,
    ) -> int:
        times = [0, 0, 0]
        if message is not None:
            offset = self.wall_ns - self.now_ns
            times = [message.started_ns + offset, message.ended_ns + offset, message.pid]
            run.own_rare().ended[node] = (times[0], times[1], times[2])
        return self.log(
            RecordType.ATTEMPT, orjson.dumps([run.no, node, outcome, attempt, failure, due, self.wall_ns, times])
        )

    def tell(self, session: str, frame: str, body: Any, *, control: bool = False, lsn: int | None = None) -> None:
        self._out.append(fx.Tell(session, frame, body, self.lsn if lsn is None else lsn, control))

    def tell_failures(self, run: Run, nodes: Iterable[int], lsn: int) -> None:
        """Tell how tasks ended that are no nodes of a graph, and that the session submitted."""
        if run.is_graph:
            return
        own = [(node, _NAMES[run.state[node]], run.failure(node)) for node in nodes if node < run.base_size]
        if run.is_map:
            rows = [[run.seq, node, state, failure] for node, state, failure in own]
        else:
            rows = [[run.seq + node, None, state, failure] for node, state, failure in own]
        if rows:
            self._out.append(fx.Tell(run.session, "F", rows, lsn))

    def attach(self, session: str, seq: int, run: Run) -> None:
        """Tell which run a submission stands for, and how it ended or, when it does, will have ended."""
        if run.open:
            self.watchers.setdefault(run.no, set()).add(session)
        self.tell(session, "D", [seq, run.key, None if run.open else self._ending(run)])

    def deliver_again(self, run: Run, open_seq: int) -> None:
        if run.is_graph:
            if not run.open and run.seq >= open_seq:
                self.tell(run.session, "N", [self._ending(run)])
            return
        done = [n for n in range(run.base_size) if run.state[n] == NodeState.SUCCEEDED]
        if done:
            self.tell(run.session, "R", [[run.seq, done, [run.results[n] for n in done]]])
        self.tell_failures(run, sorted({*run.rare.failures, *where(run.state, CANCELLED)}), self.lsn)

    @staticmethod
    def _ending(run: Run) -> list[Any]:
        """How a run ended, with its first failure."""
        first = run.first_failure()
        failed = None if first is None else [first, run.node_id(first), run.failure(first)]
        return [run.seq, run.key, str(run.run_state()), run.counts(), failed]

    def note(self, run: Run, node: int, event: str, detail: str) -> None:
        """Add to the story: the cause is the latest record, which tells of it or of what led to it."""
        run.own_rare().events.append((self.wall_ns, node, event, detail, self.lsn))

    # --- checks ---------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Raise InvariantBroken when the state contradicts itself. For tests and debug mode: it looks at every node."""
        try:
            for run in self.book.live.values():
                run.check_invariants()
            self.book.check_invariants()
            self.giving.check_invariants(self.book.live.values())
            self.giving.guards.check_invariants(self.book.live)
        except AssertionError as broken:
            raise InvariantBroken(str(broken)) from broken

    @property
    def undecided(self) -> bool:
        """Whether something follows from what was recorded that is not worked out yet, or a cancel waits."""
        return bool(self.waves or self.postponed)

    @property
    def unfinished(self) -> bool:
        """Whether a turn is wanted at once."""
        return bool(self.waves or self.postponed or self.waste)

    @property
    def full(self) -> bool:
        """Whether submissions must wait (guarantee G5)."""
        return self.book.nodes_live >= limits.NODES_OPEN_MAX or self.book.bytes_live >= limits.BYTES_OPEN_MAX

    _on: Final[dict[type, Callable[[Any, Any], None]]] = {
        msg.SessionOpened: admission.on_session_opened,
        msg.SessionLost: admission.on_session_lost,
        msg.KindDefined: admission.on_kind_defined,
        msg.KindsGivenUp: admission.on_kinds_given_up,
        msg.TasksSubmitted: admission.on_tasks,
        msg.MapSubmitted: admission.on_map,
        msg.GraphSubmitted: admission.on_graph,
        msg.SubmissionRefused: admission.on_refused,
        msg.CancelAsked: on_cancel,
        msg.Offer: _on_offer,
        msg.Finished: outcomes.on_finished,
        msg.Spawned: growth.on_spawned,
        msg.AttemptFailed: outcomes.on_attempt_failed,
        msg.Returned: outcomes.on_returned,
        msg.LateResult: _on_late,
        msg.Noted: _on_noted,
        msg.Reported: lambda self, message: self.book.report(message.run, message.node),
        msg.Told: _on_told,
        msg.TimePassed: _on_time,
        CheckpointTaken: on_taken,
    }

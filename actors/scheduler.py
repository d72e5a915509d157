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

from collections.abc import Sequence
from typing import Any

import orjson

from actors.books import RunBook
from actors.policy.ready import ReadyQueue
from actors.policy.retry import delay_ns, retries
from actors.policy.timers import Timers
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import InvariantBroken, MainspringError, ProtocolError, UnknownNodeType
from actors.protocol.graph import GraphColumns
from actors.protocol.kinds import Kind, KindTable
from actors.protocol.records import Record, RecordType
from actors.protocol.states import FailureKind, NodeState
from actors.run import BACKOFF, CANCELLED, CANCELLING, FAILED, PARKED, READY, SKIPPED, Run

PROGRESS_EVERY_NS = 100_000_000


class Scheduler:
    """See the module. `node_types` are the names that exist; tasks of another one are refused."""

    def __init__(
        self, node_types: Sequence[str], *, missing_handler: str = "park", retention: dict[str, int] | None = None
    ) -> None:
        self.kinds = KindTable()
        self.book = RunBook(**(retention or {}))
        self.ready: dict[str, ReadyQueue[Run]] = {name: ReadyQueue() for name in node_types}
        self.lsn = 0
        self.draining = False
        self._missing_handler = missing_handler
        self.timers: Timers[tuple[int, int]] = Timers()
        self._session_kinds: dict[tuple[str, int], Kind] = {}
        self._out: list[Any] = []
        self.now_ns = 0
        self.wall_ns = 0
        self._floor_lsn = 0
        self._progress_due_ns = 0
        self._stirred: dict[int, Run] = {}
        self.watchers: dict[int, set[str]] = {}
        self.ended_ns: dict[int, int] = {}

    # --- the mutator ----------------------------------------------------------------------------------------------

    def receive(self, batch: Sequence[Any], now_ns: int, wall_ns: int) -> list[Any]:
        """React to a batch; returns effects and messages to pools, in order."""
        self.set_time(now_ns, wall_ns)
        for message in batch:
            self._on[type(message)](self, message)
        self._fire_timers()
        self._report_progress()
        self._retire()
        out, self._out = self._out, []
        return out

    def set_time(self, now_ns: int, wall_ns: int) -> None:
        """Time is an input: monotonic for intervals, wall clock for what is persisted."""
        self.now_ns, self.wall_ns = now_ns, wall_ns

    # --- submissions ----------------------------------------------------------------------------------------------

    def _on_session_opened(self, message: msg.SessionOpened) -> None:
        session = self.book.session(message.session)
        self._out.append(fx.Tell(message.session, "H", {"acked_seq": session.seq_last}, self.lsn, control=True))
        for run in session.runs.values():
            if run.seq + run.base_size > message.open_seq or run.is_graph or run.is_map:
                self._deliver_again(run, message.open_seq)

    def _on_session_lost(self, message: msg.SessionLost) -> None:
        for key in [k for k in self._session_kinds if k[0] == message.session]:
            del self._session_kinds[key]

    def _on_kind_defined(self, message: msg.KindDefined) -> None:
        self._session_kinds[(message.session, message.kind_no)] = self.kinds.intern(message.data)

    def _on_tasks(self, message: msg.TasksSubmitted) -> None:
        session = self.book.session(message.session)
        rows = [row for row in message.tasks if row[0] > session.seq_last]
        if not rows:
            self._ack(message.session, session.seq_last)
            return
        whole = len(rows) == len(message.tasks)
        numbers = list(dict.fromkeys(row[1] for row in rows))
        kinds = self._kinds_of(message.session, numbers, rows[0][0], rows[-1][0])
        if kinds is None:
            return
        kind_of = None if len(numbers) == 1 else [numbers.index(row[1]) for row in rows]
        body = message.raw if whole else orjson.dumps(rows)
        run = self.admit_tasks(message.session, kinds, kind_of, rows)
        self._log_submission(b"T", run, numbers, body)
        self._ack(message.session, rows[-1][0])
        self.queue(run, list(range(run.size)))

    def admit_tasks(
        self, session: str, kinds: list[Kind], kind_of: list[int] | None, rows: list[list[Any]]
    ) -> Run:
        """Enter single tasks as one bundle; rows are [seq, kind number, item]."""
        seq = rows[0][0]
        key = f"{session}-{seq}"
        run = Run.of_tasks(self.book.next_no(), key, session, seq, self.wall_ns, kinds, kind_of, [row[2] for row in rows])
        self.book.add(run, rows[-1][0])
        return run

    def _on_map(self, message: msg.MapSubmitted) -> None:
        session = self.book.session(message.session)
        if message.seq <= session.seq_last:
            self._ack(message.session, session.seq_last)
            return
        kinds = self._kinds_of(message.session, [message.kind_no], message.seq, message.seq)
        if kinds is None:
            return
        run = self.admit_map(message.session, kinds, message.seq, message.items)
        self._log_submission(b"M", run, [message.kind_no], message.raw)
        self._ack(message.session, message.seq)
        self.queue(run, list(range(run.size)))

    def admit_map(self, session: str, kinds: list[Kind], seq: int, items: list[Any]) -> Run:
        run = Run.of_tasks(self.book.next_no(), f"{session}-{seq}", session, seq, self.wall_ns, kinds, None, items)
        run.is_map = True
        self.book.add(run, seq)
        return run

    def _on_graph(self, message: msg.GraphSubmitted) -> None:
        session = self.book.session(message.session)
        if message.seq <= session.seq_last:
            self._ack(message.session, session.seq_last)
            return
        key = message.header.get("run_id") or f"{message.session}-{message.seq}"
        if self.book.get(key) is not None:
            self._reject(message.session, message.seq, message.seq, "MS120", f"run {key!r} exists already")
            return
        try:
            run = self.admit_graph(message.session, message.seq, message.header, message.columns)
        except MainspringError as refused:
            self._reject(message.session, message.seq, message.seq, refused.code, refused.message)
            return
        head = orjson.dumps([message.session, run.no, run.created_ns, message.seq])
        run.lsn = self.log(RecordType.SUBMITTED, b"G" + len(head).to_bytes(4, "little") + head + message.raw)
        self._ack(message.session, message.seq)
        self.queue(run, run.roots())
        self.finish_if_over(run)

    def admit_graph(self, session: str, seq: int, header: dict[str, Any], columns: GraphColumns) -> Run:
        kinds = [self.kinds.intern(data) for data in header["kinds"]]
        for kind in kinds:
            self._require_node_type(kind)
        if columns.kind_of is not None and len(columns.kind_of) and max(columns.kind_of) >= len(kinds):
            raise ProtocolError("a node names a kind that is not there")
        key = header.get("run_id") or f"{session}-{seq}"
        run = Run.of_graph(self.book.next_no(), key, session, seq, self.wall_ns, kinds, columns)
        run.name = header.get("name") or ""
        self.book.add(run, seq)
        return run

    def _on_refused(self, message: msg.SubmissionRefused) -> None:
        self._reject(message.session, message.seq, message.seq, message.code, message.text)

    def _kinds_of(self, session: str, numbers: list[int], first: int, last: int) -> list[Kind] | None:
        kinds = [self._session_kinds.get((session, no)) for no in numbers]
        try:
            known = [k for k in kinds if k is not None]
            if len(known) != len(kinds):
                raise ProtocolError("the session did not define this task kind")
            for kind in known:
                self._require_node_type(kind)
        except MainspringError as refused:
            self._reject(session, first, last, refused.code, refused.message)
            return None
        return known

    def _require_node_type(self, kind: Kind) -> None:
        if kind.node_type not in self.ready:
            raise UnknownNodeType(f"task {kind.name!r} needs node type {kind.node_type!r}; known: {', '.join(sorted(self.ready))}")

    def _log_submission(self, letter: bytes, run: Run, numbers: list[int], body: bytes) -> None:
        kinds = b",".join(b"[%d,%s]" % (no, kind.text) for no, kind in zip(numbers, run.kinds, strict=True))
        head = orjson.dumps([run.session, run.no, run.created_ns])[:-1]
        run.lsn = self.log(RecordType.SUBMITTED, b"".join([letter, head, b",[", kinds, b"],", body, b"]"]))

    def _reject(self, session: str, first: int, last: int, code: str, text: str) -> None:
        self.book.session(session).seq_last = last
        for seq in range(first, last + 1):
            self._tell(session, "J", [seq, {"code": code, "message": text}])

    def _ack(self, session: str, seq: int) -> None:
        self._tell(session, "A", [seq])

    # --- results --------------------------------------------------------------------------------------------------

    def _on_finished(self, message: msg.Finished) -> None:
        raw = message.raw
        if raw is None:
            raw = orjson.dumps([message.pid, [[0, r.no, n, v, s, e] for r, n, v, s, e in message.groups]])
        lsn = self.log(RecordType.COMPLETED, raw)
        tell: dict[str, list[Any]] = {}
        offset = self.wall_ns - self.now_ns
        for run, nodes, values, _, _ in message.groups:
            if run.spawned:
                self.add_spawned(run, nodes)
            if run.is_graph:
                self._stirred[run.no] = run
            else:
                tell.setdefault(run.session, []).append([run.seq, nodes, values])
            if not run.frames or run.frames[-1][1] is not raw:
                run.frames.append((offset, raw))
            if run.ended_times:
                for node in nodes:
                    run.ended_times.pop(node, None)
            ready = run.succeed(nodes, values)
            if ready:
                self.queue(run, ready)
            if not run.open:
                self._finish(run)
        for session, body in tell.items():
            self._out.append(fx.Tell(session, "R", body, lsn))

    def _on_spawned(self, message: msg.Spawned) -> None:
        message.run.spawned[message.node] = (message.block, message.raw)
        self.log(RecordType.SPAWNED, message.raw)

    def add_spawned(self, run: Run, nodes: list[int]) -> None:
        """Attach what these finished nodes wanted to add."""
        for node in [n for n in nodes if n in run.spawned]:
            block, _ = run.spawned.pop(node)
            if run.cancel_asked:
                continue
            kinds = [self.kinds.intern(data) for data in block["kinds"]]
            self.note(run, node, "spawned", f"{block['n']} nodes")
            self.book.grew(block["n"])
            self.queue(run, run.append_block(block, kinds, node))

    def _on_attempt_failed(self, message: msg.AttemptFailed) -> None:
        run, node, failure = message.run, message.node, message.failure
        kind = run.kind(node)
        attempt = run.attempts.get(node, 0) + 1
        run.spawned.pop(node, None)
        what = failure["kind"]
        if run.state[node] == CANCELLING or what == FailureKind.CANCELLED:
            self.end(run, node, CANCELLED, attempt, failure, message)
        elif what == FailureKind.SKIPPED:
            self.end(run, node, SKIPPED, attempt, failure, message)
        elif what == FailureKind.NO_HANDLER and self._missing_handler == "park":
            self._park(run, node, failure)
        elif self._tries_again(run, node, kind, what, attempt):
            self._back_off(run, node, kind, attempt, failure, message)
        else:
            self.end(run, node, FAILED, attempt, failure, message)

    def _tries_again(self, run: Run, node: int, kind: Kind, what: str, attempt: int) -> bool:
        if what in (FailureKind.CRASH, FailureKind.MEMORY):
            crashes = run.crashes[node] = run.crashes.get(node, 0) + 1
            if crashes >= kind.crashes_max:
                return False
            if kind.retry.attempts_max <= 1:
                return True
        return retries(kind.retry, what, attempt)

    def _back_off(self, run: Run, node: int, kind: Kind, attempt: int, failure: dict[str, Any], message: msg.AttemptFailed) -> None:
        delay = delay_ns(kind.retry, attempt, hash_of(run.key, node, attempt))
        due_wall = self.wall_ns + delay
        run.attempts[node] = attempt
        run.state[node] = BACKOFF
        run.backoff_until[node] = due_wall
        self._log_attempt(run, node, "retry", attempt, failure, message, due_wall)
        self.note(run, node, f"attempt {attempt} {failure['kind']}", f"next in {delay / 1e9:.3f} s: {brief(failure)}")
        self.timers.set((run.no, node), self.now_ns + delay)

    def end(self, run: Run, node: int, state: int, attempt: int, failure: dict[str, Any], message: msg.AttemptFailed | None) -> None:
        run.attempts[node] = attempt
        run.failures[node] = failure
        ending = NodeState(state).name.lower()
        lsn = self._log_attempt(run, node, ending, attempt, failure, message, 0)
        self.note(run, node, ending, f"attempt {attempt}: {brief(failure)}")
        before = run.state.count(SKIPPED) if run.is_graph else 0
        self.queue(run, run.settle([node], state))
        self._tell_failure(run, node, lsn)
        if run.is_graph and run.state.count(SKIPPED) > before:
            self.note(run, node, "skipped others", f"{run.state.count(SKIPPED) - before} nodes behind it")
        self.finish_if_over(run)

    def _park(self, run: Run, node: int, failure: dict[str, Any]) -> None:
        run.state[node] = PARKED
        run.parked[node] = brief(failure)
        self.note(run, node, "parked", f"no handler: {brief(failure)}")

    def _on_returned(self, message: msg.Returned) -> None:
        back = message.run.give_back(message.nodes)
        for node in back:
            message.run.spawned.pop(node, None)
        stopped = [n for n in message.nodes if message.run.state[n] == CANCELLING]
        self.note(message.run, message.nodes[0], "returned", f"{len(message.nodes)} nodes: {message.cause}")
        if back:
            self.queue(message.run, back, front=True)
        for node in stopped:
            self.end(message.run, node, CANCELLED, message.run.attempts.get(node, 0), cancelled("before it started"), None)

    # --- cancel ---------------------------------------------------------------------------------------------------

    def _on_cancel(self, message: msg.CancelAsked) -> None:
        found = self.book.find(message.run_key)
        if found is None:
            self._tell(message.session, "Q", [message.query_id, None, {"code": "MS121", "message": f"no run {message.run_key!r}"}], control=True)
            return
        run, own = found
        node = own if message.node is None else message.node
        if node is not None and not 0 <= node < run.size:
            self._tell(message.session, "Q", [message.query_id, None, {"code": "MS113", "message": f"no node {node}"}], control=True)
            return
        over = not run.open if node is None else NodeState.SUCCEEDED <= run.state[node] <= NodeState.SKIPPED
        if over:
            self._tell(message.session, "Q", [message.query_id, False, None], control=True)
            return
        leased = self.cancel(run, node)
        lsn = self.log(RecordType.CANCEL, orjson.dumps([run.no, node, leased]))
        self.note(run, -1 if node is None else node, "cancel asked", f"by {message.session}")
        if leased:
            self._out.append(msg.StopLeases(run, leased))
        self._tell(message.session, "Q", [message.query_id, True, None], control=True, lsn=lsn)
        self.finish_if_over(run)

    def cancel(self, run: Run, node: int | None) -> list[int]:
        """Cancel what waits, and tell so; returns the leased nodes, which must be stopped."""
        at_once, leased, ready = self.mark_cancelled(run, node)
        for n in at_once:
            self.timers.cancel((run.no, n))
            self._tell_failure(run, n, self.lsn + 1)
        self.queue(run, ready)
        return leased

    @staticmethod
    def mark_cancelled(run: Run, node: int | None) -> tuple[list[int], list[int], list[int]]:
        """The state change of a cancel, live and in replay; see `Run.cancel_waiting`."""
        run.cancel_asked = run.cancel_asked or node is None
        at_once, leased, ready = run.cancel_waiting(node)
        for n in at_once:
            run.failures[n] = cancelled("before it started")
        return at_once, leased, ready

    # --- giving work ----------------------------------------------------------------------------------------------

    def _on_offer(self, message: msg.Offer) -> None:
        queue = self.ready[message.node_type]
        for worker, count in message.shares:
            for run, waiting in queue.pop(count):
                nodes = run.lease(waiting)
                if nodes:
                    self._grant(worker, run, nodes)

    def _grant(self, worker: int, run: Run, nodes: list[int]) -> None:
        columns = run.columns
        if columns is None or columns.kind_of is None:
            groups = {0: nodes}
        else:
            groups = {}
            kind_of = columns.kind_of
            for node in nodes:
                groups.setdefault(kind_of[node], []).append(node)
        for index, members in groups.items():
            kind = run.kinds[index]
            tried = [run.attempts.get(n, 0) + 1 for n in members] if run.attempts else None
            self._out.append(msg.Grant(worker, run, kind, members, tried, run.build_items(kind, members)))

    def queue(self, run: Run, nodes: list[int], front: bool = False) -> None:
        """Put READY nodes into the queues of their node types and classes."""
        if not nodes:
            return
        columns = run.columns
        kinds = run.kinds
        if columns is None or columns.kind_of is None or len(kinds) == 1:
            self._push(kinds[0], run, nodes, front)
            return
        kind_of = columns.kind_of
        groups: dict[tuple[str, int], list[int]] = {}
        for node in nodes:
            kind = kinds[kind_of[node]]
            groups.setdefault((kind.node_type, kind.priority), []).append(node)
        for members in groups.values():
            self._push(kinds[kind_of[members[0]]], run, members, front)

    def _push(self, kind: Kind, run: Run, nodes: list[int], front: bool) -> None:
        queue = self.ready[kind.node_type]
        if front:
            queue.push_front(kind.priority, run, nodes)
        else:
            queue.push(kind.priority, run, nodes)

    def _on_noted(self, message: msg.Noted) -> None:
        self.note(message.run, message.node, message.event, message.text)

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
        self._stirred.pop(run.no, None)
        self.ended_ns[run.no] = self.wall_ns
        told = self.watchers.pop(run.no, set())
        if run.is_graph:
            self.note(run, -1, f"run {run.run_state()}", "")
            told.add(run.session)
        for session in sorted(told):
            self._tell(session, "N", [self._ending(run)])

    def _fire_timers(self) -> None:
        for no, node in self.timers.pop_due(self.now_ns):
            run = self.book.live.get(no)
            if run is not None and run.state[node] == BACKOFF:
                run.state[node] = READY
                run.backoff_until.pop(node, None)
                self.queue(run, [node])
        due = self.timers.next_ns()
        if due is not None:
            self._out.append(fx.WakeAt(due))

    def _report_progress(self) -> None:
        if not self._stirred:
            return
        if self.now_ns < self._progress_due_ns:
            self._out.append(fx.WakeAt(self._progress_due_ns))
            return
        rows: dict[str, list[Any]] = {}
        for run in self._stirred.values():
            rows.setdefault(run.session, []).append([run.seq, run.counts()])
        self._stirred.clear()
        self._progress_due_ns = self.now_ns + PROGRESS_EVERY_NS
        for session, body in rows.items():
            self._tell(session, "P", body)

    def _retire(self) -> None:
        gone = self.book.retire()
        if gone:
            self.log(RecordType.RELEASED, orjson.dumps([run.no for run in gone]))
            self._out.extend(fx.ForgetRun(run.key) for run in gone)
            for run in gone:
                self.ended_ns.pop(run.no, None)
        if gone or self.book.floor(self.lsn + 1) - self._floor_lsn > 4096:
            floor = self.book.floor(self.lsn + 1)
            if floor > self._floor_lsn:
                self._floor_lsn = floor
                self._out.append(fx.RaiseFloor(floor))

    # --- log and tell ---------------------------------------------------------------------------------------------

    def log(self, record_type: RecordType, payload: bytes) -> int:
        self.lsn += 1
        self._out.append(fx.Append([Record(self.lsn, int(record_type), payload)]))
        return self.lsn

    def _log_attempt(
        self, run: Run, node: int, outcome: str, attempt: int, failure: dict[str, Any], message: msg.AttemptFailed | None, due: int
    ) -> int:
        times = [0, 0, 0]
        if message is not None:
            offset = self.wall_ns - self.now_ns
            times = [message.started_ns + offset, message.ended_ns + offset, message.pid]
            run.ended_times[node] = (times[0], times[1], times[2])
        return self.log(RecordType.ATTEMPT, orjson.dumps([run.no, node, outcome, attempt, failure, due, self.wall_ns, times]))

    def _tell(self, session: str, frame: str, body: Any, *, control: bool = False, lsn: int | None = None) -> None:
        self._out.append(fx.Tell(session, frame, body, self.lsn if lsn is None else lsn, control))

    def _tell_failure(self, run: Run, node: int, lsn: int) -> None:
        if run.is_graph or node >= run.base_size:
            return
        state = NodeState(run.state[node]).name.lower()
        failure = run.failures[node]
        row = [run.seq, node, state, failure] if run.is_map else [run.seq + node, None, state, failure]
        self._out.append(fx.Tell(run.session, "F", [row], lsn))

    def _deliver_again(self, run: Run, open_seq: int) -> None:
        if run.is_graph:
            if not run.open and run.seq >= open_seq:
                self._tell(run.session, "N", [self._ending(run)])
            return
        done = [n for n in range(run.base_size) if run.state[n] == NodeState.SUCCEEDED]
        if done:
            self._tell(run.session, "R", [[run.seq, done, [run.results[n] for n in done]]])
        for node in sorted(run.failures):
            self._tell_failure(run, node, self.lsn)

    @staticmethod
    def _ending(run: Run) -> list[Any]:
        """How a run ended, with its first failure."""
        first = min((n for n in run.failures if run.state[n] == FAILED), default=min(run.failures, default=None))
        failed = None if first is None else [first, run.node_id(first), run.failures[first]]
        return [run.seq, run.key, str(run.run_state()), run.counts(), failed]

    def note(self, run: Run, node: int, event: str, detail: str) -> None:
        run.events.append((self.wall_ns, node, event, detail))

    # --- checks ---------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        """Raise InvariantBroken when the state contradicts itself. For tests and debug mode: it looks at every node."""
        try:
            for run in self.book.live.values():
                run.check_invariants()
            self.book.check_invariants()
        except AssertionError as broken:
            raise InvariantBroken(str(broken)) from broken

    @property
    def full(self) -> bool:
        """Whether submissions must wait (guarantee G5)."""
        return self.book.nodes_live >= limits.NODES_OPEN_MAX

    _on = {
        msg.SessionOpened: _on_session_opened,
        msg.SessionLost: _on_session_lost,
        msg.KindDefined: _on_kind_defined,
        msg.TasksSubmitted: _on_tasks,
        msg.MapSubmitted: _on_map,
        msg.GraphSubmitted: _on_graph,
        msg.SubmissionRefused: _on_refused,
        msg.CancelAsked: _on_cancel,
        msg.Offer: _on_offer,
        msg.Finished: _on_finished,
        msg.Spawned: _on_spawned,
        msg.AttemptFailed: _on_attempt_failed,
        msg.Returned: _on_returned,
        msg.Noted: _on_noted,
        msg.Told: _on_told,
        msg.TimePassed: _on_time,
    }


def hash_of(key: str, node: int, attempt: int) -> int:
    """A seed that is the same for the same attempt in every process (FNV-1a, 64 bit)."""
    value = 0xCBF29CE484222325
    for byte in f"{key}/{node}/{attempt}".encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def cancelled(when: str) -> dict[str, Any]:
    """The failure of an attempt that was cancelled."""
    return {"kind": "cancelled", "type": "", "message": f"cancelled {when}", "traceback": ""}


def brief(failure: dict[str, Any]) -> str:
    """A failure in a few words, for the story."""
    message = failure.get("message", "")
    text = message if isinstance(message, str) else "(text with special characters)"
    name = failure.get("type", "").rpartition(".")[2]
    return (f"{name}: {text}" if name else text)[:300]

"""Recovery: the log read again through the scheduler's own code.

`Replay(scheduler).fold(record)` for each record in order, then `finish`. Nothing here decides; what was decided stands
in the records. Records of runs that are gone (retired, their segments removed) are passed over.

Why one pass is enough: a submission record carries its kinds, a result record names run and nodes, and the log is in
the order of decisions, so a node is READY whenever its result is read. What follows from a node's end is not logged,
but taken at once (`actors.wave`): the engine may have been on its way when it wrote the next record.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import orjson

from actors import admission, batching, calls, kept, once, outcomes, reclass, revival, timetable, wave
from actors.cancels import cancel_orphans, note_cancel
from actors.growth import attach_spawned
from actors.imported import Incoming, committed
from actors.keys import Claim
from actors.outcomes import brief, cancelled, ending_words, retry_words
from actors.protocol import messages as msg
from actors.protocol.errors import NewerFormat, ProtocolError
from actors.protocol.graph import GraphColumns, decode
from actors.protocol.places import unpacked
from actors.protocol.records import Record, RecordType
from actors.protocol.states import FailureKind, NodeState
from actors.released import released
from actors.run import Run
from actors.saved_again import Touched
from actors.scheduler import Scheduler
from actors.state_column import BACKOFF, CANCELLED, CANCELLING, LEASED, PARKED, READY, where
from actors.timing import keep_frame

_GRAPH_HEAD = 5
_KNOWN_TYPES: Final = frozenset(map(int, RecordType))


class Replay:
    """Folds records into a fresh scheduler."""

    def __init__(self, scheduler: Scheduler, load_blob: Any = None) -> None:
        self.scheduler = scheduler
        self.records = 0
        self._used: dict[str, tuple[int, int]] = {}
        self._load_blob = load_blob
        self.opened: dict[str, Any] = {}
        self.counted: Counter[int] = Counter()
        self.touched: Touched | None = None
        """What records change, where somebody asks for it: see `actors.saved_again`."""
        self.let_go: Callable[[Run, int | None], None] | None = None
        """Called with each run, and when it ended, that the engine's memory let go of, before it is forgotten here."""
        self.loaded_lsn = 0
        """Of the checkpoint that it began with."""
        self.checkpoint_lsn = 0
        """Up to where the log may have been cut because there was a checkpoint."""
        self.offset_ns = 0
        """From the engine's clock to the wall clock, as of the latest opening; 0: no record told of one yet."""
        self.guessed: set[int] = set()  # runs that ended by a clock that is lost, at the nearest time that is known
        self.incoming = Incoming()

    def __init_subclass__(cls) -> None:
        """Who reads records otherwise does so by methods of the same names."""
        cls._on = {type_: getattr(cls, handler.__name__) for type_, handler in cls._on.items()}

    def fold(self, record: Record) -> None:
        """Fold one record.

        Raises:
            ProtocolError: It does not fit what came before.
            NewerFormat: Its type is not known: to pass over it would lose what it tells.
        """
        self.scheduler.lsn = record.lsn
        self.records += 1
        self.counted[record.type] += 1
        handler = self._on.get(record.type)
        if handler is None:
            if record.type not in _KNOWN_TYPES:
                raise NewerFormat(f"record {record.lsn} has type {record.type}, which this version does not know")
            return
        try:
            handler(self, record)
        except (LookupError, ValueError, TypeError, struct.error) as broken:
            raise ProtocolError(f"record {record.lsn} of type {record.type} does not fit: {broken!r}") from broken

    def saved(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        used = [[key, then_ns, busy_ns] for key, (then_ns, busy_ns) in self._used.items()]
        cut, guessed = self.checkpoint_lsn, {"guessed": sorted(self.guessed)} if self.guessed else {}
        return {"used": used, "opened": self.opened, "offset_ns": self.offset_ns, "checkpoint_lsn": cut, **guessed}

    def load(self, data: dict[str, Any]) -> None:
        """Take what `saved` made."""
        self._used = {key: (then_ns, busy_ns) for key, then_ns, busy_ns in data["used"]}
        self.opened, self.offset_ns = data["opened"], data["offset_ns"]
        self.checkpoint_lsn = data["checkpoint_lsn"]
        self.guessed.update(data.get("guessed", ()))

    def finish(
        self, now_ns: int, wall_ns: int, opened: dict[str, Any], next_lsn: int = 0
    ) -> tuple[dict[str, int], list[Any]]:
        """Queue what is ready, arm what waits, end what was being cancelled.

        Args:
            now_ns: The monotonic clock. wall_ns: the wall clock.
            opened: What the log shall tell of this opening.
            next_lsn: LSN of the next record, which may be later than that of the last one folded, because the log has
                marks of its own; 0 when there are none.

        Returns:
            What was found (counts), and the effects to carry out, the first of which logs that the engine opened.
        """
        scheduler = self.scheduler
        self.incoming = Incoming()
        scheduler.set_time(now_ns, wall_ns)
        scheduler.lsn = max(scheduler.lsn, next_lsn - 1)
        scheduler.log(
            RecordType.OPENED,
            orjson.dumps({**opened, "now_ns": now_ns, "wall_ns": wall_ns, "next_run_no": scheduler.book.next_run_no}),
        )
        scheduler.standing.settle(scheduler)
        found = {
            "records": self.records,
            "runs_open": 0,
            "nodes_open": 0,
            "runs_finished": len(scheduler.book.finished),
        }
        for run in list(scheduler.book.live.values()):
            found["runs_open"] += 1
            found["nodes_open"] += run.open
            self._resume(run)
        scheduler.obey_policy()  # not before: what was being cancelled is leased to nobody any more
        for key, (then_ns, busy_ns) in self._used.items():
            scheduler.giving.rates.restore({"wall_ns": then_ns, "busy_ns": {key: busy_ns}}, now_ns, wall_ns)
        scheduler.schedules.begin(scheduler)
        found["nodes_ready"] = sum(queue.size for queue in scheduler.ready.values())
        return found, scheduler.receive([msg.TimePassed()], now_ns, wall_ns)

    def _resume(self, run: Run) -> None:
        scheduler = self.scheduler
        run.own_rare().spawned.clear()
        run.counts()
        for node in where(run.state, PARKED):
            run.move(node, READY)
        timetable.arm(scheduler, run)
        scheduler.queue(run, where(run.state, READY))
        for node in where(run.state, CANCELLING):
            outcomes.end(
                scheduler,
                run,
                node,
                CANCELLED,
                run.rare.attempts.get(node, 0) + 1,
                cancelled("while the engine was down"),
                None,
            )
        cancel_orphans(scheduler, run)
        scheduler.finish_if_over(run)

    def _submitted(self, record: Record) -> None:
        payload = record.payload
        run = self._graph(payload) if payload[:1] == b"G" else self._tasks(payload)
        run.lsn = record.lsn
        self._live(run.no)

    def _live(self, no: int, nodes: Sequence[int] | None = None) -> Run | None:
        """The live run of this number, which a record is about to touch: results of these nodes, and what
        `saved_run.save_change` has whole; or anything (None)."""
        run = self.scheduler.book.live.get(no)
        if self.touched is not None:
            self.touched.note(no, run, nodes)
        return run

    def _graph(self, payload: bytes) -> Run:
        scheduler = self.scheduler
        length = int.from_bytes(payload[1:_GRAPH_HEAD], "little")
        session, no, wall_ns, seq = orjson.loads(payload[_GRAPH_HEAD : _GRAPH_HEAD + length])
        scheduler.set_time(scheduler.now_ns, wall_ns)
        scheduler.book.expect_no(no)
        header, columns = self._container(memoryview(payload)[_GRAPH_HEAD + length :])
        run = admission.admit_graph(scheduler, session, seq, header, columns)
        if (claim := Claim.of(header)) is not None:
            scheduler.keys.enter(claim, run.key, wall_ns, scheduler.lsn)
        if "schedule" in header:
            scheduler.schedules.started(run, header)
        run.tally = None  # leases are not logged: what is counted begins with `_resume`
        run.roots()
        return run

    def _container(self, body: Any) -> tuple[dict[str, Any], GraphColumns]:
        """Header and columns of a graph, whose body may be the name of a file."""
        if body[:1] == b"@":
            body = self._load_blob(bytes(body[1:]).decode())
        header, columns = self._decode(body)
        self.accept_node_types(header["kinds"])
        return header, columns

    def _decode(self, body: bytes | memoryview) -> tuple[dict[str, Any], GraphColumns]:
        return decode(body)

    def _tasks(self, payload: bytes) -> Run:
        scheduler = self.scheduler
        session, no, wall_ns, kinds, body = orjson.loads(payload[1:])
        scheduler.set_time(scheduler.now_ns, wall_ns)
        scheduler.book.expect_no(no)
        self.accept_node_types([data for _, data in kinds])
        interned = scheduler.interned([data for _, data in kinds])
        numbers = [number for number, _ in kinds]
        if payload[:1] == b"M":
            run = admission.admit_map(scheduler, session, interned, body[0], body[2])
        else:
            kind_of = None if len(numbers) == 1 else [numbers.index(row[1]) for row in body]
            run = admission.admit_tasks(scheduler, session, interned, kind_of, body)
        scheduler.book.weigh(run, len(payload))
        return run

    def accept_node_types(self, kinds: list[dict[str, Any]]) -> None:
        """Node types that the log knows and this start does not get a queue: their tasks wait, visibly."""
        for data in kinds:
            self.scheduler.giving.open(data["node_type"])

    def _completed(self, record: Record) -> None:
        scheduler = self.scheduler
        _, groups = orjson.loads(record.payload)
        for _, no, nodes, values, started_ns, ends in groups:
            nodes = unpacked(nodes, len(values))
            run = self._live(no, nodes)
            if run is None:
                continue
            if not self.offset_ns:
                self.offset_ns = max(scheduler.wall_ns, run.created_ns) - started_ns
                self.opened = {**self.opened, "guessed": True}
            keep_frame(run, self.offset_ns, record.payload, nodes, len(record.payload) // len(groups))
            for node in nodes if run.rare.ended else ():
                run.own_rare().ended.pop(node, None)
            if run.rare.spawned:
                self._live(no)  # it grows
                for _ in attach_spawned(scheduler, run, nodes):
                    pass
            run.succeed(nodes, values)
            wave.finish(run)
            self._close(run, record, self.offset_ns + started_ns + ends[-1])

    def _attempt(self, record: Record) -> None:
        no, node, outcome, attempt, failure, due, wall, times = orjson.loads(record.payload)
        scheduler = self.scheduler
        run = self._live(no, ())
        if run is None:
            return
        scheduler.set_time(scheduler.now_ns, wall)
        run.own_rare().attempts[node] = attempt
        if times[2]:
            run.own_rare().ended[node] = (times[0], times[1], times[2])
        run.rare.give_up_spawned(node)
        alone = batching.was_in_company(run, node, failure)
        if failure["kind"] in (FailureKind.CRASH, FailureKind.MEMORY) and not alone:
            run.own_rare().crashes[node] = run.rare.crashes.get(node, 0) + 1
        if outcome == "retry":
            class_ = reclass.lower(scheduler, run, node, attempt)
            if class_:
                self._live(no)  # the node is of another kind
            scheduler.note(run, node, *retry_words(attempt, failure, due - wall, class_))
            run.move(node, BACKOFF)
            run.own_rare().backoff_until[node] = due
            calls.forget_failed(run, node)
            return
        scheduler.note(run, node, outcome, ending_words(attempt, failure) if times[2] else brief(failure))
        run.own_rare().failures[node] = failure
        if outcome == "failed" and node not in run.rare.callers:
            run.own_rare().died[node] = wall
        if not times[2]:
            run.own_rare().ended_early[node] = wall
        run.settle([node], int(NodeState[outcome.upper()]))
        wave.finish(run)
        self._close(run, record, wall)

    def _cancel(self, record: Record) -> None:
        no, node, leased, *told = orjson.loads(record.payload)
        run = self._live(no, ())
        if run is None:
            return
        for n in leased:
            run.move(n, LEASED)
        if node is None:
            run.cancel_all()
        else:
            run.cancel_one(node)
            wave.finish(run)
        if told:  # older records do not say who asked when
            wall_ns, by = told
            self.scheduler.set_time(self.scheduler.now_ns, wall_ns)
            note_cancel(self.scheduler, run, node, by)
        self._close(run, record, self.scheduler.wall_ns)

    def _close(self, run: Run, record: Record, ended_ns: int) -> None:
        """Move the run to the finished ones if it is over."""
        if not run.open and self.scheduler.book.finish(run, record.lsn):
            self.scheduler.ended_ns[run.no] = ended_ns
            if "guessed" in self.opened:
                self.guessed.add(run.no)

    def _spawned(self, record: Record) -> None:
        _, no, node, block = orjson.loads(record.payload)
        run = self._live(no, ())
        if run is not None:
            self.accept_node_types(block["kinds"])
            run.own_rare().spawned[node] = (block, reclass.kinds_of_block(self.scheduler, run, node, block))

    def _lent(self, record: Record) -> None:
        no, node, wall_ns, *_ = orjson.loads(record.payload)
        run = self._live(no)
        if run is not None:
            self.scheduler.set_time(self.scheduler.now_ns, wall_ns)
            calls.enter(self.scheduler, run, node, *run.own_rare().spawned.pop(node))

    def _released(self, record: Record) -> None:
        numbers, book = released(record.payload), self.scheduler.book
        for no in numbers if self.let_go is not None else ():
            run = book.finished.get(no)
            if run is not None:
                self.let_go(run, self.scheduler.ended_ns.get(no))  # type: ignore[misc]
        book.forget(numbers)
        for no in numbers:
            self.scheduler.ended_ns.pop(no, None)
        self.guessed.difference_update(numbers)

    def _opened(self, record: Record) -> None:
        self.opened = opened = orjson.loads(record.payload)
        self.offset_ns = opened["wall_ns"] - opened["now_ns"]
        self.scheduler.book.expect_no_at_least(opened["next_run_no"])

    def _checkpoint(self, record: Record) -> None:
        self.checkpoint_lsn = max(self.checkpoint_lsn, orjson.loads(record.payload)[0])

    def _rates(self, record: Record) -> None:
        used = orjson.loads(record.payload)
        self._used.update((key, (used["wall_ns"], busy_ns)) for key, busy_ns in used["busy_ns"].items())

    def _keys(self, record: Record) -> None:
        again = self.scheduler.keys.restore(record.payload, record.lsn)
        if again is not None:
            session = self.scheduler.book.session(again[0])
            session.seq_last = max(session.seq_last, again[1])

    def _schedule(self, record: Record) -> None:
        self.scheduler.schedules.restore(record.payload, record.lsn)

    def _policy(self, record: Record) -> None:
        self.scheduler.standing.restore(record.payload, record.lsn)

    def _debounced(self, record: Record) -> None:
        self._live(once.restore(self.scheduler, record.payload, self._container))

    def _priority(self, record: Record) -> None:
        no, node, class_, wall_ns, asker = orjson.loads(record.payload)
        run = self._live(no)
        if run is not None:
            self.scheduler.set_time(self.scheduler.now_ns, wall_ns)
            reclass.enter(self.scheduler, run, node, class_, asker)

    def _dead(self, record: Record) -> None:
        if record.payload[:1] == kept.MARK:
            self._live(kept.restore(self.scheduler, record.payload, record.lsn, self.accept_node_types))
            return
        what, no, nodes, wall_ns, asker = orjson.loads(record.payload)
        book = self.scheduler.book
        run = self._live(no) or book.finished.get(no)
        if run is not None:
            self.scheduler.set_time(self.scheduler.now_ns, wall_ns)
            revival.enter(self.scheduler, run, what, nodes, asker)

    def _imported(self, record: Record) -> None:
        self.incoming.take(self.scheduler, record.payload, record.lsn, self.accept_node_types)
        for no in committed(record.payload):
            self._live(no)

    _on: ClassVar[dict[int, Callable[[Any, Record], None]]] = {
        int(RecordType.SUBMITTED): _submitted,
        int(RecordType.COMPLETED): _completed,
        int(RecordType.ATTEMPT): _attempt,
        int(RecordType.CANCEL): _cancel,
        int(RecordType.SPAWNED): _spawned,
        int(RecordType.LENT): _lent,
        int(RecordType.RELEASED): _released,
        int(RecordType.OPENED): _opened,
        int(RecordType.POLICY): _policy,
        int(RecordType.RATES): _rates,
        int(RecordType.KEYS): _keys,
        int(RecordType.PRIORITY): _priority,
        int(RecordType.SCHEDULE): _schedule,
        int(RecordType.DEBOUNCE): _debounced,
        int(RecordType.DEAD): _dead,
        int(RecordType.IMPORTED): _imported,
        int(RecordType.CHECKPOINT): _checkpoint,
    }

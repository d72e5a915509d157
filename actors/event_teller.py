"""What makes events of the records of a log: which runs are known, and how a transition is told.

`actors.event_fold` says what each record tells, and describes both ways of reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from actors.event_ahead import AheadRun, Late
from actors.event_kinds import ENDED, FOLDED_KINDS, TIMED_KINDS, Event
from actors.event_lean import lean_graph, made_lean, with_edges, without_values
from actors.event_names import changed, is_single, key_of, name_of, title_of
from actors.event_rows import FEW, FirstPlace, are_alike, of_nodes, of_singles
from actors.protocol import limits
from actors.protocol.errors import MainspringError
from actors.protocol.graph import GraphColumns
from actors.protocol.records import Record, RecordType
from actors.protocol.states import NodeState
from actors.replay import Replay
from actors.run import Run
from actors.scheduler import Scheduler
from actors.state_column import CANCELLED, SKIPPED

RUNS_KNOWN_MAX: Final = 10_000
"""Runs that are remembered while nothing is folded, with `limits.NODES_OPEN_MAX` nodes at most; the oldest go, and are
looked up again."""
_NO_RUNS: Final = ("engine.", "policy.", "schedule.")
_RUN_END: Final = {NodeState.FAILED: "run.failed", NodeState.CANCELLED: "run.cancelled"}


class Folding(NamedTuple):
    """What is told when a record is folded: states before (None: nothing can follow), what was told, when, and why."""

    before: bytes | None
    told: Sequence[int]
    ends_ns: Sequence[int]
    cause: str


def new_scheduler() -> Scheduler:
    """One that runs are folded into, and that forgets them only where the log says so."""
    return Scheduler([], retention={"runs": limits.NODES_PER_RUN_MAX, "nodes": limits.NODES_OPEN_MAX})


class EventTeller(Replay):
    """See the module.

    Args:
        wanted: Kinds of events; others are not made.
        find: The SUBMITTED record of a run number below an LSN, None when the log has none.
        history: The records that the log keeps below an LSN.
        load_blob: Opens a container that is a file.
        begins: The log is read from the first record there ever was, or that it keeps: there is no history.
        base: Brings a fresh replay to a checkpoint up to an LSN, or to whichever there is (None), where the log alone
            does not tell of all that was; returns its LSN, 0 where it did not.
    """

    def __init__(
        self,
        wanted: frozenset[str],
        find: Callable[[int, int], Record | None] = lambda no, lsn: None,
        history: Callable[[int], Iterable[Record]] = lambda lsn: (),
        load_blob: Any = None,
        *,
        begins: bool = False,
        base: Callable[[Replay, int | None], int] = lambda replay, upto_lsn: 0,
    ) -> None:
        super().__init__(new_scheduler(), load_blob)
        self.wanted = wanted
        self.folds = not wanted.isdisjoint(FOLDED_KINDS)
        self._passes_results = wanted <= TIMED_KINDS
        self.wall_ns = 0
        """The latest time that a record told."""
        self._find = find
        self._history = history
        self._base = base
        self._whole = begins
        self._muted = False
        self._out: list[Event] = []
        self._index = 0
        self._lsn = 0
        self._folding: Folding | None = None
        self._from_lsn = 0
        """All records from this one on were read."""
        self._saved: Replay | None = None
        self._saved_lsn = 0
        self._saved_tried = False
        self._late: Late | None = None
        self._ahead: dict[int, AheadRun] = {}
        self._about_runs = not all(kind.startswith(_NO_RUNS) for kind in wanted)

    def set_clock(self, offset_ns: int, wall_ns: int) -> None:
        """Reading begins after the engine opened: what leads from its clock to the wall clock, and the time about."""
        self.offset_ns, self.wall_ns = offset_ns, wall_ns

    def events(self, record: Record) -> list[Event]:
        """The events of the next record.

        Raises:
            ProtocolError: It does not fit what came before.
        """
        self._from_lsn = self._from_lsn or record.lsn
        if self._passes_results and record.type == RecordType.COMPLETED:
            return []
        if self._ahead and record.lsn > self._saved_lsn:
            self._catch_up()
        self._begin(record)
        try:
            self.fold(record)
        except MainspringError:
            if self._whole:
                raise
            self._read_history(record.lsn)
            self._begin(record)
            self.fold(record)
        self.scheduler.taken()  # what an engine would do: nobody does it here
        return self._out

    def _decode(self, body: bytes | memoryview) -> tuple[dict[str, Any], GraphColumns]:
        return lean_graph(body)

    def _begin(self, record: Record) -> None:
        self._out, self._index, self._lsn = [], 0, record.lsn

    # --- runs -----------------------------------------------------------------------------------------------------

    def _run(self, no: int) -> Run | None:
        """The run of this number; None: it is gone."""
        run = self._found(no)
        return run if run is None else with_edges(run)

    def _found(self, no: int) -> Run | None:
        """The same, as lean as it is."""
        book = self.scheduler.book
        run = book.live.get(no) or book.finished.get(no)
        if run is not None:
            return run
        if no in self._ahead:
            return self._ahead[no].run
        if self._whole:
            return self._saved_run(no)
        record = self._find(no, self._lsn)
        if record is None:
            run = self._saved_run(no)
            if run is not None:
                return run
        elif not self.folds:
            self._enter(record)
            return book.live.get(no)
        self._read_history(self._lsn)
        return self._found(no)

    def _saved_run(self, no: int) -> Run | None:
        """A run that only the checkpoint has; None: it does not, or it is no help."""
        if not self._saved_tried:
            self._saved_tried = True
            saved = Replay(new_scheduler(), self._load_blob)
            self._saved_lsn = self._base(saved, None)
            if self._saved_lsn and (not self.folds or self._saved_lsn >= self._from_lsn):
                self._saved = saved
        if self._saved is None:
            return None
        book = self._saved.scheduler.book
        run = book.live.get(no) or book.finished.get(no)
        if run is None:
            return None
        without_values(run)
        for kind in run.kinds:
            self.scheduler.giving.open(kind.node_type)
        ended_lsn = book.ended_lsn(no) if no in book.finished else 0
        if not self.folds:
            run.open = run.size  # nobody moves it
            self.scheduler.book.add(run, run.seq)
        elif self._lsn > self._saved_lsn:
            self._adopt(run, ended_lsn)
        else:
            self._late = self._late or self._read_late()
            self._ahead[no] = AheadRun(run, self._late, ended_lsn)
        return run

    def _read_late(self) -> Late | None:
        """What ends between here and the checkpoint; None: that is not kept any more."""
        try:
            return Late(record for record in self._history(self._saved_lsn + 1) if record.lsn >= self._lsn)
        except MainspringError:
            return None

    def _catch_up(self) -> None:
        """Reading came behind the checkpoint: the runs that it alone has are as it says, and are folded on."""
        for ahead in self._ahead.values():
            self._adopt(ahead.run, ahead.ended_lsn)
        self._ahead, self._late = {}, None

    def _adopt(self, run: Run, ended_lsn: int) -> None:
        book = self.scheduler.book
        if run.no not in book.live and run.no not in book.finished:
            book.add(run, run.seq)
            if ended_lsn:
                book.finish(run, ended_lsn)

    def _enter(self, record: Record) -> Run:
        """Know a run by its submission."""
        lsn, wall_ns, times = self.scheduler.lsn, self.scheduler.wall_ns, self.wall_ns
        next_no = self.scheduler.book.next_run_no
        Replay._submitted(self, record)
        book = self.scheduler.book
        run = made_lean(book.live[book.next_run_no - 1])
        book.expect_no_at_least(next_no)
        self.scheduler.lsn, self.wall_ns = lsn, times
        self.scheduler.set_time(0, wall_ns)
        while (
            not self.folds
            and len(book.live) > 1
            and (len(book.live) > RUNS_KNOWN_MAX or book.nodes_live > limits.NODES_OPEN_MAX)
        ):
            oldest = next(iter(book.live.values()))
            book.finish(oldest, 0)
            book.forget([oldest.no])
        return run

    def _read_history(self, lsn: int) -> None:
        """Fold what the log keeps below this record, and everything from now on."""
        kept = self._out, self._index, self._lsn
        self.scheduler = new_scheduler()
        self._saved, self._saved_tried, self._late, self._ahead = None, False, None, {}
        self._whole = self._muted = self.folds = True
        self._passes_results = False
        try:
            begun_lsn = self._base(self, lsn - 1)
            for record in self._history(lsn):
                if record.lsn <= begun_lsn:
                    continue
                self._lsn = record.lsn
                self._from_lsn = min(self._from_lsn, record.lsn)
                self.fold(record)
        finally:
            self._muted = False
        self._out, self._index, self._lsn = kept

    # --- telling --------------------------------------------------------------------------------------------------

    def _tell(
        self,
        kind: str,
        run: Run | None = None,
        node: int | None = None,
        *,
        at_ns: int = 0,
        cause: str = "",
        data: dict[str, Any] | None = None,
        name: str = "",
        key: str | None = None,
    ) -> None:
        """Add an event, if it is wanted; its place is taken anyhow."""
        index, self._index = self._index, self._index + 1
        if self._muted or kind not in self.wanted:
            return
        node_id = ""
        if run is not None:
            name, key = name or title_of(run), key or run.key
            if node is not None:
                name, key, single = name_of(run, node), key_of(run, node), is_single(run, node)
                node, node_id = (0, "0") if single else (node, run.node_id(node))
        self._out.append(Event(self._lsn, index, at_ns or self.wall_ns, kind, key, node, node_id, name, cause, data))

    def _tell_single(self, kind: str, run: Run, node: int, at_ns: int, data: dict[str, Any] | None = None) -> None:
        """Add an event about the run that a single task is."""
        self._tell(kind, at_ns=at_ns, key=key_of(run, node), name=name_of(run, node), data=data)

    def _tell_nodes(self, kind: str, run: Run, nodes: Sequence[int], times: Sequence[int]) -> None:
        """The same about many nodes: the hot path."""
        if self._muted or kind not in self.wanted:
            self._index += len(nodes)
        elif len(nodes) > FEW and are_alike(run, nodes):
            place = FirstPlace(self._lsn, self._index)
            self._index += len(nodes)
            self._out += of_nodes(place, kind, run, nodes, times)
        else:
            for node, at_ns in zip(nodes, times, strict=True):
                self._tell(kind, run, node, at_ns=at_ns)

    def _tell_singles(
        self, kind: str, run: Run, nodes: Sequence[int], times: Sequence[int], data: dict[str, Any] | None = None
    ) -> None:
        """The same about the runs that many single tasks are."""
        place = FirstPlace(self._lsn, self._index)
        self._index += len(nodes)
        if not self._muted and kind in self.wanted:
            self._out += of_singles(place, kind, run, nodes, times, data)

    def _close(self, run: Run, record: Record, ended_ns: int) -> None:
        """A record about this run is folded: tell what follows from it, last that the run is over."""
        step, self._folding = self._folding, None
        if step is not None and not self._muted:
            self._follow(run, step, ended_ns)
        was = run.no in self.scheduler.book.live
        super()._close(run, record, ended_ns)
        if was and not run.open:
            self.scheduler.schedules.reopened(run)  # its schedule need not know it any more
        if was and not run.open:
            self._tell_end(run, ended_ns)

    def _tell_end(self, run: Run, ended_ns: int) -> None:
        """The run is over."""
        if run.is_graph or run.is_map:
            counts = run.counts()
            data = {"succeeded": counts[3], "failed": counts[4], "cancelled": counts[5], "skipped": counts[6]}
            first = run.first_failure()
            cause = "" if first is None else f"node {run.node_id(first)}: {ENDED[run.state[first]].partition('.')[2]}"
            self._tell(f"run.{run.run_state()}", run, at_ns=ended_ns, cause=cause, data=data)

    def _follow(self, run: Run, step: Folding, at_ns: int) -> None:
        if not (run.is_graph or run.is_map):
            self._end_singles(run, step)
        if step.before is None:
            return
        told = frozenset(step.told)
        for node in changed(step.before, run.state):
            state = run.state[node]
            if node in told:
                continue
            if state in (CANCELLED, SKIPPED):
                self._tell(ENDED[state], run, node, at_ns=at_ns, cause=step.cause)
                self._end_single(run, node, at_ns)
            elif node < len(step.before) and step.before[node] in ENDED:
                self._tell("node.replayed", run, node, at_ns=at_ns, cause=step.cause)

    def _tell_ahead(self, run: Run, step: Folding, follows: Sequence[int], at_ns: int) -> None:
        """What follows, in a run that the checkpoint has as it was later."""
        if self._muted:
            return
        if not (run.is_graph or run.is_map):
            self._end_singles(run, step)
        for node in follows:
            self._tell(ENDED[run.state[node]], run, node, at_ns=at_ns, cause=step.cause)
            self._end_single(run, node, at_ns)
        if self._ahead[run.no].ended_lsn == self._lsn:
            self._tell_end(run, at_ns)

    def _end_singles(self, run: Run, step: Folding) -> None:
        nodes = step.told
        if len(nodes) > FEW and are_alike(run, nodes):  # results, and of single tasks only
            self._tell_singles("run.succeeded", run, nodes, step.ends_ns)
            return
        for node, end_ns in zip(nodes, step.ends_ns, strict=True):
            self._end_single(run, node, end_ns)

    def _end_single(self, run: Run, node: int, at_ns: int) -> None:
        """The end of a single task is that of the run that it is."""
        if is_single(run, node):
            self._tell_single(_RUN_END.get(NodeState(run.state[node]), "run.succeeded"), run, node, at_ns)

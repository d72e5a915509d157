"""The log of a state folder as a recording: what arrived when, how long each attempt took, and how it ended.

The log is folded as a recovery does it, so that graphs have the nodes that tasks added; beside each run stand the times
of its nodes. Times are on one axis without the stretches in which no engine ran: `axis(wall_ns)`.

Known limits: a task that never ended has no duration (`Recording.guess_ns` has one for it, the median of its kind).
Runs whose records are gone are not there, and runs that were carried over for their dead letters have no arrival.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import orjson

from actors import kept
from actors.protocol import limits
from actors.protocol.graph import GraphColumns, decode
from actors.protocol.kinds import Kind
from actors.protocol.places import unpacked
from actors.protocol.records import Record, RecordType
from actors.record_times import RecordTimes
from actors.revival import REPLAYED
from actors.run import Run
from runtime.mail.blobs import BlobStore
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.recovery import replay_of_all
from runtime.storage.resume import begin_if_cut, until_whole

_GRAPH_HEAD: Final = 5
_ASKED_FOR: Final = ("cancelled", "deadline")
"""Kinds of failures that do not come from the task."""
_ASYNC_SLOTS: Final = 100
"""Of a node type whose opening is not in the log, where tasks of one process overlapped."""
_SAMPLES_MAX: Final = 10_000
"""Durations of one kind that its median is taken of."""
_OVERLAP_NS: Final = 1_000_000


class RecordedRun:
    """One run, and its nodes' times by number: first start and last end on the axis (0: none), and how long the
    attempt took that succeeded (-1: none did)."""

    __slots__ = ("arrival_ns", "blocks", "cut", "ends", "failed", "payload", "run", "segments", "starts", "took")

    def __init__(self, run: Run, arrival_ns: int, payload: bytes) -> None:
        self.run = run
        self.arrival_ns = arrival_ns
        self.payload = payload
        self.starts = array("q", bytes(8 * run.size))
        self.ends = array("q", bytes(8 * run.size))
        self.took = array("q", b"\xff" * (8 * run.size))
        self.failed: dict[int, dict[int, tuple[dict[str, Any], int]]] = {}
        """By node and attempt: the failure, and how long it took."""
        self.cut: dict[int, int] = {}
        """How long nodes had run when they were stopped: they take longer than that."""
        self.segments: dict[int, list[tuple[int, bytes, int]]] = {}
        """By node: how long it ran until it waited for its calls, what it called, the number of the first of these."""
        self.blocks: dict[int, tuple[bytes, int]] = {}
        """By node: what it added when it succeeded, and the number of the first of that."""

    def grow(self) -> None:
        """Nodes were added to the run."""
        more = self.run.size - len(self.starts)
        if more > 0:
            self.starts.extend([0] * more)
            self.ends.extend([0] * more)
            self.took.extend([-1] * more)

    def ran(self, node: int, start_ns: int, end_ns: int) -> None:
        """An attempt."""
        if not self.starts[node]:
            self.starts[node] = start_ns
        self.ends[node] = max(self.ends[node], end_ns)


class Recording:
    """See the module. Made by `read_recording`."""

    def __init__(self) -> None:
        self.runs: dict[int, RecordedRun] = {}
        self.controls: list[tuple[int, str, tuple[Any, ...]]] = []
        """What was asked for at run time: when, "cancel", "priority" or "policy", and what."""
        self.node_types: dict[str, dict[str, Any]] = {}
        self.inferred: set[str] = set()
        """Node types of which no opening says how many workers they had."""
        self.policy: dict[str, Any] = {}
        self.opened_ns = self.first_lsn = 0
        self.busy_ns: Counter[str] = Counter()
        """What attempts took, by node type."""
        self.boots_ns: dict[str, list[int]] = {}
        """By node type: from the first opening to the first task of each of its workers, ascending."""
        self.revived = self.carried = 0
        """Nodes that somebody had run again after they had ended; runs that were kept for their letters."""
        self.gaps: list[tuple[int, int]] = []
        """Where on the axis no engine ran, and for how long it had not run by then, all together."""
        self._walls: list[int] = []
        self.samples: dict[str, list[int]] = defaultdict(list)
        """Durations by node type and task name; by node type alone under its name."""
        self.load_blob: Callable[[str], Any] | None = None
        self._guesses: dict[str, int] = {}

    def axis(self, wall_ns: int) -> int:
        """A time of the wall clock on the axis."""
        at = bisect_right(self._walls, wall_ns) - 1
        return wall_ns - (self.gaps[at][1] if at >= 0 else 0)

    def wall(self, axis_ns: int) -> int:
        """The wall clock at a time of the axis: it jumps over the stretches without an engine."""
        down_ns = 0
        for at_ns, total_ns in self.gaps:
            if at_ns > axis_ns:
                break
            down_ns = total_ns
        return axis_ns + down_ns

    def was_down(self, until_wall_ns: int, last_wall_ns: int) -> None:
        """An engine began at a time, and the one before had last said something."""
        down_ns = max(0, until_wall_ns - last_wall_ns)
        before = self.gaps[-1][1] if self.gaps else 0
        self.gaps.append((last_wall_ns - before, before + down_ns))
        self._walls.append(until_wall_ns)

    @property
    def down_ns(self) -> int:
        """How long no engine ran between the first opening and the end."""
        return self.gaps[-1][1] if self.gaps else 0

    def guess_ns(self, kind: Kind) -> int:
        """How long a task of this kind usually takes: the median of its kind, else of its node type, else nothing."""
        for name in (_name_of(kind), kind.node_type):
            if name not in self._guesses and self.samples.get(name):
                self._guesses[name] = int(median(self.samples[name]))
            if name in self._guesses:
                return self._guesses[name]
        return 0

    def container(self, payload: bytes) -> tuple[dict[str, Any], GraphColumns]:
        """Header and columns of a recorded submission of a graph, made anew."""
        length = int.from_bytes(payload[1:_GRAPH_HEAD], "little")
        body: Any = memoryview(payload)[_GRAPH_HEAD + length :]
        if body[:1] == b"@":
            if self.load_blob is None:
                raise RuntimeError("a recording without a folder has no blobs")
            body = self.load_blob(bytes(body[1:]).decode())
        return decode(body)


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read a state folder; an engine may run there.

    Args:
        path: The folder.

    Raises:
        StateFolderError, NotAStateFolder, NewerFormat, LogCorrupt: It cannot be read.
    """
    with StateFolder.open(path, create=False, owner=False) as folder:

        def read() -> Recording | None:
            reader = RecordingReader(BlobStore(folder.blobs_path, fsync=False).open)
            log = read_log(folder.log, DiskFiles(), live=True, after_lsn=reader.begin(folder))
            for record in log:
                reader.take(record)
            return None if log.passed_over else reader.done()

        return until_whole(folder, read)


def _name_of(kind: Kind) -> str:
    return f"{kind.node_type} {kind.name}"


class RecordingReader:
    """Folds the log, and notes beside each run what the fold does not keep."""

    def __init__(self, load_blob: Callable[[str], Any] | None = None) -> None:
        self.recording = recording = Recording()
        recording.load_blob = load_blob
        self._replay = replay_of_all(load_blob)
        self._times = RecordTimes()
        self._last_ns = 0
        self._pending: dict[tuple[int, int], bytes] = {}
        self._pids: dict[str, dict[int, int]] = defaultdict(dict)
        """By node type: the first start of each process of the present incarnation."""
        self._until: dict[int, int] = {}
        self._cancel_at = -1
        """Place among the controls of a cancel the time of which the next record tells."""
        self._overlaps: Counter[str] = Counter()
        self._most: Counter[str] = Counter()

    def begin(self, folder: StateFolder) -> int:
        """Know what was before the log begins, where a checkpoint has it: nothing is recorded of these runs."""
        after_lsn = begin_if_cut(folder, self._replay, DiskFiles())
        if after_lsn:  # the record of the opening is gone, but the checkpoint has what it said
            self._times.offset_ns = self._replay.offset_ns
            scheduler, opened = self._replay.scheduler, self._replay.opened
            told_ns = max([scheduler.wall_ns, opened.get("wall_ns", 0), *scheduler.ended_ns.values()])
            if opened:
                self._opened(opened, told_ns)
                self._last_ns = told_ns  # from here on the log tells
                self.recording.policy = scheduler.standing.as_logged(opened.get("policy")).to_json()
        return after_lsn

    def take(self, record: Record) -> None:
        """One record, in order."""
        recording = self.recording
        recording.first_lsn = recording.first_lsn or record.lsn
        at_ns = self._times.at(record)
        if record.type == RecordType.OPENED:
            self._opened(orjson.loads(record.payload), at_ns or 0)
        self._last_ns = max(self._last_ns, at_ns or 0)
        before = _BEFORE.get(record.type)
        if before is not None:
            before(self, record)
        self._replay.fold(record)
        if at_ns is not None and self._cancel_at >= 0:
            self._date_cancel(recording.axis(at_ns))
        after = _AFTER.get(record.type)
        if after is not None:
            after(self, record)

    def done(self) -> Recording:
        """The recording, when all records were taken."""
        self._count_workers()
        recording = self.recording
        for name in {kind.node_type for run in recording.runs.values() for kind in run.run.kinds}:
            if name not in recording.node_types:
                recording.inferred.add(name)
                several = self._overlaps[name] > 0
                recording.node_types[name] = {
                    "name": name,
                    "workers_min": max(1, self._most[name]),
                    "workers_max": max(1, self._most[name]),
                    "mode": "asyncio" if several else "process",
                    "slots": _ASYNC_SLOTS if several else 1,
                    "prefetch": None,
                    "recycle_tasks": None,
                    "recycle_rss_bytes": None,
                    "grace_ns": limits.GRACE_NS,
                }
        return recording

    def _opened(self, opened: dict[str, Any], wall_ns: int) -> None:
        recording = self.recording
        if recording.opened_ns:
            recording.was_down(wall_ns, self._last_ns)
            self._count_workers()
            if (policy := opened.get("policy")) is not None and policy != recording.policy:
                recording.controls.append((recording.axis(wall_ns), "policy", (policy,)))
        else:
            recording.opened_ns = wall_ns
            recording.policy = opened.get("policy") or {}
        recording.node_types.update((data["name"], data) for data in opened.get("node_types") or ())

    def _count_workers(self) -> None:
        """An incarnation is over: how many workers had work, and when they began."""
        for name, pids in self._pids.items():
            self._most[name] = max(self._most[name], len(pids))
            boots = sorted(start_ns - self.recording.opened_ns for start_ns in pids.values())
            self.recording.boots_ns.setdefault(name, boots)
        self._pids.clear()
        self._until.clear()

    def _attempt_ran(self, run: RecordedRun, node: int, start_ns: int, end_ns: int, pid: int) -> None:
        """Times on the axis."""
        kind = run.run.kind(node)
        name = kind.node_type
        self.recording.busy_ns[name] += end_ns - start_ns
        run.ran(node, start_ns, end_ns)
        self._pids[name].setdefault(pid, start_ns)
        if start_ns < self._until.get(pid, 0) - _OVERLAP_NS:
            self._overlaps[name] += 1
        self._until[pid] = max(self._until.get(pid, 0), end_ns)

    # --- records, before they are folded --------------------------------------------------------------------------

    def _completed(self, record: Record) -> None:
        recording, live = self.recording, self._replay.scheduler.book.live
        pid, groups = orjson.loads(record.payload)
        shift = self._times.offset_ns or 0
        for _, no, nodes, values, started_ns, ends in groups:
            found = recording.runs.get(no)
            if found is None or no not in live:
                continue
            run, start_ns = found.run, recording.axis(shift + started_ns)
            found.grow()
            base, before = run.size, 0
            for node, end in zip(unpacked(nodes, len(values)), ends, strict=True):
                took = max(0, end - before)
                self._attempt_ran(found, node, start_ns + before, start_ns + end, pid)
                found.took[node] = took
                self._sample(run.kind(node), took)
                before = end
                if node in run.rare.spawned and not run.cancel_asked:
                    found.blocks[node] = (self._pending.pop((no, node)), base)
                    base += run.rare.spawned[node][0]["n"]

    def _sample(self, kind: Kind, took_ns: int) -> None:
        for name in (_name_of(kind), kind.node_type):
            samples = self.recording.samples[name]
            if len(samples) < _SAMPLES_MAX:
                samples.append(took_ns)

    def _attempt(self, record: Record) -> None:
        no, node, _, attempt, failure, _, _, (start, end, pid) = orjson.loads(record.payload)
        found = self.recording.runs.get(no)
        if found is None or not end:
            return
        found.grow()
        axis = self.recording.axis
        self._attempt_ran(found, node, axis(start), axis(end), pid)
        if failure["kind"] in _ASKED_FOR:  # and will be again
            found.cut[node] = max(0, end - start)
        else:
            found.failed.setdefault(node, {})[attempt] = (failure, max(0, end - start))

    def _lent(self, record: Record) -> None:
        no, node, _, *times = orjson.loads(record.payload)
        found = self.recording.runs.get(no)
        if found is None or len(times) < 3 or (no, node) not in self._pending:
            return
        found.grow()
        start, end, pid = times
        self._attempt_ran(found, node, self.recording.axis(start), self.recording.axis(end), pid)
        segment = (max(0, end - start), self._pending.pop((no, node)), found.run.size)
        found.segments.setdefault(node, []).append(segment)

    def _spawned(self, record: Record) -> None:
        _, no, node, _ = orjson.loads(record.payload)
        self._pending[no, node] = record.payload

    def _cancel(self, record: Record) -> None:
        no, node, leased, *told = orjson.loads(record.payload)
        self._control("cancel", no, node)
        if leased and not told:  # an older record does not say when; the ends of what it stopped do
            self._cancel_at = len(self.recording.controls) - 1

    def _date_cancel(self, at_ns: int) -> None:
        controls, place = self.recording.controls, self._cancel_at
        before_ns, what, args = controls[place]
        controls[place], self._cancel_at = (max(before_ns, at_ns), what, args), -1

    def _priority(self, record: Record) -> None:
        no, node, class_, *_ = orjson.loads(record.payload)
        self._control("priority", no, node, class_)

    def _policy(self, record: Record) -> None:
        self._control("policy", orjson.loads(record.payload)["policy"])

    def _control(self, what: str, *args: Any) -> None:
        self.recording.controls.append((self.recording.axis(self._last_ns), what, args))

    def _dead(self, record: Record) -> None:
        if record.payload[:1] == kept.MARK:
            self.recording.carried += 1
            return
        what, _, nodes, *_ = orjson.loads(record.payload)
        if what == REPLAYED:
            self.recording.revived += len(nodes) if isinstance(nodes, list) else 1

    # --- after they were ------------------------------------------------------------------------------------------

    def _submitted(self, record: Record) -> None:
        book = self._replay.scheduler.book
        no = book.next_run_no - 1
        run = book.live.get(no) or book.finished.get(no)
        if run is not None:
            self.recording.runs[no] = RecordedRun(run, self.recording.axis(run.created_ns), record.payload)


_BEFORE: Final[dict[int, Callable[[RecordingReader, Record], None]]] = {
    int(RecordType.COMPLETED): RecordingReader._completed,
    int(RecordType.ATTEMPT): RecordingReader._attempt,
    int(RecordType.LENT): RecordingReader._lent,
    int(RecordType.SPAWNED): RecordingReader._spawned,
    int(RecordType.CANCEL): RecordingReader._cancel,
    int(RecordType.PRIORITY): RecordingReader._priority,
    int(RecordType.POLICY): RecordingReader._policy,
    int(RecordType.DEAD): RecordingReader._dead,
}
_AFTER: Final[dict[int, Callable[[RecordingReader, Record], None]]] = {
    int(RecordType.SUBMITTED): RecordingReader._submitted
}

"""The persister: puts records in order, commits them in groups, and says what is durable.

Events in, effects out; the host owns the disk. At most one `WriteLog` is out at a time; what arrives meanwhile waits
and goes out as one write when `Written` comes back. So groups form by themselves: the slower the disk, the larger
they are. Records that nobody waits for (results inside a graph) gather for `delay_ns`, or until they are many.

    state      appended   written   no_space   broken    due
    IDLE       WRITING                         FAILED
    WRITING    WRITING    IDLE      FULL       FAILED
    FULL       FULL                            FAILED    WRITING
    FAILED     FAILED                          FAILED

- FULL: the disk has no room. The batch is kept, intake is paused, and the write is tried again every
  `limits.DISK_FULL_RETRY_NS` until it succeeds; then `Resume`.
- FAILED: for ever. Nothing is acknowledged any more, records are dropped (nobody was told that they are durable).

Acknowledgement by durability: "fsync": when written and synced. "os": when written. "none": at once, except while FULL.

Invariants (see `check_invariants`): in flight + waiting are contiguous up to `last_lsn`; `durable_lsn` never falls
and is never above what the mode allows; something is in flight exactly in WRITING and FULL; a segment is given up
only when its last LSN is below the floor, all that was logged before the floor rose is written, and it is not the
last.
Concurrency: one mutator, `receive`. Known limits: one batch can be as large as everything that waits; the host keeps
that bounded by `back_pressure`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from actors.checkpoints import Checkpoints, CheckpointStatistics
from actors.protocol import limits
from actors.protocol.errors import InvariantBroken, ProtocolError
from actors.protocol.log_messages import (
    Append,
    Durable,
    FloorRaised,
    Halt,
    LogBroken,
    NoSpace,
    Pause,
    PersisterEffect,
    PersisterInput,
    RemoveSegments,
    Resume,
    RetryAt,
    Wanted,
    WriteLog,
    Written,
)
from actors.protocol.records import LSN_FIRST, Record
from actors.protocol.states import step

Durability = Literal["fsync", "os", "none"]

FLOORS_MAX: Final = 2
"""Floors that wait for a write: the oldest, which the next write releases, and the newest."""


# --- states -----------------------------------------------------------------------------------------------------


class PersisterState(StrEnum):
    """What the persister is doing."""

    IDLE = "idle"
    WRITING = "writing"
    FULL = "full"
    FAILED = "failed"


class PersisterEvent(StrEnum):
    """What can happen to it."""

    APPENDED = "appended"
    WRITTEN = "written"
    NO_SPACE = "no_space"
    BROKEN = "broken"
    DUE = "due"


PERSISTER_TABLE: Final[Mapping[PersisterState, Mapping[PersisterEvent, PersisterState]]] = MappingProxyType(
    {
        PersisterState.IDLE: {
            PersisterEvent.APPENDED: PersisterState.WRITING,
            PersisterEvent.BROKEN: PersisterState.FAILED,
        },
        PersisterState.WRITING: {
            PersisterEvent.APPENDED: PersisterState.WRITING,
            PersisterEvent.WRITTEN: PersisterState.IDLE,
            PersisterEvent.NO_SPACE: PersisterState.FULL,
            PersisterEvent.BROKEN: PersisterState.FAILED,
        },
        PersisterState.FULL: {
            PersisterEvent.APPENDED: PersisterState.FULL,
            PersisterEvent.DUE: PersisterState.WRITING,
            PersisterEvent.BROKEN: PersisterState.FAILED,
        },
        PersisterState.FAILED: {
            PersisterEvent.APPENDED: PersisterState.FAILED,
            PersisterEvent.BROKEN: PersisterState.FAILED,
        },
    }
)


@dataclass(frozen=True, slots=True)
class PersisterStatistics:
    """Snapshot for reports."""

    state: str
    durability: str
    last_lsn: int
    written_lsn: int
    durable_lsn: int
    pending_records: int
    pending_bytes: int
    writes: int
    records_written: int
    no_space_count: int
    records_dropped: int


class Persister:
    """Group commit for one log. See the module's header.

    Args:
        durability: What an acknowledgement promises.
        next_lsn: LSN of the first record to come.
        segments: Number and first LSN of each segment of the log, ascending; the last is active.
        delay_ns: How long records that nobody waits for may gather before they are written.
        checkpoints: When they are taken; None: never.
        active_bytes: In the active segment.
    """

    def __init__(
        self,
        durability: Durability = "fsync",
        next_lsn: int = LSN_FIRST,
        segments: Iterable[tuple[int, int]] = (),
        delay_ns: int = 0,
        checkpoints: Checkpoints | None = None,
        active_bytes: int = 0,
    ) -> None:
        self.durability: Final = durability
        self.state = PersisterState.IDLE
        self.last_lsn = next_lsn - 1
        self.written_lsn = next_lsn - 1
        self.durable_lsn = next_lsn - 1
        self.pending_bytes = 0
        self._in_flight: list[Record] = []
        self._in_flight_bytes = 0
        self._waiting: list[Record] = []
        self._retry_at_ns = 0
        self._delay_ns = delay_ns
        self._wanted_lsn = 0
        self._waiting_since_ns = 0
        self._paused = False
        self.checkpoints = checkpoints or Checkpoints()
        self._segment_bytes = active_bytes
        self._segments = deque(segments)
        self._floors: deque[tuple[int, int]] = deque()
        self._writes = 0
        self._records_written = 0
        self._no_space_count = 0
        self._records_dropped = 0

    def receive(self, batch: Iterable[PersisterInput], now_ns: int) -> list[PersisterEffect]:
        """Take a batch of events and the time; return what is to be done, in order."""
        effects: list[PersisterEffect] = []
        durable_before = self.durable_lsn
        for event in batch:
            self._on[type(event)](self, event, now_ns, effects)
        if self._floors:
            self._retain(effects)
        state = self.state
        if state is PersisterState.IDLE and self._waiting:
            if self._is_due(now_ns):
                self._step(PersisterEvent.APPENDED)
                self._take(effects)
            else:
                effects.append(RetryAt(self._waiting_since_ns + self._delay_ns))
        elif state is PersisterState.FULL and now_ns >= self._retry_at_ns:
            self._step(PersisterEvent.DUE)
            self._take(effects)
        if self.checkpoints.due and (take := self.checkpoints.look(*self._segments[-1], now_ns)) is not None:
            effects.append(take)
        if self.durable_lsn > durable_before:
            effects.insert(0, Durable(self.durable_lsn))
        return effects

    def _is_due(self, now_ns: int) -> bool:
        """Whether what waits is written now: wanted by somebody, old enough, or much."""
        return (
            not self._delay_ns
            or self._wanted_lsn > self.written_lsn
            or now_ns - self._waiting_since_ns >= self._delay_ns
            or self.pending_bytes >= limits.COMMIT_BYTES
        )

    @property
    def back_pressure(self) -> bool:
        """More waits for the disk than is good: read no more submissions until this is false."""
        return self._paused or self.pending_bytes > limits.LOG_PENDING_BYTES_MAX

    @property
    def settled(self) -> bool:
        """Nothing in flight or waiting."""
        return not self._in_flight and not self._waiting

    def statistics(self) -> PersisterStatistics:
        """Frozen snapshot."""
        return PersisterStatistics(
            state=str(self.state),
            durability=self.durability,
            last_lsn=self.last_lsn,
            written_lsn=self.written_lsn,
            durable_lsn=self.durable_lsn,
            pending_records=len(self._in_flight) + len(self._waiting),
            pending_bytes=self.pending_bytes,
            writes=self._writes,
            records_written=self._records_written,
            no_space_count=self._no_space_count,
            records_dropped=self._records_dropped,
        )

    def checkpoint_statistics(self) -> CheckpointStatistics:
        """Frozen snapshot of the checkpoints."""
        return self.checkpoints.statistics(self._segment_bytes)

    def _append(self, event: Append, now_ns: int, effects: list[PersisterEffect]) -> None:
        records = event.records
        if not self._waiting:
            self._waiting_since_ns = now_ns
        expected = self.last_lsn + 1
        size = 0
        for record in records:
            if record[0] != expected:
                raise ProtocolError(f"record {record[0]} follows LSN {expected - 1}; {self._story()}")
            expected += 1
            size += len(record[2])
        self.last_lsn = expected - 1
        if self.state is PersisterState.FAILED:
            self._records_dropped += len(records)
            return
        self._waiting += records
        self.pending_bytes += size
        if self.durability == "none" and not self._paused:
            self.durable_lsn = self.last_lsn

    def _want(self, event: Wanted, now_ns: int, effects: list[PersisterEffect]) -> None:
        self._wanted_lsn = max(self._wanted_lsn, event.lsn)

    def _written(self, event: Written, now_ns: int, effects: list[PersisterEffect]) -> None:
        if self.state is PersisterState.WRITING and event.lsn != self._in_flight[-1].lsn:
            raise ProtocolError(f"written up to {event.lsn}, asked for {self._in_flight[-1].lsn}; {self._story()}")
        self._step(PersisterEvent.WRITTEN)
        self.written_lsn = event.lsn
        self.pending_bytes -= self._in_flight_bytes
        self._records_written += len(self._in_flight)
        if not self._segments or event.segment_no > self._segments[-1][0]:
            self._segments.append((event.segment_no, event.segment_first_lsn))
            self.checkpoints.closed(event.segment_first_lsn - 1, self._segment_bytes)
            self._segment_bytes = 0
        self._segment_bytes += self._in_flight_bytes
        self._in_flight, self._in_flight_bytes = [], 0
        if self._paused:
            self._paused = False
            effects.append(Resume())
        self.durable_lsn = max(self.durable_lsn, self.last_lsn if self.durability == "none" else event.lsn)

    def _no_space(self, event: NoSpace, now_ns: int, effects: list[PersisterEffect]) -> None:
        self._step(PersisterEvent.NO_SPACE)
        self._no_space_count += 1
        self._retry_at_ns = now_ns + limits.DISK_FULL_RETRY_NS
        if not self._paused:
            self._paused = True
            effects.append(Pause(event.message))
        effects.append(RetryAt(self._retry_at_ns))

    def _broken(self, event: LogBroken, now_ns: int, effects: list[PersisterEffect]) -> None:
        already = self.state is PersisterState.FAILED
        self._step(PersisterEvent.BROKEN)
        self._records_dropped += len(self._in_flight) + len(self._waiting)
        self._in_flight, self._in_flight_bytes = [], 0
        self._waiting, self.pending_bytes = [], 0
        if not already:
            effects.append(Halt(event.message))

    def _floor_raised(self, event: FloorRaised, now_ns: int, effects: list[PersisterEffect]) -> None:
        """Remember the floor until all that is logged now is written: what made it rise may be among that."""
        lsn = event.lsn
        if len(self._floors) == FLOORS_MAX:
            lsn = max(lsn, self._floors.pop()[1])
        self._floors.append((self.last_lsn, lsn))

    def _step(self, event: PersisterEvent) -> None:
        following = PERSISTER_TABLE[self.state].get(event)
        self.state = following or step(PERSISTER_TABLE, self.state, event, self._story())  # raises, with the story

    def _take(self, effects: list[PersisterEffect]) -> None:
        """Hand over the batch in flight, with all that waits added to it."""
        self._in_flight = self._in_flight + self._waiting if self._in_flight else self._waiting
        self._waiting = []
        self._in_flight_bytes = self.pending_bytes
        self._writes += 1
        effects.append(WriteLog(self._in_flight, self.durability == "fsync"))

    def _retain(self, effects: list[PersisterEffect]) -> None:
        """Give up the oldest segments that hold nothing above the floor. Never while a write is out."""
        segments, floors, removed = self._segments, self._floors, False
        while floors and floors[0][0] <= self.written_lsn and self.state is not PersisterState.FAILED:
            _, floor_lsn = floors.popleft()
            while len(segments) > 1 and segments[1][1] <= floor_lsn:
                segments.popleft()
                removed = True
        if removed:
            effects.append(RemoveSegments(segments[0][0]))
            self.checkpoints.removed(segments[0][1])

    def _story(self) -> str:
        return f"persister {self.state}, last {self.last_lsn}, written {self.written_lsn}, durable {self.durable_lsn}"

    def check_invariants(self) -> None:
        """Raise InvariantBroken at the first contradiction."""
        pending = [*self._in_flight, *self._waiting]
        busy = self.state in (PersisterState.WRITING, PersisterState.FULL)
        acknowledgeable = self.last_lsn if self.durability == "none" else self.written_lsn
        failed = self.state is PersisterState.FAILED
        first = self.last_lsn - len(pending) + 1
        checks = {
            "something is in flight exactly in WRITING and FULL": bool(self._in_flight) == busy,
            "nothing waits in IDLE": self._delay_ns > 0 or not (self.state is PersisterState.IDLE and self._waiting),
            "pending bytes": self.pending_bytes == sum(len(record.payload) for record in pending),
            "bytes in flight": self._in_flight_bytes == sum(len(record.payload) for record in self._in_flight),
            "contiguous": [record.lsn for record in pending] == list(range(first, self.last_lsn + 1)),
            "written + pending = all": failed or self.written_lsn == first - 1,
            "durable is written": self.durable_lsn <= acknowledgeable,
            "FAILED keeps nothing": not (failed and pending),
            "FULL is paused": self._paused or self.state is not PersisterState.FULL,
            "segments ascend": list(self._segments) == sorted(self._segments),
        }
        broken = [name for name, holds in checks.items() if not holds]
        if broken:
            raise InvariantBroken(f"{'; '.join(broken)}; {self._story()}")

    _on: Final[Mapping[type, Callable[..., None]]] = MappingProxyType(
        {
            Append: _append,
            Wanted: _want,
            Written: _written,
            NoSpace: _no_space,
            LogBroken: _broken,
            FloorRaised: _floor_raised,
        }
    )

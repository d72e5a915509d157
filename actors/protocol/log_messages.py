"""What the persister is told (events) and what it wants done (effects); all frozen. Its states: `actors.persister`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.protocol.records import Record

# --- events -----------------------------------------------------------------------------------------------------


class Append(NamedTuple):
    """Records to be made durable, LSNs contiguous from the last ones."""

    records: Sequence[Record]


class Written(NamedTuple):
    """The write in flight succeeded, up to `lsn`; the log's active segment and the first LSN in it."""

    lsn: int
    segment_no: int
    segment_first_lsn: int


class NoSpace(NamedTuple):
    """The write in flight found no room and left no trace (`DiskFull`)."""

    message: str


class LogBroken(NamedTuple):
    """The log cannot be trusted with more (`LogFailed`)."""

    message: str


class FloorRaised(NamedTuple):
    """The scheduler needs no record below this LSN any more."""

    lsn: int


class Wanted(NamedTuple):
    """Somebody waits until this LSN is durable: write as soon as the disk is free."""

    lsn: int


class CheckpointTaken(NamedTuple):
    """The state up to this LSN is in the checkpoint, durable: so many bytes, in so much CPU time."""

    lsn: int
    bytes: int = 0
    cpu_ns: int = 0


class CheckpointFailed(NamedTuple):
    """It was not taken, and the one before is as it was."""

    message: str


PersisterInput = Wanted | Append | Written | NoSpace | LogBroken | FloorRaised


# --- effects ----------------------------------------------------------------------------------------------------


class WriteLog(NamedTuple):
    """Append a batch to the log; answer with Written, NoSpace or LogBroken."""

    records: Sequence[Record]
    sync: bool


class Durable(NamedTuple):
    """Everything up to this LSN is as durable as the mode promises."""

    lsn: int


class Pause(NamedTuple):
    """Take no more work in: the disk is full. Tell the users."""

    message: str


class Resume(NamedTuple):
    """There is room again: go on."""


class RetryAt(NamedTuple):
    """Call `receive` again (with an empty batch) at this time."""

    at_ns: int


class Halt(NamedTuple):
    """Stop the shard: the log failed. Everything acknowledged is safe."""

    message: str


class RemoveSegments(NamedTuple):
    """Remove the log segments with smaller numbers. Never while a WriteLog is out, so one thread can do both."""

    below: int


class TakeCheckpoint(NamedTuple):
    """Write aside the state as of this LSN, from the last checkpoint and the segments with numbers below this one.

    Answer with CheckpointTaken or CheckpointFailed."""

    lsn: int
    below: int


PersisterEffect = TakeCheckpoint | WriteLog | Durable | Pause | Resume | RetryAt | Halt | RemoveSegments

"""What the persister is told (events) and what it wants done (effects); all frozen. Its states: `actors.persister`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.protocol.records import Record

# --- events -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Append:
    """Records to be made durable, LSNs contiguous from the last ones."""

    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class Written:
    """The write in flight succeeded, up to `lsn`; the log's active segment and the first LSN in it."""

    lsn: int
    segment_no: int
    segment_first_lsn: int


@dataclass(frozen=True, slots=True)
class NoSpace:
    """The write in flight found no room and left no trace (`DiskFull`)."""

    message: str


@dataclass(frozen=True, slots=True)
class LogBroken:
    """The log cannot be trusted with more (`LogFailed`)."""

    message: str


@dataclass(frozen=True, slots=True)
class FloorRaised:
    """The scheduler needs no record below this LSN any more."""

    lsn: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Somebody waits until this LSN is durable: write as soon as the disk is free."""

    lsn: int


PersisterInput = Wanted | Append | Written | NoSpace | LogBroken | FloorRaised


# --- effects ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteLog:
    """Append a batch to the log; answer with Written, NoSpace or LogBroken."""

    records: Sequence[Record]
    sync: bool


@dataclass(frozen=True, slots=True)
class Durable:
    """Everything up to this LSN is as durable as the mode promises."""

    lsn: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Take no more work in: the disk is full. Tell the users."""

    message: str


@dataclass(frozen=True, slots=True)
class Resume:
    """There is room again: go on."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Call `receive` again (with an empty batch) at this time."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop the shard: the log failed. Everything acknowledged is safe."""

    message: str


@dataclass(frozen=True, slots=True)
class RemoveSegments:
    """Remove the log segments with smaller numbers. Never while a WriteLog is out, so one thread can do both."""

    below: int


PersisterEffect = WriteLog | Durable | Pause | Resume | RetryAt | Halt | RemoveSegments

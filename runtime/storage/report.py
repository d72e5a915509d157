"""What reading a log found, and the marks with which a log speaks of itself.

A MARK record is written and consumed by the storage. It ends a log in good order, or stands for LSNs that were lost.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from struct import Struct
from typing import Any, Final

from actors.protocol.records import LSN_FIRST
from actors.protocol.words import counted
from runtime.storage.segment import SegmentInfo

_GAP: Final = Struct("<BQ")
_MARK_GAP: Final = 1
MARK_CLOSED: Final = b"\x02"
"""Payload of the MARK record that ends a log in good order."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A damaged stretch that salvage skipped: bytes in a segment (0: a segment before it is missing), and lost LSNs.

    `lsn_to` is below `lsn_from` where no record was lost, or where a later gap of the report has the LSNs.
    """

    segment: str
    offset: int
    bytes: int
    lsn_from: int
    lsn_to: int


def gap_text(gap: Gap) -> str:
    """A gap in words: where, and what is lost."""
    where = f"gap in {gap.segment} at offset {gap.offset}" if gap.bytes else f"gap before {gap.segment}"
    found = f"{counted(gap.bytes, 'byte')} damaged" if gap.bytes else "bytes are missing"
    count = gap.lsn_to - gap.lsn_from + 1
    if count < 1:
        return f"{where}: {found}, no record lost that is not counted with another gap"
    lsns = f"LSN {gap.lsn_from}" if count == 1 else f"LSN {gap.lsn_from} to {gap.lsn_to}"
    return f"{where}: {found}, {counted(count, 'record')} lost, {lsns}"


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What reading a log found.

    `bytes_cut` are the bytes of the torn tail, behind the `bytes` of the last segment; `records_cut` counts whole but
    unacknowledged records among them. `gaps` lists damage skipped by salvage now, `mended` what `mend_log` replaced
    by marks, `known_gaps` counts LSNs lost to salvages up to now. `ends`: of a log in shards, where each one's file of
    the last segment ends. `lost`: what salvage gave up beside the log, in words.
    """

    segments: tuple[SegmentInfo, ...]
    records: int
    bytes: int
    next_lsn: int
    bytes_cut: int
    records_cut: int
    gaps: tuple[Gap, ...]
    known_gaps: int
    mended: tuple[Gap, ...] = ()
    ends: tuple[int, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Nothing cut, nothing lost."""
        return not (self.bytes_cut or self.gaps or self.known_gaps or self.lost)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        lists = {
            "segments": [info._asdict() for info in self.segments],
            "gaps": [asdict(gap) for gap in self.gaps],
            "mended": [asdict(gap) for gap in self.mended],
            "lost": list(self.lost),
        }
        plain = {**asdict(self), **lists, "clean": self.clean}
        del plain["ends"]
        return plain


@dataclass(slots=True)
class LogProgress:
    """What a reader of the log knows so far."""

    segments: list[SegmentInfo] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    next_lsn: int = LSN_FIRST
    bytes_cut: int = 0
    records_cut: int = 0
    gaps: list[Gap] = field(default_factory=list)
    known_gaps: int = 0
    ends: tuple[int, ...] = ()


def pass_mark(seen: LogProgress, lsn: int, payload: bytes) -> int:
    """Take notice of a MARK record; return the LSN that must follow it."""
    if len(payload) == _GAP.size and payload[0] == _MARK_GAP:
        seen.known_gaps += max(0, int(_GAP.unpack(payload)[1]) - lsn + 1)
    return lsn_behind_mark(lsn, payload)


def gap_payload(lsn_to: int) -> bytes:
    """Payload of the MARK record that stands for lost LSNs: those from its own to `lsn_to`."""
    return _GAP.pack(_MARK_GAP, lsn_to)


def lsn_behind_mark(lsn: int, payload: bytes) -> int:
    """The LSN that must follow a MARK record."""
    if len(payload) != _GAP.size or payload[0] != _MARK_GAP:
        return lsn + 1
    return max(lsn, int(_GAP.unpack(payload)[1])) + 1

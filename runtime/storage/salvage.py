"""Makes a log that salvage has read whole again, so that the next opening needs no salvage.

Each damaged segment is written anew: the valid stretches byte for byte, and in place of each gap one MARK record that
stands for the lost LSNs. The damaged file is kept beside it as `NAME.damaged`, for whoever wants to look closer.

Invariant: a crash at any point leaves, for each segment, the damaged or the mended file under its name.
Known limits: needs the space of the damaged segments once more; the `.damaged` files are never removed by us.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from actors.protocol.records import Record, RecordType
from runtime.storage.files import DAMAGED, Files, write_whole
from runtime.storage.reader import read_log
from runtime.storage.report import Gap, RecoveryReport, gap_payload
from runtime.storage.salvage_shards import mend_shards
from runtime.storage.segment import (
    BARRIER,
    SEGMENT_HEADER_BYTES,
    LogPlace,
    SegmentInfo,
    pack_records,
    pack_segment_header,
    segment_name,
)


def mend_log(place: LogPlace, files: Files, report: RecoveryReport) -> RecoveryReport:
    """Rewrite the segments in which salvage found gaps.

    Args:
        place: Folder and uuid of the log; no engine may be running on it.
        files: The seam to the disk.
        report: Of reading this log with `salvage=True`.

    Returns:
        The report of the mended log, to open a `LogWriter` with. Its gaps have become `mended`; `known_gaps` counts the
        LSNs that are lost.

    Raises:
        OSError: No space or no permission; the damaged log is as it was, or partly mended.
    """
    if place.shards > 1:
        return mend_shards(place, files, report)
    names = {segment_name(info.no): info for info in report.segments}
    gaps: dict[str, list[Gap]] = {}
    for gap in report.gaps:
        gaps.setdefault(gap.segment, []).append(gap)
    for name, found in gaps.items():
        data = files.read(os.path.join(place.folder, name))
        write_whole(files, place.folder, name + DAMAGED, data)
        if name in names:
            write_whole(files, place.folder, name, _mended(place, names[name], found, data))
        else:
            files.remove(os.path.join(place.folder, name))
    files.sync_folder(place.folder)
    log = read_log(place, files)
    for _ in log:
        pass
    return replace(log.report(), mended=report.gaps, lost=report.lost)


def _mended(place: LogPlace, info: SegmentInfo, gaps: Iterable[Gap], data: bytes) -> bytes:
    """The new content of a segment: header, valid stretches, and a MARK record for each gap that lost records."""
    pieces: list[bytes] = []
    first_lsn, position = info.first_lsn, SEGMENT_HEADER_BYTES
    for gap in gaps:
        pieces.append(data[position : gap.offset])
        position = max(position, gap.offset + gap.bytes)
        if gap.lsn_to >= gap.lsn_from:
            first_lsn = min(first_lsn, gap.lsn_from)
            mark = Record(gap.lsn_from, RecordType.MARK, gap_payload(gap.lsn_to))
            pieces += pack_records([mark], place.seed, gap.lsn_from, BARRIER)[0]
    pieces.append(data[position : info.bytes])
    return pack_segment_header(info.no, first_lsn, place) + b"".join(pieces)

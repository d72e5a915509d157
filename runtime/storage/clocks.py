"""The clock behind a hole: records of openings may be lost, and results say when they ended by the engine's clock only.

`openings.json` knows the openings too, so whoever folds a log with holes asks there which one was the last before the
record behind the hole. Where that file is missing, the replay takes the time of the latest submission
(`actors.replay`), and says of the runs that end by it that it is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from actors.protocol.records import Record
from actors.replay import Replay
from runtime.storage.openings import read_openings


def with_clocks(records: Iterable[Record], replay: Replay, state_dir: str, after_lsn: int) -> Iterator[Record]:
    """These records; before one that does not follow the last one, the replay is told the clock of its time.

    Args:
        records: In order, of the folder's log.
        replay: Folds each before it takes the next one.
        state_dir: The state folder.
        after_lsn: What the replay began with: the LSN of the checkpoint, or 0.
    """
    next_lsn, known = after_lsn + 1, None
    for record in records:
        if record.lsn != next_lsn:
            known = known or read_openings(state_dir)
            opening = None if known is None else known.before(record.lsn)
            if opening is not None:
                replay.offset_ns = opening.wall_ns - opening.now_ns
        next_lsn = record.lsn + 1
        yield record

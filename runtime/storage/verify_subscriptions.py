"""What `verify` says of the subscriptions: cursors that cannot be read or are beyond the log, letters that are damaged.

These are notes: the folder opens all the same, and whoever reads such a subscription is refused with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from actors.protocol.errors import StateFolderError
from actors.protocol.words import counted
from runtime.storage.cursors import FOLDER, damaged_letters, load, names_of
from runtime.storage.segment import SegmentInfo


def verify_subscriptions(
    state_dir: str, next_lsn: int, *, owned: bool, segments: Sequence[SegmentInfo] = ()
) -> list[str]:
    """Check the files of all subscriptions. Changes nothing.

    Args:
        state_dir: The state folder.
        next_lsn: Behind the end of its log.
        owned: An engine writes the log just now.
        segments: Of the log: those that are kept for a subscription are told.
    """
    folder, notes = os.path.join(state_dir, FOLDER), []
    for name in names_of(state_dir):
        try:
            cursor = load(folder, name)
        except StateFolderError as damaged:
            notes.append(damaged.message)
            continue
        if cursor is not None and cursor.lsn > next_lsn and not owned:
            notes.append(
                f"subscription {name!r} goes on with LSN {cursor.lsn}, but the log ends at LSN {next_lsn - 1}: "
                "it has lost its end, or is that of another folder"
            )
        kept = [] if cursor is None else [info for info in segments[:-1] if info.last_lsn >= cursor.lsn]
        if cursor is not None and kept and sum(info.bytes for info in kept) <= cursor.keep_bytes:
            notes.append(
                f"subscription {name!r} goes on with LSN {cursor.lsn}, so {counted(len(kept), 'closed segment')} of "
                "the log stay until it has read them; rt.unsubscribe removes it"
            )
        if lines := damaged_letters(folder, name):
            notes.append(f"subscription {name!r}: {counted(lines, 'dead letter')} damaged or cut off by a crash")
    return notes

"""What `verify` says of the subscriptions: cursors that cannot be read or are beyond the log, letters that are damaged.

These are notes: the folder opens all the same, and whoever reads such a subscription is refused with the reason.
"""

from __future__ import annotations

import os

from actors.protocol.errors import StateFolderError
from actors.protocol.words import counted
from runtime.storage.cursors import FOLDER, damaged_letters, load, names_of


def verify_subscriptions(state_dir: str, next_lsn: int, *, owned: bool) -> list[str]:
    """Check the files of all subscriptions. Changes nothing.

    Args:
        state_dir: The state folder.
        next_lsn: Behind the end of its log.
        owned: An engine writes the log just now.
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
        if lines := damaged_letters(folder, name):
            notes.append(f"subscription {name!r}: {counted(lines, 'dead letter')} damaged or cut off by a crash")
    return notes

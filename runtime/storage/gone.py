"""Runs that a checkpoint has let go of: where there is no archive file, nothing is left of them.

An archive that somebody removed cannot be told from one that never was, except by this: the engine archives, and runs
went by before the checkpoint. Those that only the log has let go of are not meant; the next checkpoint archives them.
"""

from __future__ import annotations

from actors.protocol.errors import EnvironmentFault, ProtocolError
from actors.replay import Replay
from actors.saved import load
from actors.scheduler import Scheduler
from runtime.storage.checkpoint import CheckpointFile
from runtime.storage.folder import StateFolder


def gone_of(replay: Replay) -> int:
    """How many runs had numbers, and are not there any more; 0 where none of them was archived."""
    book = replay.scheduler.book
    archives = bool(replay.opened.get("archives"))
    return max(0, book.next_run_no - 1 - len(book.live) - len(book.finished)) if archives else 0


def gone_before(folder: StateFolder) -> int:
    """The same of the checkpoint of a folder; 0 where there is none, or it cannot be read."""
    try:
        checkpoint = CheckpointFile.read(folder.path, folder.uuid)
        if checkpoint is None:
            return 0
        with checkpoint:
            load(replay := Replay(Scheduler([])), checkpoint.parts())
            return gone_of(replay)
    except (EnvironmentFault, ProtocolError):
        return 0

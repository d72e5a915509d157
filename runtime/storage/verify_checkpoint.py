"""What `verify` says of the checkpoint: whether it can be read and fits together, and the log goes on from it."""

from __future__ import annotations

from typing import NamedTuple

from actors.protocol.errors import CheckpointUnusable, ProtocolError
from actors.protocol.records import LSN_FIRST
from actors.protocol.words import counted
from actors.replay import Replay
from actors.saved import kept_runs, load
from actors.scheduler import Scheduler
from runtime.storage.checkpoint import CheckpointFile
from runtime.storage.files import Files
from runtime.storage.folder import StateFolder
from runtime.storage.report import RecoveryReport
from runtime.storage.resume import LIVE_TRIES_MAX, first_lsn, missing_checkpoint


class CheckpointFinding(NamedTuple):
    """What was found of a checkpoint: the record up to which it goes (0: there is none), what is wrong, what is not."""

    lsn: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def verify_checkpoint(folder: StateFolder, files: Files, log: RecoveryReport) -> CheckpointFinding:
    """Check the checkpoint of a folder, whose log was just read. Damage is in what it returns. Changes nothing."""
    for _ in range(LIVE_TRIES_MAX):
        begins = first_lsn(folder, files) or LSN_FIRST
        try:
            lsn, runs = _load(folder)
        except CheckpointUnusable as damaged:
            reach = "reaches" if begins == LSN_FIRST else "does not reach"
            return CheckpointFinding(0, (f"{damaged.message}; the log {reach} back without it",))
        except ProtocolError as strange:
            return CheckpointFinding(0, (f"the checkpoint cannot be loaded: {strange.message}",))
        if begins <= lsn + 1 or folder.owner_pid() is None:  # else the next one was taken meanwhile
            break
    if begins > lsn + 1:
        notes = ("the log was cut beyond the checkpoint, and says all by itself",) if lsn else ()
        missing = missing_checkpoint(folder, files, begins)
        return CheckpointFinding(lsn, () if missing is None else (missing,), notes if missing is None else ())
    if log.next_lsn <= lsn and folder.owner_pid() is None:
        return CheckpointFinding(lsn, (f"the log ends at LSN {log.next_lsn - 1}, its checkpoint at {lsn}",))
    return CheckpointFinding(lsn, (), (f"the checkpoint holds {counted(runs, 'run')}, up to LSN {lsn}",) if lsn else ())


def _load(folder: StateFolder) -> tuple[int, int]:
    """LSN and number of runs of the checkpoint; nothing of either when there is none."""
    checkpoint = CheckpointFile.read(folder.path, folder.uuid)
    if checkpoint is None:
        return 0, 0
    with checkpoint:
        replay = Replay(Scheduler([]))
        load(replay, checkpoint.parts())
        return checkpoint.lsn, len(kept_runs(replay))

"""Takes a checkpoint: the last one, and the closed segments of the log behind it, become the next one.

    checkpoint ──► load ──► fold segments ──► save what they touch ──► checkpoint, one transaction
                                └──► runs that are let go of ──► archive, before that (`archiving`)

Nothing is asked of the engine, and nothing here is on its way: it reads files that do not change any more, in a process
of its own. A crash at any point leaves the checkpoint before. A segment that vanishes meanwhile (the log was cut by the
rule that keeps what runs need) is an error, and the next try begins where the log does.

Memory: the whole state, as a recovery has it. Known limits: the time to load the last checkpoint is that of a recovery.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import Any, NamedTuple

from actors.archived import ArchiveRule
from actors.protocol.errors import CheckpointUnusable, LogCorrupt
from actors.protocol.records import LSN_FIRST
from actors.saved import kept_runs, load, save, save_touched
from runtime.storage.archiving import Archiver
from runtime.storage.checkpoint import CHECKPOINT_NAME, CheckpointFile
from runtime.storage.clocks import with_clocks
from runtime.storage.files import DAMAGED, Files
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.recovery import replay_of_all
from runtime.storage.resume import first_lsn, refuse_cut


class Taken(NamedTuple):
    """A checkpoint that was taken: up to which record, how many bytes were written for it, and when the archive is to
    be trimmed (wall clock ns; None: it is not known to be)."""

    lsn: int
    bytes: int
    due_ns: int | None = None


def take_checkpoint(
    folder: StateFolder, lsn: int, below: int, files: Files, load_blob: Any = None, rule: ArchiveRule | None = None
) -> Taken:
    """Bring the checkpoint of a state folder up to a record.

    Args:
        folder: The state folder; its engine may run.
        lsn: The last record of the segments with numbers below `below`, which are closed.
        below: As it says.
        files: The seam to the disk that has the log.
        load_blob: Reads what records have in files.
        rule: How long runs stay in the archive that memory lets go of; None: there is no archive.

    Raises:
        MainspringError, OSError: It was not taken, and the one before is as it was.
    """
    begins = first_lsn(folder, files)
    with ExitStack() as stack:
        checkpoint = stack.enter_context(_opened(folder, log_is_whole=begins == LSN_FIRST))
        if checkpoint.lsn >= lsn:
            return Taken(checkpoint.lsn, 0)
        replay = replay_of_all(load_blob)
        base_lsn = checkpoint.lsn if begins is not None and begins <= checkpoint.lsn + 1 else 0
        if base_lsn:
            replay.touched = load(replay, checkpoint.parts())
        archiver = None if rule is None else stack.enter_context(Archiver(folder, replay, rule, time.time_ns(), files))
        reader = read_log(folder.log, files, after_lsn=base_lsn, below=below)
        for record in with_clocks(reader, replay, folder.path, base_lsn):
            replay.fold(record)
        report = reader.report()
        if not base_lsn:
            refuse_cut(replay, report)
        if report.next_lsn != lsn + 1:
            raise LogCorrupt(f"the closed segments end at LSN {report.next_lsn - 1}, not at {lsn}")
        due_ns = None if archiver is None else archiver.finish(lsn)
        parts = save(replay) if replay.touched is None else save_touched(replay, replay.touched)
        written = checkpoint.put(lsn, parts, kept_runs(replay))
        checkpoint.give_back()
        return Taken(lsn, written, due_ns)


def _opened(folder: StateFolder, *, log_is_whole: bool) -> CheckpointFile:
    """The checkpoint to go on with; one that is damaged is set aside, where the log needs none."""
    try:
        return CheckpointFile.write(folder.path, folder.uuid)
    except CheckpointUnusable:
        if not log_is_whole:
            raise
        path = os.path.join(folder.path, CHECKPOINT_NAME)
        os.replace(path, path + DAMAGED)
        return CheckpointFile.write(folder.path, folder.uuid)

"""Where a recovery begins: at the checkpoint, if there is one, and goes on with the log behind it.

    checkpoint (LSN 0 to C) ──► load ──┐
    log        (LSN f to n) ──────────►└── fold C+1 to n ──► state          where f <= C + 1

- The log begins later (f > C + 1): it was cut by the rule that keeps what runs need, so it says all by itself, and the
  checkpoint is passed over.
- There is no checkpoint, and the log was cut because there was one: a CHECKPOINT record above the cut says so. Then
  something is missing, and nobody may go on as if it were not (`CheckpointUnusable`); only salvage does.
- Salvage passes over a checkpoint that is damaged or missing, reads what the log has, and writes an empty one, so that
  the folder is whole again and says from where on it knows what was.

Concurrency: `live` beside an engine, which may write a checkpoint and remove segments meanwhile; then it is begun anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

import orjson

from actors.protocol.errors import CheckpointUnusable, LogCorrupt
from actors.protocol.event_errors import LogOvertaken
from actors.protocol.records import LSN_FIRST, RecordType
from actors.replay import Replay
from actors.saved import load
from runtime.storage.checkpoint import CHECKPOINT_NAME, CheckpointFile
from runtime.storage.clocks import with_clocks
from runtime.storage.files import DAMAGED, Files
from runtime.storage.folder import StateFolder
from runtime.storage.reader import list_segments, read_log, segment_heads
from runtime.storage.report import RecoveryReport
from runtime.storage.stand_in import stand_in

T = TypeVar("T")
LIVE_TRIES_MAX: Final = 5
"""Readings of a folder beside an engine that removes segments, before it is given up."""
OVERTAKEN: Final = (CheckpointUnusable, LogCorrupt)
"""What a reader beside an engine meets where the log was cut behind a checkpoint since it looked, or at its end by the
start of another engine, which writes other records under the LSNs of those that nobody was told of. Or it is true."""


def resume(folder: StateFolder, replay: Replay, files: Files, *, salvage: bool = False) -> RecoveryReport:
    """Bring a fresh replay to the end of the log.

    Args:
        folder: The state folder.
        replay: Fresh.
        files: The seam to the disk that has the log.
        salvage: Read what can be read.

    Returns:
        What was found of the log. Writes nothing, but that salvage by the owner sets a damaged checkpoint aside, and
        puts an empty one in the place of one that the log needs (`stand_in`).

    Raises:
        LogCorrupt, NewerFormat: As `read_log`. CheckpointUnusable: It is damaged, or missing.
    """
    try:
        after_lsn = _begin(folder, replay, files, check_first=salvage)
    except CheckpointUnusable:
        if not salvage:
            raise
        path = os.path.join(folder.path, CHECKPOINT_NAME)
        if folder.owner:
            os.replace(path, path + DAMAGED)
            with suppress(FileNotFoundError):
                os.replace(path + "-journal", path + "-journal" + DAMAGED)
        after_lsn = 0
    report = _read(folder, replay, files, after_lsn, salvage=salvage, live=False)[0]
    if salvage and folder.owner and not after_lsn and (begins := _cut_at(replay, report)):
        report = replace(report, lost=(stand_in(folder, replay, begins, files),))
    return report


def resume_live(folder: StateFolder, fresh: Callable[[], Replay], files: Files) -> tuple[Replay, RecoveryReport]:
    """The same beside an engine: up to what the log has now.

    Args:
        folder: The state folder.
        fresh: Makes a replay.
        files: The seam to the disk.
    """

    def read() -> tuple[Replay, RecoveryReport] | None:
        replay = fresh()
        after_lsn = _begin(folder, replay, files)
        report, passed_over = _read(folder, replay, files, after_lsn, salvage=False, live=True)
        return None if passed_over else (replay, report)

    return until_whole(folder, read)


def until_whole(folder: StateFolder, read: Callable[[], T | None]) -> T:
    """Read a folder beside an engine, until that did not cut the log meanwhile.

    Args:
        folder: The state folder.
        read: Reads it from the beginning; None: the log was cut meanwhile.

    Raises:
        LogOvertaken: The engine is always faster. Whatever `read` raises, where that is no trace of an engine.
    """
    was_owned = folder.owner_pid() is not None
    for tries in range(1, LIVE_TRIES_MAX + 1):
        try:
            if (found := read()) is not None:
                return found
        except OVERTAKEN:
            owned = folder.owner_pid() is not None
            if tries == LIVE_TRIES_MAX or not (owned or was_owned):
                raise
            was_owned = owned
    raise LogOvertaken(f"{folder.path}: its engine cuts the log faster than it can be read")


def begin_if_cut(folder: StateFolder, replay: Replay, files: Files, upto_lsn: int | None = None) -> int:
    """Load the checkpoint where the log alone does not tell of all that was; for who reads the log otherwise.

    Args:
        folder: The state folder.
        replay: Fresh.
        files: The seam to the disk that has the log.
        upto_lsn: A later checkpoint is of no use; None: any is.

    Returns:
        Its LSN, up to which records are in it; 0 when it was not loaded.

    Raises:
        CheckpointUnusable: It is damaged, or it is missing and the log was cut because there was one.
    """
    begins = first_lsn(folder, files)
    if begins is None or begins == LSN_FIRST:
        return 0
    checkpoint = CheckpointFile.read(folder.path, folder.uuid)
    if checkpoint is not None:
        with checkpoint:
            if upto_lsn is not None and checkpoint.lsn > upto_lsn:
                return 0
            if begins <= checkpoint.lsn + 1:
                load(replay, checkpoint.parts())
                return checkpoint.lsn
    if (why := missing_checkpoint(folder, files, begins)) is not None:
        raise CheckpointUnusable(why)
    return 0


def missing_checkpoint(folder: StateFolder, files: Files, begins: int) -> str | None:
    """What is missing, where a log that begins with this LSN was cut because of a checkpoint that is not there."""
    cut_lsn = 0
    for record in read_log(folder.log, files, live=True, salvage=True):
        if record.type == RecordType.CHECKPOINT:
            cut_lsn = max(cut_lsn, orjson.loads(record.payload)[0])
    return None if begins > cut_lsn + 1 else _missing(begins)


def _missing(begins: int) -> str:
    return f"the log begins at LSN {begins}, and the checkpoint that holds what was before is missing"


def begin_to_salvage(folder: StateFolder, replay: Replay, files: Files) -> int:
    """The same for who reads what can be read: a checkpoint that cannot be used is passed over."""
    try:
        checkpoint = CheckpointFile.read(folder.path, folder.uuid)
        if checkpoint is not None:
            with checkpoint:
                for _ in checkpoint.parts():  # all of it, before any is loaded
                    pass
        return begin_if_cut(folder, replay, files)
    except CheckpointUnusable:
        return 0


def first_lsn(folder: StateFolder, files: Files) -> int | None:
    """The first LSN of the log, as far as a header says so; None when none does."""
    heads = segment_heads(folder.log, files, list_segments(folder.log, files))
    return next((lsn for _, lsn, _ in heads if lsn is not None), None)


def _begin(folder: StateFolder, replay: Replay, files: Files, *, check_first: bool = False) -> int:
    """Load the checkpoint if the log goes on from it; returns its LSN, 0 when it was not loaded."""
    checkpoint = CheckpointFile.read(folder.path, folder.uuid)
    if checkpoint is None:
        return 0
    with checkpoint:
        begins = first_lsn(folder, files)
        if begins is not None and begins > checkpoint.lsn + 1:
            return 0
        for _ in checkpoint.parts() if check_first else ():
            pass
        load(replay, checkpoint.parts())
        return checkpoint.lsn


def _read(
    folder: StateFolder, replay: Replay, files: Files, after_lsn: int, *, salvage: bool, live: bool
) -> tuple[RecoveryReport, bool]:
    reader = read_log(folder.log, files, salvage=salvage, live=live, after_lsn=after_lsn)
    for record in with_clocks(reader, replay, folder.path, after_lsn):
        replay.fold(record)
    report = reader.report()
    if not (after_lsn or salvage):
        refuse_cut(replay, report)
    return report, reader.passed_over


def refuse_cut(replay: Replay, report: RecoveryReport) -> None:
    """Raise CheckpointUnusable when this log, read alone, begins where a checkpoint should have been."""
    if begins := _cut_at(replay, report):
        raise CheckpointUnusable(_missing(begins))


def _cut_at(replay: Replay, report: RecoveryReport) -> int:
    """Where a log that was read alone begins, if it was cut because of a checkpoint; else 0."""
    begins = report.segments[0].first_lsn if report.segments else LSN_FIRST
    return begins if LSN_FIRST < begins <= replay.checkpoint_lsn + 1 else 0

"""Walks a state folder and says whether it is sound. Changes nothing, takes no lock, works beside a running engine.

Cross-checks: identity file, segment headers, every record's check, LSN continuity within and across segments, record
types known to this version, files that do not belong into the log folder, the checkpoint, the files of subscriptions.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Final

from actors.protocol.errors import LogCorrupt
from actors.protocol.records import RecordType
from actors.protocol.words import counted
from runtime.storage.files import ASIDE, DAMAGED, DiskFiles, Files
from runtime.storage.folder import StateFolder, is_log_name
from runtime.storage.reader import LogReader, read_log
from runtime.storage.report import RecoveryReport, gap_text
from runtime.storage.segment import LogPlace, segment_no
from runtime.storage.verify_checkpoint import verify_checkpoint
from runtime.storage.verify_subscriptions import verify_subscriptions

_KNOWN_TYPES: Final = {int(type_): type_.name for type_ in RecordType}


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Outcome of `verify`.

    `sound` means: it opens without salvage. `problems` say why it does not; `notes` are harmless findings. `log`
    describes what can be read, as salvage would; `record_types` counts the records by type; `checkpoint_lsn` is that of
    the checkpoint, 0 when there is none that can be read; `log_shards` in how many shards the log lies.
    """

    path: str
    uuid: str
    created: str
    sound: bool
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    record_types: dict[str, int]
    log: RecoveryReport
    checkpoint_lsn: int = 0
    log_shards: int = 1

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        lists = {"problems": list(self.problems), "notes": list(self.notes)}
        return {**asdict(self), **lists, "log": self.log.to_json()}


def verify(path: str | os.PathLike[str], *, files: Files | None = None) -> VerifyReport:
    """Check a state folder from end to end.

    Args:
        path: The folder.
        files: The seam to the disk.

    Returns:
        What was found; damage is in the report, not raised.

    Raises:
        StateFolderError: The folder cannot be read as a state folder at all.
        NewerFormat: A newer version wrote it.
    """
    files = files or DiskFiles()
    with StateFolder.open(path, create=False, owner=False, files=files) as folder:
        place = folder.log
        problems: list[str] = []
        reader = read_log(place, files, live=True)
        types, fault = _walk(reader)
        if fault is not None:
            reader = read_log(place, files, live=True, salvage=True)
            types, _ = _walk(reader)
        log = reader.report()
        if fault is not None and log.gaps:  # no gaps: the engine was just cutting off a batch
            problems.append(f"{fault.message} (segment {fault.segment}, offset {fault.offset})")
        problems += map(gap_text, log.gaps)
        checkpoint = verify_checkpoint(folder, files, log)
        problems += checkpoint.problems
        subscriptions = verify_subscriptions(
            folder.path, log.next_lsn, owned=folder.owner_pid() is not None, segments=log.segments
        )
        return VerifyReport(
            path=folder.path,
            uuid=str(folder.uuid),
            created=folder.created,
            sound=not problems,
            problems=tuple(problems),
            notes=(*_notes(place, files, log, types), *_other_logs(folder, files), *checkpoint.notes, *subscriptions),
            record_types={_KNOWN_TYPES.get(type_, f"type {type_}"): count for type_, count in sorted(types.items())},
            log=log,
            checkpoint_lsn=checkpoint.lsn,
            log_shards=folder.log_shards,
        )


def _other_logs(folder: StateFolder, files: Files) -> list[str]:
    """Logs that are not in use."""
    others = [name for name in sorted(files.list(folder.path)) if is_log_name(name) and name != folder.log_name]
    again = f"`reshard STATE {folder.log_shards}` removes it"
    return [f"{name}/: a log that is not in use, left over when it was moved; {again}" for name in others]


def _walk(reader: LogReader) -> tuple[Counter[int], LogCorrupt | None]:
    """Read to the end; count the records by type, and catch damage."""
    types: Counter[int] = Counter()
    try:
        for record in reader:
            types[record.type] += 1
    except LogCorrupt as fault:
        return types, fault
    return types, None


def _notes(place: LogPlace, files: Files, log: RecoveryReport, types: Counter[int]) -> list[str]:
    """Findings that do not keep the folder from opening."""
    notes: list[str] = []
    if log.bytes_cut:
        notes.append(f"{counted(log.bytes_cut, 'byte')} at the end: a write under way or a torn tail, not acknowledged")
    if log.known_gaps:
        notes.append(f"{counted(log.known_gaps, 'record')} lost in earlier damage and given up by salvage")
    unknown = sorted(set(types) - set(_KNOWN_TYPES))
    if unknown:
        notes.append(f"record types unknown to this version: {unknown}")
    for part in place.parts():
        try:
            names = files.list(part.folder)
        except FileNotFoundError:
            if not log.segments:
                return [*notes, "there is no log yet"]
            notes.append(f"{part.prefix or part.folder}: a folder of the log is missing")
            continue
        for name in sorted(names):
            if segment_no(name) is None:
                known = name.endswith((ASIDE, DAMAGED))
                notes.append(f"{part.prefix}{name}: left over by {'a crash or salvage' if known else 'someone else'}")
    return notes

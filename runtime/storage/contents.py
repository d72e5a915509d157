"""What a state folder holds beyond its bytes: whether the records fit each other, and the blobs that they refer to.

`check_contents` reads the log as salvage would (`sieve`), folds it as a recovery would, and compares with `blobs/`:

    log ──► Sieve ──► runs ──► values ──► blobs that they name ──► there? whole? ──► problems
                                              └──── files that nobody names ───────► notes

Reads only; takes no lock; works beside a running engine. That one may remove a run, blobs and all, between two looks,
so what is missing then is believed only if a second reading finds it missing, too.

Known limits: blobs are read from end to end, so a folder with much of them takes its time. What has gone wrong inside a
graph's own blob shows only where it does not fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from actors.once import folders
from actors.protocol.errors import PayloadError
from actors.protocol.words import counted
from actors.run import Run
from runtime.mail.blobs import PART, BlobStore
from runtime.mail.references import BlobRef, blobs_in, values_of
from runtime.storage.clocks import with_clocks
from runtime.storage.files import DiskFiles, Files
from runtime.storage.folder import StateFolder
from runtime.storage.reader import LogReader, read_log
from runtime.storage.resume import begin_to_salvage
from runtime.storage.sieve import Sieve

NAMED_MAX: Final = 20
"""Findings of one kind that are told one by one."""
READINGS_MAX: Final = 3
"""Of a folder with a running engine, before a blob counts as missing."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What the records and blobs of a folder say, and what salvage would make of them.

    `problems` are losses: something that is referred to is not there, or a record does not fit. `notes` are harmless.
    `records_unfit` counts those of the dropped records because of which a folder does not open.
    """

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    runs_open: int = 0
    runs_finished: int = 0
    runs_lost: int = 0
    nodes_again: int = 0
    records_kept: int = 0
    records_dropped: int = 0
    records_unfit: int = 0
    blobs_referred: int = 0
    blobs_missing: tuple[str, ...] = ()
    blobs_damaged: tuple[str, ...] = ()
    blobs_orphaned: int = 0
    bytes_orphaned: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


@dataclass(slots=True)
class Blobs:
    """The blobs that kept runs refer to, each with the place that names it."""

    sound: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)


def check_contents(path: str | os.PathLike[str], *, files: Files | None = None) -> Contents:
    """Check what the records and blobs of a state folder say.

    Args:
        path: The folder.
        files: The seam to the disk, for the log.

    Raises:
        StateFolderError, NewerFormat: It cannot be read as a state folder at all.
    """
    files = files or DiskFiles()
    with StateFolder.open(path, create=False, owner=False, files=files) as folder:
        missing: set[str] | None = None
        for reading in range(1, READINGS_MAX + 1):
            store = BlobStore(folder.blobs_path, fsync=False)
            sieve = Sieve(store.open, store.has_run)
            after_lsn = begin_to_salvage(folder, sieve.replay, files)
            reader = read_log(folder.log, files, salvage=True, live=True, after_lsn=after_lsn)
            for record in with_clocks(reader, sieve.replay, folder.path, after_lsn):
                sieve.take(record, reader.lost)
            if reader.passed_over and reading < READINGS_MAX:  # the log was cut meanwhile
                continue
            blobs = look_up(sieve, store)
            again = set(blobs.missing) if missing is None else missing & set(blobs.missing)
            if not again or again == missing or folder.owner_pid() is None:
                break
            missing = again
        for name in set(blobs.missing) - again:
            del blobs.missing[name]
        return _told(sieve, reader, blobs, folder)


def look_up(sieve: Sieve, store: BlobStore) -> Blobs:
    """Find and check all blobs that the sieve's runs refer to, and those that are still there of runs that are leaving.

    Args:
        sieve: Has taken the whole log.
        store: Of the same folder.
    """
    found = Blobs()
    book = sieve.scheduler.book
    kept = {name for run in (*book.live.values(), *book.finished.values(), *sieve.leaving) for name in folders(run)}
    for name in sieve.containers:
        if name.partition("/")[0] in kept:
            found.sound[name] = "a graph"
    for run in (*book.live.values(), *book.finished.values()):
        for place, wire in stored_values(run):
            for ref in blobs_in(wire, lambda ref: _content(store, ref)):
                if ref.name not in found.sound:
                    _judge(store, ref, f"{place} of run {run.key}", found)
    leaving = Blobs()
    for run in sieve.leaving:
        for place, wire in stored_values(run):
            for ref in blobs_in(wire, lambda ref: _content(store, ref)):
                _judge(store, ref, f"{place} of run {run.key}, which was let go of", leaving)
    found.sound = {**leaving.sound, **found.sound}
    return found


def orphans(folder: str, known: Blobs) -> Iterator[tuple[str, int]]:
    """Names and sizes of the files in the blob folder that nothing refers to."""
    for at, _, names in os.walk(folder):
        for leaf in names:
            full = os.path.join(at, leaf)
            name = os.path.relpath(full, folder)
            if name not in known.sound and name not in known.damaged:
                try:
                    yield name, os.stat(full).st_size
                except FileNotFoundError:  # an engine removed it
                    continue


def _told(sieve: Sieve, reader: LogReader, blobs: Blobs, folder: StateFolder) -> Contents:
    book, lost = sieve.scheduler.book, sieve.lost_runs() if sieve.misfits or reader.lost else []
    problems = [f"record {lsn} does not fit: {text}" for lsn, text in sieve.misfits[:NAMED_MAX]]
    problems += _more(len(sieve.misfits), "record", "not fit")
    if lost:
        problems.append(f"the submissions of {counted(len(lost), 'run')} are lost: number {_some(lost)}")
    if sieve.nodes_again:
        problems.append(f"the ends of {counted(sieve.nodes_again, 'node')} rest on what is lost")
    for what, found in (("missing", blobs.missing), ("damaged", blobs.damaged)):
        problems += [f"blob {name} is {what}: {place}" for name, place in list(found.items())[:NAMED_MAX]]
        problems += _more(len(found), "blob", what)
    owned = folder.owner_pid() is not None
    files = [] if owned else list(orphans(folder.blobs_path, blobs))
    notes = []
    if files:
        parts = sum(name.endswith(PART) for name, _ in files)
        size = sum(size for _, size in files)
        text = f"blobs/: nothing refers to {counted(len(files), 'file')} of {counted(size, 'byte')}"
        notes.append(text + (f", {parts:,} of them written by half" if parts else ""))
    return Contents(
        problems=tuple(problems),
        notes=tuple(notes),
        runs_open=len(book.live),
        runs_finished=len(book.finished),
        runs_lost=len(lost),
        nodes_again=sieve.nodes_again,
        records_kept=sieve.passed,
        records_dropped=sieve.stopped,
        records_unfit=len(sieve.misfits),
        blobs_referred=len(blobs.sound) + len(blobs.missing) + len(blobs.damaged),
        blobs_missing=tuple(blobs.missing),
        blobs_damaged=tuple(blobs.damaged),
        blobs_orphaned=len(files),
        bytes_orphaned=sum(size for _, size in files),
    )


def stored_values(run: Run) -> Iterator[tuple[str, Any]]:
    """The wire values that a run holds, and what each is."""
    items = run.items or ()
    for node, item in enumerate(items):
        if item is not None:
            for value in values_of(run.kind(node).shape, item):
                if type(value) is dict:
                    yield f"an argument of node {run.node_id(node)}", value
    for node, value in enumerate(run.results):
        if type(value) is dict:
            yield f"the result of node {run.node_id(node)}", value


def _content(store: BlobStore, ref: BlobRef) -> Any:
    try:
        return store.read(ref.name, ref.size, ref.checksum)
    except PayloadError:
        return None


def _judge(store: BlobStore, ref: BlobRef, place: str, found: Blobs) -> None:
    try:
        view = store.open(ref.name)
    except PayloadError:
        found.missing[ref.name] = place
        return
    try:
        store.read(view, ref.size, ref.checksum)
        found.sound[ref.name] = place
    except PayloadError:
        found.damaged[ref.name] = place


def _more(count: int, noun: str, what: str) -> list[str]:
    return [f"… and {counted(count - NAMED_MAX, f'more {noun}')}: {what}"] if count > NAMED_MAX else []


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:NAMED_MAX]))
    return shown + (", …" if len(numbers) > NAMED_MAX else "")

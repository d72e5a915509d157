"""Runs as JSON Lines: out of a state folder, and into another one.

    {"type":"export","version":"1.0","runs":2}
    {"type":"blob","run":...,"name":...,"size":...,"checksum":...,"at":0,"data":base64}      large values, in pieces
    {"type":"run",...} {"type":"node",...} ... {"type":"story",...} ... {"type":"end",...}    see `actors.exported`

`export_runs` reads only, also beside a running engine; what it writes is what is durable. `import_runs` holds the
folder's lock and enters all runs of a file or none: they count from the last record on that it writes (see
`actors.imported`), and each was put together by recovery's own code before. Open runs go on when the folder is opened.

Crash of an import: records that mean nothing, and blobs that nobody refers to, which the next engine removes.
Known limits: an export holds the runs of the folder in memory, an import those of the file besides. Schedules, policy
and rates are the program's, and stay.
"""

from __future__ import annotations

import binascii
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, Final

import orjson

from actors.exported import FORM_VERSION, lines_of
from actors.imported import commit_payload, lines_payload
from actors.protocol import limits
from actors.protocol.errors import (
    DiskFull,
    DuplicateRun,
    ExportFileError,
    InternalError,
    PayloadError,
    StateFolderError,
)
from actors.protocol.records import Record, RecordType
from actors.protocol.states import RunState
from actors.replay import Replay
from actors.run import Run
from actors.scheduler import Scheduler
from runtime.mail.blobs import PART, BlobStore
from runtime.mail.references import BlobRef, blobs_in
from runtime.storage.contents import stored_values
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.new_folder import unless_failed
from runtime.storage.recovery import read_runs
from runtime.storage.resume import resume
from runtime.storage.transfer_archived import ArchivedRuns, not_in_memory, refuse_text
from runtime.storage.wal import NO_SPACE, LogWriter

PIECE_BYTES: Final = 3 << 20
"""Of a blob, in one line; a multiple of three, so that pieces have no padding."""
RECORD_LINES: Final = 4096
RECORD_BYTES: Final = 4 << 20
"""Lines of a run that go into one record."""
_ORDER: Final = {"run": {"end", "blob", "export"}, "node": {"run", "node"}, "story": {"node", "story"}}
"""What may stand before a line of each type."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """What was exported or imported. `missing` are blobs that were not there; `crowded`: more than a folder keeps."""

    runs: int
    nodes: int
    blobs: int
    missing: tuple[str, ...] = ()
    crowded: bool = False


# --- export -------------------------------------------------------------------------------------------------------


def export_runs(
    path: str | os.PathLike[str], out: IO[bytes], keys: Sequence[str] = (), *, archived: bool = False
) -> Transfer:
    """Write runs of a state folder as JSON Lines.

    Args:
        path: The folder.
        out: Where to write.
        keys: Ids of runs, or of single tasks of a bundle, which is exported whole; all runs where there are none.
        archived: Also runs of the archive; of several runs of an id the latest.

    Returns:
        How much was written, and which large values were not there.

    Raises:
        UnknownRun: One of them is not known; nothing was written. ConfigurationError: `out` is a text file.
        StateFolderError, LogCorrupt: The folder cannot be read. OSError: `out` cannot be written.
    """
    refuse_text(out)
    scheduler = read_runs(path)
    past = _past(path, scheduler, keys) if archived else None
    left = [key for key in keys if past is None or key not in past.found]
    runs = _chosen(path, scheduler, left) if left or not keys else []
    count = len(runs) + (0 if past is None else len(past))
    by_run = scheduler.keys.by_run()
    nodes = blobs = 0
    missing: list[str] = []
    with StateFolder.open(path, create=False, owner=False) as folder:
        store = BlobStore(folder.blobs_path, False, folder.archived_blobs_path)
        _put(out, {"type": "export", "version": FORM_VERSION, "runs": count})
        for owner, run in chain(() if past is None else past.runs(), ((scheduler, run) for run in runs)):
            for ref in _blobs_of(run, store):
                blobs += 1
                if not _put_blob(out, run, ref, store):
                    missing.append(ref.name)
            for line in lines_of(owner, run, by_run):
                _put(out, line)
            nodes += run.size
    out.flush()
    return Transfer(count, nodes, blobs - len(missing), tuple(missing))


def _past(path: str | os.PathLike[str], scheduler: Scheduler, keys: Sequence[str]) -> ArchivedRuns:
    book = scheduler.book
    known = {run.key for run in (*book.live.values(), *book.finished.values())}
    return ArchivedRuns(path, [key for key in keys if book.find(key) is None], known, everything=not keys)


def _chosen(path: str | os.PathLike[str], scheduler: Scheduler, keys: Sequence[str]) -> list[Run]:
    book = scheduler.book
    if not keys:
        return [run for _, run in sorted({**book.live, **book.finished}.items())]
    found: dict[int, Run] = {}
    for key in keys:
        place = book.find(key)
        if place is None:
            raise not_in_memory(path, key)
        found[place[0].no] = place[0]
    return [run for _, run in sorted(found.items())]


def _put(out: IO[bytes], line: dict[str, Any]) -> None:
    out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def _blobs_of(run: Run, store: BlobStore) -> list[BlobRef]:
    def read(ref: BlobRef) -> Any:
        try:
            return store.read(ref.name, ref.size, ref.checksum)
        except PayloadError:
            return None

    return list(dict.fromkeys(ref for _, wire in stored_values(run) for ref in blobs_in(wire, read)))


def _put_blob(out: IO[bytes], run: Run, ref: BlobRef, store: BlobStore) -> bool:
    """Write a blob in pieces; one that is gone or damaged is named, and has no data."""
    head = {"type": "blob", "run": run.key, "name": ref.name, "size": ref.size, "checksum": ref.checksum}
    try:
        view = store.read(ref.name, ref.size, ref.checksum)
    except PayloadError:
        _put(out, {**head, "missing": True})
        return False
    for at in range(0, max(1, len(view)), PIECE_BYTES):
        data = binascii.b2a_base64(view[at : at + PIECE_BYTES], newline=False).decode()
        _put(out, {**head, "at": at, "data": data})
    return True


# --- import -------------------------------------------------------------------------------------------------------


def import_runs(path: str | os.PathLike[str], lines: Iterable[bytes]) -> Transfer:
    """Enter the runs of an export into a state folder, all of them or none.

    Args:
        path: The folder; made where it is missing.
        lines: Of the file.

    Returns:
        How much was entered, and which large values the export lacked.

    Raises:
        ExportFileError: The lines are not an export that this version reads; the message names the line.
        DuplicateRun: The folder has one of the runs, or holds what only one run can.
        StateFolderInUse: An engine has the folder open. StateFolderError, LogCorrupt: It cannot be used.
        DiskFull: There is no room.

    Crash: see the module.
    """
    files = DiskFiles()
    with unless_failed(path), StateFolder.open(path) as folder:
        store = BlobStore(folder.blobs_path)
        replay = Replay(Scheduler([]), store.open)
        writer = LogWriter(folder.log, files, resume(folder, replay, files))
        try:
            return enter_runs(replay, writer, store, lines)
        except OSError as fault:
            if fault.errno in NO_SPACE:
                raise DiskFull(f"no space in {folder.path}: {fault}") from fault
            raise StateFolderError(f"the runs cannot be imported: {fault}") from fault


def enter_runs(replay: Replay, writer: LogWriter, store: BlobStore, lines: Iterable[bytes]) -> Transfer:
    """Enter the runs of an export into a log, and close it.

    Args:
        replay: Has folded the log.
        writer: Of the same log.
        store: Where large values go.
        lines: Of the file.

    Raises:
        ExportFileError, DuplicateRun, DiskFull, LogFailed: As `import_runs`. OSError: a blob cannot be written.
    """
    try:
        done = _Import(replay, writer, store).take(lines)
    except Exception:
        writer.close()
        raise
    except BaseException:  # Ctrl-C, perhaps in the middle of a write: what is there now is as after a crash
        writer.abandon()
        raise
    writer.close()
    return done


class _Import:
    """One import, line by line."""

    def __init__(self, replay: Replay, writer: LogWriter, store: BlobStore) -> None:
        replay.incoming.refuses = True
        self._replay = replay
        self._writer = writer
        self._store = store
        self._first_no = self._no = replay.scheduler.book.next_run_no
        self._expected = 0
        self._runs: dict[str, None] = {}
        self._run = ""
        self._before = ""
        self._pending: list[bytes] = []
        self._pending_bytes = self._nodes = self._blobs = 0
        self._sessions: dict[str, set[int]] = {}
        self._claims: set[str] = set()
        self._missing: list[str] = []
        self._part = ""
        self._begins = False
        self._line_no = 0

    def take(self, lines: Iterable[bytes]) -> Transfer:
        """Read all, then commit."""
        for self._line_no, text in enumerate(lines, 1):
            text = text.strip()
            if text:
                self._take(text)
        if not self._before:
            raise ExportFileError("the file is empty")
        whole = self._no - self._first_no
        if self._before not in ("end", "export") or whole != self._expected:
            raise ExportFileError(f"the file ends early: {whole:,} of {self._expected:,} runs are in it")
        if self._runs:
            self._write(commit_payload(self._first_no, self._no - 1, time.time_ns()))
        book = self._replay.scheduler.book
        return Transfer(len(self._runs), self._nodes, self._blobs, tuple(self._missing), book.crowded)

    def _take(self, text: bytes) -> None:
        if len(text) > limits.RECORD_BYTES_MAX // 2:
            raise self._wrong(f"it has more than {limits.RECORD_BYTES_MAX // 2:,} bytes")
        try:
            line = orjson.loads(text)
            type_ = line["type"]
            if not self._before:
                self._begin(line)
            elif type_ == "blob":
                self._blob(line)
            elif type_ in ("run", "node", "story", "end"):
                self._of_run(type_, line, text)
            else:
                raise self._wrong(f"unknown type {type_!r}")
            self._before = type_
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as broken:
            raise self._wrong(f"{type(broken).__name__}: {broken}") from broken

    def _wrong(self, text: str) -> ExportFileError:
        return ExportFileError(f"line {self._line_no}: {text}")

    def _begin(self, line: dict[str, Any]) -> None:
        if line["type"] != "export":
            raise self._wrong("the file does not begin as an export does")
        version = str(line["version"])
        if version.partition(".")[0] != FORM_VERSION.partition(".")[0]:
            raise self._wrong(f"it has version {version}; this program reads {FORM_VERSION}")
        self._expected = int(line["runs"])

    def _of_run(self, type_: str, line: dict[str, Any], text: bytes) -> None:
        allowed = _ORDER.get(type_, {"node", "story", "run"})
        if self._before not in allowed:
            raise self._wrong(f"a line of type {type_!r} does not follow one of type {self._before!r}")
        if type_ == "run":
            self._begins = True
            self._new_run(line)
        elif line["run"] != self._run:
            raise self._wrong(f"it belongs to run {line['run']!r}, among those of {self._run!r}")
        self._nodes += type_ == "node"
        self._pending.append(text)
        self._pending_bytes += len(text)
        if type_ == "end" or len(self._pending) >= RECORD_LINES or self._pending_bytes >= RECORD_BYTES:
            self._write(lines_payload(self._no, self._begins, self._pending))
            self._pending, self._pending_bytes, self._begins = [], 0, False
        if type_ == "end":
            self._no += 1

    def _new_run(self, line: dict[str, Any]) -> None:
        scheduler, key, session = self._replay.scheduler, line["run"], line["session"]
        self._refuse_part()
        self._refuse_known(key)
        self._run = key
        self._runs[key] = None
        numbers = range(line["seq"], line["seq"] + (line["base_size"] if line["form"] == "tasks" else 1))
        held = scheduler.book.sessions.get(session)
        taken = self._sessions.setdefault(session, set())
        if not taken.isdisjoint(numbers) or any(held is not None and held.find(no) for no in numbers):
            raise DuplicateRun(f"a submission of run {key!r} is there already, as another run")
        taken.update(numbers)
        self._refuse_claimed(key, line)

    def _refuse_claimed(self, key: str, line: dict[str, Any]) -> None:
        """Idempotency keys, and what open runs are known by, stand for one run each."""
        scheduler = self._replay.scheduler
        names = [name for name, *_ in line.get("keys", ())]
        claims = {f"key {name!r}": scheduler.keys.holder(name) is not None for name in names}
        if line.get("known_as") and line["state"] == str(RunState.RUNNING):
            claims[repr(line["known_as"])] = line["known_as"] in scheduler.book.known
        for claim, taken in claims.items():
            if taken or claim in self._claims:
                raise DuplicateRun(f"run {key!r} cannot be imported: another run stands for {claim}")
        self._claims.update(claims)

    def _refuse_known(self, key: object) -> None:
        if type(key) is not str or not key or "/" in key or key in (".", ".."):
            raise self._wrong(f"{key!r} is no id of a run")
        if key in self._runs or self._replay.scheduler.book.find(key) is not None:
            raise DuplicateRun(f"run {key!r} exists already")

    def _blob(self, line: dict[str, Any]) -> None:
        if self._before not in ("blob", "end", "export"):
            raise self._wrong("a blob stands among the lines of a run")
        self._refuse_known(line["run"])
        name, size, checksum = line["name"], line["size"], line["checksum"]
        if name != self._part:
            self._refuse_part()
        if line.get("missing"):
            self._blobs += 1
            self._missing.append(name)
            return
        try:
            path = self._store.path(name)
        except PayloadError as refused:
            raise self._wrong(refused.message) from refused
        at, data = line["at"], binascii.a2b_base64(line["data"])
        path.parent.mkdir(exist_ok=True, parents=True)
        part = path.with_name(path.name + PART)
        with part.open("wb" if at == 0 else "ab") as file:
            if file.tell() != at:
                raise self._wrong(f"blob {name} goes on at {at:,}, but has {file.tell():,} bytes")
            file.write(data)
            whole = file.tell() >= size
            self._part = "" if whole else name
            if whole:
                file.flush()
                os.fsync(file.fileno())
        if whole:
            self._blobs += 1
            os.replace(part, path)
            files = DiskFiles()
            files.sync_folder(str(path.parent))
            files.sync_folder(str(self._store.folder))
            try:
                self._store.read(name, size, checksum)
            except PayloadError as damaged:
                raise self._wrong(damaged.message) from damaged

    def _refuse_part(self) -> None:
        if self._part:
            raise self._wrong(f"blob {self._part} is not whole")

    def _write(self, payload: bytes) -> None:
        """Fold a record, and write it if it fits."""
        record = Record(self._writer.next_lsn, RecordType.IMPORTED, payload)
        try:
            self._replay.fold(record)
        except InternalError as broken:
            raise self._wrong(broken.message) from broken
        self._writer.write([record], sync=False)


def lines_in(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file. Raises ExportFileError: it cannot be read."""
    try:
        yield from file
    except OSError as fault:
        raise ExportFileError(f"the export cannot be read: {fault}") from fault

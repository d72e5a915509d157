"""Runs that the engine's memory let go of, for whoever asks: from the archive, and from the log behind the checkpoint.

    engine: no such run ──► archive.db ──► there: its parts ──► a core with this one run ──► the engine's own answers
                                 └► not there ──► log behind the archive: was anything let go of? ──► fold it

Read in the asker's process: the engine is not asked again, and does not wait. A run that was let go of since the last
checkpoint is in the log only; then checkpoint and log are folded once, as a recovery would, and what was let go of is
remembered. Where nothing was, or nothing new, the log is read on from where it was read before.

Concurrency: one thread at a time (`runtime.past` sees to that). Memory: rows of what was let go of since the
checkpoint, as many of these runs as HELD_NODES_MAX allows, and the run that was asked for last. Known limit: an id that
nobody has costs a fold where something was let go of since the last question.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from actors.archived import ArchivedRun, ArchiveRule, archived_run
from actors.core import EngineCore
from actors.owed import ALL_RUNS, owed_below
from actors.persister import Persister
from actors.protocol import messages as msg
from actors.protocol.archive_errors import ArchiveUnusable, RunArchived
from actors.protocol.errors import MissingNode, ProtocolError
from actors.protocol.records import RecordType
from actors.replay import Replay
from actors.run import Run
from actors.saved import SavedPart
from actors.saved_run import load_run, save_run
from actors.scheduler import Scheduler
from runtime.mail.blobs import BlobStore
from runtime.storage.archive import ArchiveFile
from runtime.storage.files import DiskFiles
from runtime.storage.folder import ARCHIVE_NAME, StateFolder
from runtime.storage.reader import read_log
from runtime.storage.recovery import replay_of_all
from runtime.storage.resume import first_lsn, resume_live

QUESTIONS: Final = frozenset({"status", "nodes", "output", "result", "story", "why"})
"""Those of `actors.queries` that only read one run."""
FOR_EVER: Final = ArchiveRule(None)
LETTERS: Final = frozenset({"dead", "letter"})
"""Those of `actors.dead` that only read, where they are about one run."""
OF_ENDED: Final[Mapping[str, Any]] = MappingProxyType({"cancel": False, "priority": {"changed": False}})
"""What is answered of every run that has ended."""
CHANGES: Final = frozenset({"discard", "replay", "rerun"})
"""What is refused, because nothing in the archive goes again."""
HELD_NODES_MAX: Final = 100_000
"""Nodes of runs that are held after a fold."""


class PastRuns:
    """See the module.

    Args:
        path: The state folder.
        rule: How long runs stay in the archive; None: there is none, unless one is left from before.
        assumed: Nobody says that there is an archive: of what was let go of, that counts of which the log says it.
    """

    def __init__(self, path: str, rule: ArchiveRule | None, *, assumed: bool = False) -> None:
        self._path = path
        self._rule = rule
        self._assumed = assumed
        self._files = DiskFiles()
        self._core: tuple[int, EngineCore] | None = None
        self._seen_lsn = 0
        self._let_go: dict[int, tuple[int, ArchivedRun]] = {}
        """LSN and row of what the log says was let go of, by number."""
        self._held: dict[int, Run] = {}
        """Some of these runs: whoever asks for one after the other need not have the log folded for each."""

    def answer(self, what: str, args: dict[str, Any]) -> list[Any] | None:
        """The engine's answer to a question about a run that it does not know any more: [reply, error]. None: it is not
        here, either.

        Raises:
            ArchiveUnusable, NewerFormat, StateFolderError, LogCorrupt, CheckpointUnusable: It cannot be read.
        """
        if not self._is_there():
            return None
        keys = keys_of(what, args)
        if what in OF_ENDED or what in CHANGES:
            found = next((key for key in keys if self._row(key)[0] is not None), None)
            if found is None:
                return None
            if what in OF_ENDED:
                return [OF_ENDED[what], None]
            text = f"run {found!r} is in the archive only"
            return [None, {"code": RunArchived.code, "message": text}]
        core = next((core for key in keys if (core := self._core_with(key)) is not None), None)
        if core is None:
            return None
        question = msg.Queried("", 0, what, {**args, "watch": False})
        (told,) = core.queries.answer(question, time.monotonic_ns(), time.time_ns())
        return list(told.body[1:])

    def scheduler_with(self, key: str) -> Scheduler | None:
        """One that knows the run of this id, and nothing else; None: it is not here. Raises: as `answer`."""
        core = self._core_with(key) if self._is_there() else None
        return None if core is None else core.scheduler

    def forget(self, key: str, number: int | None) -> bool:
        """Delete a run of the archive, or keep one that the log has let go of from coming there.

        Args:
            key: Its id.
            number: Where the engine knew it, and has let go of it just now.

        Returns:
            False: there is no such run.

        Raises:
            MissingNode: It is one task of several. Otherwise as `answer`.
        """
        if not self._is_there():
            return number is not None
        if number is None:
            row, _ = self._row(key)
            if row is None:
                return False
            if row.run_id != key and row.covers > 1:
                raise MissingNode(f"{key!r} is one task of run {row.run_id!r}: a run is forgotten as a whole")
            number = row.no
        elif not self._comes(number):
            return True
        self._core = None
        with (
            StateFolder.open(self._path, create=False, owner=False) as folder,
            ArchiveFile.write(folder.path, folder.uuid) as archive,
        ):
            archive.forget(number)
        return True

    def rows(self) -> Iterator[ArchivedRun]:
        """All that are here, latest first. Raises: as `answer`."""
        if not self._is_there():
            return
        with StateFolder.open(self._path, create=False, owner=False) as folder:
            recent = self._let_go_since(folder, *self._archive_knows(folder))
            yield from sorted(recent, key=lambda row: row.no, reverse=True)
            archive = ArchiveFile.read(folder.path, folder.uuid)
            if archive is not None:
                seen = {row.no for row in recent}
                with archive:
                    yield from (row for row in archive.summaries() if row.no not in seen)

    def parts(self, row: ArchivedRun) -> list[SavedPart]:
        """Columns of a run of `rows`; none: it went meanwhile. Raises: as `answer`."""
        with StateFolder.open(self._path, create=False, owner=False) as folder:
            if found := _archived_parts(folder, row.no):
                return found
            run = self._held.get(row.no) or self._fold(folder, row.no)
            if run is None:  # it may have come to the archive, and the log before that be gone
                return _archived_parts(folder, row.no)
        return [SavedPart(run.no, *piece) for piece in save_run(run)]

    def _is_there(self) -> bool:
        return self._rule is not None or os.path.exists(os.path.join(self._path, ARCHIVE_NAME))

    def _comes(self, number: int) -> bool:
        """Whether a run that was let go of will be in the archive."""
        if not self._assumed:
            return True
        with StateFolder.open(self._path, create=False, owner=False) as folder:
            return any(row.no == number for row in self._let_go_since(folder, *self._archive_knows(folder)))

    def _core_with(self, key: str) -> EngineCore | None:
        row, kept = self._row(key)
        if row is None:
            return None
        if self._core is None or self._core[0] != row.no:
            parts = kept or self.parts(row)
            if not parts:
                return None
            self._core = (row.no, core_of(row, parts))
        return self._core[1]

    def _row(self, key: str) -> tuple[ArchivedRun | None, list[SavedPart]]:
        """The row of a public key, and its parts where they were read for that.

        What is not in the archive may come there while the log is read, which is then cut: it is looked for again.
        """
        with StateFolder.open(self._path, create=False, owner=False) as folder:
            looked_at = -1
            while True:
                lsn, gone, archive = 0, set[int](), ArchiveFile.read(folder.path, folder.uuid)
                if archive is not None:
                    with archive:
                        lsn, gone, row = archive.lsn, archive.forgotten(), archive.find(key)
                        if row is not None:
                            known = self._core is not None and self._core[0] == row.no
                            return row, [] if known else archive.run(row.no)
                if lsn == looked_at:
                    return None, []
                found = [row for row in self._let_go_since(folder, lsn, gone) if stands_for(row, key)]
                if found:
                    return max(found, key=lambda row: row.no), []
                looked_at = lsn

    def _archive_knows(self, folder: StateFolder) -> tuple[int, set[int]]:
        """How far the archive goes, and what was deleted by hand before it came there."""
        archive = ArchiveFile.read(folder.path, folder.uuid)
        if archive is None:
            return 0, set()
        with archive:
            return archive.lsn, archive.forgotten()

    # --- behind the archive ---------------------------------------------------------------------------------------

    def _let_go_since(self, folder: StateFolder, archive_lsn: int, gone: set[int]) -> list[ArchivedRun]:
        """Rows of what was let go of by records above this one, without those that are gone."""
        if self._rule is None:
            return []
        begins = first_lsn(folder, self._files)
        after_lsn = max(self._seen_lsn, archive_lsn, (begins or 1) - 1)
        reader, last_lsn, found = read_log(folder.log, self._files, live=True, after_lsn=after_lsn), after_lsn, False
        for record in reader:
            last_lsn, found = record.lsn, found or record.type == RecordType.RELEASED
        if found:
            self._fold(folder)
        self._seen_lsn = last_lsn
        now_ns = time.time_ns()
        self._let_go = {no: entry for no, entry in self._let_go.items() if entry[0] > archive_lsn}
        self._held = {no: run for no, run in self._held.items() if no in self._let_go}
        rows = [row for _, row in self._let_go.values() if row.no not in gone]
        expiries = [(row, self._rule.expires_ns(row)) for row in rows]
        return [row for row, expires_ns in expiries if expires_ns is None or expires_ns > now_ns]

    def _fold(self, folder: StateFolder, wanted: int = 0) -> Run | None:
        """Read what is let go of behind the checkpoint; returns the run of this number if it is among that."""
        load_blob = BlobStore(folder.blobs_path, fsync=False).open
        held = _HeldRuns(wanted)

        def fresh() -> Replay:
            self._let_go.clear()
            held.clear()
            replay = replay_of_all(load_blob)
            replay.let_go = partial(take, replay)
            return replay

        def take(replay: Replay, run: Run, ended_ns: int | None) -> None:
            if self._assumed and run.no >= owed_below(replay.opened, ALL_RUNS, archives=False):
                return
            self._let_go[run.no] = (replay.scheduler.lsn, archived_run(run, ended_ns))
            held.add(run)

        resume_live(folder, fresh, self._files)
        self._held = held.runs
        return self._held.get(wanted)


def _archived_parts(folder: StateFolder, no: int) -> list[SavedPart]:
    """Columns of a run as the archive has it now; none: it does not."""
    archive = ArchiveFile.read(folder.path, folder.uuid)
    if archive is None:
        return []
    with archive:
        return archive.run(no)


class _HeldRuns:
    """As many runs as there is room for; where it is short, those behind the one that is wanted."""

    def __init__(self, wanted: int) -> None:
        self.runs: dict[int, Run] = {}
        self._wanted = wanted
        self._nodes = 0

    def add(self, run: Run) -> None:
        """Hold a run, and let go of others for it."""
        if self._nodes + run.size > HELD_NODES_MAX:
            for no in [no for no in self.runs if no < self._wanted]:
                self._nodes -= self.runs.pop(no).size
        if self._nodes + run.size <= HELD_NODES_MAX or run.no == self._wanted:
            self.runs[run.no] = run
            self._nodes += run.size

    def clear(self) -> None:
        """Begin anew."""
        self.runs.clear()
        self._nodes = 0


def past_of(path: str | os.PathLike[str]) -> PastRuns:
    """The past of a folder for who is told nothing of its engine: by the rule that the archive was kept by last; where
    nothing came there yet, what is on its way.

    Raises:
        ArchiveUnusable, NewerFormat, StateFolderError: It cannot be read.
    """
    with StateFolder.open(path, create=False, owner=False) as folder:
        archive = ArchiveFile.read(folder.path, folder.uuid)
        with nullcontext() if archive is None else archive:
            rule = None if archive is None else archive.rule
        return PastRuns(folder.path, rule or FOR_EVER, assumed=archive is None)


def keys_of(what: str, args: Mapping[str, Any]) -> list[str]:
    """Ids of the runs that a question may be about; none where it is not about certain runs, or not known here."""
    if what in QUESTIONS or what in OF_ENDED or what == "rerun":
        keys = [args.get("run")]
    elif what in LETTERS or what in CHANGES:
        letters = args.get("letters") or [args.get("letter")]
        wanted = args.get("filter") or {}
        keys = [key for letter in letters if isinstance(letter, str) for key in (letter, letter.rpartition("/")[0])]
        keys.append(wanted.get("run"))
    else:
        keys = []
    return [key for key in keys if isinstance(key, str) and key]


def stands_for(row: ArchivedRun, key: str) -> bool:
    """Whether a public key is of this run, or of one task of it."""
    session, _, number = key.rpartition("-")
    if row.run_id == key:
        return True
    return row.session == session and number.isdecimal() and row.seq <= int(number) < row.seq + row.covers


def core_of(row: ArchivedRun, parts: list[SavedPart]) -> EngineCore:
    """A core that knows this run, and nothing else.

    Raises:
        ArchiveUnusable: The parts do not fit together.
    """
    scheduler = Scheduler([])
    replay = Replay(scheduler)
    try:
        run = load_run(scheduler, (part[1:] for part in parts), replay.accept_node_types)
    except ProtocolError as broken:
        raise ArchiveUnusable(f"run {row.run_id!r} of the archive does not fit together: {broken.message}") from broken
    scheduler.book.restore(run, run.lsn)
    scheduler.ended_ns[run.no] = row.ended_ns
    return EngineCore(scheduler, Persister("none"), [])

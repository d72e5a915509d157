"""The engine process: open the folder, read the log, then serve until told to stop.

Entered by the spawner's fork as `run(config, fds, spawner)`; `config` is `runtime.config.RuntimeConfig.to_wire()`.

A start that fails is told to the face as an announcement with the error's code, and the process ends; nothing in the
folder was changed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import orjson
import uvloop

from actors import owed
from actors.checkpoints import Checkpoints
from actors.core import EngineCore
from actors.once import folders
from actors.persister import Persister
from actors.protocol import limits
from actors.protocol.errors import InternalError, MainspringError
from actors.replay import Replay
from actors.run import Run
from actors.scheduler import Scheduler
from runtime.errors import error_to_wire
from runtime.host import leftovers, owed_files
from runtime.host.blob_reclaimer import BlobReclaimer, Reclaimable
from runtime.host.calendar import ZoneCalendar
from runtime.host.command_desk import CommandDesk
from runtime.host.engine_host import EngineHost
from runtime.host.launch import WorkerStarter
from runtime.host.log_thread import LogThread
from runtime.host.refusals import is_refusal, unavailable
from runtime.mail.blobs import BlobStore
from runtime.mail.link import Link, LinkEnds
from runtime.profile.ledger.gauges import gauge_engine
from runtime.profile.sampling import always
from runtime.storage.cursors import kept_for_readers
from runtime.storage.files import DiskFiles
from runtime.storage.folder import ARCHIVE_NAME, StateFolder
from runtime.storage.gone import gone_before, gone_of
from runtime.storage.openings import Opening, note_opening
from runtime.storage.report import RecoveryReport
from runtime.storage.resume import resume
from runtime.storage.salvage import mend_log
from runtime.storage.wal import LogWriter

LOST_NAMED_MAX: Final = 20
"""Stretches of the log that `recovery` names, of those that salvage gave up."""
GC_THRESHOLD: Final = (10_000, 2, 10_000)
"""Collections look at young objects only, and at few: 40,000 take 1.6 ms, the million items of a graph 100. Old ones
are looked at once in 300 million new ones, because the engine makes no cycles: none were found after three million
tasks with failures, cancels and questions."""
SWITCH_S: Final = 0.0005
"""The log's thread gets the interpreter back after a sync within this time."""


def run(config: dict[str, Any], fds: list[int], spawner: socket.socket) -> None:
    """Serve. Returns when the engine was stopped; raises nothing that the face was not told."""
    board = fds.pop() if config.get("board") else None
    face = Link(LinkEnds.from_fds(fds), "b")
    try:
        code = _serve(config, face, WorkerStarter(spawner), board)
    except MainspringError as refused:
        _say(face, refused)
        if refused.family == "bug":
            raise
        code = 1
    except BaseException as bug:
        if isinstance(bug, OSError) and is_refusal(bug):
            _say(face, unavailable("the engine cannot go on", bug))
        else:
            _say(face, InternalError(f"the engine failed: {bug!r}"))
        raise
    finally:
        face.close()
    if code:
        sys.exit(code)


def _say(face: Link, error: MainspringError) -> None:
    wire = error_to_wire(error)
    face.send(b"Y" + orjson.dumps([wire["message"], wire["code"], wire["args"]]), control=True)


def _serve(config: dict[str, Any], face: Link, starter: WorkerStarter, board: int | None) -> int:
    holder = config.get("face_pid") or os.getpid()
    with StateFolder.open(config["state_dir"], holder_pid=holder) as folder:
        leftovers.take_over(folder.path)
        blobs = BlobStore(folder.blobs_path, config["durability"] == "fsync")
        node_types = config["node_types"]
        names = [n["name"] for n in node_types]
        scheduler = _scheduler(config, names)
        replay = Replay(scheduler, blobs.open)
        least, archive = config.get("checkpoint_bytes"), config.get("archive")
        let_go: list[Reclaimable] = []
        replay.let_go = partial(_wait, replay, let_go, time.time_ns())
        report, writer = _recover(folder, replay, bool(config.get("salvage")), least or limits.SEGMENT_BYTES)
        archives = archive is not None
        owed_below = owed_files.owed_below(folder, replay, archives=archives, checkpoints=least is not None)
        let_go[:] = owed_files.still_owed(let_go, owed_below)
        stay = frozenset() if archives else owed_files.names_owed(replay, blobs, owed_below)
        owes = archives or bool(let_go) or owed_files.knows_owed(replay, owed_below)
        persister = _persister(config, replay, report, writer, owes=owes)
        opened = {"pid": os.getpid(), "durability": config["durability"], "node_types": node_types}
        opened |= {"policy": config.get("policy"), **owed.said(archives, owed_below)}
        found, effects = _begin(folder, replay, report.next_lsn, opened)
        _sweep(scheduler, blobs, let_go, removes=config.get("sweeps", True))
        core = EngineCore(scheduler, persister, node_types, {"pid": os.getpid(), "spawner_pid": os.getppid()})
        past = replay.loaded_lsn > 0 and gone_of(replay) > 0
        recovery = {**found, **_summary(report, replay.loaded_lsn), **_archive(folder, archives, owes, past)}
        fsync, main = config["durability"] == "fsync", config.get("main")
        worker_config = {"blobs": folder.blobs_path, "fsync": fsync, "node_type_names": names, "main": main}
        worker_config |= {"allow_attach": True} if config.get("allow_attach") else {}
        _settle_memory()
        loop = uvloop.new_event_loop()
        asyncio.set_event_loop(loop)

        def log_of(deliver: Callable[[Any], None]) -> LogThread:
            return LogThread(writer, deliver, partial(kept_for_readers, folder.path))

        reclaimer = BlobReclaimer(loop, blobs, rule=archive, waiting=let_go, stay=stay)
        host = EngineHost(
            loop, core, face, starter, blobs, log_of, node_types, worker_config, recovery, folder.path, reclaimer
        )
        loop.set_exception_handler(partial(_fail, host))
        gauge_engine(core, host)
        host.progress.begin(board)
        always.begin()
        always.begin_loop(loop, looks=False)
        desk = CommandDesk(loop, folder.path, host.take_event, host.teller, core.persister)
        try:
            host.begin(effects)
            desk.open()
            reason = loop.run_until_complete(host.stopped)
        finally:
            desk.close()
            host.close()
            loop.close()
            always.end()
        if reason == "the spawner is gone":
            return 1
        leftovers.let_go(folder.path)
    return 0


def _scheduler(config: dict[str, Any], names: list[str]) -> Scheduler:
    """A fresh one, with the program's settings."""
    scheduler = Scheduler(
        names,
        missing_handler=config.get("missing_handler", "park"),
        retention=config["retention"],
        policy=config.get("policy"),
    )
    scheduler.schedules.calendar = ZoneCalendar()
    return scheduler


def _persister(
    config: dict[str, Any], replay: Replay, report: RecoveryReport, writer: LogWriter, *, owes: bool
) -> Persister:
    """Of the log that was read; `owes`: an archive is made of it."""
    segments = [(info.no, info.first_lsn) for info in writer.segments()]
    closed = tuple((info.last_lsn, info.bytes) for info in report.segments[:-1])
    active_bytes = report.segments[-1].bytes if report.segments else 0
    checkpoints = Checkpoints(config.get("checkpoint_bytes"), replay.loaded_lsn, closed, archives=owes)
    return Persister(config["durability"], report.next_lsn, segments, limits.COMMIT_DELAY_NS, checkpoints, active_bytes)


def _begin(folder: StateFolder, replay: Replay, lsn: int, opened: dict[str, Any]) -> tuple[dict[str, int], list[Any]]:
    """End the replay: what was found, and the effects to carry out, the first of which is the record with this LSN."""
    opening = Opening(lsn, time.monotonic_ns(), time.time_ns())
    note_opening(folder.path, opening)
    return replay.finish(opening.now_ns, opening.wall_ns, opened, lsn)


def _sweep(scheduler: Scheduler, blobs: BlobStore, let_go: list[Reclaimable], *, removes: bool) -> None:
    """Remove files that no run has; where `removes` is false there may be submissions, of a program that goes on, with
    files of which we do not know yet. Of what was let go of, the files stay whose id was used again."""
    runs = (*scheduler.book.live.values(), *scheduler.book.finished.values())
    known = {name for run in runs for name in folders(run)}
    let_go[:] = [entry for entry in let_go if entry.run_key not in known]
    if removes:
        known |= {entry.run_key for entry in let_go}
        blobs.sweep(known.__contains__)


def _wait(replay: Replay, let_go: list[Reclaimable], now_ns: int, run: Run, ended_ns: int | None) -> None:
    """The files of this run stay until a checkpoint has passed it."""
    let_go += [Reclaimable(replay.scheduler.lsn, name, now_ns, run.no) for name in folders(run)]


def _fail(host: EngineHost, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A turn raised: what it was to do is done by halves, so the engine ends, and the next one reads the log."""
    if not host.stopped.done():
        host.stopped.set_exception(context.get("exception") or InternalError(str(context.get("message"))))


def _summary(report: RecoveryReport, checkpoint_lsn: int) -> dict[str, Any]:
    """What the face shows of the log that was read."""
    facts = {"bytes_cut": report.bytes_cut, "records_cut": report.records_cut, "known_gaps": report.known_gaps}
    gaps = [f"{gap.segment}: LSN {gap.lsn_from} to {gap.lsn_to}" for gap in report.mended if gap.lsn_to >= gap.lsn_from]
    lost = {"lost": [*report.lost, *gaps[:LOST_NAMED_MAX]]} if report.lost or gaps else {}
    mended = bool(report.mended or report.lost)
    return {**facts, "mended": mended, "clean": report.clean, "checkpoint_lsn": checkpoint_lsn, **lost}


def _archive(folder: StateFolder, archives: bool, owes: bool, past_checkpoint: bool) -> dict[str, Any]:
    """What the face shows of the archive: that it had to be set aside, that it is gone (with so many runs at most), or
    that there will be one again."""
    if not archives:
        return {"archive_owed": True} if owes else {}
    if not os.path.exists(os.path.join(folder.path, ARCHIVE_NAME)):
        gone = gone_before(folder) if past_checkpoint else 0
        return {"archive_missing": gone} if gone else {}
    from runtime.storage.archiving import set_aside_damaged  # lazy: most starts find no archive

    trouble = set_aside_damaged(folder)
    return {"archive_set_aside": trouble} if trouble else {}


def _settle_memory() -> None:
    """Collector and interpreter settings of this role; see the constants."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_S)


def _recover(
    folder: StateFolder, replay: Replay, salvage: bool, segment_bytes: int
) -> tuple[RecoveryReport, LogWriter]:
    files = DiskFiles()
    gc.disable()
    try:
        report = resume(folder, replay, files, salvage=salvage)
    finally:
        gc.enable()
    if report.gaps:
        report = mend_log(folder.log, files, report)
    return report, LogWriter(folder.log, files, report, segment_bytes=min(segment_bytes, limits.SEGMENT_BYTES))

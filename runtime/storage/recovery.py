"""What a state folder holds, found by reading it as a recovery would, without changing anything.

Works while an engine runs: the log is read up to what is there, and segments that vanish meanwhile are passed over.
What is found is what is durable; the running engine may be a moment ahead.
"""

from __future__ import annotations

import os
from typing import Any

from actors.policy.scopes import scopes_of
from actors.protocol import limits
from actors.protocol.records import RecordType
from actors.replay import Replay
from actors.run import Run
from actors.schedule import Schedule
from actors.scheduler import Scheduler
from actors.schedules import is_paused, settle_open
from actors.state_column import BACKOFF, PARKED, READY, where
from runtime.mail.blobs import BlobStore
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.report import RecoveryReport
from runtime.storage.resume import resume_live


def summarise(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Runs, owner and log of a state folder, as plain JSON data.

    Args:
        path: The folder.

    Returns:
        `runs` (latest first; `run_id`, `name`, `state`, `counts`, `paused`: how many of what is ready a pause holds
        back, `created_ns`, `ended_ns`), `paused` (scopes), `pauses` (of those, who paused them: `by`, `reason`,
        `at_ns`), `uuid` of the folder, `owner_pid` (None when no engine runs), `durability` of the
        latest engine, `opened`: whether there was one, `log` (`records`, `segments`, `shards`, `bytes`, `bytes_cut`,
        `checkpoint_lsn`: records up to there are in the checkpoint and not counted, 0 when there is none; and
        `last_lsn`, that of the latest record).

    Raises:
        StateFolderError, NotAStateFolder, NewerFormat: It cannot be read.
        LogCorrupt: The log is damaged before its tail. CheckpointUnusable: The checkpoint is, or it is missing.
    """
    with StateFolder.open(path, create=False, owner=False) as folder:
        scheduler, replay, report = _read(folder)
        scheduler.standing.settle(scheduler)
        book, policy = scheduler.book, scheduler.standing.policy
        paused = policy.paused
        runs = sorted((*book.live.values(), *book.finished.values()), key=lambda run: run.no, reverse=True)
        return {
            "runs": [_row(run, scheduler.ended_ns.get(run.no), paused) for run in runs],
            "paused": sorted(paused),
            "pauses": {scope: policy.pauses[scope]._asdict() for scope in sorted(policy.pauses)},
            "uuid": str(folder.uuid),
            "owner_pid": folder.owner_pid(),
            "durability": replay.opened.get("durability"),
            "opened": bool(replay.opened),
            "log": {
                "records": replay.records,
                "segments": len(report.segments),
                "shards": folder.log_shards,
                "bytes": report.bytes,
                "bytes_cut": report.bytes_cut,
                "checkpoint_lsn": replay.loaded_lsn,
                "last_lsn": scheduler.lsn,
                "types": {RecordType(kind).name.lower(): count for kind, count in sorted(replay.counted.items())},
            },
        }


def read_runs(path: str | os.PathLike[str]) -> Scheduler:
    """A scheduler that knows the runs of a state folder, to be looked at only.

    Args:
        path: The folder.

    Raises:
        StateFolderError, LogCorrupt: As `summarise`.
    """
    with StateFolder.open(path, create=False, owner=False) as folder:
        return _read(folder)[0]


def read_schedules(path: str | os.PathLike[str]) -> tuple[list[tuple[Schedule, bool]], int | None]:
    """The schedules of a state folder, by name, each with whether it is paused; and the pid of who has it open.

    Args:
        path: The folder.

    Raises:
        StateFolderError, LogCorrupt: As `summarise`.
    """
    with StateFolder.open(path, create=False, owner=False) as folder:
        scheduler, _, _ = _read(folder)
        scheduler.standing.settle(scheduler)
        found = sorted(scheduler.schedules.by_name.values(), key=lambda schedule: schedule.name)
        for schedule in found:
            settle_open(scheduler, schedule)
        return [(schedule, is_paused(scheduler, schedule)) for schedule in found], folder.owner_pid()


def _read(folder: StateFolder) -> tuple[Scheduler, Replay, RecoveryReport]:
    """Checkpoint and log as a recovery would read them."""
    load_blob = BlobStore(folder.blobs_path, fsync=False).open
    replay, report = resume_live(folder, lambda: replay_of_all(load_blob), DiskFiles())
    return replay.scheduler, replay, report


def scheduler_of_all() -> Scheduler:
    """A scheduler that keeps whatever the log says, for somebody who only reads."""
    return Scheduler([], retention={"runs": limits.NODES_PER_RUN_MAX, "nodes": limits.NODES_OPEN_MAX})


def replay_of_all(load_blob: Any) -> Replay:
    """The same with its replay."""
    return Replay(scheduler_of_all(), load_blob)


def _row(run: Run, ended_ns: int | None, paused: frozenset[str]) -> dict[str, Any]:
    return {
        "run_id": run.key,
        "name": run.name or (run.kinds[0].name if run.kinds else ""),
        "state": str(run.run_state()),
        "counts": run.counts(),
        "paused": _paused(run, paused) if run.open else 0,
        "created_ns": run.created_ns,
        "ended_ns": ended_ns,
    }


def _paused(run: Run, paused: frozenset[str]) -> int:
    """How many nodes of a run are ready and in a paused scope."""
    held = {kind for kind in run.kinds if not paused.isdisjoint(scopes_of(kind))}
    if len(held) in (0, len(run.kinds)):
        return run.counts()[1] if held else 0
    return sum(run.kind(node) in held for state in (READY, BACKOFF, PARKED) for node in where(run.state, state))

"""Time travel: what a state folder knew at any moment that its log still holds.

    look(path, [Moment(lsn=120), NOW])  ──►  one Picture for each moment, and the scheduler as of the last

The log is read once, by the code that a recovery uses (`actors.replay`), and stops where the moment is: there is no
second implementation of what a record means. Nothing is changed, and an engine may run meanwhile.

What a picture does not know: what ran at that moment (the log tells of ends, not of starts), and runs that were
forgotten since then, whose records are gone; `first_lsn` says where the log begins now.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from actors.digest import run_digest, state_digest
from actors.protocol.errors import InternalError, UnknownMoment
from actors.protocol.states import NodeState
from actors.run import Run
from actors.scheduler import Scheduler
from runtime.mail.blobs import BlobStore
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.moments import NOW, DatedReplay, Moment, MomentReading, moment_of
from runtime.storage.resume import until_whole


@dataclass(frozen=True, slots=True)
class RunPicture:
    """One run as it was. `nodes` has one byte for each node, a `NodeState`."""

    run_id: str
    name: str
    state: str
    counts: list[int]
    created_ns: int
    ended_ns: int | None
    nodes: bytes
    digest: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All that was known at one moment. `at_ns` is when the latest record was written that says so; 0: none did."""

    lsn: int
    at_ns: int
    digest: str
    runs: dict[int, RunPicture]
    policy: dict[str, Any]
    schedules: dict[str, dict[str, Any]]


def history(state_dir: str | os.PathLike[str], until: int | datetime | str | None = None) -> Picture:
    """What a state folder knew at a moment; an engine may run there.

    Args:
        state_dir: The state folder.
        until: An LSN, a time with a time zone, or "begin" for the first moment that is kept; None is now.

    Returns:
        A picture: `lsn`, `at_ns`, `digest` of all of the state, `runs` by number (`run_id`, `name`, `state`, `counts`,
        `created_ns`, `ended_ns`, `nodes`), `policy` and `schedules`.

    Raises:
        ConfigurationError: `until` is neither, or has no time zone. UnknownMoment: the log does not reach there.
        InternalError: folding the log twice gave different states. StateFolderError, NotAStateFolder, NewerFormat,
        LogCorrupt: the folder cannot be read.
    """
    return look(state_dir, (moment_of(until, "history: until"),)).pictures[0]


class Look(NamedTuple):
    """What `look` found: a picture of each moment, the scheduler as of the last, and where the log begins and ends."""

    pictures: list[Picture]
    scheduler: Scheduler
    first_lsn: int
    last_lsn: int
    folded_twice: bool


def look(path: str | os.PathLike[str], moments: Sequence[Moment] = (NOW,), *, twice: bool = True) -> Look:
    """Read the log up to some moments.

    Args:
        path: The state folder.
        moments: Which; each picture is of the moment at its place. At least one.
        twice: Fold the log twice, and compare all of the state.

    Raises:
        UnknownMoment: The log does not reach there. InternalError: folding twice gave different states.
        CheckpointUnusable: What was before the log is not there.
        StateFolderError, NotAStateFolder, NewerFormat, LogCorrupt: It cannot be read.
    """
    with StateFolder.open(path, create=False, owner=False) as folder:

        def read() -> Look | None:
            first = _Fold(folder, moments).done()
            if first.reading.overtaken or (twice and not _agrees(folder, first)):
                return None
            reading = first.reading
            return Look(first.found, reading.replay.scheduler, reading.first_lsn, reading.last_lsn, twice)

        return until_whole(folder, read)


def _agrees(folder: StateFolder, first: _Fold) -> bool:
    """Fold again and compare; False: the log was cut meanwhile, so that there is nothing to compare."""
    bounds = [Moment(lsn=picture.lsn) for picture in first.found]  # an engine may write meanwhile
    again = _Fold(folder, bounds)
    try:
        again.done()
    except UnknownMoment:
        if again.reading.first_lsn == first.reading.first_lsn:
            raise
        return False
    if again.reading.overtaken or again.reading.first_lsn != first.reading.first_lsn:
        return False
    for one, other in zip(first.found, again.found, strict=True):
        _compare(one, other)
    return True


def _compare(one: Picture, other: Picture) -> None:
    """Raise InternalError when two folds of one stretch of the log differ; names the runs that do."""
    if one.digest == other.digest:
        return
    numbers = sorted(one.runs.keys() | other.runs.keys())
    strange = [(one.runs.get(no) or other.runs[no]).run_id for no in numbers if one.runs.get(no) != other.runs.get(no)]
    where = f"runs {', '.join(strange[:5])}" if strange else "what is kept beside the runs"
    raise InternalError(f"folding the log twice up to LSN {one.lsn} gave two states, which differ in {where}")


class _Fold:
    """One reading of the log, with a picture of each moment."""

    def __init__(self, folder: StateFolder, moments: Sequence[Moment]) -> None:
        replay = DatedReplay(BlobStore(folder.blobs_path, fsync=False).open)
        self.reading = MomentReading(folder, DiskFiles(), replay, moments, whole=True)
        self.found: list[Picture] = []
        """The pictures, in the order in which the moments were asked for."""

    def done(self) -> _Fold:
        """Read."""
        pictures = {place: _picture(self.reading.replay) for place in self.reading.reached()}
        self.found = [pictures[place] for place in sorted(pictures)]
        return self


def _picture(replay: DatedReplay) -> Picture:
    scheduler = replay.scheduler
    runs = {**scheduler.book.live, **scheduler.book.finished}
    return Picture(
        lsn=scheduler.lsn,
        at_ns=replay.told_ns,
        digest=state_digest(scheduler),
        runs={no: picture_of(run, scheduler.ended_ns.get(no)) for no, run in sorted(runs.items())},
        policy=scheduler.standing.as_logged(replay.opened.get("policy")).to_json(),
        schedules={name: schedule.to_json() for name, schedule in sorted(scheduler.schedules.by_name.items())},
    )


def picture_of(run: Run, ended_ns: int | None) -> RunPicture:
    """One run as it is now.

    Args:
        run: The run; who asks does not fold on with it.
        ended_ns: When it ended, if it has.
    """
    name = run.name or (run.kinds[0].name if run.kinds else "")
    ended = None if run.open else ended_ns
    state, counts = str(run.run_state()), list(run.counts())
    run.tally = None  # it would not be kept right: who goes on reading is not told of leases
    return RunPicture(run.key, name, state, counts, run.created_ns, ended, bytes(run.state), run_digest(run))


# --- between two moments ------------------------------------------------------------------------------------------


def difference(before: Picture, after: Picture) -> dict[str, Any]:
    """What is different at a later moment, as plain JSON data.

    Returns:
        `came` and `gone` (ids of runs), `changed` (for each run that is in both and not the same: `run_id`, `state` and
        `counts` as [before, after], `moves` as {"ready to succeeded": how many nodes}, `new_nodes`), `policy` and
        `schedules` (entries that differ, as [before, after]).
    """
    old, new = before.runs, after.runs
    return {
        "came": [run.run_id for no, run in new.items() if no not in old],
        "gone": [run.run_id for no, run in old.items() if no not in new],
        "changed": [_change(old[no], new[no]) for no in new if no in old and old[no] != new[no]],
        "policy": _entries(before.policy, after.policy),
        "schedules": _entries(before.schedules, after.schedules),
    }


def _change(old: RunPicture, new: RunPicture) -> dict[str, Any]:
    moves: dict[str, int] = {}
    if old.nodes != new.nodes:
        for one, other in zip(old.nodes, new.nodes, strict=False):
            if one != other:
                words = f"{NodeState(one).name.lower()} to {NodeState(other).name.lower()}"
                moves[words] = moves.get(words, 0) + 1
    return {
        "run_id": new.run_id,
        "state": [old.state, new.state],
        "counts": [old.counts, new.counts],
        "moves": moves,
        "new_nodes": len(new.nodes) - len(old.nodes),
    }


def _entries(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[Any]]:
    names = sorted(before.keys() | after.keys())
    return {name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)}

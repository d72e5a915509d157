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
from typing import Any, Final, NamedTuple

from actors.digest import run_digest, state_digest
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, InternalError, StateFolderError, UnknownMoment
from actors.protocol.moments import precise_moment
from actors.protocol.records import Record, RecordType
from actors.protocol.states import NodeState
from actors.record_times import RecordTimes
from actors.replay import Replay
from actors.run import Run
from actors.scheduler import Scheduler
from runtime.mail.blobs import BlobStore
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.openings import clock_offset
from runtime.storage.reader import read_log
from runtime.storage.resume import LIVE_TRIES_MAX, OVERTAKEN, begin_if_cut
from runtime.units import datetime_to_ns


class Moment(NamedTuple):
    """A moment of a log: behind the record with this LSN, or before the first one that tells of something later than
    this time (ns since 1970). With neither it is now: the end of the log."""

    lsn: int | None = None
    wall_ns: int | None = None


NOW: Final = Moment()


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


def history(state_dir: str | os.PathLike[str], until: int | datetime | None = None) -> Picture:
    """What a state folder knew at a moment; an engine may run there.

    Args:
        state_dir: The state folder.
        until: An LSN, or a time with a time zone; None is now.

    Returns:
        A picture: `lsn`, `at_ns`, `digest` of all of the state, `runs` by number (`run_id`, `name`, `state`, `counts`,
        `created_ns`, `ended_ns`, `nodes`), `policy` and `schedules`.

    Raises:
        ConfigurationError: `until` is neither, or has no time zone. UnknownMoment: the log does not reach there.
        InternalError: folding the log twice gave different states. StateFolderError, NotAStateFolder, NewerFormat,
        LogCorrupt: the folder cannot be read.
    """
    if isinstance(until, datetime) and until.tzinfo is not None:
        moment = Moment(wall_ns=datetime_to_ns(until))
    elif type(until) is int:
        moment = Moment(lsn=until)
    elif until is None:
        moment = NOW
    else:
        raise ConfigurationError(f"history: until must be an LSN or a time with a time zone, not {until!r:.60}")
    return look(state_dir, (moment,)).pictures[0]


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
        for tries in range(1, LIVE_TRIES_MAX + 1):
            try:
                first = _Fold(folder, moments).done()
                if not first.overtaken and (not twice or _agrees(folder, first)):
                    return Look(first.found, first.scheduler, first.first_lsn, first.last_lsn, twice)
            except OVERTAKEN:
                if tries == LIVE_TRIES_MAX or folder.owner_pid() is None:
                    raise
        raise StateFolderError(f"{folder.path}: its engine cuts the log faster than it can be read; ask again")


def _agrees(folder: StateFolder, first: _Fold) -> bool:
    """Fold again and compare; False: the log was cut meanwhile, so that there is nothing to compare."""
    bounds = [Moment(lsn=picture.lsn) for picture in first.found]  # an engine may write meanwhile
    again = _Fold(folder, bounds)
    try:
        again.done()
    except UnknownMoment:
        if again.first_lsn == first.first_lsn:
            raise
        return False
    if again.overtaken or again.first_lsn != first.first_lsn:
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
    """One reading of the log. Moments are taken in the order of the log, whatever order they were asked in."""

    def __init__(self, folder: StateFolder, moments: Sequence[Moment]) -> None:
        self._folder = folder
        self._moments = list(moments)
        self.scheduler = Scheduler([], retention={"runs": limits.NODES_PER_RUN_MAX, "nodes": limits.NODES_OPEN_MAX})
        self.first_lsn = self.last_lsn = 0
        self.overtaken = False
        """Whether the log was cut while it was read, so that something is missing."""
        self._pictures: dict[int, Picture] = {}
        self._given: dict[str, Any] | None = None
        self._timed = any(moment.wall_ns is not None for moment in moments)
        self._times = RecordTimes()
        self._latest: Record | None = None
        """The latest record that says when it was written."""

    @property
    def found(self) -> list[Picture]:
        """The pictures, in the order in which they were asked for."""
        return [self._pictures[place] for place in range(len(self._moments))]

    def done(self) -> _Fold:
        """Read."""
        replay = Replay(self.scheduler, BlobStore(self._folder.blobs_path, fsync=False).open)
        open_places = list(range(len(self._moments)))
        after_lsn = begin_if_cut(self._folder, replay, DiskFiles())
        self.scheduler = replay.scheduler
        if after_lsn:  # the record of the opening is gone, and the checkpoint knows what it said
            known = replay.opened
            offset_ns = known["wall_ns"] - known["now_ns"] if known else clock_offset(self._folder.path, after_lsn)
            self._times.offset_ns = offset_ns
        reader = read_log(self._folder.log, DiskFiles(), live=True, after_lsn=after_lsn)
        for record in reader:
            first = not self.first_lsn
            # What results say of their time is costly to read, and is of no use where moments are LSNs.
            read = self._timed or first or record.type == RecordType.OPENED
            at_ns = self._times.at(record) if read else None
            if first:
                self.first_lsn = record.lsn
                self._refuse_early(record.lsn, at_ns or 0)
            for place in [p for p in open_places if self._is_past(self._moments[p], record.lsn, at_ns)]:
                self._take(place)
                open_places.remove(place)
            self.last_lsn = record.lsn
            if open_places:
                replay.fold(record)
                self._given = replay.opened.get("policy")
                self._latest = record if self._times.tells(record) else self._latest
        self.overtaken = reader.passed_over
        for place in open_places if not self.overtaken else ():
            lsn = self._moments[place].lsn
            if lsn is not None and lsn > self.last_lsn:
                raise UnknownMoment(f"LSN {lsn:,} is beyond the end of the log, which is LSN {self.last_lsn:,}")
            self._take(place)
        return self

    def _refuse_early(self, lsn: int, at_ns: int) -> None:
        for moment in self._moments:
            early = moment.lsn is not None and moment.lsn < lsn
            early = early or (moment.wall_ns is not None and moment.wall_ns < at_ns)
            if early:
                asked = f"LSN {moment.lsn:,}" if moment.lsn is not None else precise_moment(moment.wall_ns or 0)
                raise UnknownMoment(f"{asked} is before the log begins: LSN {lsn:,}, {precise_moment(at_ns)}")

    @staticmethod
    def _is_past(moment: Moment, lsn: int, at_ns: int | None) -> bool:
        """Whether the state before this record is the state at that moment."""
        if moment.lsn is not None:
            return lsn > moment.lsn
        return moment.wall_ns is not None and at_ns is not None and at_ns > moment.wall_ns

    def _take(self, place: int) -> None:
        scheduler = self.scheduler
        runs = {**scheduler.book.live, **scheduler.book.finished}
        self._pictures[place] = Picture(
            lsn=scheduler.lsn,
            at_ns=(self._times.at(self._latest) if self._latest else None) or 0,
            digest=state_digest(scheduler),
            runs={no: _picture_of(run, scheduler.ended_ns.get(no)) for no, run in sorted(runs.items())},
            policy=scheduler.standing.as_logged(self._given).to_json(),
            schedules={name: schedule.to_json() for name, schedule in sorted(scheduler.schedules.by_name.items())},
        )


def _picture_of(run: Run, ended_ns: int | None) -> RunPicture:
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

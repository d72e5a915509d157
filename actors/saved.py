"""The state that reading a log gives, as a checkpoint holds it; and back.

    Replay ── save ──► parts (run, column, first value, content) ──► a file ──► load ──► Replay ── fold the rest

Reading the log up to some record, saving, loading and reading the rest gives the state that reading all of it gives:
tests compare both field by field, at each record of many logs. So a checkpoint is no second account of what happened,
and a recovery from it is the recovery from the log (`actors.replay`), begun later.

Run 0 stands for what is no run's. `changed` names the runs of which there may be other parts than when it was asked
last; nothing of the others need be looked at.

What only a running engine has (queues, timers, pools, what was told) is no part of it: `Replay.finish` makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import orjson

from actors.protocol.errors import ProtocolError
from actors.replay import Replay
from actors.run import Run
from actors.saved_run import load_run, save_run

STATE_VERSION: Final = 2
"""Of the forms here and in `actors.saved_run`. A reader refuses a greater one. 2: what does not change is apart."""
ENGINE: Final = 0
_PLACE: Final = "engine"


class SavedPart(NamedTuple):
    """A piece of the state: of which run (0: of none), which column, from which value on, and what it holds."""

    run: int
    column: str
    at: int
    body: bytes


def save(replay: Replay, changed: Iterable[int] | None = None) -> Iterator[SavedPart]:
    """All parts, or those of the runs with these numbers and what is no run's. Nothing may be folded meanwhile."""
    scheduler = replay.scheduler
    book = scheduler.book
    yield SavedPart(ENGINE, _PLACE, 0, orjson.dumps(_engine(replay)))
    for no in kept_runs(replay) if changed is None else changed:
        run = book.live.get(no) or book.finished.get(no)
        if run is not None:
            for column, at, body in save_run(run):
                yield SavedPart(no, column, at, body)


def kept_runs(replay: Replay) -> list[int]:
    """Numbers of the runs that are there."""
    book = replay.scheduler.book
    return [*book.live, *book.finished]


def load(replay: Replay, parts: Iterable[SavedPart]) -> None:
    """Begin with a saved state, instead of the beginning of the log.

    Args:
        replay: Fresh.
        parts: All of a state, those of a run one after the other, each column in order.

    Raises:
        ProtocolError: They do not fit together; the replay is of no use any more.
    """
    data: dict[str, Any] | None = None
    runs: dict[int, Run] = {}
    for no, group in groupby(parts, key=attrgetter("run")):
        if no == ENGINE:
            data = orjson.loads(b"".join(part.body for part in group))
            continue
        runs[no] = load_run(replay.scheduler, (part[1:] for part in group), replay.accept_node_types)
        if runs[no].no != no:
            raise ProtocolError(f"a checkpoint holds run {runs[no].no} in the place of run {no}")
    if data is None:
        raise ProtocolError("a checkpoint does not say what it is of")
    try:
        _load_engine(replay, data, runs)
    except (KeyError, ValueError, TypeError, IndexError) as broken:
        raise ProtocolError(f"a checkpoint does not fit together: {broken!r}") from broken


def _engine(replay: Replay) -> dict[str, Any]:
    scheduler = replay.scheduler
    return {
        "version": STATE_VERSION,
        "lsn": scheduler.lsn,
        "wall_ns": scheduler.wall_ns,
        "replay": replay.saved(),
        "book": scheduler.book.saved(),
        "keys": scheduler.keys.saved(scheduler),
        "schedules": scheduler.schedules.saved(scheduler.book.live),
        "policy": scheduler.standing.saved(),
        "policy_lsn": scheduler.standing.lsn,
        "ended_ns": list(scheduler.ended_ns.items()),
    }


def _load_engine(replay: Replay, data: dict[str, Any], runs: dict[int, Run]) -> None:
    scheduler = replay.scheduler
    if data["version"] > STATE_VERSION:
        raise ProtocolError(f"the checkpoint has version {data['version']}, this program reads {STATE_VERSION}")
    scheduler.lsn = replay.loaded_lsn = data["lsn"]
    scheduler.set_time(scheduler.now_ns, data["wall_ns"])
    replay.load(data["replay"])
    scheduler.book.load(data["book"], runs)
    scheduler.keys.load(data["keys"])
    scheduler.schedules.load(data["schedules"])
    if data["policy"] is not None:
        scheduler.standing.restore(orjson.dumps(data["policy"]), data["policy_lsn"])
    scheduler.ended_ns.update(data["ended_ns"])

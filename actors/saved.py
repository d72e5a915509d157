"""The state that reading a log gives, as a checkpoint holds it; and back.

    Replay ── save ──► parts (run, column, first value, content) ──► a file ──► load ──► Replay ── fold the rest

Reading the log up to some record, saving, loading and reading the rest gives the state that reading all of it gives:
tests compare both field by field, at each record of many logs. So a checkpoint is no second account of what happened,
and a recovery from it is the recovery from the log (`actors.replay`), begun later.

Run 0 stands for what is no run's. What is saved again is what records have touched (`actors.saved_again`): a reader has
then the same state as if all of it had been saved.

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
from actors.saved_again import Form, Touched, Unchanged
from actors.saved_run import load_run, save_run

STATE_VERSION: Final = 3
"""Of the forms here and in `actors.saved_run`. A reader refuses a greater one. 2: what does not change is apart. 3:
runs have changes."""
ENGINE: Final = 0
_PLACE: Final = "engine"


class SavedPart(NamedTuple):
    """A piece of the state: of which run (0: of none), which column, from which value on, and what it holds."""

    run: int
    column: str
    at: int
    body: bytes


def save(replay: Replay) -> Iterator[SavedPart]:
    """All parts. Nothing may be folded meanwhile."""
    book = replay.scheduler.book
    yield SavedPart(ENGINE, _PLACE, 0, orjson.dumps(_engine(replay)))
    for runs in (book.live, book.finished):
        for no, run in runs.items():
            yield from (SavedPart(no, *piece) for piece in save_run(run))


def save_touched(replay: Replay, touched: Touched) -> Iterator[SavedPart | Unchanged]:
    """What records have touched since `touched` came from `load`, or since this was called last, run by run. Of these
    runs what is neither given nor said to stay goes. Nothing may be folded meanwhile.

    When all was taken it counts as saved. What was not is of no use any more, and neither is `touched`.
    """
    book = replay.scheduler.book
    yield SavedPart(ENGINE, _PLACE, 0, orjson.dumps(_engine(replay)))
    runs = (book.live.get(no) or book.finished.get(no) for no in touched.nodes)
    yield from touched_parts(touched, (run for run in runs if run is not None))
    for no in touched.forms.keys() - book.live.keys() - book.finished.keys():
        del touched.forms[no]


def touched_parts(touched: Touched, runs: Iterable[Run]) -> Iterator[SavedPart | Unchanged]:
    """What there is of runs that were touched, which are all that were."""
    for run in runs:
        for piece in touched.save(run):
            yield piece if isinstance(piece, Unchanged) else SavedPart(run.no, *piece)
    touched.nodes.clear()


def kept_runs(replay: Replay) -> list[int]:
    """Numbers of the runs that are there."""
    book = replay.scheduler.book
    return [*book.live, *book.finished]


def load(replay: Replay, parts: Iterable[SavedPart]) -> Touched:
    """Begin with a saved state, instead of the beginning of the log.

    Args:
        replay: Fresh.
        parts: All of a state, those of a run one after the other, each column in order.

    Returns:
        How it was saved; as `Replay.touched` it is told what changes.

    Raises:
        ProtocolError: They do not fit together; the replay is of no use any more.
    """
    data: dict[str, Any] | None = None
    runs: dict[int, Run] = {}
    touched = Touched()
    for no, group in groupby(parts, key=attrgetter("run")):
        if no == ENGINE:
            data = orjson.loads(b"".join(part.body for part in group))
            continue
        pieces = [part[1:] for part in group]
        runs[no] = load_run(replay.scheduler, pieces, replay.accept_node_types)
        touched.forms[no] = Form.of(runs[no], pieces)
        if runs[no].no != no:
            raise ProtocolError(f"a checkpoint holds run {runs[no].no} in the place of run {no}")
    if data is None:
        raise ProtocolError("a checkpoint does not say what it is of")
    try:
        _load_engine(replay, data, runs)
    except (KeyError, ValueError, TypeError, IndexError) as broken:
        raise ProtocolError(f"a checkpoint does not fit together: {broken!r}") from broken
    return touched


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

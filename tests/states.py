"""Compares two states that were read from a log, field by field.

    differences(one, other)     paths at which they differ, with both values; empty when they are the same

It walks the objects: whatever attribute one of them has is compared, so a field that somebody adds to an actor and
forgets in `actors.saved` is found here. What is not compared stands in `NOT_COMPARED`, with its reason.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import orjson

from actors.books import RunBook
from actors.keys import Keys
from actors.protocol.graph import GraphColumns
from actors.protocol.kinds import Kind
from actors.replay import Replay
from actors.run import Run
from actors.schedule import Schedule
from actors.scheduler import Scheduler
from actors.schedules import Schedules

NOT_COMPARED: Mapping[tuple[type, str], str] = {
    (Replay, "records"): "of this reading",
    (Replay, "counted"): "of this reading",
    (Replay, "loaded_lsn"): "of this reading",
    (Replay, "touched"): "of this reading",
    (Replay, "_load_blob"): "where blobs are",
    (Scheduler, "kinds"): "kinds are compared where somebody refers to them; the table also has those that nobody does",
    (Scheduler, "giving"): "empty queues of node types; what is READY is queued when the log was read",
    (Scheduler, "ready"): "as giving",
    (Scheduler, "now_ns"): "set when the log was read",
    (RunBook, "_by_age"): "compared without runs that are gone: see `_normal`",
    (Keys, "_ends"): "a heap that also has ends of keys which were entered anew",
    (Schedules, "by_run"): "compared without runs that are over: see `_normal`",
    (Schedule, "open"): "compared without runs that are over: `Schedules.begin` leaves them out",
    (Run, "frames"): "compared by what they say of when nodes ran: see `_normal`",
    (GraphColumns, "beginning"): "nobody takes that of a debounced call",
    (Run, "wave"): "None and empty mean the same",
}
UNORDERED = frozenset({(RunBook, "_by_key"), (Scheduler, "ended_ns")})
"""Dictionaries in which somebody looks up, and that nobody walks through."""


def differences(one: Replay, other: Replay) -> list[str]:
    """Where two states differ."""
    for replay in (one, other):
        replay.scheduler.keys.expire(max(one.scheduler.wall_ns, other.scheduler.wall_ns))
    return list(_compare(one, other, "replay", set()))


def _compare(one: Any, other: Any, path: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    if type(one) is not type(other):
        yield f"{path}: {one!r:.100} is {type(one).__name__}, {other!r:.100} is {type(other).__name__}"
        return
    if one is None or isinstance(
        one, bool | int | float | str | bytes | bytearray | array | Enum | type | frozenset | set
    ):
        if one != other:
            yield f"{path}: {one!r:.100} and {other!r:.100}"
        return
    if (id(one), id(other)) in seen:
        return
    seen.add((id(one), id(other)))
    if isinstance(one, Kind):
        if one.text != other.text:
            yield f"{path}: kinds {one.text!r} and {other.text!r}"
    elif isinstance(one, Mapping):
        if list(one) != list(other):
            yield f"{path}: keys {list(one)!r:.200} and {list(other)!r:.200}"
            return
        for key in one:
            yield from _compare(one[key], other[key], f"{path}[{key!r}]", seen)
    elif isinstance(one, list | tuple | deque | range):
        if len(one) != len(other):
            yield f"{path}: {len(one)} and {len(other)} values"
            return
        for at, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _compare(a, b, f"{path}[{at}]", seen)
    elif callable(one):
        return
    else:
        for name in _fields(one) | _fields(other):
            if (type(one), name) not in NOT_COMPARED:
                a, b = getattr(one, name), getattr(other, name)
                if (type(one), name) in UNORDERED:
                    a, b = dict(sorted(a.items())), dict(sorted(b.items()))
                yield from _compare(a, b, f"{path}.{name}", seen)
        yield from _compare(_normal(one), _normal(other), f"{path} (normal form)", seen)


def _fields(thing: Any) -> set[str]:
    names = set(getattr(thing, "__dict__", ()))
    for class_ in type(thing).__mro__:
        slots = class_.__dict__.get("__slots__", ())
        names.update(name for name in ((slots,) if isinstance(slots, str) else slots) if hasattr(thing, name))
    return names


def _normal(thing: Any) -> Any:
    """What is compared in place of fields that are not."""
    if isinstance(thing, RunBook):
        there = {*thing.live, *thing.finished} - thing._aside.keys()
        return [no for no in thing._by_age if no in there]
    if isinstance(thing, Run):
        return [list(thing.wave or ()), thing.items is None or thing.columns is None or _shares(thing), _frames(thing)]
    if isinstance(thing, Scheduler):
        live = thing.book.live
        return [
            {no: name for no, name in thing.schedules.by_run.items() if no in live},
            {name: sorted(n for n in one.open if n in live) for name, one in thing.schedules.by_name.items()},
        ]
    if isinstance(thing, Keys):
        return all((entry.until_ns, key) in thing._ends for key, entry in thing._entries.items())
    return None


def _shares(run: Run) -> bool:
    """A graph that has items has those of its run."""
    assert run.columns is not None
    return run.columns.items is None or run.columns.items is run.items


def _frames(run: Run) -> list[Any]:
    found = []
    for offset_ns, raw, low, high in run.frames:
        pid, groups = orjson.loads(raw)
        own = [[nodes, started, ends] for _, no, nodes, _, started, ends in groups if no == run.no]
        found.append([offset_ns, low, high, pid, own])
    return found

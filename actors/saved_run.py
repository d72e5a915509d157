"""One run as a checkpoint holds it: a head, and its columns cut into pieces.

    save_run ──► [(column, first value, bytes), ...] ──► load_run

A large run is many pieces, so that the next checkpoint writes those that changed and no others. What belongs together
in a small one stays together, because there are many small ones: in one piece what changes while it runs, in another
what does not (its graph and its arguments), unless that is next to nothing. Numbers are little-endian machine integers,
values are JSON.

    the column "run":    u32 length of the head | head (JSON) | columns of a small run, as "inside" of the head says
    the column "still":  u32 length of a list | the list (JSON): name, first value, bytes | columns
    the column "change": u32 length of a list | the list (JSON), see `save_change` | state | marks | waits

When nodes ran is kept without their results, which are in a column of their own: a frame of results is written as
" [pid, [[0, run, nodes, 0, started, ends]]]". The space at its beginning says that this was done.

Every slot of `Run`, `Rare`, `Burst` and `Calls` is written, or named in `NOT_SAVED` with its reason; a test compares.
Called where a log was read, between two records: so nothing of a wave is on its way, and nobody runs.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors.calls import Calls
from actors.once import Burst
from actors.protocol.errors import InvariantBroken, ProtocolError
from actors.protocol.graph import GraphColumns
from actors.rare import NO_RARE, Rare
from actors.run import Run
from actors.timing import ResultFrame

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

Piece = tuple[str, int, bytes]
"""Column, number of the first value in it, content."""
HEAD: Final = "run"
STILL: Final = "still"
CHANGE: Final = "change"
"""What happened to a run since its other pieces were written: see `actors.saved_again`."""
PIECE_BYTES: Final = 256 * 1024
"""Of a column of numbers: 65,536 nodes, where each has one."""
PIECE_VALUES: Final = 16_384
"""In a piece of JSON, unless they are large."""
JSON_BYTES_MAX: Final = 8 * 1024 * 1024
"""A longer piece of JSON is halved while it has several values."""
SMALL_BYTES_MAX: Final = 128 * 1024
"""Columns that take less together are one piece: those that change, and those that do not."""
TINY_BYTES_MAX: Final = 1024
"""Columns that do not change and take less are with those that do."""
STRIPPED: Final = b" "
NOT_SAVED: Final[Mapping[str, str]] = {
    "wave": "it is empty between two records",
    "wave_at": "it is empty between two records",
    "fresh": "the first nodes are READY and not queued yet, as all are",
    "progress": "of attempts that run",
    "refused": "of attempts that run",
}
_LENGTH: Final = struct.Struct("<I")
_PLAIN: Final = (
    "no", "key", "name", "session", "seq", "lsn", "created_ns", "mixed", "size", "base_size", "open", "is_graph",
    "is_map", "items_bytes", "results_bytes", "fan", "clean", "special", "stirred", "cancel_asked", "tally",
)  # fmt: skip
_MOVING: Final = ("open", "results_bytes", "clean", "stirred", "cancel_asked", "tally")
"""Those of them that a change has; records that touch another make the run anew."""
_RARE_BY_NODE: Final = (
    "attempts", "backoff_until", "callers", "classes", "crashes", "deadlines", "died", "due",
    "ended_early", "expires", "failures", "lowered", "moments", "parked",
)  # fmt: skip
_RARE_NODES: Final = ("alone", "appointed", "discarded", "gave_way", "overdue")
_RARE_PLAIN: Final = ("known_as", "revived")
_BYTES: Final = ("state", "marks")
_EDGES: Final = ("deps_off", "deps", "after_off", "after", "succ_off", "succ", "kind_of")
_VALUES: Final = ("items", "results")
_TEXTS: Final = (*_VALUES, "ids", "frames")
STILL_COLUMNS: Final = frozenset({*_EDGES, "items", "ids"})


def save_run(run: Run, *, still: bool = True, blocks: Collection[int] | None = None, frames: int = 0) -> list[Piece]:
    """All of a run, or what may differ from what was saved of it.

    Args:
        run: The run.
        still: Whether with what does not change.
        blocks: Of the results only pieces that begin with these nodes, and none of them inside of the first piece.
        frames: So many are left out: those of whole pieces.

    Raises:
        InvariantBroken: It is not between two records.
    """
    _refuse_moving(run)
    columns = list(_columns(run, still, blocks, frames))
    moving = [piece for piece in columns if piece[0] not in STILL_COLUMNS]
    stays = [piece for piece in columns if piece[0] in STILL_COLUMNS]
    if _size(stays) <= TINY_BYTES_MAX:
        moving, stays = columns, []
    elif _size(stays) <= SMALL_BYTES_MAX:
        stays = [(STILL, 0, _together(_contents(stays), stays))]
    head = _head(run)
    if blocks is None and _size(moving) <= SMALL_BYTES_MAX:
        head["inside"] = _contents(moving)
        return [(HEAD, 0, _together(head, moving)), *stays]
    return [(HEAD, 0, _together(head, ())), *moving, *stays]


def save_change(run: Run, nodes: Sequence[int], frames: int) -> bytes:
    """What happened to a run since it was saved with so many frames, where no more than this did: these nodes ended
    with results, and what is small has changed in any way.

    The list in it: moving facts | rare ones | nodes | results | frames (offset, pid, [nodes, started, ends] of each
    group, lowest and highest node) | bytes of a number in `waits`, 0: there are none | whether there are marks.
    Raises InvariantBroken: it is not between two records.
    """
    _refuse_moving(run)
    results, waits, width = run.results, b"", 0
    if run.waits:
        try:
            waits, width = bytes(run.waits), 1
        except ValueError:
            waits, width = _little(array("i", run.waits)), 4
    no, new = run.no, run.frames[frames:]
    read = orjson.loads(b"[%b]" % b",".join([raw for _, raw, _, _ in new]))
    ran = [
        (offset_ns, pid, [(own, starts, ends) for _, of, own, _, starts, ends in groups if of == no], low, high)
        for (offset_ns, _, low, high), (pid, groups) in zip(new, read, strict=True)
    ]
    first = [
        [getattr(run, name) for name in _MOVING],
        None if run.rare is NO_RARE else _rare(run.rare),
        nodes,
        [results[node] for node in nodes],
        ran,
        width,
        run.marks is not None,
    ]
    text = orjson.dumps(first)
    return b"".join([_LENGTH.pack(len(text)), text, run.state, run.marks or b"", waits])


def load_run(scheduler: Scheduler, pieces: Iterable[Piece], accept: Any) -> Run:
    """The run of these pieces, each column in order. It is entered nowhere.

    Args:
        scheduler: Interns its kinds.
        pieces: As `save_run` made them.
        accept: Called with the kinds' dictionaries: makes sure that their node types have queues.

    Raises:
        ProtocolError: They do not fit together.
    """
    found: dict[str, list[bytes]] = {}
    for name, _, body in pieces:
        found.setdefault(name, []).append(body)
    try:
        (packed,) = found.pop(HEAD)
        head, at = _first(packed)
        _apart(packed, at, head.pop("inside", ()), found)
        for packed in found.pop(STILL, ()):
            contents, at = _first(packed)
            _apart(packed, at, contents, found)
        changes = [_first(packed) + (packed,) for packed in found.pop(CHANGE, ())]
        accept(head["kinds"])
        run = Run(0, "", "", 0, 0, scheduler.interned(head["kinds"]), 0)
        for name in _PLAIN:
            setattr(run, name, head[name])
        _load_columns(run, head, found)
        for change, _, _ in changes:
            _load_results(run, *change[2:5])
        _load_rare(scheduler, run, _load_latest(run, *changes[-1]) if changes else head["rare"])
    except (KeyError, ValueError, TypeError, IndexError, struct.error) as broken:
        raise ProtocolError(f"a run of a checkpoint does not fit together: {broken!r}") from broken
    if not len(run.state) == len(run.results) == run.size:
        raise ProtocolError(f"run {run.key!r} of a checkpoint: its columns differ in length")
    return run


def stripped(no: int, frame: ResultFrame) -> ResultFrame:
    """A frame with nothing in it but when nodes of this run ran."""
    offset_ns, raw, low, high = frame
    if raw[:1] == STRIPPED:
        return frame
    pid, groups = orjson.loads(raw)
    own = [[0, no, nodes, 0, started, ends] for _, of, nodes, _, started, ends in groups if of == no]
    return offset_ns, STRIPPED + orjson.dumps([pid, own]), low, high


# --- writing ------------------------------------------------------------------------------------------------------


def _refuse_moving(run: Run) -> None:
    if run.wave or run.fresh or run.rare.refused:
        raise InvariantBroken(f"run {run.key}: it is saved while something of it is on its way")


def _head(run: Run) -> dict[str, Any]:
    columns = run.columns
    head = {name: getattr(run, name) for name in _PLAIN}
    head["kinds"] = [orjson.Fragment(kind.text) for kind in run.kinds]
    head["waits"] = bool(run.waits)
    head["has"] = [
        columns is not None,
        columns is not None and columns.items is not None,
        columns is not None and columns.after is not None,
        columns is not None and columns.kind_of is not None,
        run.items is not None,
        run.marks is not None,
    ]
    head["rare"] = None if run.rare is NO_RARE else _rare(run.rare)
    return head


def _rare(rare: Rare) -> dict[str, Any]:
    burst = rare.debounce
    return {
        **{name: getattr(rare, name) for name in _RARE_PLAIN},
        **{name: list(getattr(rare, name).items()) for name in _RARE_BY_NODE},
        **{name: sorted(getattr(rare, name)) for name in _RARE_NODES},
        "calls": [[caller, made.nodes, made.digests, made.waits] for caller, made in rare.calls.items()],
        "debounce": None if burst is None else [burst.wait_ns, burst.until_ns, burst.calls, list(burst.files.items())],
        "ended": list(rare.ended.items()),
        "events": list(rare.events),
        "spawned": [
            [node, block, [orjson.Fragment(kind.text) for kind in kinds]]
            for node, (block, kinds) in rare.spawned.items()
        ],
    }


def _columns(run: Run, still: bool, blocks: Collection[int] | None, frames: int) -> Iterator[Piece]:
    """What has a value for each node, edge or frame; what is empty is left out. As `save_run`."""
    for name in _BYTES:
        yield from _cut(name, bytes(getattr(run, name) or b""), 1)
    if run.waits:
        yield from _cut("waits", _little(array("i", run.waits)), 4)
    if still and run.columns is not None:
        for name in _EDGES:
            column = getattr(run.columns, name)
            if column:
                yield from _cut(name, _little(column), 4)
        yield from _json("ids", list(run.columns.ids.items()))
    if still:
        yield from _json("items", run.items or ())
    for at in range(0, run.size, PIECE_VALUES):
        if blocks is None or at in blocks:
            yield from _halves("results", run.results, at, min(at + PIECE_VALUES, run.size))
    new = (stripped(run.no, frame) for frame in run.frames[frames:])
    made = [(offset_ns, raw.decode(), low, high) for offset_ns, raw, low, high in new]
    for name, at, body in _json("frames", made):
        yield name, frames + at, body


def _size(pieces: Sequence[Piece]) -> int:
    return sum(len(body) for _, _, body in pieces)


def _contents(pieces: Sequence[Piece]) -> list[list[Any]]:
    return [[name, at, len(body)] for name, at, body in pieces]


def _together(first: Any, pieces: Sequence[Piece]) -> bytes:
    """What is read first, and the columns behind it."""
    text = orjson.dumps(first)
    return b"".join([_LENGTH.pack(len(text)), text, *(body for _, _, body in pieces)])


def _cut(name: str, raw: bytes, value_bytes: int) -> Iterator[Piece]:
    for at in range(0, len(raw), PIECE_BYTES):
        yield name, at // value_bytes, raw[at : at + PIECE_BYTES]


def _json(name: str, values: Sequence[Any]) -> Iterator[Piece]:
    for at in range(0, len(values), PIECE_VALUES):
        yield from _halves(name, values, at, min(at + PIECE_VALUES, len(values)))


def _halves(name: str, values: Sequence[Any], first: int, stop: int) -> Iterator[Piece]:
    text = orjson.dumps(values[first:stop])
    if len(text) <= JSON_BYTES_MAX or stop - first == 1:
        yield name, first, text
        return
    half = (first + stop) // 2
    yield from _halves(name, values, first, half)
    yield from _halves(name, values, half, stop)


def _little(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


# --- reading ------------------------------------------------------------------------------------------------------


def _first(packed: bytes) -> tuple[Any, int]:
    """What stands first in a piece, and where the columns behind it begin."""
    (length,) = _LENGTH.unpack_from(packed)
    return orjson.loads(packed[4 : 4 + length]), 4 + length


def _apart(packed: bytes, at: int, contents: Iterable[Any], found: dict[str, list[bytes]]) -> None:
    """Enter columns that are in one piece."""
    for name, _, size in contents:
        found.setdefault(name, []).append(packed[at : at + size])
        at += size


def _numbers(raw: bytes, code: str) -> array[int]:
    column = array(code, raw)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _load_columns(run: Run, head: dict[str, Any], found: Mapping[str, list[bytes]]) -> None:
    in_graph, graph_items, has_after, has_kinds, has_items, has_marks = head["has"]

    def whole(name: str) -> bytes:
        return b"".join(found.get(name, ()))

    def numbers(name: str, code: str = "I") -> array[int]:
        return _numbers(whole(name), code)

    def values(name: str) -> list[Any]:
        return [value for text in found.get(name, ()) for value in orjson.loads(text)]

    run.state = bytearray(whole("state"))
    run.marks = bytearray(whole("marks")) if has_marks else None
    run.waits = numbers("waits", "i").tolist() if head["waits"] else []
    run.results = values("results")
    run.items = values("items") if has_items else None
    run.frames = [(offset_ns, raw.encode(), low, high) for offset_ns, raw, low, high in values("frames")]
    if in_graph:
        run.columns = GraphColumns(
            run.size,
            numbers("deps_off"),
            numbers("deps"),
            numbers("after_off") if has_after else None,
            numbers("after") if has_after else None,
            numbers("succ_off"),
            numbers("succ"),
            numbers("kind_of") if has_kinds else None,
            run.items if graph_items else None,
            dict(values("ids")),
        )


def _load_results(run: Run, nodes: Sequence[int], values: Sequence[Any], frames: Sequence[Any]) -> None:
    """What came with a change."""
    for node, value in zip(nodes, values, strict=True):
        run.results[node] = value
    for offset_ns, pid, groups, low, high in frames:
        own = [[0, run.no, ended, 0, starts, ends] for ended, starts, ends in groups]
        run.frames.append((offset_ns, STRIPPED + orjson.dumps([pid, own]), low, high))


def _load_latest(run: Run, change: Sequence[Any], at: int, packed: bytes) -> Any:
    """What the last change has whole; returns the rare facts."""
    moving, rare, _, _, _, width, has_marks = change
    for name, value in zip(_MOVING, moving, strict=True):
        setattr(run, name, value)
    behind = at + run.size
    run.state = bytearray(packed[at:behind])
    run.marks = bytearray(packed[behind : behind + run.size]) if has_marks else None
    rest = packed[behind + run.size * has_marks :]
    if len(rest) != run.size * width:
        raise ValueError("a change has too much or too little")
    run.waits = list(rest) if width == 1 else _numbers(rest, "i").tolist() if width else []
    return rare


def _load_rare(scheduler: Scheduler, run: Run, data: dict[str, Any] | None) -> None:
    if data is None:
        return
    rare = run.own_rare()
    for name in _RARE_PLAIN:
        setattr(rare, name, data[name])
    for name in (*_RARE_BY_NODE, *_RARE_NODES):
        getattr(rare, name).update(data.get(name, ()))  # older checkpoints know fewer facts
    for caller, nodes, digests, waits in data["calls"]:
        made = rare.calls[caller] = Calls()
        made.nodes, made.digests, made.waits = nodes, digests, waits
    if data["debounce"] is not None:
        wait_ns, until_ns, calls, files = data["debounce"]
        rare.debounce = Burst(wait_ns, until_ns)
        rare.debounce.calls, rare.debounce.files = calls, dict(files)
    rare.ended.update((node, (times[0], times[1], times[2])) for node, times in data["ended"])
    rare.events.extend((at, node, event, detail, lsn) for at, node, event, detail, lsn in data["events"])
    for node, block, kinds in data["spawned"]:
        rare.spawned[node] = (block, scheduler.interned(kinds))

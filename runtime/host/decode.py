"""Frames to messages: the first byte names the frame, the rest is JSON (or a graph container).

Knows the wire forms of what faces and workers send to the engine, and nothing else. The raw bytes are kept where the
log stores them as they came. A frame that does not fit raises `ProtocolError`; the host decides what that means for the
sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import MainspringError, ProtocolError
from actors.protocol.graph import decode_slices
from actors.protocol.places import unpacked

BLOB_MARK: Final = b"@"
"""A graph record or frame that starts with this names a blob file with the container."""
SEQ_BYTES: Final = 8
_NODES, _VALUES = 2, 3
"""Places in a group of results."""


def worker_messages(worker: int, control: Sequence[bytes], work: Sequence[bytes], passed: int = 0) -> list[Any]:
    """What a worker said, control before work. `passed` is what its lease table shows now."""
    try:
        return [_WORKER[frame[:1]](worker, frame[1:], passed) for frame in (*control, *work)]
    except (KeyError, ValueError, TypeError, IndexError) as broken:
        raise ProtocolError(f"frame from worker {worker} is malformed: {broken!r}") from broken


def _done(worker: int, body: bytes, passed: int) -> msg.WorkerDone:
    _, groups = orjson.loads(body)
    for group in groups:
        group[_NODES] = unpacked(group[_NODES], len(group[_VALUES]))
    return msg.WorkerDone(worker, groups, body, passed)


def _failed(worker: int, body: bytes, passed: int) -> msg.WorkerFailed:
    return msg.WorkerFailed(worker, orjson.loads(body)[1], passed)


def _spawned(worker: int, body: bytes, _: int) -> msg.WorkerSpawned:
    serial, _, _, block = orjson.loads(body)
    return msg.WorkerSpawned(worker, serial, block, body)


_WORKER: Final[dict[bytes, Callable[[int, bytes, int], Any]]] = {
    b"D": _done,
    b"E": _failed,
    b"S": _spawned,
    b"H": lambda worker, body, _: msg.WorkerHello(worker, orjson.loads(body)[0]),
    b"P": lambda worker, body, _: msg.WorkerProgress(worker, *orjson.loads(body)),
    b"W": lambda worker, body, _: msg.WorkerCannotBoot(worker, orjson.loads(body)[0]),
    b"O": lambda worker, body, _: msg.WorkerLogged(worker, *orjson.loads(body)),
    b"R": lambda worker, body, _: msg.WorkerPools(worker, orjson.loads(body)),
    b"B": lambda worker, body, _: msg.TimePassed(),
}


def face_submissions(session: str, frames: Sequence[bytes], load_blob: Callable[[str], Any]) -> Iterator[Any]:
    """What a face sent on its work lane; consecutive single tasks become one message.

    Large graphs are decoded in slices: None stands for one, after which the caller may do something else.
    """
    pile: list[bytes] = []
    for frame in frames:
        letter = frame[:1]
        if letter == b"T":
            pile.append(frame[1:])
            if len(pile) == limits.BUNDLE_NODES_MAX:
                yield _tasks(session, pile)
                pile = []
            continue
        if pile:
            yield _tasks(session, pile)
            pile = []
        if letter == b"G":
            yield from _graph(session, frame, load_blob)
        else:
            yield _submission(session, letter, frame)
    if pile:
        yield _tasks(session, pile)


def _tasks(session: str, pile: list[bytes]) -> msg.TasksSubmitted:
    raw = b"[" + b",".join(pile) + b"]"
    return msg.TasksSubmitted(session, orjson.loads(raw), raw)


def _submission(session: str, letter: bytes, frame: bytes) -> Any:
    if letter == b"K":
        kind_no, data = orjson.loads(frame[1:])
        return msg.KindDefined(session, kind_no, data)
    if letter == b"U":
        (before,) = orjson.loads(frame[1:])
        return msg.KindsGivenUp(session, before)
    if letter == b"M":
        raw = frame[1:]
        seq, kind_no, items = orjson.loads(raw)
        return msg.MapSubmitted(session, seq, kind_no, items, raw)
    raise ProtocolError(f"unknown frame {letter!r} from a session")


def _graph(session: str, frame: bytes, load_blob: Callable[[str], Any]) -> Iterator[Any]:
    seq = int.from_bytes(frame[1 : 1 + SEQ_BYTES], "little")
    raw = frame[1 + SEQ_BYTES :]
    try:
        container = load_blob(raw[1:].decode()) if raw[:1] == BLOB_MARK else raw
        header, columns = yield from decode_slices(container)
    except MainspringError as broken:
        yield msg.SubmissionRefused(session, seq, broken.code, broken.message)
        return
    yield msg.GraphSubmitted(session, seq, header, columns, raw)


def face_control(session: str, frame: bytes) -> Any:
    """What a face sent on its control lane, except hello."""
    letter, body = frame[:1], orjson.loads(frame[1:])
    if letter == b"C":
        return msg.CancelAsked(session, *body)
    if letter == b"Q":
        return msg.Queried(session, *body)
    if letter == b"Z":
        return msg.CloseAsked(session, bool(body["drain"]), int(float(body.get("timeout_s") or 0) * 1e9))
    raise ProtocolError(f"unknown control frame {letter!r} from a session")

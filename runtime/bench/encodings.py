"""Ways to write the state of a run, to be compared: whole each time, or only what changed since the last time.

An encoding of rows is given what a program without columns would have ready: a dict (or a message) for each node, with
the user's values in it. So making rows is not charged to it, only encoding them. One that is not there, because its
library is not, says so (`missing`).

Concurrency: none.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import orjson
import zstandard

from runtime.bench.lives import Life

STATES: Final = ("pending", "ready", "succeeded")
ZSTD_LEVEL: Final = 3
NUMBERS: Final = ("attempt", "pid", "started_ns", "ended_ns")


class RowEncoding(ABC):
    """One way. `whole` and `changes` make bytes; `rows` reads them back, the whole and the changes behind it."""

    name: ClassVar[str]
    library: ClassVar[str] = ""

    @classmethod
    def missing(cls) -> str:
        """The library that is not installed; empty when nothing is missing."""
        try:
            importlib.import_module(cls.library or "orjson")
        except ImportError:
            return cls.library
        return ""

    def prepare(self, lives: Sequence[Life]) -> None:  # noqa: B027 - most need nothing else than rows
        """Bring up to date what a program of this kind would have ready. Not measured."""

    @abstractmethod
    def whole(self, life: Life) -> bytes:
        """The state of a run."""

    @abstractmethod
    def changes(self, life: Life) -> bytes:
        """Of the nodes that changed last."""

    @abstractmethod
    def rows(self, whole: bytes, changes: Sequence[bytes]) -> list[dict[str, Any]]:
        """What was written, at least states and results."""


class Json(RowEncoding):
    """An object for each node."""

    name = "JSON"

    def whole(self, life: Life) -> bytes:
        return orjson.dumps(life.rows)

    def changes(self, life: Life) -> bytes:
        return orjson.dumps([life.rows[node] for node in life.changed])

    def rows(self, whole: bytes, changes: Sequence[bytes]) -> list[dict[str, Any]]:
        return _merged(orjson.loads(whole), map(orjson.loads, changes))


class MessagePack(RowEncoding):
    """A map for each node."""

    name = "MessagePack"
    library = "msgpack"

    def __init__(self) -> None:
        module = importlib.import_module(self.library)
        self._pack, self._unpack = module.packb, module.unpackb

    def whole(self, life: Life) -> bytes:
        packed: bytes = self._pack(life.rows)
        return packed

    def changes(self, life: Life) -> bytes:
        packed: bytes = self._pack([life.rows[node] for node in life.changed])
        return packed

    def rows(self, whole: bytes, changes: Sequence[bytes]) -> list[dict[str, Any]]:
        return _merged(self._unpack(whole), map(self._unpack, changes))


class ProtocolBuffers(RowEncoding):
    """A message for each node, which is kept; users' values are bytes in it."""

    name = "Protocol Buffers"
    library = "google.protobuf"

    def __init__(self) -> None:
        self._run, self._node = _messages()
        self._kept: dict[int, list[Any]] = {}

    def prepare(self, lives: Sequence[Life]) -> None:
        for life in lives:
            kept = self._kept.get(life.run.no)
            if kept is None:
                self._kept[life.run.no] = [self._message(row) for row in life.rows]
                continue
            for node in life.changed:
                kept[node] = self._message(life.rows[node])

    def _message(self, row: dict[str, Any]) -> Any:
        return self._node(
            id=row["id"],
            handler=row["handler"],
            state=STATES.index(row["state"]),
            parents=row["parents"],
            item=orjson.dumps(row["item"]),
            result=orjson.dumps(row["result"]),
            **{name: row[name] for name in NUMBERS},
        )

    def whole(self, life: Life) -> bytes:
        packed: bytes = self._run(nodes=self._kept[life.run.no]).SerializeToString()
        return packed

    def changes(self, life: Life) -> bytes:
        kept = self._kept[life.run.no]
        packed: bytes = self._run(nodes=[kept[node] for node in life.changed]).SerializeToString()
        return packed

    def rows(self, whole: bytes, changes: Sequence[bytes]) -> list[dict[str, Any]]:
        first, *more = (
            [
                {"id": node.id, "state": STATES[node.state], "result": orjson.loads(node.result)}
                for node in self._run.FromString(text).nodes
            ]
            for text in (whole, *changes)
        )
        return _merged(first, more)


class ZstdColumns(RowEncoding):
    """A column for each field, all of them through Zstandard; of what changed, the same columns of those nodes."""

    name = "columns, zstd"

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    def whole(self, life: Life) -> bytes:
        return self._columns(life.rows)

    def changes(self, life: Life) -> bytes:
        return self._columns([life.rows[node] for node in life.changed])

    def _columns(self, rows: Sequence[dict[str, Any]]) -> bytes:
        parents = [row["parents"] for row in rows]
        columns = [
            orjson.dumps([[row[name] for row in rows] for name in ("id", "handler", "item", "result")]),
            bytes(STATES.index(row["state"]) for row in rows),
            array("I", map(len, parents)).tobytes(),
            array("I", [parent for each in parents for parent in each]).tobytes(),
            *(array("q", [row[name] for row in rows]).tobytes() for name in NUMBERS),
        ]
        return self._compressor.compress(b"".join([array("I", map(len, columns)).tobytes(), *columns]))

    def rows(self, whole: bytes, changes: Sequence[bytes]) -> list[dict[str, Any]]:
        first, *more = map(self._rows, (whole, *changes))
        return _merged(first, more)

    def _rows(self, packed: bytes) -> list[dict[str, Any]]:
        content = self._decompressor.decompress(packed)
        lengths = array("I", content[: 4 * (4 + len(NUMBERS))])
        at = 4 * len(lengths)
        ids, _, _, results = orjson.loads(content[at : at + lengths[0]])
        states = content[at + lengths[0] :][: lengths[1]]
        return [
            {"id": id_, "state": STATES[state], "result": result}
            for id_, state, result in zip(ids, states, results, strict=True)
        ]


ENCODINGS: Final[tuple[type[RowEncoding], ...]] = (Json, ProtocolBuffers, MessagePack, ZstdColumns)


def _merged(rows: list[dict[str, Any]], changes: Any) -> list[dict[str, Any]]:
    for changed in changes:
        for row in changed:
            rows[int(row["id"])] = row
    return rows


def _messages() -> tuple[Any, Any]:
    """Classes of a run and of a node, made without a compiler."""
    described = importlib.import_module("google.protobuf.descriptor_pb2")
    pool = importlib.import_module("google.protobuf.descriptor_pool").DescriptorPool()
    factory = importlib.import_module("google.protobuf.message_factory")
    file = described.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    field = described.FieldDescriptorProto
    node = file.message_type.add(name="Node")
    kinds = {
        "id": field.TYPE_STRING,
        "handler": field.TYPE_STRING,
        "state": field.TYPE_UINT32,
        "parents": field.TYPE_UINT32,
        "item": field.TYPE_BYTES,
        "result": field.TYPE_BYTES,
        **dict.fromkeys(NUMBERS, field.TYPE_INT64),
    }
    for number, (name, kind) in enumerate(kinds.items(), 1):
        label = field.LABEL_REPEATED if name == "parents" else field.LABEL_OPTIONAL
        node.field.add(name=name, number=number, type=kind, label=label)
    run = file.message_type.add(name="Run")
    run.field.add(name="nodes", number=1, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED, type_name=".bench.Node")
    pool.Add(file)
    classes = [factory.GetMessageClass(pool.FindMessageTypeByName(f"bench.{name}")) for name in ("Run", "Node")]
    return classes[0], classes[1]

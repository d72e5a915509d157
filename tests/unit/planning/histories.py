"""Histories made by hand: records as an engine writes them, without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from actors.protocol.graph import encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record, RecordType
from runtime.planning.recording import Recording, RecordingReader

WALL_NS = 1_700_000_000_000_000_000
MS = 1_000_000


def node_type(name: str = "default", workers: int = 1, **more: Any) -> dict[str, Any]:
    base = {"workers_min": workers, "workers_max": workers, "mode": "process", "slots": 1, "prefetch": None}
    return {"name": name, **base, "recycle_tasks": None, "recycle_rss_bytes": None, "grace_ns": 10**9, **more}


def kind(shape: str = "one", **more: Any) -> dict[str, Any]:
    return {"handler": "m:f", "node_type": "default", "shape": shape, **more}


class History:
    """Records of one log; times in milliseconds since its first opening."""

    def __init__(self, *node_types: dict[str, Any], policy: dict[str, Any] | None = None, told: bool = True) -> None:
        self.records: list[Record] = []
        self._runs = 0
        self._told = told
        self._node_types = list(node_types) or [node_type()]
        self._policy = policy
        self.open(0)

    def add(self, record_type: RecordType, payload: bytes) -> None:
        self.records.append(Record(len(self.records) + 1, int(record_type), payload))

    def open(self, at_ms: float) -> None:
        """An engine begins; `told`: it says with what."""
        wall_ns = WALL_NS + int(at_ms * MS)
        opened = {"pid": 1, "durability": "os", "now_ns": wall_ns, "wall_ns": wall_ns}
        more = {"node_types": self._node_types, "policy": self._policy} if self._told else {}
        self.add(RecordType.OPENED, orjson.dumps({**opened, "next_run_no": self._runs + 1, **more}))

    def tasks(self, at_ms: float, items: int, **options: Any) -> int:
        """A map of so many items arrives; returns its number."""
        self._runs += 1
        no, wall_ns = self._runs, WALL_NS + int(at_ms * MS)
        body = [no, 1, list(range(items))]
        self.add(RecordType.SUBMITTED, b"M" + orjson.dumps(["s", no, wall_ns, [[1, kind(**options)]], body]))
        return no

    def graph(self, at_ms: float, edges: Sequence[Sequence[int]], **options: Any) -> int:
        """A graph arrives."""
        self._runs += 1
        builder = GraphBuilder()
        for parents in edges:
            builder.add(0, list(parents))
        raw = encode(builder.finish(), {"kinds": [kind("parents", **options)], "name": "graph"})
        head = orjson.dumps(["s", self._runs, WALL_NS + int(at_ms * MS), self._runs])
        self.add(RecordType.SUBMITTED, b"G" + len(head).to_bytes(4, "little") + head + raw)
        return self._runs

    def ran(self, no: int, node: int, start_ms: float, took_ms: float, pid: int = 100) -> None:
        """A task succeeded."""
        group = [1, no, [node], [None], WALL_NS + int(start_ms * MS), [int(took_ms * MS)]]
        self.add(RecordType.COMPLETED, orjson.dumps([pid, [group]]))

    def failed(
        self,
        no: int,
        node: int,
        start_ms: float,
        took_ms: float,
        *,
        attempt: int = 1,
        outcome: str = "failed",
        kind: str = "error",
    ) -> None:
        """An attempt failed, or was stopped."""
        failure = {"kind": kind, "type": "ValueError", "message": "no", "traceback": ""}
        start, end = WALL_NS + int(start_ms * MS), WALL_NS + int((start_ms + took_ms) * MS)
        due = end + 10 * MS if outcome == "retry" else 0
        body = [no, node, outcome, attempt, failure, due, end, [start, end, 100]]
        self.add(RecordType.ATTEMPT, orjson.dumps(body))

    def recording(self) -> Recording:
        reader = RecordingReader()
        for record in self.records:
            reader.take(record)
        return reader.done()

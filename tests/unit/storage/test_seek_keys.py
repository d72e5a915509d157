"""What says where a record is."""

from __future__ import annotations

import orjson

from actors.protocol.records import RecordType
from runtime.storage.seek import HEAD_BYTES
from runtime.storage.seek_keys import run_no_of, time_of


def test_keys_of_records() -> None:
    head = orjson.dumps(["s", 4, 77, 1])
    graph = b"G" + len(head).to_bytes(4, "little") + head + b"..."
    assert (run_no_of(RecordType.SUBMITTED, graph), time_of(RecordType.SUBMITTED, graph)) == (4, 77)
    assert run_no_of(RecordType.SUBMITTED, b'M["a\\"b",5,88,[') == 5
    assert time_of(RecordType.ATTEMPT, b'[1,0,"failed",1,{},0,99,[1,2,3]]') == 99
    many = orjson.dumps(["s", 6, 78, [[1, {"name": "n" * 9_000}]]])
    cut = (b"G" + len(many).to_bytes(4, "little") + many)[:HEAD_BYTES]
    assert (run_no_of(RecordType.SUBMITTED, cut), time_of(RecordType.SUBMITTED, cut)) == (6, 78), (
        "a graph of many kinds"
    )
    assert time_of(RecordType.COMPLETED, b"[]") is None

"""Of which run a record speaks: against a plain reading of all that an engine ever writes."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from actors.imported import lines_payload
from actors.protocol.records import Record, RecordType
from actors.record_runs import run_of, shard_of
from tests.unit.storage.worlds import records_of


def plainly(record: Record) -> int | None:
    """The slow way: what the fold of the log takes for the run's number."""
    payload = record.payload
    match record.type:
        case RecordType.SUBMITTED:
            if payload[:1] == b"G":
                return int(orjson.loads(payload[5 : 5 + int.from_bytes(payload[1:5], "little")])[1])
            return int(orjson.loads(payload[1:])[1])
        case RecordType.COMPLETED:
            return int(orjson.loads(payload)[1][0][1])
        case RecordType.ATTEMPT | RecordType.CANCEL | RecordType.PRIORITY | RecordType.LENT:
            return int(orjson.loads(payload)[0])
        case RecordType.SPAWNED:
            return int(orjson.loads(payload)[1])
        case RecordType.DEAD:
            if payload[:1] == b"K":
                return int(orjson.loads(payload[5 : 5 + int.from_bytes(payload[1:5], "little")])["no"])
            return int(orjson.loads(payload)[1])
        case RecordType.DEBOUNCE:
            return int(orjson.loads(payload[4 : 4 + int.from_bytes(payload[:4], "little")])[2])
    return None


@pytest.mark.slow
def test_every_record_of_many_lives() -> None:
    seen: Counter[int] = Counter()
    for seed in range(12):
        for record in records_of(seed):
            assert run_of(record.type, record.payload) == plainly(record), record
            seen[record.type] += 1
    wanted = {
        RecordType.SUBMITTED,
        RecordType.COMPLETED,
        RecordType.ATTEMPT,
        RecordType.CANCEL,
        RecordType.SPAWNED,
        RecordType.DEAD,
        RecordType.PRIORITY,
    }
    assert wanted <= set(seen)


@pytest.mark.parametrize(
    ("type_", "payload", "run"),
    [
        (RecordType.DEBOUNCE, len(b'["a\\"[1",3,41,"k",1,2]').to_bytes(4, "little") + b'["a\\"[1",3,41,"k",1,2]', 41),
        (RecordType.SUBMITTED, b"G" + (0x0A5B).to_bytes(4, "little") + b'["s",12,9,1]', 12),
        (RecordType.LENT, b"[9,1,5]", 9),
        (RecordType.POLICY, b"[7]", None),
        (RecordType.RELEASED, b"[7,8]", None),
        (RecordType.IMPORTED, lines_payload(5, True, [b"{}"]), None),
        (RecordType.COMPLETED, b"garbage", None),
        (99, b"[1]", None),
    ],
)
def test_forms(type_: int, payload: bytes, run: int | None) -> None:
    assert run_of(type_, payload) == run


def test_consecutive_runs_are_spread_evenly() -> None:
    for shards in (2, 3, 4, 7, 16):
        on = Counter(shard_of(RecordType.CANCEL, b"[%d,null,[]]" % no, shards) for no in range(1, 100 * shards + 1))
        assert set(on) == set(range(shards))
        assert max(on.values()) <= 105
    assert shard_of(RecordType.POLICY, b"{}", 8) == 0

"""What records say of when they were written."""

from __future__ import annotations

import orjson
import pytest

from actors.imported import commit_payload, lines_payload
from actors.protocol import messages as msg
from actors.protocol.errors import ProtocolError
from actors.protocol.records import Record, RecordType
from actors.record_times import RecordTimes
from tests.unit.actors.rig import Rig, kind

DAY_NS = 86_400 * 10**9


def test_a_log_tells_its_times() -> None:
    rig = Rig(wall_ns=100 * DAY_NS)
    rig.say(msg.KindDefined('s"[1', 1, kind()))
    rig.later(DAY_NS, msg.TasksSubmitted("s", [], b"[]"))
    rig.submit(2)
    submitted_ns = rig.wall_ns
    (worker, serial, node), (_, second, other) = rig.leases()
    rig.later(DAY_NS)
    rig.succeed(worker, serial, node)
    rig.later(DAY_NS)
    rig.fail(worker, second, other)
    times = RecordTimes()
    opened = {"now_ns": rig.now_ns, "wall_ns": rig.wall_ns}
    assert times.at(Record(1, int(RecordType.OPENED), orjson.dumps(opened))) == rig.wall_ns
    told = [(RecordType(record.type).name, times.at(record)) for record in rig.records]
    assert [name for name, _ in told] == ["SUBMITTED", "COMPLETED", "ATTEMPT"]
    found = [at_ns or 0 for _, at_ns in told]
    assert found[0] == pytest.approx(submitted_ns, abs=10)
    assert found[1] == pytest.approx(submitted_ns + DAY_NS, abs=100), "the worker's clock, made the wall clock"
    assert found[2] == pytest.approx(submitted_ns + 2 * DAY_NS, abs=100)


@pytest.mark.parametrize(
    ("record_type", "payload", "at_ns"),
    [
        (RecordType.SUBMITTED, b'T["a\\"b,1,2",7,1234,[[1,{}]],[[1,1,null]]]', 1234),
        (RecordType.SUBMITTED, b'M["s",7,99,[[1,{}]],[1,1,[5]]]', 99),
        (RecordType.SUBMITTED, b"G" + (13).to_bytes(4, "little") + b'["s",1,55,10]' + b"container", 55),
        (RecordType.RATES, b'{"wall_ns":5,"busy_ns":{}}', 5),
        (RecordType.PRIORITY, b'[1,null,2,77,"s"]', 77),
        (RecordType.DEBOUNCE, (17).to_bytes(4, "little") + b'["s",1,1,"k",8,9]' + b"container", 8),
        (RecordType.DEAD, b'["replayed",1,[0],66,"s"]', 66),
        (RecordType.LENT, b"[1,0,44,40,43,9]", 44),
        (RecordType.DEAD, b"Kanything", None),
        (RecordType.CANCEL, b"[1,null,[]]", None),
        (RecordType.CANCEL, b'[1,null,[],45,"by s"]', 45),
        (RecordType.RELEASED, b"[1]", None),
        (RecordType.RELEASED, b"[1,2,-46]", 46),
        (RecordType.RELEASED, b"[]", None),
        (RecordType.POLICY, b'{"policy":{},"given":{}}', None),
        (RecordType.POLICY, b'{"policy":{},"given":{},"at_ns":47}', 47),
        (RecordType.SCHEDULE, b'{"gone":"n"}', None),
        (RecordType.SCHEDULE, b'{"gone":"n","at_ns":48}', 48),
        (RecordType.KEYS, b'{"kept":[]}', None),
        (RecordType.KEYS, b'{"again":["s",1,"r","k"],"at_ns":49}', 49),
        (RecordType.IMPORTED, commit_payload(1, 2), None),
        (RecordType.IMPORTED, commit_payload(1, 2, 50), 50),
        (RecordType.IMPORTED, lines_payload(1, True, []), None),
        (RecordType.COMPLETED, b"[9,[]]", None),
        (RecordType.COMPLETED, b"[9,[[1,1,[0],[7],5,[6]]]]", None),  # on a clock of which nothing is known
    ],
)
def test_every_kind_of_record(record_type: RecordType, payload: bytes, at_ns: int | None) -> None:
    record = Record(1, int(record_type), payload)
    assert RecordTimes().at(record) == at_ns
    if record_type != RecordType.COMPLETED:  # it says so, on a clock of its own
        assert RecordTimes().tells(record) == (at_ns is not None)


def test_what_cannot_be_read_is_said() -> None:
    with pytest.raises(ProtocolError, match="record 12"):
        RecordTimes().at(Record(12, int(RecordType.ATTEMPT), b"[1]"))

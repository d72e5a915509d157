"""Events made by columns are those that are made one by one."""

from __future__ import annotations

from unittest.mock import patch

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.event_fold import EventFold
from actors.event_kinds import EVENT_KINDS, Event
from actors.event_rows import are_alike
from actors.protocol.graph import encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record, RecordType
from actors.run import Run
from tests.unit.actors.rig import kind

SIZE = 20


def bundle() -> bytes:
    kinds = [[1, kind(name="f")], [2, kind(name="g")]]
    return b"T" + orjson.dumps(["q", 5, 9, kinds, [[7 + node, 1 + node % 2, 0] for node in range(SIZE)]])


def mapped() -> bytes:
    return b"M" + orjson.dumps(["q", 5, 9, [[1, kind(name="f")]], [7, 1, [0] * SIZE]])


def graph() -> bytes:
    builder = GraphBuilder()
    for node in range(SIZE):
        builder.add(node % 2, [], node_id=f"n{node}" if node % 3 == 0 else None)
    header = orjson.dumps(["q", 5, 9, 7])
    kinds = [kind(name="f"), kind(name="g")]
    return b"G" + len(header).to_bytes(4, "little") + header + encode(builder.finish(), {"kinds": kinds, "name": "all"})


def told(submission: bytes, nodes: list[int], few: int) -> list[Event]:
    ends = list(range(10, 10 + len(nodes)))
    group = [1, 5, nodes, [0] * len(nodes), 100, ends]
    records = [
        Record(1, RecordType.OPENED, orjson.dumps({"now_ns": 1, "wall_ns": 1000, "next_run_no": 5})),
        Record(2, RecordType.SUBMITTED, submission),
        Record(3, RecordType.COMPLETED, orjson.dumps([1, [group]])),
    ]
    with patch("actors.event_teller.FEW", few):
        fold = EventFold(frozenset(EVENT_KINDS), begins=True)
        return [event for record in records for event in fold.events(record)]


@pytest.mark.parametrize("submission", [bundle, mapped, graph], ids=lambda make: make.__name__)
@given(nodes=st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=SIZE, unique=True))
def test_columns_say_what_one_by_one_says(submission: object, nodes: list[int]) -> None:
    payload = submission()  # type: ignore[operator]
    found = told(payload, nodes, 0)
    assert found == told(payload, nodes, 1 << 30)
    assert all(type(event) is Event for event in found)
    assert [event.place for event in found if event.lsn == 3] == list(range(sum(e.lsn == 3 for e in found)))


def test_each_event_has_data_of_its_own() -> None:
    first, second, *_ = (event for event in told(bundle(), [0], 0) if event.kind == "run.submitted")
    assert first.data == second.data == {"nodes": 1}
    assert first.data is not second.data


def test_tasks_that_were_added_to_a_bundle_are_none_of_its_runs() -> None:
    run = Run(1, "r", "s", 1, 0, [], 4)
    assert are_alike(run, range(4))
    assert are_alike(run, [3, 0])
    run.size = 6
    assert not are_alike(run, [5, 0])
    assert not are_alike(run, range(2, 6))
    run.is_graph = True
    assert are_alike(run, [5, 0])
    assert not are_alike(run, [6])

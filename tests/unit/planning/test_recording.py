"""What a log tells of the past: arrivals, durations, node types, and the time in which no engine ran."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.records import RecordType
from runtime.planning.recording import Recording, read_recording
from tests.unit.planning.histories import MS, WALL_NS, History, node_type
from tests.unit.storage.states import cut, make_folder, put_checkpoint
from tests.unit.storage.test_history import folder_of


def test_times_and_durations_are_those_of_the_log() -> None:
    history = History(node_type(workers=2))
    no = history.tasks(5, 3)
    history.ran(no, 0, 10, 20, pid=7)
    history.failed(no, 1, 10, 5, outcome="retry")
    history.ran(no, 1, 40, 7)
    found = history.recording()
    run = found.runs[no]
    assert run.arrival_ns == WALL_NS + 5 * MS
    assert list(run.took) == [20 * MS, 7 * MS, -1]
    assert list(run.starts)[:2] == [WALL_NS + 10 * MS, WALL_NS + 10 * MS], "the first attempt's"
    assert list(run.ends)[:2] == [WALL_NS + 30 * MS, WALL_NS + 47 * MS], "the last one's"
    assert run.failed[1][1][1] == 5 * MS
    assert found.busy_ns["default"] == 32 * MS
    assert found.node_types["default"]["workers_max"] == 2
    assert not found.inferred


def test_workers_that_no_opening_tells_of_are_counted() -> None:
    history = History(told=False)
    no = history.tasks(0, 4, node_type="cpu")
    for node, pid in enumerate((7, 8, 9, 9)):
        history.ran(no, node, 10 * node, 10, pid=pid)
    found = history.recording()
    assert found.inferred == {"cpu"}
    assert (found.node_types["cpu"]["workers_max"], found.node_types["cpu"]["mode"]) == (3, "process")
    overlapping = History(told=False)
    no = overlapping.tasks(0, 2)
    overlapping.ran(no, 0, 0, 100)
    overlapping.ran(no, 1, 10, 100)
    assert overlapping.recording().node_types["default"]["mode"] == "asyncio"


def test_what_never_ended_usually_takes_what_its_like_took() -> None:
    history = History()
    no = history.tasks(0, 4)
    for node, took in enumerate((10, 30, 20)):
        history.ran(no, node, 100 * node, took)
    other = history.tasks(0, 1, name="g")
    strange = history.tasks(0, 1, name="h", node_type="gpu")
    found = history.recording()
    assert found.guess_ns(found.runs[no].run.kind(0)) == 20 * MS
    assert found.guess_ns(found.runs[other].run.kind(0)) == 20 * MS, "its node type"
    assert found.guess_ns(found.runs[strange].run.kind(0)) == 0


def test_time_without_an_engine_is_left_out() -> None:
    history = History()
    no = history.tasks(0, 2)
    history.ran(no, 0, 10, 20)
    history.open(1030)
    history.ran(no, 1, 1040, 5)
    found = history.recording()
    assert found.down_ns == 1000 * MS
    assert found.runs[no].ends[1] == WALL_NS + 45 * MS
    assert found.wall(WALL_NS + 45 * MS) == WALL_NS + 1045 * MS
    assert found.wall(WALL_NS + 29 * MS) == WALL_NS + 29 * MS


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)), max_size=6), st.integers(0, 10**7))
def test_the_axis_and_the_wall_clock_lead_to_each_other(stretches: list[tuple[int, int]], at: int) -> None:
    found, wall = Recording(), 1000
    for up, down in stretches:
        found.was_down(wall + up + down, wall + up)
        wall += up + down
    assert found.axis(found.wall(at)) == at
    assert found.wall(at) >= at
    assert found.wall(at + 1) > found.wall(at)


def test_what_was_asked_for_is_noted() -> None:
    history = History()
    no = history.tasks(0, 2)
    history.ran(no, 0, 10, 20)
    history.add(RecordType.CANCEL, orjson.dumps([no, 1, []]))
    history.add(RecordType.PRIORITY, orjson.dumps([no, None, 3, WALL_NS + 50 * MS, "s"]))
    policy = {"quotas": {"class:low": 1}}
    history.add(RecordType.POLICY, orjson.dumps({"policy": policy, "given": {}}))
    assert history.recording().controls == [
        (WALL_NS + 30 * MS, "cancel", (no, 1)),
        (WALL_NS + 50 * MS, "priority", (no, None, 3)),
        (WALL_NS + 50 * MS, "policy", (policy,)),
    ]


def test_a_cancel_of_what_ran_is_dated_by_the_end_of_that() -> None:
    history = History()
    no = history.tasks(0, 1)
    history.add(RecordType.CANCEL, orjson.dumps([no, 0, [0]]))
    history.failed(no, 0, 100, 400, outcome="cancelled")
    assert history.recording().controls == [(WALL_NS + 500 * MS, "cancel", (no, 0))]


def test_a_folder_is_read(tmp_path: Path) -> None:
    history = History()
    history.ran(history.graph(0, [[], [0]]), 0, 1, 2)
    found = read_recording(folder_of(tmp_path / "state", history.records))
    (run,) = found.runs.values()
    assert list(run.took) == [2 * MS, -1]
    header, columns = found.container(run.payload)
    assert (header["name"], columns.size) == ("graph", 2)
    with pytest.raises(RuntimeError, match="without a folder"):
        Recording().container(b"G" + bytes(4) + b"@blob")


def test_a_cancel_has_the_time_that_its_record_tells() -> None:
    history = History()
    no = history.tasks(0, 2)
    history.ran(no, 1, 1, 2)
    history.add(RecordType.CANCEL, orjson.dumps([no, 0, [0], WALL_NS + 100 * MS, "by s"]))
    history.failed(no, 0, 100, 400, outcome="cancelled")
    assert history.recording().controls == [(WALL_NS + 100 * MS, "cancel", (no, 0))]


def test_what_a_cut_log_does_not_say_of_its_engine_the_checkpoint_does(tmp_path: Path) -> None:
    history = History(node_type(workers=3), policy={"quotas": {"class:low": 2}})
    history.ran(history.tasks(0, 1), 0, 10, 20)
    no = history.tasks(50, 8)
    for node in range(8):
        history.ran(no, node, 100 + 10 * node, 10)
    history.open(1000)
    segments = make_folder(tmp_path, history.records)
    put_checkpoint(tmp_path, history.records, segments[2].first_lsn - 1)
    cut(tmp_path, segments[2].no)
    found = read_recording(tmp_path)
    assert found.first_lsn == segments[2].first_lsn > 2
    assert not found.inferred
    assert found.node_types["default"]["workers_max"] == 3
    assert found.policy["quotas"] == {"class:low": 2}
    assert WALL_NS + 30 * MS <= found.opened_ns <= WALL_NS + 180 * MS, "when the checkpoint was taken, about"
    assert 0 < found.down_ns <= 970 * MS, "the next opening is another one"

"""Trace events: frames that go on are one event, events of a thread nest, and a file has its limit."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.profile.formats.chrome import Timed, encode, timeline
from runtime.profile.model import Frame, Process, StackSample
from tests.unit.profile.profiles import small

A, B, C = Frame("a", "a.py", 1), Frame("b", "b.py", 2), Frame("c", "c.py", 3)


def written(rows: list[Timed], bytes_max: int = 1 << 20) -> dict[str, Any]:
    file = BytesIO()
    timeline(rows, file, bytes_max)
    assert len(file.getvalue()) <= bytes_max
    return dict(json.loads(file.getvalue()))


def spans(found: dict[str, Any]) -> list[tuple[str, float, float]]:
    events = [one for one in found["traceEvents"] if one["ph"] == "X"]
    return sorted((one["name"], one["ts"], one["dur"]) for one in events)


def test_what_goes_on_is_one_event() -> None:
    rows = [
        Timed(0, 1_000, StackSample((A, B))),
        Timed(1_000, 1_000, StackSample((A, C))),
        Timed(2_000, 500, StackSample((A, C))),
    ]
    assert spans(written(rows)) == [("a", 0, 2.5), ("b", 0, 1), ("c", 1, 1.5)]


def test_a_gap_ends_what_went_on() -> None:
    rows = [Timed(0, 1_000, StackSample((A,))), Timed(5_000, 1_000, StackSample((A,)))]
    assert spans(written(rows)) == [("a", 0, 1), ("a", 5, 1)]


def test_threads_and_processes_have_names() -> None:
    worker, reborn = Process(7, 1, "worker", 1), Process(7, 2, "worker", 2)
    rows = [Timed(0, 1, StackSample((A,), (("tenant", "x"),), one, "main")) for one in (worker, reborn)]
    events = written(rows)["traceEvents"]
    names = {(one["name"], one["args"]["name"]) for one in events if one["ph"] == "M"}
    assert names == {("process_name", "worker 1"), ("process_name", "worker 2"), ("thread_name", "main")}
    assert len({one["pid"] for one in events}) == 2
    assert [one["args"]["tenant"] for one in events if one["ph"] == "X"] == ["x", "x"]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.integers(0, 9),
            st.lists(st.sampled_from([A, B, C]), max_size=4),
            st.sampled_from("xy"),
        ),
        max_size=12,
    )
)
def test_events_of_a_thread_nest(steps: list[tuple[int, int, list[Frame], str]]) -> None:
    rows, at, sums = [], 0, {"x": 0, "y": 0}
    for gap, length, stack, thread in steps:
        at += gap * 1_000
        rows.append(Timed(at, length * 1_000, StackSample(tuple(stack), thread=thread)))
        at += length * 1_000
        sums[thread] += length * len(stack)
    events = [one for one in written(rows)["traceEvents"] if one["ph"] == "X"]
    tids = {one["args"]["name"]: one["tid"] for one in written(rows)["traceEvents"] if one["name"] == "thread_name"}
    for thread, tid in tids.items():
        own = [(one["ts"], one["ts"] + one["dur"]) for one in events if one["tid"] == tid]
        assert sum(end - begin for begin, end in own) == sums[thread]
        for begin, end in own:
            assert all(
                other[1] <= begin
                or end <= other[0]
                or (begin <= other[0] and other[1] <= end)
                or (other[0] <= begin and end <= other[1])
                for other in own
            )


def test_a_file_has_its_limit() -> None:
    rows = [Timed(at * 2_000, 1_000, StackSample((A, B))) for at in range(1_000)]
    found = written(rows, 20_000)
    left_out = found["otherData"]["left_out"]
    assert left_out > 0
    assert len(spans(found)) + left_out == 2_000
    assert f"{left_out:,} events were left out" in found["traceEvents"][-1]["name"]


def test_notes_count_against_the_limit() -> None:
    profile = small()
    profile.notes = ["x" * 3_000]
    for sample, weight in small():
        for number in range(400):
            profile.add(sample._replace(thread=f"t{number}"), *weight)
    file = BytesIO()
    assert encode(profile, file, 9_000).left_out > 0
    assert len(file.getvalue()) <= 9_000
    json.loads(file.getvalue())


def test_a_profile_lies_side_by_side() -> None:
    file = BytesIO()
    result = encode(small(), file)
    found = json.loads(file.getvalue())
    assert ("main", 0.0, 7_000_000.0) in spans(found)
    assert found["otherData"]["order"] == "by stack, not by time"
    assert result.left_out == 0
    assert result.events == len(found["traceEvents"])

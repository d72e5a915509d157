"""Files turned into others, and comparisons as text."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from actors.protocol.errors import EnvironmentFault
from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.convert import compare, convert, diff_lines, load, save
from runtime.profile.diff import diff
from runtime.profile.model import COUNT, Weight
from tests.unit.profile.profiles import small
from tests.unit.profile.test_diff import profile


@pytest.mark.slow
def test_one_format_into_another(tmp_path: Path) -> None:
    save(small(), tmp_path / "a.pb.gz")
    for step, name in enumerate(("b.json", "c.speedscope.json", "d.folded", "e.pb.gz")):
        source = ["a.pb.gz", "b.json", "c.speedscope.json", "d.folded"][step]
        convert(tmp_path / source, tmp_path / name)
    assert load(tmp_path / "e.pb.gz").total() == small().total()
    convert(tmp_path / "a.pb.gz", tmp_path / "out", "html")
    assert (tmp_path / "out").read_bytes().startswith(b"<!doctype html>")


def test_what_is_written_for_perfetto_is_a_trace_that_it_opens(tmp_path: Path) -> None:
    """Its page takes Chrome's format: an object with a list of events, each with a phase, and times in microseconds."""
    save(small(), tmp_path / "out", "perfetto")
    found = orjson.loads((tmp_path / "out").read_bytes())
    events = found["traceEvents"]
    assert {event["ph"] for event in events} <= {"X", "M", "i"}
    spans = [event for event in events if event["ph"] == "X"]
    assert spans
    assert all({"name", "pid", "tid", "ts", "dur"} <= event.keys() for event in spans)
    assert {"process_name", "thread_name"} <= {event["name"] for event in events if event["ph"] == "M"}


@pytest.mark.slow
def test_what_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        convert(tmp_path / "none", tmp_path / "out.json")
    (tmp_path / "bad.pb.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(ProfileUnreadable, match=r"bad\.pb\.gz"):
        convert(tmp_path / "bad.pb.gz", tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


@pytest.mark.slow
def test_two_files_compared(tmp_path: Path) -> None:
    now = small()
    for sample in list(now.samples):
        if sample.stack[-1].name == "turn":
            now.samples[sample] = Weight(5_000_000_000, 500)
    save(small(), tmp_path / "before.folded")
    save(now, tmp_path / "after.pb.gz")
    found = compare(tmp_path / "before.folded", tmp_path / "after.pb.gz", by=(), report=tmp_path / "x.html")
    assert found.changed()[0].stack[-1].name == "turn"
    assert b"what changed" in (tmp_path / "x.html").read_bytes()


def test_a_comparison_as_text() -> None:
    before = profile({"a": 500, "b": 500, "gone": 400}, label="x").merge(profile({"c": 500}, label="y"))
    after = profile({"a": 500, "b": 1_500}, label="x").merge(profile({"c": 5}, label="z"))
    text = "\n".join(diff_lines(diff(before, after)))
    for part in ("workflow=x", "vanished [workflow=x] main > gone", "grew ", "main > b", "500 ms/s", "too few samples"):
        assert part in text
    assert "nothing changed" in "\n".join(diff_lines(diff(before, before)))


def test_numbers_have_no_interval() -> None:
    text = "\n".join(diff_lines(diff(profile({"a": 3}, unit=COUNT), profile({"a": 4}, unit=COUNT))))
    assert "+33.3%" in text
    assert "95%" not in text


def test_long_lists_are_cut() -> None:
    before = profile({f"old{at}": 500 for at in range(30)})
    after = profile({f"new{at}": 500 for at in range(30)})
    assert "... and 50 more" in "\n".join(diff_lines(diff(before, after), rows_max=10))

"""The page of the flame graph: self-contained, escaped, and readable without scripts. What its scripts do is tried in a
browser, see `tests/scenarios/test_profile_pages.py`."""

from __future__ import annotations

import json

import pytest

from runtime.profile.formats import flame, tree
from runtime.profile.model import COUNT, LIVE, Frame, Process, Profile, StackSample, Weight
from tests.unit.cli.page_reader import PageReader, names_nothing_outside
from tests.unit.profile.profiles import small


def test_the_page_names_nothing_outside_itself() -> None:
    names_nothing_outside(flame.page(small()))
    names_nothing_outside(flame.page(small(), small()))


def test_figures_are_there_without_scripts() -> None:
    text = PageReader(flame.page(small())).text
    for part in ("CPU", "9.50 s", "941 samples at 99 Hz", "recorded for 10.0 s", "worker 2 was killed", "2023-11-14"):
        assert part in text
    assert "fetch app.py 7.00 s 73.7% 7.00 s 73.7%" in text


def test_the_first_view_is_what_was_asked_for() -> None:
    assert json.loads(PageReader(flame.page(small())).data)["groups"] == ["process"]
    asked = flame.page(small(), by=["tenant", "nonsense"])
    assert json.loads(PageReader(asked).data)["groups"] == ["tenant"]


def test_lines_count_where_things_wait() -> None:
    live = Profile(LIVE, COUNT)
    for line in (3, 4):
        live.add(StackSample((Frame("wait", "a.py", line),)), 2, 2)
    assert len(json.loads(PageReader(flame.page(live)).data)["names"]) == 1
    assert "4 in 2 stacks" in PageReader(flame.page(live)).text
    assert json.loads(PageReader(flame.page(live)).data)["nodeCount"] == 2
    assert json.loads(PageReader(flame.page(live, lines=False)).data)["nodeCount"] == 1


def test_hostile_names_stay_text() -> None:
    names = [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\"' &amp;\x00\x1b[31m",
        "{{script}}",
    ]
    names += ["\ud800", "txt.\u202eexe\u2066\x9b"]
    profile = Profile()
    for name in names:
        process = Process(1, 2, "worker", 1, name)
        profile.add(StackSample((Frame(name, name, 1),), (("tenant", name),), process, name), 10)
        profile.notes.append(name)
    content = flame.page(profile, title=names[0])
    reader = PageReader(content)
    assert content.count(b"<script") == 2
    assert not any(tag == "img" for tag, _ in reader.tags)
    assert set(json.loads(reader.data)["names"]) == set(names)
    assert not any(char in content.decode() for char in "\x00\x1b\x9b\u202e\u2066")


def test_a_comparison_says_with_what() -> None:
    text = PageReader(flame.page(small(), small())).text
    assert "CPU · what changed" in text
    assert "compared with 9.50 s in 10.0 s, 941 samples" in text
    assert "before: worker 2 was killed" in text
    assert "Nothing changed more than by chance" in text
    assert "What changed" in text


def test_what_changed_has_an_interval_without_scripts() -> None:
    before, after = small(), small()
    for sample, weight in after:
        if sample.stack[-1].name == "turn":
            after.samples[sample] = Weight(20 * weight.value, 20 * weight.seen)
    text = PageReader(flame.page(after, before)).text
    assert "turn engine.py all grew 50.0 ms/s 1.00 s/s +1900.0%" in text
    few = Profile(duration_ns=1)
    few.add(StackSample((Frame("a"),)), 5)
    assert "there are 1 samples before" in PageReader(flame.page(after, few)).text


def test_a_page_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "ROWS_MAX", 2)
    monkeypatch.setattr(flame, "ROWS_MAX", 2)
    reader = PageReader(flame.page(small()))
    assert "of 4 rows the 2 heaviest" in reader.text
    assert json.loads(reader.data)["sampleCount"] == 4

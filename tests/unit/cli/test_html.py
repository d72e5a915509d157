"""The page: self-contained, escaped, and readable without scripts."""

from __future__ import annotations

import json

from runtime.cli import html
from runtime.cli.html import html_page
from runtime.cli.report import analyse
from runtime.cli.trace import Trace
from tests.unit.cli.page_reader import PageReader, names_nothing_outside
from tests.unit.cli.traces import diamond, trace_of


def read(trace: Trace) -> tuple[PageReader, str]:
    page = html_page(trace, analyse(trace))
    return PageReader(page), page.decode()


def test_the_page_names_nothing_outside_itself() -> None:
    reader, page = read(diamond())
    names_nothing_outside(page.encode())
    sources = [value for _, attributes in reader.tags for name, value in attributes.items() if name in ("src", "href")]
    assert sources == ["data:,", "#types"]


def test_figures_are_there_without_scripts() -> None:
    text = " ".join(read(diamond())[0].words)
    for part in ("made-up", "35.0 ms", "100.0%", "Critical path", "Node types", "fsync", "processes"):
        assert part in text


def test_the_data_is_json() -> None:
    data = json.loads(read(diamond())[0].data)
    assert data["nodes"]["id"] == ["a", "b", "c", "d"]
    assert data["path"] == [0, 1, 3]
    assert data["groups"] == ["y", "x"]


def test_hostile_names_stay_text() -> None:
    names = [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\"' &amp;\x00\x1b[31m",
        "\ud800{{script}}",
        "txt.\u202eexe\u2066\x9b",
    ]
    parents: list[list[int]] = [[], [0], [1], [2], [3]]
    trace = trace_of(parents, [1] * 5, 1, names=names, groups=names, failed=[1])
    trace.title = names[0]
    trace.errors = {1: names[1]}
    reader, page = read(trace)
    assert page.count("<script") == 2
    assert not any(tag == "img" for tag, _ in reader.tags)
    assert json.loads(reader.data)["nodes"]["id"] == names
    assert "\x00" not in page
    assert not any(char in page for char in "\x1b\x9b\u202e\u2066")
    assert "txt.\\u202eexe\\u2066\\u009b" in page


def test_a_name_that_is_cut_can_be_read() -> None:
    names = ["n" * 900, "m" * 900]
    reader, _ = read(trace_of([[], [0]], [1, 2], 1, names=names, groups=names))
    assert {attributes.get("title") for tag, attributes in reader.tags if tag == "th"} >= set(names)


def test_failures_and_long_paths_are_bounded() -> None:
    size = 400
    trace = trace_of(
        [[row - 1] if row else [] for row in range(size)], [1 + row % 3 for row in range(size)], 1, failed=range(150)
    )
    page = read(trace)[1]
    assert page.count("<pre>") == html.FAILURES_LISTED_MAX
    assert page.count("<li data-node") == html.PATH_LISTED_MAX
    assert "and 50 more" in page


def test_a_run_in_which_nothing_ran() -> None:
    trace = diamond()
    trace.states = ["cancelled"] * 4
    trace.starts = trace.ends = trace.pids = trace.attempts = [0] * 4
    assert "0 ns" in read(trace)[1]

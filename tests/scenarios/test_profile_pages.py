"""Pages of the profiler in a real browser: they open, zoom, search, filter and group, at a thousand and at a hundred
thousand stacks, and ask for nothing but themselves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import NodeType, Runtime
from runtime.profile.captures.live import dump
from runtime.profile.formats import flame, leak_page, read, write
from runtime.profile.model import CPU, NANOSECONDS, Frame, Process, Profile, StackSample, Weight
from tests.scenarios import handlers_profile as handlers
from tests.scenarios.browser import Page, browser
from tests.scenarios.waiting import await_lines
from tests.unit.profile.formats.test_leak_page import finding

pytestmark = [pytest.mark.slow]
RECTS_MAX = 40_000
"""A screen of 1,280 pixels has no more that could be seen; all of 100,000 stacks have half a million frames."""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path) as one:
        yield one


def large(stacks: int) -> Profile:
    """That many different stacks, most of them of little weight, of four workers and an engine."""
    dice = random.Random(7)
    words = "read parse send merge walk encode load check".split()
    frames = [Frame(f"{words[at % 8]}_{at}", f"site-packages/pack{at % 12}/m{at % 40}.py", at) for at in range(2_000)]
    workers = [Process(1_000 + at, at, "worker", at, ("http", "db")[at % 2]) for at in range(1, 5)]
    processes = [*workers, Process(999, 1, "engine")]
    profile = Profile(CPU, NANOSECONDS, 1_700_000_000_000_000_000, 30_000_000_000, 99.0)
    known: list[tuple[Frame, ...]] = [()]
    while len(profile) < stacks:
        stem = known[min(int(dice.expovariate(4 / len(known))), len(known) - 1)]
        stack = stem + tuple(frames[min(int(dice.expovariate(1 / 200)), 1_999)] for _ in range(dice.randint(1, 6)))
        if len(stack) > 25:
            continue
        known.append(stack)
        process = dice.choice(processes)
        labels = (("node_type", process.node_type or "none"), ("tenant", dice.choice(["acme", "bolt"])))
        value = int(dice.paretovariate(1.1) * 10_000_000)
        profile.add(StackSample(stack, labels, process, "MainThread"), value, max(1, value // 10_000_000))
    return profile


def shown(page: Page, path: Path, content: bytes) -> None:
    """Open a page and wait until its graph is drawn; nothing went wrong and nothing else was asked for."""
    path.write_bytes(content)
    page.open(path)
    page.until("document.documentElement.dataset.drawn > 0 && document.querySelectorAll('#table tbody tr').length > 0")
    page.screenshot(path.with_suffix(".png"))
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]


def weight(page: Page, node: str = "Graph.focus") -> int:
    return round(page.run(f"Tree.value[{node}]"))


@pytest.mark.parametrize("stacks", [1_000, 100_000])
def test_all_weights_are_there_and_only_what_is_seen_is_drawn(page: Page, tmp_path: Path, stacks: int) -> None:
    profile = large(stacks)
    content = flame.page(profile)
    assert len(content) < 60_000 + 60 * stacks, "a stack takes 60 bytes at most"
    shown(page, tmp_path / "flame.html", content)
    assert weight(page) == profile.total().value
    nodes, drawn = page.run("[Tree.count, Graph.drawn]")
    assert nodes > stacks
    assert drawn < min(nodes, RECTS_MAX)
    # Zooming down to the end of the heaviest stack: each view has the zoomed frame over the full width.
    while page.run("Tree.first[Graph.focus] < Tree.first[Graph.focus + 1]"):
        page.run("Graph.zoom(Tree.children[Tree.first[Graph.focus]]); Graph.draw()")
        node, row, left, width = page.run("Graph.seen.rects[Graph.seen.callers - 1]")
        assert (node, left, width) == (page.run("Graph.focus"), 0, page.run("Graph.holder.clientWidth"))
        assert row == page.run("Math.min(Tree.depth[Graph.focus], CALLERS_MAX - 1)")
        assert page.run("Graph.drawn") < RECTS_MAX
    page.run("View.search('parse')")
    page.until("document.querySelector('#found').textContent.includes('%')")
    assert page.errors == []


def small() -> Profile:
    """Two workers: main calls fetch (60 ms and 20 ms), and parse (20 ms) for the tenant bolt."""
    profile = Profile(CPU, NANOSECONDS, 0, 1_000_000_000, 99.0)
    main, fetch, parse = Frame("main", "a.py", 1), Frame("fetch", "b.py", 2), Frame("parse", "c.py", 3)
    one, two = Process(11, 1, "worker", 1, "http"), Process(12, 1, "worker", 2, "db")
    acme, bolt = (("tenant", "acme"),), (("tenant", "bolt"),)
    profile.add(StackSample((main, fetch), acme, one, "MainThread"), 60_000_000, 6)
    profile.add(StackSample((main, fetch), acme, two, "MainThread"), 20_000_000, 2)
    profile.add(StackSample((main, parse), bolt, two, "MainThread"), 20_000_000, 2)
    return profile


def choose(page: Page, label: str, text: str) -> None:
    """Choose in one of the lists, as a reader does."""
    page.run(
        f"(() => {{ const list = document.querySelector('select[aria-label=\"{label}\"]');"
        f"list.value = [...list.options].find((one) => one.textContent.startsWith({text!r})).value;"
        "list.dispatchEvent(new Event('change')); Graph.draw(); })()"
    )


def names(page: Page) -> list[list[str]]:
    """Names of the frames that are drawn, row by row, from the left."""
    found: list[list[str]] = page.run(
        "(() => { const rows = []; for (const [node, row, x] of Graph.seen.rects)"
        "(rows[row] ||= []).push([x, node < 0 ? '' : Frames.names[Tree.frame[node]]]);"
        "return rows.map((row) => row.sort((a, b) => a[0] - b[0]).map((one) => one[1])); })()"
    )
    return found


def test_groups_filters_search_and_keys(page: Page, tmp_path: Path) -> None:
    shown(page, tmp_path / "flame.html", flame.page(small()))
    workers = ["process 11: worker 1 [http]", "process 12: worker 2 [db]"]
    assert names(page) == [["all"], workers, ["main", "main"], ["fetch", "fetch", "parse"]]

    choose(page, "Group by", "nothing")
    assert names(page) == [["all"], ["main"], ["fetch", "parse"]]
    choose(page, "Group by", "tenant")
    assert names(page)[1] == ["tenant: acme", "tenant: bolt"]
    choose(page, "tenant", "tenant: acme")
    assert (names(page)[1], weight(page)) == (["tenant: acme"], 80_000_000)
    choose(page, "process", workers[1])
    assert weight(page) == 20_000_000
    choose(page, "tenant", "all")
    choose(page, "process", "all")
    choose(page, "Group by", "nothing")

    page.key("c", "c")
    page.run("Graph.draw()")
    assert names(page) == [["all"], ["fetch", "parse"], ["main", "main"]]
    assert weight(page) == 100_000_000
    page.until("document.querySelector('#table tbody').innerText.includes('80.0 ms\\t80.0%\\t80.0 ms\\t80.0%')")
    page.key("c", "c")

    page.run("document.querySelector('#flame').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.key(key)
    assert page.run("Frames.names[Tree.frame[Graph.focus]]") == "parse"
    assert "20.0 ms, 20.0% of all" in page.run("document.querySelector('#frame').textContent")
    page.key("Backspace")
    assert page.run("Frames.names[Tree.frame[Graph.focus]]") == "main"
    page.key("Escape")
    assert page.run("Graph.focus") == 0
    page.key("/", "/")
    for letter in "/^fet/":
        page.key(letter, letter)
    page.until("document.querySelector('#found').textContent === '80.0 ms, 80.0%'")
    page.until("document.querySelectorAll('#table tbody tr').length === 1")


def test_the_mouse_shows_figures_and_zooms(page: Page, tmp_path: Path) -> None:
    shown(page, tmp_path / "flame.html", flame.page(small(), by=["tenant"]))
    box = page.run(
        "(() => { const box = Graph.canvas.getBoundingClientRect(); return [box.left, box.top, box.width]; })()"
    )
    at = (box[0] + 0.3 * box[2], box[1] + 19 * 3 + 9)
    page.mouse("mouseMoved", *at)
    page.until("!document.querySelector('#tip').hidden")
    tip = page.run("document.querySelector('#tip').innerText")
    assert tip.splitlines()[:3] == ["fetch", "b.py", "80.0 ms, 80.0% of all"]
    assert "8 samples" in tip
    page.mouse("click", *at)
    assert page.run("Frames.names[Tree.frame[Graph.focus]]") == "fetch"
    page.run("document.querySelector('#theme').click(); document.querySelector('#theme').click()")
    assert page.run("document.documentElement.dataset.theme + Theme.isDark") == "darktrue"
    page.run("document.querySelector('#flip').click(); Graph.draw()")
    assert page.run("Graph.y(0) > Graph.y(1)")
    assert page.errors == []


def test_a_comparison_shows_what_came_and_went(page: Page, tmp_path: Path) -> None:
    now = small().filter(lambda one: one.stack[-1].name != "parse")
    for sample in list(now.samples):
        now.samples[sample] = Weight(2 * now.samples[sample].value, 2 * now.samples[sample].seen)
    now.add(StackSample((Frame("main", "a.py", 1), Frame("born", "d.py", 4))), 5_000_000)
    shown(page, tmp_path / "diff.html", flame.page(now, small()))
    choose(page, "Group by", "nothing")
    assert set(names(page)[2]) == {"fetch", "parse", "born"}
    choose(page, "Widths", "after")
    assert names(page)[2] == ["fetch", "born"]
    choose(page, "Widths", "before and after")
    texts = {}
    for name in ("fetch", "parse", "born"):
        page.run(f"Graph.choose([...Tree.frame].findIndex((one) => Frames.names[one] === {name!r}))")
        texts[name] = page.run("document.querySelector('#frame').textContent")
    assert "+100%" in texts["fetch"]
    assert "vanished" in texts["parse"]
    assert "new" in texts["born"]
    first = page.run("document.querySelector('#table tbody tr').innerText")
    assert first.split()[0] == "fetch"
    assert "+80.0 ms" in first


def dumped(state_dir: Path, tmp_path: Path) -> Profile:
    """A runtime as it is while a node of it waits for its parts."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("io", workers=1, mode="asyncio")]) as rt:
        handle = rt.submit(handlers.wait_for_parts, str(path), str(gate))
        await_lines(path, 1)
        profile = dump(rt.state_dir, patience=60.0)
        gate.touch()
        assert handle.result(timeout=60.0) == 2
    return profile


@pytest.mark.parametrize("fmt", ["json", "folded", "pprof", "speedscope"])
def test_a_dump_of_a_runtime_in_every_format(state_dir: Path, tmp_path: Path, fmt: str) -> None:
    """Acceptance 8, of what is alive: all processes in one file, each with its threads and tasks."""
    profile = dumped(state_dir, tmp_path)
    with (tmp_path / "dump").open("w+b") as file:
        write(profile, file, fmt)
        file.seek(0)
        again = read(file)
    assert (again.kind, again.unit) == ("live", "count")
    assert again.total().value == profile.total().value

    def seen(one: Profile) -> set[tuple[str, str, str]]:
        found = [(sample.process, sample.thread, sample.stack) for sample in one.samples]
        return {(process.title if process else "", thread, stack[-1].name) for process, thread, stack in found if stack}

    assert seen(again) == seen(profile)
    assert {title for title, _, _ in seen(again)} == {"engine", "face", "spawner", "worker 1 [io]"}


def test_a_dump_of_a_runtime_is_shown(page: Page, state_dir: Path, tmp_path: Path) -> None:
    """Acceptance 8, of what is alive: in one page."""
    profile = dumped(state_dir, tmp_path)
    shown(page, tmp_path / "live.html", flame.page(profile))
    assert weight(page) == profile.total().value
    groups = {name.partition(": ")[2] for name in names(page)[1]}
    assert groups == {"engine", "face", "spawner", "worker 1 [io]"}
    page.run("View.search('/^part$/')")
    page.until("document.querySelector('#found').textContent.startsWith('2, ')")


def test_findings_are_filtered_and_sorted(page: Page, tmp_path: Path) -> None:
    found = [
        finding(count=5, kind="task"),
        finding(count=70, kind="fd", grade="SUSPECT"),
        finding(count=9, kind="lease"),
    ]
    path = tmp_path / "leaks.html"
    path.write_bytes(leak_page.page(found))
    page.open(path)
    page.screenshot(path.with_suffix(".png"))
    rows = "[...document.querySelectorAll('#findings tbody tr')]"
    visible = f"{rows}.filter((row) => !row.hidden).map((row) => row.dataset.kind)"
    assert page.run(visible) == ["lease", "task", "fd"]
    choose_grade = "document.querySelector('select[aria-label=Grade]')"
    page.run(f"{choose_grade}.value = 'LEAK'; {choose_grade}.onchange()")
    assert page.run(visible) == ["lease", "task"]
    page.run(f"{choose_grade}.value = ''; {choose_grade}.onchange()")
    page.run("[...document.querySelectorAll('thead button')].find((one) => one.textContent === 'Count').click()")
    assert page.run(visible) == ["fd", "lease", "task"]
    page.run("document.querySelector('#search').value = 'lease'; document.querySelector('#search').oninput()")
    assert page.run(visible) == ["lease"]
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]

"""The page of findings: readable without scripts, escaped, bounded, the worst first."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.profile.formats import leak_page
from runtime.profile.model import Frame, Process
from tests.unit.cli.page_reader import PageReader, names_nothing_outside


def finding(**changed: Any) -> SimpleNamespace:
    facts: dict[str, Any] = {
        "grade": "LEAK",
        "kind": "task",
        "count": 1_204,
        "slope_per_min": 60.4,
        "oldest_s": 3_700.0,
        "signature": ("task", "handler"),
        "site": (Frame("main", "app.py", 3), Frame("handler", "app.py", 12)),
        "wait": (Frame("handler", "app.py", 40), Frame("get", "queues.py", 158)),
        "labels": (("node_type", "http"), ("workflow", "checkout")),
        "owner": "worker 3 [http]",
        "process": Process(4_711, 9, "worker", 3, "http"),
        "tenants": (("acme", 1_200), ("", 4)),
        "first_seen_ns": 1_700_000_000_000_000_000,
        "build": "abc123",
        "proved": True,
        "proof": "queue created at app.py:12 has no producer",
        "exemplars": ["a", "b", "c", "d"],
        "suggestion": "cancel the consumers",
    }
    return SimpleNamespace(**{**facts, **changed})


def test_a_finding_with_all_its_fields() -> None:
    content = leak_page.page([finding()], notes=["worker 2 did not answer"], made_ns=1_700_000_000_000_000_000)
    names_nothing_outside(content)
    text = PageReader(content).text
    for part in ("1 leak", "1,204", "+60.4/min", "1 h 01 min", "handler (app.py:12)", "get (queues.py:158)", "http"):
        assert part in text
    for part in ("worker 3 [http], pid 4711", "has no producer", "cancel the consumers", "checkout", "did not answer"):
        assert part in text
    for part in ("Proof queue created", "acme: 1,200 none: 4", "Oldest from 2023-11-14", "Build abc123"):
        assert part in text
    summaries = re.findall(r"<summary>(.*?)</summary>", content.decode())
    assert summaries == ["handler (app.py:12)"]
    assert " c " in text
    assert " d " not in text


def test_a_finding_that_lacks_most() -> None:
    text = PageReader(leak_page.page([{"grade": "suspect", "kind": "fd", "count": 3}])).text
    assert "1 suspect" in text
    assert "SUSPECT" in text
    assert "–" in text


def test_the_worst_comes_first_and_lists_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leak_page, "LISTED_MAX", 2)
    found = [finding(grade="INFO", kind="k1"), finding(grade="LEAK", kind="k2"), finding(grade="SUSPECT", kind="k3")]
    reader = PageReader(leak_page.page(found))
    grades = [one["data-grade"] for tag, one in reader.tags if tag == "tr" and "data-grade" in one]
    assert grades == ["leak", "suspect"]
    assert "1 findings that weigh less" in reader.text


def test_none_is_said() -> None:
    hidden = [tag for tag, one in PageReader(leak_page.page([])).tags if "hidden" in one]
    assert "section" in hidden
    assert "Nothing is held" in PageReader(leak_page.page([])).text


def test_hostile_text_stays_text() -> None:
    bad = "</td><script>alert(1)</script>\x1b\u202e"
    content = leak_page.page(
        [finding(kind=bad, proof=bad, owner=bad, site=bad, labels=(("node_type", bad),), grade=bad)]
    )
    assert content.count(b"<script") == 1
    assert not any(char in content.decode() for char in "\x1b\u202e")

"""What this process holds of a kind: entries at their sites, the rest by what it is, and sums that are the books'."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.host import kernel
from runtime.mail.blocks import create_block
from runtime.profile.captures.holdings import _what, descriptors, holdings
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.gauges import descriptors as counted_descriptors
from runtime.profile.ledger.gauges import gauge_process
from runtime.profile.model import COUNT, Process

HERE = Process(11, 12, "worker", 3, "http")


@pytest.fixture(autouse=True)
def fresh_books() -> Iterator[None]:
    """Books of one's own."""
    LEDGER.forked()
    yield
    LEDGER.forked()


class Session:
    """An owner."""


def test_entries_stand_at_the_line_that_created_them() -> None:
    owner = Session()
    for key in ("a", "b"):
        LEDGER.track("checkout", key, owner=owner, daemon=True)
    profile = holdings("checkout", HERE)
    ((sample, weight),) = profile
    assert (profile.unit, weight.value) == (COUNT, 2)
    assert sample.stack[-1].file == __file__
    assert sample.stack[-1].name.endswith("test_entries_stand_at_the_line_that_created_them")
    assert dict(sample.labels) == {"owner": "Session", "daemon": "yes"}
    assert sample.process == HERE


def test_what_is_only_counted_is_a_sum_without_a_site() -> None:
    LEDGER.gauge("lease", lambda: (7, 0, 0))
    ((sample, weight),) = holdings("lease")
    assert (sample.stack[-1].name, weight.value) == ("lease: counted only", 7)


def test_a_kind_that_nobody_knows_has_nothing() -> None:
    assert list(holdings("nonsense")) == []


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_threads_and_descriptors_are_told_by_what_they_are(tmp_path: Path) -> None:
    gauge_process()
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="orders")
    thread.start()
    block, file = create_block(0, label="mainspring-orders"), os.open(tmp_path, os.O_RDONLY)
    try:
        assert "orders" in {sample.stack[-1].name for sample, _ in holdings("thread")}
        found = descriptors()
        assert found[str(tmp_path)] == 1
        assert [count for what, count in found.items() if "mainspring-orders" in what] == [1]
        whole = holdings("descriptor").total().value
        assert abs(whole - counted_descriptors()[0]) <= 2, "those that look are counted or not"
    finally:
        os.close(block)
        os.close(file)
        gate.set()
        thread.join()


@pytest.mark.parametrize(
    ("link", "what"),
    [
        ("socket:[12]", "socket"),
        ("pipe:[12]", "pipe"),
        ("anon_inode:[eventpoll]", "anon_inode"),
        ("/a/log", "/a/log"),
        ("/memfd:mainspring-page:uuid:x (deleted)", "/memfd:mainspring-page:uuid"),
    ],
)
def test_links_are_put_into_words(link: str, what: str) -> None:
    assert _what(link) == what

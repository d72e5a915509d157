"""The report of a run in a real browser: its scripts run, draw, and take the colours that a reader chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.cli.html import html_page
from runtime.cli.report import analyse
from tests.scenarios.browser import browser
from tests.unit.cli.traces import diamond

pytestmark = [pytest.mark.slow]


def test_a_report_is_drawn_and_changes_its_colours(tmp_path: Path) -> None:
    trace = diamond()
    path = tmp_path / "report.html"
    path.write_bytes(html_page(trace, analyse(trace)))
    with browser(tmp_path) as page:
        page.open(path)
        page.until("document.querySelectorAll('#node-table tbody tr').length === 4")
        assert page.run("document.title") == f"{trace.title} · {trace.state} · Mainspring"
        assert page.run("document.querySelectorAll('.chart canvas').length") == 2
        colours = "[...document.querySelectorAll('.legend .dot')].map((dot) => dot.style.background)"
        before = page.run(colours)
        assert len(set(before)) == 2
        page.run("document.querySelector('#theme').click(); document.querySelector('#theme').click()")
        assert page.run("document.documentElement.dataset.theme") == "dark"
        assert not set(page.run(colours)) & set(before)
        assert page.errors == []
        assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]

"""The progress bar: on a terminal or when asked for, with rich or without."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from runtime.errors import WaitTimeout
from runtime.progress import show_progress
from runtime.views import Counts, RunProgress


class Run:
    """A run that ends after three looks."""

    def __init__(self) -> None:
        self.looks = 0

    def done(self) -> bool:
        return self.looks >= 3

    def wait(self, timeout: float) -> None:
        self.looks += 1
        if not self.done():
            raise WaitTimeout("not yet")

    def _shown(self) -> RunProgress | None:
        if self.looks == 1:
            return None
        return RunProgress(Counts(succeeded=self.looks, failed=1, pending=3 - self.looks))


def shown(capsys: pytest.CaptureFixture[str], wanted: bool | None, deadline: float | None = None) -> tuple[Any, str]:
    run = Run()
    show_progress(run, "etl", deadline, wanted)  # type: ignore[arg-type]
    return run, capsys.readouterr().err


def test_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run, text = shown(capsys, None)
    assert (run.looks, text) == (0, "")
    assert shown(capsys, False)[1] == ""


def test_with_rich(capsys: pytest.CaptureFixture[str]) -> None:
    run, text = shown(capsys, True)
    assert run.done()
    assert "etl" in text
    assert "1 failed" in text


def test_without_rich(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    run, text = shown(capsys, True)
    assert run.done()
    assert "etl [###" in text
    assert text.endswith("4/4 1 failed\n")


def test_the_deadline_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = shown(capsys, True, time.monotonic() - 1)
    assert run.looks == 0

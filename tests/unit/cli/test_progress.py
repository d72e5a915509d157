"""Progress: plain lines that are few and plain, a bar only on a terminal."""

from __future__ import annotations

import io

import pytest

from runtime.cli.console import Console
from runtime.cli.progress import BarMeter, LineMeter, NoMeter, meter_for


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_at_most_one_line_a_second_and_fewer_later() -> None:
    err, clock = io.StringIO(), _Clock()
    meter = LineMeter(Console(None, err), "flow", clock)
    for step in range(10_000):
        clock.now += 0.1
        meter.show(step, 10_000, 3, 0)
    meter.close()
    lines = err.getvalue().splitlines()
    assert 20 < len(lines) < 110
    assert lines[0].startswith("flow: ")
    assert all(line.isprintable() for line in lines)


def test_nothing_new_is_not_told_again() -> None:
    err, clock = io.StringIO(), _Clock()
    meter = LineMeter(Console(None, err), "flow", clock)
    for _ in range(10):
        clock.now += 5
        meter.show(1, 10, 2, 1)
    assert err.getvalue() == "flow: 1 of 10 nodes (10 %), 1 failed, 2 with workers, 5.00 s\n"


def test_who_stops_a_run_is_told_how_far_it_came() -> None:
    err, clock = io.StringIO(), _Clock()
    meter = LineMeter(Console(None, err), "flow", clock)
    clock.now += 2
    meter.show(2, 20, 2, 0)
    clock.now += 0.5
    meter.show(6, 20, 2, 0)
    meter.close()
    assert [line.split()[1] for line in err.getvalue().splitlines()] == ["2", "6"]


def test_the_stream_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(meter_for(Console(None, io.StringIO()), "x"), LineMeter)
    assert isinstance(meter_for(Console(None, None), "x"), NoMeter)
    assert isinstance(meter_for(Console(None, terminal), "x", quiet=True), NoMeter)
    meter = meter_for(Console(None, terminal), "[odd] \x1b[31m title")
    assert isinstance(meter, BarMeter)
    meter.show(3, 10, 2, 1)
    meter.close()
    assert "[odd]" in terminal.getvalue()
    assert "\x1b[31m title" not in terminal.getvalue()

"""`watch`: bounds and objectives as text, what is told, and how it ends."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from runtime.profile.cli import main
from runtime.profile.cli.app import ProfileExit, parser
from runtime.profile.cli.watching import bounds_of, slos_of
from runtime.profile.model import Frame, Process
from runtime.profile.monitor.bounds import Bounds, Breach

BREACH = Breach(
    "lag-loop-worker-io", "late", 1.0, 0.5, Process(11, 12, "worker", 1, "io"), stack=(Frame("parse", "a.py", 7),)
)


class Watched:
    """In place of a watch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *breaches: Breach) -> None:
        self.breaches, self.asked = list(breaches), dict[str, Any]()
        monkeypatch.setattr("runtime.profile.monitor.watching.watch", self)

    def __call__(self, where: str, **asked: Any) -> list[Breach]:
        self.asked = {"where": where, **asked}
        for breach in self.breaches:
            asked["tell"](breach)
        return self.breaches


def test_bounds_and_objectives_are_read() -> None:
    arguments = parser().parse_args(
        "watch state --ceiling task=5 --ceiling lock=2 --slope message=60 --lag 0.2 --rss 2 --rss-slope 3 --silence 9 "
        "--slo charge:0.5:99.9 --slo *:2".split()
    )
    assert bounds_of(arguments) == Bounds(
        ceilings={"task": 5, "lock": 2},
        slope_per_min={"message": 60.0},
        lag=0.2,
        rss_bytes=2 << 20,
        rss_per_min=3 << 20,
        silence=9.0,
    )
    slos = slos_of(arguments, "state")
    assert [(slo.name, round(slo.target, 4), slo.burn) for slo in slos] == [("charge", 0.999, 14.4), ("*", 0.99, 14.4)]


def test_an_objective_that_cannot_burn_so_fast_burns_at_what_it_can() -> None:
    arguments = parser().parse_args(["watch", "--slo", "charge:1:50"])
    (slo,) = slos_of(arguments, "state")
    assert slo.burn == pytest.approx(1.8)


def test_without_options_the_defaults_stand() -> None:
    arguments = parser().parse_args(["watch"])
    assert bounds_of(arguments) == Bounds()
    assert slos_of(arguments, "state") == []


@pytest.mark.parametrize(
    "option",
    [
        "--slo=charge",
        "--slo=:1:99",
        "--slo=charge:1:100",
        "--slo=charge:x",
        "--ceiling=task",
        "--ceiling==5",
        "--lag=0",
    ],
)
def test_what_cannot_be_is_refused(option: str) -> None:
    assert main(["watch", "state", option]) == ProfileExit.USAGE


def test_a_breach_is_told_and_ends_in_code_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched = Watched(monkeypatch, BREACH)
    assert main(["watch", "state", "--no-save", "-d", "5"]) == ProfileExit.SUSPECT
    said = capsys.readouterr()
    assert said.out == "worker 1 [io] (pid 11): late\n"
    assert "watching state" in said.err
    assert (watched.asked["where"], watched.asked["seconds"], watched.asked["save"]) == ("state", 5.0, False)
    assert main(["watch", "state", "--json"]) == ProfileExit.SUSPECT
    told = orjson.loads(capsys.readouterr().out)
    assert told["trigger"] == "lag-loop-worker-io"
    assert "parse" in str(told["stack"])


def test_nothing_is_code_0(monkeypatch: pytest.MonkeyPatch) -> None:
    Watched(monkeypatch)
    assert main(["watch", "state"]) == ProfileExit.OK

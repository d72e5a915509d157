"""What this machine permits is said, whatever it is, and nothing is changed by looking."""

from __future__ import annotations

import signal
from argparse import Namespace
from pathlib import Path

import orjson
import pytest

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.host import kernel
from runtime.profile.cli import doctor, main
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.doctor import GOOD, LESS, Fact
from runtime.profile.presence.here import HERE
from runtime.profile.presence.page import LETS_ATTACH
from tests.unit.profile.pages import opened_page

NAMES = ("system", "/proc", "signals", "SIGPROF", "Python", "tasks' insides", "ptrace", "py-spy", "entry of the books")


@pytest.mark.slow
def test_all_is_said_where_nothing_is_open(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def nobody(arguments: Namespace) -> str:
        raise ProfileUnavailable("no program of this user has a state folder open here")

    monkeypatch.setattr(doctor, "state_of", nobody)
    handler, timer = signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF)
    assert main(["doctor", "--json"]) == ProfileExit.OK
    facts = {row["name"]: Fact(**row) for row in orjson.loads(capsys.readouterr().out)}
    assert set(NAMES) <= set(facts)
    assert {fact.verdict for fact in facts.values()} <= {GOOD, LESS}
    assert facts["processes"] == Fact("processes", LESS, "no program of this user has a state folder open here")
    assert "up to" in facts["SIGPROF"].text
    assert facts["tasks' insides"].text == "all there"
    assert (signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF)) == (handler, timer)
    assert main(["doctor"]) == ProfileExit.OK
    assert "ptrace" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scope", "capable", "verdict", "text"),
    [
        ("", False, GOOD, "no Yama"),
        ("0", False, GOOD, "any process of this user"),
        ("1", False, LESS, "Profiling(allow_attach=True)"),
        ("1", True, GOOD, "CAP_SYS_PTRACE"),
        ("3", False, LESS, "nobody"),
    ],
)
def test_what_ptrace_permits(
    monkeypatch: pytest.MonkeyPatch, scope: str, capable: bool, verdict: str, text: str
) -> None:
    monkeypatch.setattr(doctor, "_read", lambda path: scope if path == doctor.YAMA else "")
    monkeypatch.setattr(doctor, "_has_capability", lambda number: capable)
    fact = next(one for one in doctor.outside() if one.name == "ptrace")
    assert fact.verdict == verdict
    assert text in fact.text


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("yama", [False, True])
def test_whether_anybody_may_attach_is_said(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool, yama: bool
) -> None:
    monkeypatch.setattr(doctor, "YAMA", str(tmp_path if yama else tmp_path / "none"))
    with opened_page(state_dir) as page:
        presence = HERE.begin(page, "face", relayed=True)
        try:
            if asked:
                presence.slot.hears(LETS_ATTACH)
            fact = doctor._attachable(str(state_dir))
        finally:
            presence.end()
    wanted = "1 of 1 processes" if asked else "not asked for" if yama else "EINVAL"
    assert wanted in fact.text


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_processes_of_a_folder_are_asked_and_counted(state_dir: Path) -> None:
    with opened_page(state_dir) as page:
        presence = HERE.begin(page, "face", relayed=True)
        try:
            facts = {fact.name: fact for fact in doctor.of_folder(str(state_dir))}
        finally:
            presence.end()
    assert facts["processes"].text.startswith(f"1 of {state_dir} answered")
    assert facts["processes"].verdict == GOOD
    assert "of" in facts["profiler's own CPU"].text


def test_the_shortest_of_several_tries_counts() -> None:
    tries: list[int] = []
    assert doctor.best(lambda: tries.append(1), tries=3) >= 0
    assert len(tries) == 3

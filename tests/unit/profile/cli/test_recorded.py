"""`cpu`, `await` and `leaks` that are interrupted: what there is by then is shown and written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.host import kernel
from runtime.profile.captures import capture
from runtime.profile.cli import main
from runtime.profile.cli.app import ProfileExit
from runtime.profile.leak_check.survey import Report
from runtime.profile.model import AWAIT, CPU, NANOSECONDS, Frame, Profile, StackSample
from runtime.profile.presence.page import REQUESTS, SEEN
from tests.scenarios.waiting import until
from tests.unit.profile.cli.test_leaking import Found
from tests.unit.profile.pages import Child, opened_page


def interrupted_after(found: Any) -> Callable[..., Any]:
    """A capture during which somebody presses Ctrl-C; that it is asked to stop is how it knows."""

    def record(*_: object, stop: Callable[[], bool], **__: object) -> Any:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        return found

    return record


@pytest.mark.parametrize(("command", "name", "kind"), [("cpu", "cpu", CPU), ("await", "awaits", AWAIT)])
def test_what_was_recorded_until_ctrl_c_is_written_and_shown(
    command: str,
    name: str,
    kind: str,
    state_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    profile = Profile(kind, NANOSECONDS, 1, 2_500_000_000)
    profile.add(StackSample((Frame("parse", "a.py", 1),)), 1_000_000_000)
    monkeypatch.setattr(capture, name, interrupted_after(profile))
    made = tmp_path / "made.json"
    assert main([command, str(state_dir), "-d", "60", "-o", str(made)]) == ProfileExit.INTERRUPTED
    assert Profile.from_json(made.read_bytes()).samples == profile.samples
    shown = capsys.readouterr()
    assert "parse" in shown.out
    assert shown.err.splitlines()[-1] == "note: interrupted after 2.50 s of 60 s"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("grades", "code"), [([], ProfileExit.INTERRUPTED), (["leak"], ProfileExit.LEAK)])
def test_what_was_found_until_ctrl_c_is_shown_and_nothing_is_called_clean(
    grades: list[str],
    code: ProfileExit,
    state_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report: Any = Report([Found(grade) for grade in grades], [])  # type: ignore[misc]
    monkeypatch.setattr(capture, "leaks", interrupted_after(report))
    made = tmp_path / "made.json"
    assert main(["leaks", str(state_dir), "-d", "60", "-o", str(made)]) == code
    assert b"interrupted after" in made.read_bytes()
    shown = capsys.readouterr()
    assert ("clean" in shown.out, "LEAK" in shown.out) == (False, bool(grades))
    assert "note: interrupted after" in shown.err


def rest_here() -> None:
    while True:
        signal.pause()


@pytest.mark.slow
@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_ctrl_c_in_a_terminal_ends_the_search_of_a_process_that_is_there(state_dir: Path) -> None:
    with opened_page(state_dir) as page:
        child = Child(page, rest_here)
        command = [sys.executable, "-m", "runtime.profile", "leaks", str(state_dir), "-d", "600", "--json"]
        try:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shown:
                until(lambda: any(ack[1] == SEEN for row in page.processes() for ack in row.acks), "it to be asked")
                shown.send_signal(signal.SIGINT)
                out, err = shown.communicate(timeout=60)
        finally:
            child.end()
        assert b'"findings"' in out, err
        assert shown.returncode in (ProfileExit.INTERRUPTED, ProfileExit.SUSPECT, ProfileExit.LEAK), err
        assert b"Traceback" not in err
        assert not any(map(page.number, range(REQUESTS)))


@pytest.mark.parametrize("more", [[], ["-f", "folded"]])
def test_a_dash_is_no_file(more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cpu", str(tmp_path), "-o", "-", *more]) == ProfileExit.USAGE
    assert "/dev/stdout" in capsys.readouterr().err

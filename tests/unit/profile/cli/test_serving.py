"""`serve`: the address is said, Go's URLs answer at it, and Ctrl-C ends it."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from runtime.profile.cli import main, serving
from runtime.profile.cli.app import ProfileExit
from tests.unit.profile.pages import opened_page

pytestmark = pytest.mark.slow
TOKEN = "let me in"


def test_it_serves_until_it_is_interrupted(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, int]] = []

    def pass_time(seconds: float, stop: object) -> None:
        """What the command does while it waits: here it is looked at from outside, and then told to end."""
        place = urlsplit(capsys.readouterr().out.strip())
        connection = http.client.HTTPConnection(place.hostname or "", place.port)
        connection.request("GET", place.path, headers={"Authorization": f"Bearer {TOKEN}"})
        seen.append((place.query, connection.getresponse().status))
        connection.close()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(serving, "pass_time", pass_time)
    before = set(threading.enumerate())
    with opened_page(state_dir):
        assert main(["serve", str(state_dir), "--token", TOKEN]) == ProfileExit.OK
    assert seen == [(f"token={TOKEN}", 200)]
    for thread in set(threading.enumerate()) - before:
        thread.join(60)  # one that answers ends by itself
    assert set(threading.enumerate()) <= before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_socket_of_this_machine_is_said_with_its_token(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "socket"
    monkeypatch.setattr(serving, "pass_time", lambda seconds, stop: os.kill(os.getpid(), signal.SIGTERM))
    with opened_page(state_dir):
        assert main(["serve", str(state_dir), "--listen", f"unix:{path}", "--token", TOKEN]) == ProfileExit.OK
    assert capsys.readouterr().out.splitlines() == [f"unix:{path}", f"token {TOKEN}"]
    assert not path.exists()


def test_what_is_not_of_this_machine_is_refused(state_dir: Path) -> None:
    with opened_page(state_dir):
        assert main(["serve", str(state_dir), "--listen", "0.0.0.0:0"]) == ProfileExit.USAGE

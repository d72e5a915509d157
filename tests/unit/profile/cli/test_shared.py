"""What commands have in common: which folder, and which processes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.protocol.errors import CallerError
from runtime.host import kernel
from runtime.profile.cli import main
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import shortened
from runtime.profile.cli.stacks import check_kind
from runtime.profile.ledger.books import Count
from runtime.profile.presence import find
from runtime.profile.presence.find import Running
from runtime.profile.presence.here import HERE
from runtime.profile.presence.processes import looked
from tests.unit.profile.pages import opened_page

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(state_dir: Path) -> Iterator[str]:
    """A folder that this process has open."""
    if not kernel.LINUX:
        pytest.skip("needs /proc")
    with opened_page(state_dir) as page:
        presence = HERE.begin(page, "face", relayed=True)
        try:
            yield str(state_dir)
        finally:
            presence.end()


@pytest.mark.parametrize("command", ["ps", "dump", "cpu", "flight", "leaks"])
def test_a_process_that_is_not_there_is_refused(command: str, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, folder, "--pid", "1"]) == ProfileExit.USAGE
    assert f"no process of {folder} is 1; there are {os.getpid()} face" in capsys.readouterr().err


def test_the_folder_is_named_where_nobody_said_it(
    folder: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find, "running", lambda: [Running(folder, os.getpid())])
    assert main(["ps", "--pid", str(os.getpid())]) == ProfileExit.OK
    assert f"state folder: {folder}" in capsys.readouterr().err
    assert main(["ps", folder]) == ProfileExit.OK
    assert "state folder" not in capsys.readouterr().err


def test_of_notes_that_are_alike_the_worst_are_shown() -> None:
    """As of what ticks cost, which each of a hundred workers says of itself."""
    costs = [f"worker {one} [cpu] (8{one}): ticks took {one * 0.9:.3g} ms, {9 - one}.00% of its CPU time" for one in
             range(1, 7)]  # fmt: skip
    late = "worker 1 [cpu] (81): its threads stood ready without a core for 43.3% of the time"
    unseen = [f"worker {one} [io] (pid 9{one}) could not be seen" for one in range(5)]
    assert list(shortened([*costs, late, "all is said once", *unseen])) == [
        *costs[:2:-1], "+3 more like these, with lower figures", late, "all is said once", *unseen,
    ]  # fmt: skip
    big = [f"engine ({one}): ticks took {text} ms, 1.00% of its CPU time" for one, text in enumerate(("1.2e+03", "9"))]
    assert list(shortened(big[::-1])) == big


def test_top_ends_with_its_reader(folder: str) -> None:
    """As in `top | head`: a table that nobody reads is not drawn for ever."""
    command = [sys.executable, "-m", "runtime.profile", "top", folder, "-d", "0.01"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shown:
        assert shown.stdout is not None
        assert shown.stdout.readline()
        shown.stdout.close()
        assert shown.wait(60) == ProfileExit.OK


def test_a_kind_that_is_not_there_is_refused(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ps", folder, "--kind", "tusk"]) == ProfileExit.USAGE
    assert "there is no kind 'tusk'; there are task, " in capsys.readouterr().err


def test_a_kind_of_a_user_is_shown(folder: str) -> None:
    """What a process registered is in its books, and can be asked for as those can that are built in."""
    rows = [row._replace(counts={**row.counts, "socket_of_ours": Count(1, 1, 0, 0)}) for row in looked(folder)]
    check_kind("socket_of_ours", rows)
    with pytest.raises(CallerError, match="socket_of_ours"):
        check_kind("tusk", rows)

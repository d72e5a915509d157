"""S11: any byte of any file of a state folder changed, or the file cut there: no command shows a traceback of ours, and
none gives another answer without a word.

Two folders, both with a checkpoint and a log that was cut behind it, subscriptions, dead letters and large values: one
was closed in good order, of the other all processes were killed.
"""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.protocol.errors import MainspringError
from runtime import Flow, NodeType, Runtime
from runtime.cli import main
from runtime.storage.cursors import CursorFile
from runtime.storage.openings import OPENINGS_NAME
from tests.scenarios.handlers_payloads import echo, echo_all
from tests.scenarios.processes import host_program, kill
from tests.scenarios.waiting import await_gone, until

pytestmark = pytest.mark.slow

LARGE: Final = b"x" * 70_000
SMALL: Final = 6_000
NAME: Final = "mail"
TORN: Final = "at the end: a write under way or a torn tail"
COMMANDS: Final = {
    "verify": ["verify"],
    "status": ["status", "--json"],
    "export": ["export"],
    "events": ["events", "--json"],
    "starts": ["events", "--json", "--kind", "run.submitted"],
    "ends": ["events", "--json", "--kind", "node.succeeded"],
    "replay": ["replay"],
    "simulate": ["simulate"],
}
ONE: Final = [NodeType("default", workers=1)]


def fill(path: Path) -> None:
    with Runtime(path, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
        assert rt.submit(echo, LARGE).result(timeout=30) == LARGE
        assert rt.submit(math.sqrt, -1.0).exception(timeout=30)
        flow = Flow("flow")
        first = flow.add(echo, LARGE, id="first")
        flow.add(echo_all, first, [1, first])
        rt.run(flow, run_id="flow").wait(timeout=30)
        rt.submit(echo, "later", delay=7200)

        def cut() -> bool:
            list(rt.map(math.sqrt, range(50)))
            return not (path / "log" / "00000001.seg").exists()

        until(cut, "a log that was cut")
        with rt.subscribe(NAME, "run.succeeded", since="now") as events:
            rt.submit(echo, 77).result(timeout=30)
            event = events.get(timeout=30)
            assert event is not None
            events._kept.give_up(event, ValueError("no"), 1)
            events.ack(event)
        for number in range(5):
            rt.submit(echo, number).result(timeout=30)


def said(command: list[str]) -> tuple[int, str, str]:
    """Exit code, output and messages of a command."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out), redirect_stderr(err):
        code = main(command)
    for stream in (out, err):
        stream.seek(0)
    return int(code), out.read(), err.read()


class Folder:
    """A copy of a state folder in which one file at a time is damaged, and what is said of it undamaged."""

    def __init__(self, made: Path, work: Path) -> None:
        self.path = shutil.copytree(made, work, ignore=shutil.ignore_patterns("commands"))
        self.files = sorted(file for file in work.rglob("*") if file.is_file() and file.stat().st_size)
        self.right = self.answers()
        assert all(code == 0 for code, _, _ in self.right.values()), self.right

    def answers(self) -> dict[str, tuple[int, str, str]]:
        """Exit code, output and messages of each command."""
        found = {}
        for name, (command, *options) in COMMANDS.items():
            found[name] = said([command, str(self.path), *options])
        for name, read in (("cursor", lambda file: file.load()), ("letters", lambda file: list(file.dead()))):
            found[name] = self._subscription(read)
        return found

    def _subscription(self, read: Callable[[CursorFile], object]) -> tuple[int, str, str]:
        file = CursorFile(str(self.path), NAME)
        try:
            return 0, repr(read(file)), ""
        except MainspringError as refused:
            return 3, "", f"[{refused.code}]"
        finally:
            file.close()

    def check(self, file: Path, damaged: bytes) -> None:
        """Damage a file, ask everything, and put it back."""
        whole = file.read_bytes()
        file.write_bytes(damaged)
        try:
            found = self.answers()
        finally:
            file.write_bytes(whole)
        told = found["verify"][0] != 0 or "dead letter" in found["verify"][1]
        torn = file.suffix == ".seg" and TORN in found["verify"][1]
        for name, (code, out, err) in found.items():
            assert "[MS9" not in err, (name, err)
            if code == 0 and name not in ("verify", "simulate") and out != self.right[name][1]:
                # Said by verify, or a tail that looks as if it was never acknowledged: see `runtime.storage.segment`.
                assert (told and name == "letters") or torn, (name, out)
            elif code != 0 and name != "export":
                assert "[MS" in err or name == "verify", (name, code, err)


@pytest.fixture(scope="module", params=["closed", "killed"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    place = tmp_path_factory.mktemp(request.param)
    fill(place / "made")
    if request.param == "killed":
        with host_program("subscribing", place / "made", 3) as host:
            assert host.read_line() == "submitted"
            everybody = [host.pid, *host.family.all]
            kill(*everybody)
            host.end()
            await_gone(everybody)
    return Folder(place / "made", place / "work")


@given(which=st.integers(0), at=st.floats(0, 1, exclude_max=True), change=st.integers(0, 9))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_byte_of_any_file(folder: Folder, which: int, at: float, change: int) -> None:
    """`change`: a bit of the byte, all of its bits, or the file ends before it."""
    file = folder.files[which % len(folder.files)]
    damaged = bytearray(file.read_bytes())
    place = int(at * len(damaged))
    if change < 9:
        damaged[place] ^= 0xFF if change == 8 else 1 << change
    else:
        del damaged[place:]
    folder.check(file, bytes(damaged))


def test_each_file_in_its_head_its_middle_and_its_end(folder: Folder) -> None:
    logs = [file for file in folder.files if file.suffix == ".seg"]
    for file in [file for file in folder.files if file not in logs[1:-1]]:
        whole = file.read_bytes()
        for place in (0, len(whole) // 2, len(whole) - 1):
            damaged = bytearray(whole)
            damaged[place] ^= 4
            folder.check(file, bytes(damaged))


def test_each_file_that_is_not_there(folder: Folder) -> None:
    """But for those that only a running engine has, the first of the log, which its engine may have removed, and the
    archive, which somebody may have deleted: nothing depends on it. Clocks stand in checkpoint and log, too."""
    logs = [file for file in folder.files if file.suffix == ".seg"]
    for file in folder.files:
        if (
            file in (logs[0], logs[-1])
            or file.name in ("lock", "spawner", "archive.db")
            or file.parent.name == "subscriptions"
        ):
            continue
        aside = file.with_name(file.name + ".away")
        file.rename(aside)
        try:
            found = folder.answers()
        finally:
            aside.rename(file)
        assert found["verify"][0] != 0 or file.name == OPENINGS_NAME, file
        for name, (code, out, err) in found.items():
            assert "[MS9" not in err, (name, err)
            wrong = code == 0 and name not in ("verify", "simulate") and out != folder.right[name][1]
            assert not wrong, (file, name)

"""An engine takes a checkpoint and cuts its log behind it while somebody reads, at any moment: nothing is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.errors import LogCorrupt, StateFolderError
from actors.protocol.records import Record
from runtime.planning.recording import read_recording
from runtime.storage import sqlite_file
from runtime.storage.contents import check_contents
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.history import look
from runtime.storage.reader import LogReader
from runtime.storage.recovery import summarise
from runtime.storage.resume import LIVE_TRIES_MAX
from runtime.storage.verify import verify
from tests.unit.storage.states import busy_log, cut, make_folder, put_checkpoint

RECORDS = busy_log()
READERS: dict[str, Callable[[Path], Any]] = {
    "replay": lambda path: [(run.run_id, run.state, run.nodes) for run in look(path).pictures[0].runs.values()],
    "contents": lambda path: (check_contents(path).problems, check_contents(path).runs_finished),
    "status": lambda path: summarise(path)["runs"],
    "verify": lambda path: verify(path).problems,
}


class Engine(DiskFiles):
    """Cuts the log when somebody looks at it for the n-th time."""

    looks = 0
    at = 0
    folder = Path()
    below = (0, 0)

    def list(self, folder: str) -> list[str]:
        names = DiskFiles.list(self, folder)
        Engine.looks += 1
        if Engine.looks == Engine.at:
            with suppress(StateFolderError):  # it waits for who reads the last one
                put_checkpoint(Engine.folder, RECORDS, Engine.below[0])
                cut(Engine.folder, Engine.below[1])
        return names


pytestmark = pytest.mark.slow


def arm(path: Path, at: int, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """A folder whose log is cut twice: before, and at that look."""
    segments = make_folder(path, RECORDS)
    put_checkpoint(path, RECORDS, segments[0].last_lsn)
    cut(path, segments[1].no)
    Engine.looks, Engine.at, Engine.folder, Engine.below = 0, at, path, (segments[2].last_lsn, segments[3].no)
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.0)
    for module in modules:
        monkeypatch.setattr(f"runtime.storage.{module}.DiskFiles", Engine)


@pytest.mark.parametrize("name", READERS)
def test_the_answer_is_that_of_a_log_that_is_left_alone(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm(tmp_path / "whole", 0, monkeypatch)
    right = READERS[name](tmp_path / "whole")
    for at in range(1, 30):
        arm(tmp_path / str(at), at, monkeypatch, "history", "contents", "recovery", "verify")
        assert READERS[name](tmp_path / str(at)) == right, f"cut at look {at}"
        if Engine.looks < at:
            break
    assert at > 2


def test_a_simulation_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.planning.recording.DiskFiles", Engine)
    for at in range(1, 10):
        arm(tmp_path / str(at), at, monkeypatch)
        found = read_recording(tmp_path / str(at))
        again = read_recording(tmp_path / str(at)) if Engine.looks > at else found
        assert found.first_lsn in (5, 13)
        assert len(found.runs) in (6, len(again.runs))


def test_who_is_always_overtaken_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm(tmp_path / "state", 0, monkeypatch)
    monkeypatch.setattr("runtime.storage.history._agrees", lambda *_: False)
    with pytest.raises(StateFolderError, match="faster than it can be read"):
        look(tmp_path / "state")


@pytest.mark.parametrize("name", ["replay", "status"])
@pytest.mark.parametrize("times", [1, LIVE_TRIES_MAX])
def test_a_log_whose_end_was_cut_by_a_start_is_read_again(
    tmp_path: Path, name: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader had records of a batch that was not whole; the next segment then begins before their end."""
    arm(tmp_path / "state", 0, monkeypatch)
    right, whole = READERS[name](tmp_path / "state"), LogReader.__iter__
    met: list[LogReader] = []

    def overtaken(reader: LogReader) -> Iterator[Record]:
        yield from whole(reader)
        if len(met) < times:
            met.append(reader)
            raise LogCorrupt("segment 00000009.seg starts again at LSN 5", "00000009.seg", 0)

    monkeypatch.setattr(LogReader, "__iter__", overtaken)
    monkeypatch.setattr(StateFolder, "owner_pid", lambda folder: 1)
    if times < LIVE_TRIES_MAX:
        assert READERS[name](tmp_path / "state") == right
    else:
        with pytest.raises(LogCorrupt):
            READERS[name](tmp_path / "state")

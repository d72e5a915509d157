"""Results say when they ended by the engine's clock; where the record of its opening is lost, none ends in 1970."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from runtime.storage.folder import StateFolder
from runtime.storage.openings import OPENINGS_NAME, Opening, note_opening
from runtime.storage.recovery import summarise
from runtime.storage.rescue import rescue
from runtime.storage.resume import resume
from runtime.storage.salvage import mend_log
from runtime.storage.verify import verify
from tests.unit.actors.rig import Rig
from tests.unit.storage.states import FILES, busy_log, fresh, make_folder

WALL_NS = 1_795_972_000 * 10**9
"""When the runs were submitted: the wall clock of the tests."""
UP_NS = 10**12
"""What the engine's clock showed then."""


def log_of_a_session() -> list[Record]:
    """Opened on the clocks above, and then runs that ended."""
    told = {"pid": 1, "now_ns": UP_NS, "wall_ns": WALL_NS, "next_run_no": 1, "durability": "fsync", "node_types": []}
    rig = Rig(now_ns=UP_NS, wall_ns=WALL_NS)
    return [
        Record(1, RecordType.OPENED, orjson.dumps(told)),
        *(record._replace(lsn=record.lsn + 1) for record in busy_log(rig=rig)),
    ]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Its first record, the opening, is damaged."""
    path = tmp_path / "state"
    make_folder(path, log_of_a_session())
    file = min((path / "log").iterdir())
    data = bytearray(file.read_bytes())
    at = data.index(b"durability")
    data[at] ^= 1
    file.write_bytes(data)
    return path


def ends(path: Path) -> list[int]:
    return [run["ended_ns"] for run in summarise(path)["runs"]]


def in_place(path: Path) -> Replay:
    replay = fresh()
    with StateFolder.open(path) as folder:
        mend_log(folder.log, FILES, resume(folder, replay, FILES, salvage=True))
    return replay


def test_the_file_of_openings_knows_the_clock(state: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    make_folder(whole, log_of_a_session())
    note_opening(str(state), Opening(1, UP_NS, WALL_NS))
    rescue(state, tmp_path / "new")
    assert ends(tmp_path / "new") == ends(whole)
    assert not in_place(state).guessed
    assert ends(state) == ends(whole)


def test_without_it_the_submission_is_the_nearest_time_that_is_known(state: Path, tmp_path: Path) -> None:
    assert not (state / OPENINGS_NAME).exists()
    rescue(state, tmp_path / "new")
    assert in_place(state).guessed
    for path in (state, tmp_path / "new"):
        assert len(ends(path)) == 8
        assert all(WALL_NS <= end < WALL_NS + 10**12 for end in ends(path))
        assert verify(path).sound
    with StateFolder.open(tmp_path / "new") as folder:
        resume(folder, replay := fresh(), FILES)
    assert len(replay.guessed) == 8, "the new folder says that it is guessed"

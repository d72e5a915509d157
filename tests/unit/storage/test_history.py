"""Time travel: every moment of a log shows the state that a fold up to there has."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

import runtime
from actors.digest import state_digest
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, InternalError, LogCorrupt, UnknownMoment
from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from actors.run import TALLY_NODES_MIN
from actors.scheduler import Scheduler
from runtime.storage import history
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.history import Picture, RunPicture, difference, look
from runtime.storage.moments import BEGIN, NOW, Moment
from runtime.storage.reader import read_log
from runtime.storage.wal import LogWriter
from tests.unit.actors.rig import Rig
from tests.unit.storage import states

OPENED = {"pid": 1, "policy": {"quotas": {"class:low": 3}}}


def busy_log() -> list[Record]:
    """An opening, a graph of four, one failure, the end of it; then single tasks."""
    scheduler = Scheduler(["default"])
    _, effects = Replay(scheduler).finish(1_000_000, 10**18, OPENED)
    rig = Rig(scheduler=scheduler, effects=effects, wall_ns=10**18)
    rig.submit_graph([[], [0], [0], [1, 2]])
    for _ in range(3):
        rig.later(10**9)
        for worker, serial, node in rig.leases():
            rig.succeed(worker, serial, node, node)
    rig.core.scheduler.change_policy({"weights": {"acme": 2.0}})
    rig.later(10**9)
    return rig.records


def folder_of(path: Path, records: list[Record], *, segment_bytes: int = 400) -> Path:
    with StateFolder.open(path) as folder:
        log = read_log(folder.log, DiskFiles())
        list(log)
        writer = LogWriter(folder.log, DiskFiles(), log.report(), segment_bytes=segment_bytes)
        for record in records:
            writer.write([record], sync=False)
        writer.close()
    return path


def contents(path: Path) -> str:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def folded(records: list[Record]) -> Scheduler:
    scheduler = Scheduler([], retention={"runs": limits.NODES_PER_RUN_MAX, "nodes": limits.NODES_OPEN_MAX})
    replay = Replay(scheduler)
    for record in records:
        replay.fold(record)
    return scheduler


def test_every_lsn_shows_what_a_fold_up_to_there_knows(tmp_path: Path) -> None:
    records = busy_log()
    path = folder_of(tmp_path / "state", records)
    before = contents(path)
    found = look(path, [Moment(lsn=record.lsn) for record in records])
    assert [picture.lsn for picture in found.pictures] == [record.lsn for record in records]
    for place, picture in enumerate(found.pictures):
        assert picture.digest == state_digest(folded(records[: place + 1]))
    assert (found.first_lsn, found.last_lsn) == (1, records[-1].lsn)
    assert contents(path) == before, "nothing was written"


def test_moments_come_in_the_order_in_which_they_were_asked_for(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "state", busy_log())
    late, early = look(path, [NOW, Moment(lsn=2)]).pictures
    assert early.lsn == 2
    assert late.lsn > 2
    assert [run.state for run in early.runs.values()] == ["running"]
    assert [run.state for run in late.runs.values()] == ["succeeded"]


def test_a_time_shows_what_was_before_it(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "state", busy_log())
    (picture,) = look(path, [Moment(wall_ns=10**18 + 2 * 10**9 + 10**8)]).pictures
    (run,) = picture.runs.values()
    assert run.nodes == b"\3\3\3\1", "two seconds later the middle of the graph had ended"
    assert 10**18 + 2 * 10**9 <= picture.at_ns < 10**18 + 2 * 10**9 + 10**8


def test_the_policy_is_that_of_the_moment(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "state", busy_log())
    first, last = look(path, [Moment(lsn=1), NOW]).pictures
    assert first.policy["quotas"] == {"class:low": 3}, "what the program had set at that opening"
    assert last.policy["weights"] == {"acme": 2.0}
    changes = difference(first, last)
    assert changes["policy"]["weights"] == [{}, {"acme": 2.0}]
    assert len(changes["came"]) == 1


def test_the_difference_says_which_nodes_moved(tmp_path: Path) -> None:
    records = busy_log()
    path = folder_of(tmp_path / "state", records)
    submitted = next(record.lsn for record in records if record.type == RecordType.SUBMITTED)
    before, after = look(path, [Moment(lsn=submitted), Moment(lsn=submitted + 1)]).pictures
    (change,) = difference(before, after)["changed"]
    assert change["moves"] == {"ready to succeeded": 1, "pending to ready": 2}
    assert difference(after, after) == {"came": [], "gone": [], "changed": [], "policy": {}, "schedules": {}}


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (Moment(lsn=10**6), "LSN 1,000,000 is beyond the end"),
        (Moment(lsn=0), "LSN 0 is before the log begins"),
        (Moment(wall_ns=10**17), "is before the log begins: LSN 1"),
    ],
)
def test_a_moment_that_the_log_does_not_hold_is_refused(tmp_path: Path, moment: Moment, words: str) -> None:
    path = folder_of(tmp_path / "state", busy_log())
    with pytest.raises(UnknownMoment, match=words):
        look(path, [moment])


def test_a_log_the_beginning_of_which_was_cut_says_where_it_begins(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "state", busy_log(), segment_bytes=1)
    segments = sorted((path / "log").glob("*.seg"))
    for segment in segments[:2]:
        segment.unlink()
    found = look(path)
    assert found.first_lsn > 1
    with pytest.raises(UnknownMoment, match="before the log begins"):
        look(path, [Moment(lsn=1)])


def said(picture: Picture) -> dict[int, RunPicture]:
    """Its runs but for their digests: a checkpoint keeps what a recovery needs, and no more."""
    return {no: replace(run, digest="") for no, run in picture.runs.items()}


def test_a_log_that_was_cut_behind_a_checkpoint_begins_with_what_that_knows(tmp_path: Path) -> None:
    records = states.busy_log()
    states.make_folder(tmp_path / "whole", records)
    path = tmp_path / "cut"
    segments = states.make_folder(path, records)
    lsn = segments[2].last_lsn
    states.put_checkpoint(path, records, lsn)
    states.cut(path, segments[3].no)
    for record in records:
        if record.lsn < lsn:
            with pytest.raises(UnknownMoment, match=f"LSN {record.lsn} is not kept: .* checkpoint as of LSN {lsn}"):
                look(path, [Moment(lsn=record.lsn)])
            continue
        (found,), (whole,) = (look(tmp_path / name, [Moment(lsn=record.lsn)]).pictures for name in ("cut", "whole"))
        assert (found.lsn, found.policy, said(found)) == (record.lsn, whole.policy, said(whole))
    assert [look(tmp_path / name, [BEGIN]).pictures[0].lsn for name in ("cut", "whole")] == [lsn, 1]
    assert runtime.history(path, "begin").lsn == lsn


def test_damage_is_refused_as_by_a_recovery(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "state", busy_log(), segment_bytes=1)
    segment = sorted((path / "log").glob("*.seg"))[1]
    data = bytearray(segment.read_bytes())
    data[-1] ^= 0xFF
    segment.write_bytes(data)
    with pytest.raises(LogCorrupt):
        look(path)


def test_the_public_word_takes_an_lsn_or_a_time(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "state", busy_log())
    assert runtime.history(path, 2).lsn == 2
    assert runtime.history(path).lsn == look(path).last_lsn
    began = datetime.fromtimestamp(10**9, UTC)
    (run,) = runtime.history(path, began + timedelta(seconds=2, milliseconds=100)).runs.values()
    assert (run.run_id, run.state, run.nodes) == ("s-1", "running", b"\3\3\3\1")
    for wrong in (datetime(2026, 1, 1), "then", True, 1.5):
        with pytest.raises(ConfigurationError, match="an LSN, a datetime with a time zone"):
            runtime.history(path, wrong)  # type: ignore[arg-type]


def test_two_folds_that_differ_are_a_bug_that_names_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder_of(tmp_path / "state", busy_log())
    digests = iter(str(number) for number in range(10))
    monkeypatch.setattr(history, "state_digest", lambda _: next(digests))
    monkeypatch.setattr(history, "run_digest", lambda _: next(digests))
    with pytest.raises(InternalError, match="two states, which differ in runs s-1"):
        look(path)


def test_one_fold_is_enough_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder_of(tmp_path / "state", busy_log())
    digests: Any = iter(["once"])
    monkeypatch.setattr(history, "state_digest", lambda _: next(digests))
    assert look(path, twice=False).pictures[0].digest == "once"


def test_a_large_run_is_counted_right_at_two_moments(tmp_path: Path) -> None:
    """Leases are not logged, so what is counted at one moment says nothing of the next."""
    size = 2 * TALLY_NODES_MIN
    kind = {"handler": "m:f", "node_type": "default", "shape": "one"}
    head = orjson.dumps(["s", 1, 10**18, [[1, kind]], [1, 1, list(range(size))]])
    half = size // 2

    def done(first: int) -> bytes:
        return orjson.dumps([9, [[0, 1, list(range(first, first + half)), [0] * half, 10, list(range(half))]]])

    records = [Record(1, RecordType.SUBMITTED, b"M" + head)]
    records += [Record(2, RecordType.COMPLETED, done(0)), Record(3, RecordType.COMPLETED, done(half))]
    path = folder_of(tmp_path / "state", records)
    pictures = look(path, [Moment(lsn=lsn) for lsn in (1, 2, 3)], twice=False).pictures
    found = [picture.runs[1].counts for picture in pictures]
    assert found == [[0, size, 0, 0, 0, 0, 0], [0, half, 0, half, 0, 0, 0], [0, 0, 0, size, 0, 0, 0]]

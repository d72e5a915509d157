"""What `verify` says of sound and damaged logs."""

from __future__ import annotations

from dataclasses import replace

from runtime.cli.verify import verify_lines
from runtime.storage.contents import Contents
from runtime.storage.reader import Gap, RecoveryReport
from runtime.storage.verify import VerifyReport
from runtime.storage.verify_archive import ArchiveFinding


def report(*, sound: bool, problems: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> VerifyReport:
    log = RecoveryReport((), 12, 3456, 13, 0, 0, () if sound else (Gap("1.log", 64, 10, 3, 4),), 0)
    return VerifyReport("/state", "uuid", "2026-07-11", sound, problems, notes, {"SUBMITTED": 2, "COMPLETED": 10}, log)


def test_a_sound_log() -> None:
    lines = verify_lines(report(sound=True, notes=("something harmless",)), Contents(runs_open=1))
    assert "log            12 records in 0 segments" in lines
    assert "records        2 submitted, 10 completed" in lines
    assert "note           something harmless" in lines
    assert "runs           1 unfinished, 0 finished" in lines
    assert lines[-1] == "sound: opens as it is"


def test_shards_and_the_archive_are_told() -> None:
    found = replace(report(sound=True), log_shards=3)
    lines = verify_lines(found, Contents(), ArchiveFinding(runs=12, nodes=40, submissions=30, waiting=5))
    assert "log            12 records in 0 segments of 3 shards" in lines
    assert "archive        12 runs of 40 nodes, 30 submissions; 5 of them come with the next checkpoint" in lines
    lines = verify_lines(found, Contents(), ArchiveFinding(runs=12, nodes=40))  # the log is damaged: nobody counted
    assert "archive        12 runs of 40 nodes" in lines


def test_a_damaged_log() -> None:
    lines = verify_lines(report(sound=False, problems=("gap in 1.log at offset 64",)), Contents(runs_lost=2))
    assert "problem        gap in 1.log at offset 64" in lines
    assert "salvage keeps  0 unfinished, 0 finished, 2 lost; 0 records" in lines
    assert lines[-1].startswith("damaged: does not open")


def test_a_log_that_is_sound_beside_a_blob_that_is_not() -> None:
    contents = Contents(problems=("blob a/b is missing: the result of node 0 of run a",), blobs_missing=("a/b",))
    lines = verify_lines(report(sound=True), contents)
    assert "blobs          0 referred to, 1 missing" in lines
    assert lines[-1].startswith("damaged: opens, but not all of it can be read")

"""What `verify` says of sound and damaged logs."""

from __future__ import annotations

from runtime.cli.verify import verify_lines
from runtime.storage.reader import Gap, RecoveryReport
from runtime.storage.verify import VerifyReport


def report(*, sound: bool, problems: tuple[str, ...] = (), notes: tuple[str, ...] = ()) -> VerifyReport:
    log = RecoveryReport((), 12, 3456, 13, 0, 0, () if sound else (Gap("1.log", 64, 10, 3, 4),), 0)
    return VerifyReport("/state", "uuid", "2026-07-11", sound, problems, notes, {"SUBMITTED": 2, "COMPLETED": 10}, log)


def test_a_sound_log() -> None:
    lines = verify_lines(report(sound=True, notes=("something harmless",)))
    assert "log            12 records in 0 segments" in lines
    assert "records        2 submitted, 10 completed" in lines
    assert "note           something harmless" in lines
    assert lines[-1] == "sound: opens as it is"


def test_a_damaged_log() -> None:
    lines = verify_lines(report(sound=False, problems=("gap in 1.log at offset 64",)))
    assert "problem        gap in 1.log at offset 64" in lines
    assert lines[-1].startswith("damaged: ")

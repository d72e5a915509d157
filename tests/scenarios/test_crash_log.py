"""S11: a log that was cut off at any byte, or has a byte changed in the middle, opened by the real engine.

Every byte is tried where that takes milliseconds (reading and folding the log in this process), and some of them with
all processes. The damage is done to copies of one log, made by a program that was killed.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from actors.protocol.records import RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from runtime import NodeType, Runtime
from runtime.errors import LogCorrupt
from runtime.host import command_socket
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import RecoveryReport, read_log
from runtime.storage.segment import RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES
from runtime.storage.verify import verify
from tests.scenarios.processes import host_program, kill
from tests.scenarios.waiting import await_gone, words

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1)]
DONE: Final = {f"done-{i}" for i in range(20)}
OPEN: Final = {f"open-{i}" for i in range(5)}


class Log:
    """A copy of a state folder whose log may be damaged."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        (self.file,) = (state_dir / "log").iterdir()
        self.bytes = self.file.read_bytes()
        self.starts = record_starts(self.bytes)
        self.bytes = self.bytes[: self.starts[-1]]
        self.file.write_bytes(self.bytes)

    def cut(self, size: int) -> None:
        """Keep so many bytes."""
        self.file.write_bytes(self.bytes[:size])

    def flip(self, at: int) -> None:
        """Change one bit of this byte."""
        changed = bytearray(self.bytes)
        changed[at] ^= 0x10
        self.file.write_bytes(changed)

    def fold(self, *, salvage: bool = False) -> tuple[Scheduler, RecoveryReport]:
        """What an engine would know after reading it; writes nothing."""
        scheduler = Scheduler(["default"])
        replay = Replay(scheduler)
        with StateFolder.open(self.state_dir, create=False, owner=False) as folder:
            reader = read_log(folder.log, DiskFiles(), salvage=salvage)
            for record in reader:
                replay.fold(record)
        for run in (*scheduler.book.live.values(), *scheduler.book.finished.values()):
            run.check_invariants()
        return scheduler, reader.report()


def record_starts(data: bytes) -> list[int]:
    """Offsets of the records that tell of runs, and of the end of the last of them.

    The log's own marks come when it has nothing to do, so a program that is killed late has one behind.
    """
    starts, at, end = [], SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES
    while at < len(data):
        after = at + RECORD_HEADER_BYTES + int.from_bytes(data[at + 8 : at + 12], "little")
        if data[at + 12] != RecordType.MARK:
            starts.append(at)
            end = after
        at = after
    assert at == len(data)
    return [*starts, end]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the state folder of a program that was killed, and its file of runs."""
    folder = tmp_path_factory.mktemp("recorded")
    with host_program("recording", "state", "runs", cwd=folder) as host:
        assert host.read_line() == "ready"
        everybody = [host.pid, *host.family.all]
        kill(*everybody)
        host.end()
        await_gone(everybody)
    return folder


@pytest.fixture
def log(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """A copy of it. Its tasks know their files by relative paths, so that they write into the copy."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(command_socket.NAME))
    (tmp_path / "runs.gate").touch()
    return Log(tmp_path / "state")


def test_s11_a_tail_cut_at_any_byte_loses_nothing_before_it(log: Log) -> None:
    whole, _ = log.fold()
    last = log.starts[-2]
    log.cut(last)
    before, _ = log.fold()
    for size in range(last, len(log.bytes)):
        log.cut(size)
        found, report = log.fold()
        assert report.records == len(log.starts) - 2
        assert report.bytes_cut == size - last
        assert counts(found) == counts(before) != counts(whole)


def test_s11_a_log_cut_between_any_two_records_opens(log: Log) -> None:
    for count, size in enumerate(log.starts):
        log.cut(size)
        assert log.fold()[1].records == count


@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_s11_an_engine_opens_a_torn_log_and_goes_on(log: Log, tmp_path: Path, where: float) -> None:
    start, end = log.starts[-2:]
    log.cut(start + 1 + int((end - start - 2) * where))
    assert verify(log.state_dir).sound
    with Runtime(log.state_dir, node_types=ONE) as rt:
        assert rt.recovery["bytes_cut"] > 0
        assert not rt.recovery["known_gaps"]
        for status in list(rt.runs()):
            rt.handle(status.run_id).wait(timeout=30)
    with Runtime(log.state_dir, node_types=ONE) as rt:
        assert rt.recovery["clean"]
    assert words(tmp_path / "runs") == expected(without_last=True)


def test_s11_an_engine_opens_the_whole_log_and_goes_on(log: Log, tmp_path: Path) -> None:
    with Runtime(log.state_dir, node_types=ONE) as rt:
        assert rt.recovery["clean"]
        for status in list(rt.runs()):
            rt.handle(status.run_id).wait(timeout=30)
    assert words(tmp_path / "runs") == expected()


def test_s11_a_byte_that_changed_in_the_middle_is_never_passed_over(log: Log) -> None:
    middle = log.starts[len(log.starts) // 2]
    for at in range(middle, log.starts[len(log.starts) // 2 + 1]):
        log.flip(at)
        with pytest.raises(LogCorrupt) as damage:
            log.fold()
        assert (damage.value.segment, damage.value.offset) == (log.file.name, middle)
        scheduler, report = log.fold(salvage=True)
        assert len(report.gaps) == 1
        assert report.gaps[0].offset == middle
        assert scheduler.book.live


@pytest.mark.parametrize("part", ["submission", "completion"])
def test_s11_an_engine_refuses_a_damaged_log_and_salvages_it_when_asked(log: Log, tmp_path: Path, part: str) -> None:
    at = damaged_record(log, part)
    log.flip(at + RECORD_HEADER_BYTES + 3)
    damaged = log.file.read_bytes()
    with pytest.raises(LogCorrupt, match="salvage") as refused:
        Runtime(log.state_dir, node_types=ONE)
    assert (refused.value.segment, refused.value.offset) == (log.file.name, at)
    assert log.file.read_bytes() == damaged, "a refusal changes nothing"
    report = verify(log.state_dir)
    assert not report.sound
    assert any(str(at) in problem for problem in report.problems)
    with Runtime(log.state_dir, node_types=ONE, salvage=True) as rt:
        assert rt.recovery["mended"]
        assert rt.recovery["known_gaps"] == 1
        for status in list(rt.runs()):
            rt.handle(status.run_id).wait(timeout=30)
    counted = words(tmp_path / "runs")
    assert set(counted) >= OPEN | DONE
    assert sum(counted.values()) <= sum(expected().values()) + 1, "only what the lost record told may be done again"
    with Runtime(log.state_dir, node_types=ONE) as rt:  # it was mended: no need to ask again, and it is not forgotten
        assert rt.recovery["known_gaps"] == 1


def damaged_record(log: Log, part: str) -> int:
    """Offset of a record of this kind in the middle of the log."""
    types = {"submission": 2, "completion": 3}
    middle = [at for at in log.starts[:-1] if log.bytes[at + 12] == types[part]]
    return middle[len(middle) // 2]


def counts(scheduler: Scheduler) -> tuple[int, int, int]:
    """What a scheduler knows, in numbers."""
    live = scheduler.book.live.values()
    return len(live), len(scheduler.book.finished), sum(run.open for run in live)


def expected(*, without_last: bool = False) -> dict[str, int]:
    """How often each task has run in the end: what was open twice where it had begun, what had ended never again."""
    found = dict.fromkeys(DONE | OPEN, 1) | {"failed": 1, "retried": 2, "held": 2}
    if without_last:
        del found["open-4"]
    return found

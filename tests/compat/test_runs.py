"""What engines of released versions left is read as they read it, and goes on."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.records import RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from runtime.host.calendar import ZoneCalendar
from runtime.storage.contents import check_contents
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.transfer import export_runs, import_runs
from tests.compat.make_runs import EXPECTED

HERE = Path(__file__).parent
FOLDERS = sorted(str(path.relative_to(HERE)) for path in HERE.glob("runs_v*/*") if path.is_dir())
RELEASES = sorted({name.partition("/")[0] for name in FOLDERS})
WRITTEN_NO_MORE = {RecordType.KIND, RecordType.MARK}
"""Of no engine's log: a type that was given up, and the log's own."""
HOUR_NS = 3_600_000_000_000


def lines_of(text: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def exported(path: Path) -> list[dict[str, Any]]:
    out = io.BytesIO()
    export_runs(path, out)
    return lines_of(out.getvalue())


def expected(name: str) -> list[dict[str, Any]]:
    return lines_of((HERE / name / EXPECTED).read_bytes())


def without_version(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "version"} for line in lines]


def assert_says_at_least(found: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
    """A later version may say more, and nothing else."""
    assert [(line["type"], line.get("run")) for line in found] == [(line["type"], line.get("run")) for line in before]
    for line, told in zip(without_version(found), without_version(before), strict=True):
        assert {key: line[key] for key in told} == told


@pytest.mark.parametrize("name", FOLDERS)
def test_runs_of_a_released_version_are_what_it_said(name: str) -> None:
    assert_says_at_least(exported(HERE / name), expected(name))
    assert check_contents(HERE / name).problems == ()


@pytest.mark.parametrize("name", FOLDERS)
def test_they_go_on(name: str, tmp_path: Path) -> None:
    state = shutil.copytree(HERE / name, tmp_path / "state")
    scheduler = Scheduler(["default", "io"])
    scheduler.schedules.calendar = ZoneCalendar()
    replay = Replay(scheduler)
    with StateFolder.open(state) as folder:
        reader = read_log(folder.log, DiskFiles())
        for record in reader:
            replay.fold(record)
    replay.finish(HOUR_NS, 1_800_000_000_000_000_000, {"pid": 1}, reader.report().next_lsn)
    scheduler.check_invariants()


@pytest.mark.parametrize("name", FOLDERS)
def test_an_export_of_a_released_version_can_be_imported(name: str, tmp_path: Path) -> None:
    import_runs(tmp_path / "new", (HERE / name / EXPECTED).read_bytes().splitlines())
    assert_says_at_least(exported(HERE / name), exported(tmp_path / "new"))


@pytest.mark.parametrize("release", RELEASES)
def test_all_record_types_are_among_them(release: str) -> None:
    types: Counter[int] = Counter()
    for path in (HERE / release).iterdir():
        with StateFolder.open(path, create=False, owner=False) as folder:
            types.update(record.type for record in read_log(folder.log, DiskFiles()))
    known = {*types} | WRITTEN_NO_MORE
    assert known >= {type_ for type_ in RecordType if type_ <= RecordType.LENT}
    assert RecordType.IMPORTED in known


def test_reading_changes_nothing() -> None:
    before = {path: path.read_bytes() for path in HERE.rglob("runs_v*/**/*") if path.is_file()}
    for name in FOLDERS:
        exported(HERE / name)
    assert before
    assert {path: path.read_bytes() for path in HERE.rglob("runs_v*/**/*") if path.is_file()} == before

"""Logs in shards of released formats still open, give the same records, and can be written further and moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.reshard import reshard
from runtime.storage.verify import verify
from runtime.storage.wal import LogWriter
from tests.compat import make_log, make_shards

HERE = Path(__file__).parent
RELEASED = sorted(path.name for path in HERE.glob("shards_v*"))
EXPECTED = [make_shards.record(lsn) for lsn in range(1, 23) if lsn not in (3, 16)]
"""3 was lost, 16 and 23 are the marks of an orderly close."""


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_log_opens(name: str, tmp_path: Path) -> None:
    state = shutil.copytree(HERE / name, tmp_path / "state")
    files = DiskFiles()
    assert verify(state).sound
    with StateFolder.open(state) as folder:
        log = read_log(folder.log, files)
        assert list(log) == EXPECTED
        report = log.report()
        assert len(report.segments) == 2
        assert (report.next_lsn, report.known_gaps, report.bytes_cut) == (24, 1, len(make_log.TORN))
        writer = LogWriter(folder.log, files, report)
        writer.write([make_shards.record(24)], sync=True)
        writer.close()
        assert list(read_log(folder.log, files)) == [*EXPECTED, make_shards.record(24)]
    reshard(state, 1)
    with StateFolder.open(state) as folder:
        assert list(read_log(folder.log, files)) == [*EXPECTED, make_shards.record(24)]


def test_this_version_still_writes_the_format_it_released(tmp_path: Path) -> None:
    made, kept = tmp_path / "made", HERE / RELEASED[-1]
    make_shards.main(str(made))
    for folder in (made, kept):
        assert sum(path.is_file() for path in folder.rglob("*")) == 7
    for path in kept.rglob("*"):
        assert path.is_dir() or path.read_bytes() == (made / path.relative_to(kept)).read_bytes(), path

"""The command `events`: lines, JSON, filters, and what it says of a place that is not there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from actors.event_kinds import Event
from actors.protocol.errors import ConfigurationError
from actors.protocol.records import Record, RecordType
from runtime.cli import main
from runtime.cli.events import CAUSE_SHOWN_CHARS, event_line, read_since
from runtime.cli.exits import Exit
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.wal import LogWriter


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A folder that was opened, and in which two single tasks were submitted, one of which ended."""
    kind = {"handler": "m:f", "node_type": "default", "shape": "one"}
    payloads = [
        (RecordType.OPENED, orjson.dumps({"now_ns": 5, "wall_ns": 1_000_000_005, "next_run_no": 1, "pid": 7})),
        (RecordType.SUBMITTED, b'T["s",1,1000000007,[[1,%s]],[[1,1,0],[2,1,0]]]' % orjson.dumps(kind)),
        (RecordType.COMPLETED, b"[9,[[1,1,[1],[0],10,[4]]]]"),
    ]
    with StateFolder.open(tmp_path / "state") as folder:
        log = read_log(folder.log, DiskFiles())
        list(log)
        writer = LogWriter(folder.log, DiskFiles(), log.report())
        writer.write([Record(lsn, type_, payload) for lsn, (type_, payload) in enumerate(payloads, 1)], sync=False)
        writer.close()
    return tmp_path / "state"


def test_lines(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", str(state)]) == Exit.OK
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(words[0], *words[4:]) for words in lines] == [
        ("1", "engine.opened"),
        ("2", "run.submitted", "s-1", "f"),
        ("2", "run.submitted", "s-2", "f"),
        ("3", "node.succeeded", "s-2", "node", "0", "f"),
        ("3", "run.succeeded", "s-2", "f"),
    ]


def test_json_and_filters(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["events", str(state), "--json", "--kind", "run.*", "--run", "s-[2]", "--since", "2", "--limit", "1"]
    assert main(asked) == Exit.OK
    (line,) = capsys.readouterr().out.splitlines()
    assert (
        json.loads(line)
        == Event(2, 1, 1_000_000_007, "run.submitted", "s-2", None, "", "f", "", {"nodes": 1})._asdict()
    )


def test_following_ends_with_its_limit(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", str(state), "--follow", "--since", "begin", "--limit", "5"]) == Exit.OK
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--since", "2999-01-01"], "has not come; the next LSN is"),
        (["--since", "99"], "the next one is 5"),
        (["--since", "yesterday"], "is neither an LSN, an age"),
        (["--kind", "node.exploded"], "no kind of event"),
    ],
)
def test_what_is_not_there(state: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert main(["events", str(state), *options]) == Exit.USAGE
    assert words in capsys.readouterr().err


def test_a_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", str(tmp_path)]) == Exit.ENVIRONMENT
    assert "MS20" in capsys.readouterr().err


def test_places_to_begin_at() -> None:
    assert [read_since(text) for text in ("begin", "now", "17")] == ["begin", "now", 17]
    assert read_since("2026-11-30T12:00") == datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert read_since("2026-11-30T12:00+01:00") == datetime(2026, 11, 30, 11, tzinfo=UTC)
    since = read_since("2h")
    assert isinstance(since, datetime)
    assert 2 <= (datetime.now(UTC) - since) / timedelta(hours=1) < 48
    with pytest.raises(ConfigurationError):
        read_since("soon")


def test_a_long_cause_is_cut() -> None:
    line = event_line(Event(1, 0, 0, "node.failed", "r", 0, "load", "f", "ValueError: a\n" + "b" * 999))
    assert line.endswith("…")
    assert "node load  f  ValueError: a b" in line
    assert len(line) < CAUSE_SHOWN_CHARS + 100

"""What the command line says of archived runs: the same wherever it is asked, and before there is an archive, too."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runtime import Runtime
from runtime.errors import UnknownRun
from runtime.storage.folder import ARCHIVE_NAME
from tests.scenarios.test_log_archive import a_flow, check_run, opened, until_archived, work
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow

NAMES = [f"run-{number}" for number in range(8)]
MUCH = 1 << 26
"""Of log before a checkpoint: there is none."""


def command(*words: object, code: int = 0) -> bytes:
    done = subprocess.run([sys.executable, "-m", "runtime", *map(str, words)], capture_output=True, check=False)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout


def asked(state_dir: Path, sql: str) -> list[Any]:
    return [tuple(row.values()) for row in json.loads(command("query", state_dir, sql, "--json"))["rows"]]


def do_much(rt: Runtime) -> None:
    """Runs of all forms, more than memory keeps."""
    for name in NAMES:
        rt.submit(a_flow(), run_id=name).wait(30)
    several = [rt.submit_nowait(math.sqrt, float(number)) for number in range(40)]
    assert [handle.result(timeout=30) for handle in several] == [math.sqrt(number) for number in range(40)]
    work(rt)
    for number in range(4):
        rt.submit(math.sqrt, float(number)).result(timeout=30)
    until(lambda: not {run.run_id for run in rt.runs(archived=False)} & set(NAMES), "a memory without them")


def check_counts(state_dir: Path) -> dict[str, Any]:
    """One truth: `verify`, `query` and `export`."""
    found: dict[str, Any] = json.loads(command("verify", state_dir, "--json"))["archive"]
    ((submissions, nodes),) = asked(state_dir, "SELECT count(*), coalesce(sum(tasks), 0) FROM runs WHERE archived = 1")
    assert (found["submissions"], found["nodes"]) == (submissions, nodes)
    everything = command("export", state_dir, "--archived").splitlines()
    in_memory = command("export", state_dir).splitlines()
    assert found["runs"] == json.loads(everything[0])["runs"] - json.loads(in_memory[0])["runs"]
    return found


def test_runs_on_their_way_to_the_archive_are_told_as_those_in_it(state_dir: Path) -> None:
    with opened(state_dir, checkpoint_bytes=MUCH) as rt:
        do_much(rt)
        assert not (state_dir / ARCHIVE_NAME).exists()
        query = "SELECT run_id FROM runs WHERE archived = 1 AND name = 'sums' ORDER BY run_no"
        assert asked(state_dir, query) == [(name,) for name in NAMES]
        assert check_counts(state_dir)["waiting"] > 0
        assert b"run-3" in command("export", state_dir, "--archived", "--run", "run-3")
    assert check_counts(state_dir)["waiting"] > 0
    with opened(state_dir) as rt:
        until_archived(rt, *NAMES)
    assert check_counts(state_dir)["runs"] > check_counts(state_dir)["waiting"]


def test_without_checkpoints_nothing_is_on_its_way(state_dir: Path) -> None:
    with opened(state_dir, checkpoint_bytes=None) as rt:
        do_much(rt)
    assert asked(state_dir, "SELECT count(*) FROM runs WHERE archived = 1") == [(0,)]
    assert check_counts(state_dir)["runs"] == 0
    assert command("export", state_dir, "--archived", "--run", "run-3", code=2) == b""


def test_an_archive_that_is_none_is_set_aside_by_the_opening(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        rt.submit(a_flow(), run_id="mine").wait(30)
        until_archived(rt, "mine")
        assert "archive_set_aside" not in rt.recovery
    (state_dir / ARCHIVE_NAME).write_bytes(b"x" * 5000)
    assert b"MS212" in failing("query", state_dir, "SELECT count(*) FROM runs")
    assert b"archive.db is damaged" in command("verify", state_dir, code=3)
    with opened(state_dir) as rt:
        assert "damaged" in rt.recovery["archive_set_aside"]
        with suppress(UnknownRun):  # it is lost, unless the checkpoint that took it there had not ended
            check_run(rt, "mine")
        rt.submit(a_flow(), run_id="another").wait(30)
        until_archived(rt, "another")
    assert b"a damaged archive that was set aside" in command("verify", state_dir)


def test_an_archive_that_was_removed_is_missed(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        rt.submit(a_flow(), run_id="mine").wait(30)
        until_archived(rt, "mine")
        until(lambda: work(rt) or b"the checkpoint holds" in command("verify", state_dir), "a checkpoint behind it")
    (state_dir / ARCHIVE_NAME).unlink()
    assert b"there is no archive.db" in command("verify", state_dir)
    with opened(state_dir) as rt:
        assert rt.recovery["archive_missing"] > 0


def failing(*words: object) -> bytes:
    return subprocess.run([sys.executable, "-m", "runtime", *map(str, words)], capture_output=True, check=False).stderr


def test_what_is_forgotten_before_there_is_an_archive_does_not_come_there(state_dir: Path) -> None:
    with opened(state_dir, checkpoint_bytes=MUCH) as rt:
        do_much(rt)
        rt.submit(a_flow(), run_id="memory").wait(30)
        command("forget", state_dir, "memory")
        command("forget", state_dir, "run-3")
        assert asked(state_dir, "SELECT count(*) FROM runs WHERE run_id IN ('memory', 'run-3')") == [(0,)]
    command("forget", state_dir, "run-4")
    check_counts(state_dir)
    with opened(state_dir) as rt:
        until_archived(rt, "run-1", "run-7")
        for name in ("memory", "run-3", "run-4"):
            with pytest.raises(UnknownRun):
                rt.handle(name)
        check_run(rt, "run-5")

"""Runs move between folders through a pipe, as a shell does it; an import that is killed has entered nothing."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from runtime import NodeType, Runtime
from runtime.storage.recovery import summarise
from runtime.storage.transfer import export_runs
from tests.scenarios.handlers import mark
from tests.scenarios.waiting import until, words
from tests.tidy.tree import ROOT

pytestmark = pytest.mark.slow
ONE: Final = [NodeType("default", workers=1)]
COUNT: Final = 60


def command(*words: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "runtime", *words], cwd=ROOT, **options)  # type: ignore[call-overload]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A folder with runs that have ended, and one that has not begun."""
    path = tmp_path / "state"
    with Runtime(path, node_types=ONE, durability="os") as rt:
        for number in range(COUNT):
            rt.submit(mark, str(tmp_path / "runs"), f"done-{number}").result(timeout=30)
        rt.submit(mark, str(tmp_path / "runs"), "open", delay=3)
        rt.close(drain=False)
    return path


def text_of(path: Path) -> bytes:
    out = io.BytesIO()
    export_runs(path, out)
    return out.getvalue()


def test_through_a_pipe_and_on(state: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    source = command("export", str(state), stdout=subprocess.PIPE)
    sink = command("import", str(new), stdin=source.stdout, stderr=subprocess.PIPE)
    assert source.stdout is not None
    source.stdout.close()
    _, said = sink.communicate(timeout=60)
    assert (source.wait(timeout=60), sink.returncode) == (0, 0)
    assert f"imported {COUNT + 1} runs".encode() in said
    assert text_of(new) == text_of(state)
    with Runtime(new, node_types=ONE, durability="os") as rt:
        for status in list(rt.runs()):
            rt.handle(status.run_id).wait(timeout=30)
    assert words(tmp_path / "runs") == {**{f"done-{n}": 1 for n in range(COUNT)}, "open": 1}


def test_a_killed_import_has_entered_nothing_and_can_be_done_again(state: Path, tmp_path: Path) -> None:
    new, text = tmp_path / "new", text_of(state)
    log = new / "log" / "00000001.seg"
    lines = text.splitlines(keepends=True)
    for part in (len(lines) // 2, len(lines)):
        sink = command("import", str(new), stdin=subprocess.PIPE)
        assert sink.stdin is not None
        before = log.stat().st_size if log.exists() else 0
        sink.stdin.write(b"".join(lines[:part]))
        sink.stdin.flush()  # it stays open: the end of the file would be the end of the import
        size = max(before, 2000)
        until(lambda size=size: log.exists() and log.stat().st_size > size, "the import writes")  # type: ignore[misc]
        os.kill(sink.pid, signal.SIGKILL)
        sink.wait(timeout=30)
        sink.stdin.close()
        assert summarise(new)["runs"] == []
    again = command("import", str(new), stdin=subprocess.PIPE)
    again.communicate(text, timeout=60)
    assert again.returncode == 0
    assert text_of(new) == text


def test_a_file_is_there_when_all_is_in_it(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    done = command("export", str(state), "--output", str(file), stderr=subprocess.PIPE)
    done.communicate(timeout=60)
    assert file.read_bytes() == text_of(state)
    refused = command("export", str(state), "--run", "nobody", "--output", str(file), stderr=subprocess.PIPE)
    _, said = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert b"MS121" in said
    assert file.read_bytes() == text_of(state)
    imported = command("import", str(state), "--input", str(file), stderr=subprocess.PIPE)
    _, said = imported.communicate(timeout=60)
    assert imported.returncode == 2
    assert b"MS120" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "runs.jsonl", "state"]


def test_nobody_reads_the_export_to_its_end(state: Path) -> None:
    source = command("export", str(state), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert source.stdout is not None
    source.stdout.close()
    assert source.stderr is not None
    with source.stderr as stderr:
        said = stderr.read()
    assert source.wait(timeout=60) == 3
    assert b"MS201" in said
    assert b"Traceback" not in said

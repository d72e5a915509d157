"""The command `run` from the file to the report, with a real engine; signals, and going on after them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.cli.pyfile import MODULE_NAME
from runtime.cli.record import STILL_LOOKS, watch
from runtime.views import Counts
from tests.unit.cli.test_wfformat import document

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]

FLOW = """
import os, signal
from pathlib import Path
from runtime import Flow

def double(value):
    return 2 * value

def fail(value):
    raise ValueError("on purpose")

def die_once(mark):
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)

def build():
    flow = Flow("small")
    first = flow.add(double, 4, id="first")
    flow.add({second}, first, id="second")
    flow.add(double, first, id="third")
    return flow
"""


@pytest.fixture(autouse=True)
def modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Running a file changes what a program has one of: its import path, arguments and main module."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    yield
    sys.modules.pop(MODULE_NAME, None)


def workflow(folder: Path, runtime_s: float = 2.0) -> Path:
    """A recorded workflow of four tasks."""
    found = document()
    for task in found["workflow"]["execution"]["tasks"]:
        task["runtimeInSeconds"] = runtime_s
    path = folder / "wf.json"
    path.write_text(json.dumps(found))
    return path


def check_order(found: dict[str, Any]) -> None:
    """Every node started after all of its parents had ended."""
    nodes = {node["id"]: node for node in found["nodes"]}
    for node in nodes.values():
        assert all(nodes[parent]["ended_ns"] <= node["started_ns"] for parent in node["parents"])


@pytest.mark.parametrize("more", [[], ["--burn"]])
def test_a_recorded_workflow_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    report, table = tmp_path / "out.html", tmp_path / "out.json"
    argv = ["run", str(workflow(tmp_path)), "--scale", "0.005", "--workers", "2", "--report", str(report)]
    assert main([*argv, "--json", str(table), "--durability", "os", *more]) == Exit.OK
    found = json.loads(table.read_text())
    check_order(found)
    assert found["state"] == "succeeded"
    assert found["workers"] == 2
    assert {node["id"]: node["parents"] for node in found["nodes"]} == {
        "a": [],
        "b": ["a"],
        "c": ["a"],
        "d": ["b", "c"],
    }
    assert min(node["ended_ns"] - node["started_ns"] for node in found["nodes"]) >= 9_900_000
    assert 0.029 < found["makespan_s"] < 5
    captured = capsys.readouterr()
    assert "a → " in captured.out
    assert "durability     os" in captured.out
    assert "\x1b" not in captured.out + captured.err
    assert b"</html>" in report.read_bytes()


def test_a_python_file_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "flow.py"
    path.write_text(FLOW.replace("{second}", "fail"))
    table = tmp_path / "out.json"
    assert main(["run", str(path), "--json", str(table)]) == Exit.RUN_FAILED
    states = {node["id"]: node["state"] for node in json.loads(table.read_text())["nodes"]}
    assert states == {"first": "succeeded", "second": "failed", "third": "succeeded"}
    out = capsys.readouterr().out
    assert "second: ValueError: on purpose" in out
    assert 'raise ValueError("on purpose")' in out
    assert "runtime/host" not in out
    assert main(["run", str(path), "--quiet"]) == Exit.RUN_FAILED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("failed: node second: ValueError: on purpose\n")


def test_a_folder_that_is_kept_has_a_run_for_each_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, state, table = tmp_path / "flow.py", tmp_path / "state", tmp_path / "out.json"
    path.write_text(FLOW.replace("{second}", "double"))
    argv = ["run", str(path), "--state", str(state), "--json", str(table), "--quiet"]
    ids = []
    for more in ([], [], ["--run-id", "mine"], ["--run-id", "mine"]):
        assert main([*argv, *more]) == Exit.OK
        ids.append(json.loads(table.read_text())["run_id"])
    assert ids[0].startswith("small-")
    assert ids[0].endswith("-1")
    assert ids[1] == ids[0][:-1] + "2"
    assert ids[2:] == ["mine", "mine"]
    assert main(["verify", str(state)]) == Exit.OK
    capsys.readouterr()


def command(*argv: str | Path) -> subprocess.Popen[str]:
    """The command as a process of its own, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "runtime", *map(str, argv)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def progress_seen(process: subprocess.Popen[str]) -> None:
    """Wait until the first line of progress: then the run is under way."""
    assert process.stderr is not None
    assert "nodes" in process.stderr.readline()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_signals_end_it_in_order(tmp_path: Path, number: int, code: int) -> None:
    process = command("run", workflow(tmp_path, 60.0))
    progress_seen(process)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert out == ""
    assert err.endswith("mainspring: interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["INT", "KILL"])
def test_the_same_command_goes_on_with_an_interrupted_run(tmp_path: Path, number: int) -> None:
    found = document()
    for task, seconds in zip(found["workflow"]["execution"]["tasks"], (0.0, 1.0, 3.0, 3.0), strict=True):
        task["runtimeInSeconds"] = seconds  # a, d, b, c
    path, state, table = tmp_path / "wf.json", tmp_path / "state", tmp_path / "out.json"
    path.write_text(json.dumps(found))
    process = command("run", path, "--state", state, "--json", table)
    progress_seen(process)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=20)
    assert not table.exists()
    if number == signal.SIGINT:
        assert "run it again with --state" in err
    process = command("run", path, "--state", state, "--json", table, "--scale", "1")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "going on with run wf-" in err
    assert ": 1 of 4 nodes had ended" in err
    check_order(json.loads(table.read_text()))
    assert "4 succeeded" in out


@pytest.mark.parametrize("shell", ["| head -n 1", "| true", ">&-", "2>&-"])
def test_readers_that_go_away_change_nothing(tmp_path: Path, shell: str) -> None:
    path, table = tmp_path / "flow.py", tmp_path / "out.json"
    path.write_text(FLOW.replace("{second}", "double"))
    line = f'set -o pipefail; "{sys.executable}" -m runtime run "{path}" --json "{table}" {shell}'
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert json.loads(table.read_text())["state"] == "succeeded"


def examples() -> Sequence[Path]:
    """Programs of the folder of examples that are flows."""
    return [ROOT / "examples" / name for name in ("hello.py", "etl.py", "dynamic.py")]


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.stem)
def test_examples_run_from_the_command_line(path: Path, temporary_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "run", path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "succeeded" in done.stdout
    (temporary_folder / "mainspring-etl.sqlite").unlink(missing_ok=True)


def test_status_and_verify_beside_a_running_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document()
    for task, seconds in zip(found["workflow"]["execution"]["tasks"], (0.0, 60.0, 60.0, 60.0), strict=True):
        task["runtimeInSeconds"] = seconds
    path, state = tmp_path / "wf.json", tmp_path / "state"
    path.write_text(json.dumps(found))
    process = command("run", path, "--state", state)
    progress_seen(process)
    assert main(["status", str(state), "--json"]) == Exit.OK
    summary = json.loads(capsys.readouterr().out)
    assert summary["owner_pid"] == process.pid
    assert [run["state"] for run in summary["runs"]] == ["running"]
    assert summary["runs"][0]["counts"]["succeeded"] == 1
    assert main(["verify", str(state)]) == Exit.OK
    assert capsys.readouterr().out.endswith("sound: opens as it is\n")
    assert main(["run", str(path), "--state", str(state)]) == Exit.ENVIRONMENT
    assert f"in use by process {process.pid}" in capsys.readouterr().err
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=20)
    assert main(["status", str(state)]) == Exit.OK
    assert "they go on when the folder is opened again" in capsys.readouterr().out


def test_a_run_that_does_not_move_says_why() -> None:
    looks = iter([False] * (3 * STILL_LOOKS) + [True])
    counts = Counts(ready=2, succeeded=1)
    told: list[str] = []
    handle = SimpleNamespace(
        done=lambda: next(looks),
        wait=lambda timeout: None,
        progress=lambda: SimpleNamespace(counts=counts),
        why=lambda: "no handler: ImportError",
    )
    meter = SimpleNamespace(show=lambda *_: None, note=told.append, close=lambda: None)
    watch(cast(Any, handle), cast(Any, meter))
    assert told == ["nothing moves; why() says: no handler: ImportError"], "once, until the reason is another"

"""What the real py-spy sees of a runtime: names of processes, threads and node types; and that it agrees with us.

Acceptance tests 7 and 14.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime import NodeType, Runtime
from runtime.host import kernel
from runtime.profile.model import Profile
from runtime.profile.presence.control import ask
from tests.scenarios import handlers_sampling as handlers
from tests.scenarios.processes import is_denied
from tests.scenarios.waiting import await_lines

PATIENCE_S = 60.0
ROUGHLY = 0.25
FOLDERS = [os.path.dirname(sys.executable), *(os.path.join(place, "bin") for place in sys.path), os.environ["PATH"]]
PY_SPY = shutil.which("py-spy", path=os.pathsep.join(FOLDERS))
NEEDS = "py-spy is not installed (it comes with the extra 'test')"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not kernel.LINUX, reason="needs /proc"),
    pytest.mark.skipif(PY_SPY is None, reason=NEEDS),
]
WORK = ("count", "sort_numbers", "pack")


def py_spy(*words: str) -> str:
    """What it says; skips where it may not look at other processes."""
    done = subprocess.run([PY_SPY or "", *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode and is_denied(done.stderr):
        pytest.skip(f"this system does not let py-spy look at processes: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def dumped(pid: int) -> str:
    """A dump. Without stopping the process, py-spy now and then reads what was just freed, and says so."""
    for _ in range(50):
        done = subprocess.run(
            [PY_SPY or "", "dump", "--nonblocking", "--pid", str(pid)], capture_output=True, text=True, check=False
        )
        if "Failed to copy" not in done.stderr:
            break
    return py_spy("dump", "--nonblocking", "--pid", str(pid)) if done.returncode else done.stdout


def recorded(pid: int, seconds: int, place: Path, *words: str) -> list[tuple[list[str], int]]:
    """Stacks and how often they were seen."""
    flags = ["--nonblocking", "--threads", "--rate", "100", "--duration", str(seconds), "--format", "raw"]
    py_spy("record", "--pid", str(pid), "--output", str(place), *flags, *words)
    found = []
    for line in place.read_text().splitlines():
        stack, _, seen = line.rpartition(" ")
        found.append((stack.split(";"), int(seen)))
    return found


@contextmanager
def busy(state_dir: Path, folder: Path, mode: str = "process") -> Iterator[tuple[Runtime, int]]:
    """A runtime with a worker that computes, and its pid."""
    path, gate = folder / "runs", folder / "gate"
    asynchronous = mode == "asyncio"
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1, mode=mode)]) as rt:  # type: ignore[arg-type]
        handle = rt.submit(handlers.compute_in_tasks if asynchronous else handlers.mix, str(path), str(gate))
        await_lines(path, 1)
        yield rt, int(path.read_text().split()[1])
        gate.touch()
        handle.result(timeout=PATIENCE_S)


@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_a_dump_says_which_process_thread_and_node_type_it_is(state_dir: Path, tmp_path: Path, mode: str) -> None:
    """Acceptance test 14: names."""
    with busy(state_dir, tmp_path, mode) as (_, pid):
        said = "".join(dumped(pid) for _ in range(5))
    assert "mainspring: worker 1 [cpu]" in said
    assert '"MainThread"' in said
    if mode == "process":
        assert "node:cpu (" in said
        assert '"mainspring-housekeeper"' in said
        assert "mix (" in said


def test_nearly_all_of_a_busy_worker_is_under_its_node_type(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 14: 95 % of what computes."""
    with busy(state_dir, tmp_path) as (_, pid):
        stacks = recorded(pid, 3, tmp_path / "raw")
    computing = [(stack, seen) for stack, seen in stacks if not any("mainspring-" in frame for frame in stack[:3])]
    under = sum(seen for stack, seen in computing if any(frame.startswith("node:cpu") for frame in stack))
    others = Counter({";".join(stack): seen for stack, seen in computing if "node:cpu" not in ";".join(stack)})
    assert under >= 0.95 * sum(seen for _, seen in computing) > 0, others.most_common(5)


def test_all_processes_are_told_apart_by_their_titles(state_dir: Path, tmp_path: Path) -> None:
    with busy(state_dir, tmp_path) as (_, pid):
        spawner = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        stacks = recorded(spawner, 2, tmp_path / "raw", "--subprocesses", "--idle")
    roots = " ".join({stack[0] for stack, _ in stacks} | {stack[1] for stack, _ in stacks if len(stack) > 1})
    assert "mainspring: worker 1 [cpu]" in roots
    assert "mainspring: engine" in roots


def test_it_agrees_with_us(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 7, roughly, on a machine that runs other tests: one counts by the wall, the other by CPU clocks.

    With the figures of the specification it is in `test_profile_truth`, and in `python -m runtime.bench profile-truth`.
    """
    with busy(state_dir, tmp_path) as (rt, pid):
        spy = subprocess.Popen(
            [PY_SPY or "", "record", "--pid", str(pid), "--output", str(tmp_path / "raw"), "--nonblocking", "--rate",
             "100", "--duration", "4", "--format", "raw", "--function"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            answers = ask(rt.state_dir, "cpu", seconds=4.0, timeout=PATIENCE_S, hz=200, only=frozenset({pid}))
            _, error = spy.communicate(timeout=PATIENCE_S)
        finally:
            spy.kill()
            spy.wait()
    if spy.returncode and is_denied(error):
        pytest.skip(f"this system does not let py-spy look at processes: {error.strip()[-200:]}")
    ours: Counter[str] = Counter()
    profile = Profile().merge(*(Profile.from_json(content) for _, content in answers.rows))
    for sample, weight in profile:
        name = next((frame.name for frame in reversed(sample.stack) if frame.name in WORK), "")
        ours[name] += weight.value
    theirs: Counter[str] = Counter()
    for line in (tmp_path / "raw").read_text().splitlines():
        stack, _, seen = line.rpartition(" ")
        name = next((word for frame in reversed(stack.split(";")) if (word := frame.split(" (")[0]) in WORK), "")
        theirs[name] += int(seen)
    del ours[""], theirs[""]
    parts = {name: (ours[name] / ours.total(), theirs[name] / theirs.total()) for name in WORK}
    assert sum(abs(one - other) for one, other in parts.values()) / 2 <= ROUGHLY, parts
    assert all(one and other for one, other in parts.values()), parts

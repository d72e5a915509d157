"""The reachability proof in processes of their own, under both event loops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from runtime import NodeType, Runtime
from runtime.host import kernel
from runtime.profile.presence.control import ask
from tests.scenarios import handlers_profile as handlers
from tests.scenarios.programs.proof_shapes import Leaks, Waits, names_of
from tests.scenarios.waiting import await_lines

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("asked", ["here", "thread"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_every_leak_is_proved_and_no_wait_that_can_end(loop: str, asked: str) -> None:
    """Acceptance 3, and the recall that belongs to it: 9 leaks among 19 waits that look like them."""
    command = [sys.executable, "-m", "tests.scenarios.programs.proof_shapes", loop, asked]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["notes"] == []
    assert found["blocked"] > len(names_of(Leaks)) + len(names_of(Waits))
    graded = {name: row["grade"] for row in found["findings"] for name in row["ring"]}
    assert graded == dict.fromkeys(names_of(Leaks), "leak")


def test_a_deadlock_is_one_finding_and_names_its_line() -> None:
    """Each has the lock that the other wants: one ring, and where its handler begins and waits."""
    command = [sys.executable, "-m", "tests.scenarios.programs.proof_shapes", "uvloop", "here"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    rows = [row for row in json.loads(ended.stdout)["findings"] if "deadlock" in row["ring"]]
    assert len(rows) == 1
    assert rows[0]["ring"] == ["deadlock", "deadlock"]
    assert rows[0]["why"].startswith("2 tasks can be woken by each other only")
    assert rows[0]["stack"][-1][0] == "Lock.acquire"
    assert rows[0]["site"][1].endswith("proof_shapes.py")


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_a_worker_proves_which_of_its_attempts_nobody_can_end(state_dir: Path, tmp_path: Path) -> None:
    """All processes are asked; who has no task that waits says nothing. A time limit ends what nothing else would."""
    path, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=[NodeType("io", workers=1, mode="asyncio")]) as rt:
        rt.submit(handlers.wait_for_nobody, str(path))
        rt.submit(handlers.wait_for_nobody, str(path), timeout=3600.0)
        busy = rt.submit(handlers.wait_for_parts, str(path), str(gate))
        await_lines(path, 3)
        answers = ask(rt.state_dir, "prove", timeout=120.0, confirm_s=0.0)
        assert not answers.missing
        assert not answers.failed
        found = {process.role: orjson.loads(content) for process, content in answers.rows}
        assert {role: row["notes"] for role, row in found.items()} == {role: [] for role in found}
        assert [role for role, row in found.items() if row["findings"]] == ["worker"]
        assert not any(row["others"] for row in found.values())
        (leak,) = found["worker"]["findings"]
        assert leak["grade"] == "leak"
        first = handlers.wait_for_nobody.__code__.co_firstlineno
        assert leak["site"] == ["wait_for_nobody", handlers.__file__, first]
        assert [frame[0] for frame in leak["stack"]] == ["wait_for_nobody", "Event.wait"]
        assert leak["stack"][0][2] == first + 3
        gate.touch()
        assert busy.result(timeout=60.0) == 2
        rt.close(drain=False)

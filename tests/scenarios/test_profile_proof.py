"""The reachability proof in processes of their own, under both event loops."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.scenarios.programs.proof_shapes import Leaks, Waits, names_of

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

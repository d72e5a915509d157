"""Findings as text and as exit codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from runtime.profile.cli import main
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.leaking import exit_code, finding_lines
from runtime.profile.model import Frame, Labels


class Found(NamedTuple):
    grade: str
    kind: str = "task"
    count: int = 3
    slope_per_min: float = 60.0
    oldest_s: float = 5.0
    signature: str = "abc"
    site: tuple[Frame, ...] = (Frame("fetch", "/app/net/http.py", 12),)
    wait: tuple[Frame, ...] = ()
    labels: Labels = (("tenant", "acme"),)
    owner: Any = "worker 1"
    proof: str = "nobody can set it"
    exemplars: tuple[str, ...] = ("t1",)
    suggestion: str = "cancel it"


@pytest.mark.parametrize(
    ("grades", "fail_on", "code"),
    [
        ([], "info", ProfileExit.OK),
        (["info"], "suspect", ProfileExit.OK),
        (["info"], "info", ProfileExit.SUSPECT),
        (["suspect", "info"], "suspect", ProfileExit.SUSPECT),
        (["suspect"], "leak", ProfileExit.OK),
        (["info", "leak"], "leak", ProfileExit.LEAK),
        (["leak"], "suspect", ProfileExit.LEAK),
        (["leak"], "never", ProfileExit.OK),
    ],
)
def test_the_worst_decides_the_code(grades: list[str], fail_on: str, code: ProfileExit) -> None:
    assert exit_code([Found(grade) for grade in grades], fail_on) == code


def test_a_finding_says_where_why_and_what_to_do() -> None:
    lines = list(finding_lines([Found("leak"), Found("info")]))
    assert lines[0] == "LEAK     3 × task, +60.0 a minute, the oldest for 5.00 s"
    assert "         created  fetch  app/net/http.py:12" in lines
    assert "         why      nobody can set it" in lines
    assert lines[-1] == "1 leak, 0 suspects, 1 to be watched"
    assert sum(line.startswith("INFO") for line in finding_lines([Found("info")], every=True)) == 1
    assert next(iter(finding_lines([]))).startswith("clean")


def test_a_file_that_is_neither_a_page_nor_json_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaks", "state", "-o", "leaks.txt"]) == ProfileExit.USAGE
    assert "leaks.txt: findings are written as .html or .json" in capsys.readouterr().err

"""The README holds: its programs run, its commands exist, its figures come from a command that it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from runtime.profile.presence.appear import ROLES
from tests.tidy.tree import ROOT, files, read

README: Final = read("README.md")
INSIDE: Final = README.partition("## Looking inside\n")[2].partition("\n## ")[0]
FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FIGURES: Final = re.compile(r"<!-- figures: begin -->\n(.*?)<!-- figures: end -->", re.DOTALL)
GENERATED: Final = re.compile(r"<!-- ([a-z ]+): begin \(generated .*?<!-- \1: end -->", re.DOTALL)
MEASURED: Final = re.compile(
    r"\d[\d,.]*\s?(ns|µs|us|ms|s|seconds?|MB|GB|MiB|GiB|KiB|bytes|%|tasks/s|/s)(?![\w-])|\d[\d,.]*\s?[×x](?!\w)|\d[\d,.]*\s?(k|M)/s"
)
PROGRAMS: Final = [block for language, block in FENCE.findall(README) if language == "python"]
COMMANDS: Final = "\n".join(block for language, block in FENCE.findall(README) if language == "sh")


def prose(text: str) -> str:
    """The text without its programs, its figures, and what is generated from the code."""
    return GENERATED.sub("", FIGURES.sub("", FENCE.sub("", text)))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_run(number: int, tmp_path: Path) -> None:
    program = tmp_path / f"program_{number}.py"
    program.write_text(PROGRAMS[number], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+(?: [a-z]+)*):", read("Makefile"), re.MULTILINE))
    known = {name for line in targets for name in line.split()}
    named = set(re.findall(r"\bmake ([a-z]+)", README))
    assert named <= known | {"nothing"}


def test_links_lead_somewhere() -> None:
    linked = [target for target in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in target]
    assert [target for target in linked if target not in files()] == []


def test_anchors_name_headings() -> None:
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", README), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= anchors


def test_figures_stand_only_where_a_command_prints_them() -> None:
    assert MEASURED.findall(prose(README)) == []
    (figures,) = FIGURES.findall(README)
    if MEASURED.search(figures):
        named = re.findall(r"`((?:make|python -m) [^`]+)`", figures)
        assert named, "the figures name the command that printed them"
        assert all(command.split(" ARGS=")[0].split(" --")[0] in README for command in named)


def test_planted_figures_are_found() -> None:
    assert MEASURED.search("it runs 300,000 tasks/s")
    assert MEASURED.search("in 58 µs")
    assert MEASURED.search("8× faster")
    assert not MEASURED.search("Python 3.11 to 3.13")
    assert not MEASURED.search(prose("```sh\nsleep 3 s\n```\n"))
    assert MEASURED.search(prose("<!-- a: begin (generated) -->\n1 MiB\n<!-- a: end -->\nin 58 µs"))


def test_what_a_process_can_be_is_explained_before_it_is_shown() -> None:
    """The words that `python -m runtime.profile ps` has for processes; "face" is one that nobody can guess."""
    first = INSIDE.partition("python -m runtime.profile")[0]
    assert [role for role in ("face", "spawner", *ROLES.values()) if f"*{role}*" not in first] == []

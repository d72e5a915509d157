"""What no file of the project contains: open marks, paths and hosts of one machine, a second list of versions."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.tidy.tree import files, read, report

# Put together from parts, so that this file does not contain what it looks for.
MARKS: Final = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")
MACHINE_PATHS: Final = re.compile(
    r"(?<![\w.\-~:/])/(" + "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers")) + r")/\w"
)
HOSTS: Final = re.compile(
    "|".join(
        (
            "index" + "-url",
            "trusted" + "-host",
            "--" + "registry",
            r"https?://[\w.-]+\.(internal|local|lan|corp)\b",
            r"\b(10|192\.168|172\.(1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}(\.\d{1,3})?\b(?=:\d|/)",
        )
    )
)
VERSION_LISTS: Final = re.compile(
    r"(^|/)((dev-|test-)?requirements[\w-]*\.(txt|in)|Pipfile|setup\.(py|cfg)|tox\.ini|\.?ruff\.toml|mypy\.ini|pytest\.ini)$"
)


def matching(pattern: re.Pattern[str], path: str, text: str) -> list[str]:
    """Lines of a text that match."""
    lines = enumerate(text.splitlines(), 1)
    return [f"{path}:{number}: {line.strip()[:100]}" for number, line in lines if pattern.search(line)]


@pytest.mark.parametrize("pattern", [MARKS, MACHINE_PATHS, HOSTS], ids=["marks", "paths", "hosts"])
def test_no_file_contains(pattern: re.Pattern[str]) -> None:
    report([line for path in files() for line in matching(pattern, path, read(path))])


def test_settings_and_versions_stand_in_one_place() -> None:
    report([f"{path}: belongs into pyproject.toml" for path in files() if VERSION_LISTS.search(path)])


def test_planted_offences_are_found() -> None:
    assert matching(MARKS, "x", "a\n# TO" + "DO later\n") == ["x:2: # TO" + "DO later"]
    assert matching(MACHINE_PATHS, "x", "see /ho" + "me/someone/file")
    assert not matching(MACHINE_PATHS, "x", "https://example.org/wo" + "rk/x and tests/ho" + "me/y")
    assert matching(HOSTS, "x", "pip install --index" + "-url ...")
    assert matching(HOSTS, "x", "http://build.example.inter" + "nal/")
    assert VERSION_LISTS.search("docs/requirements.txt")

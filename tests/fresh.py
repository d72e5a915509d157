"""The mark `fresh`: such tests of a module run together in an interpreter of their own, whose heap is small.

What goes over all objects of a process takes long where thousands of tests have been collected. The first of them runs
all of its module there, and each reports what came of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

MARK: Final = "fresh"
THERE: Final = "MAINSPRING_TESTS_FRESH"
"""Environment variable of that interpreter."""


class FreshTests:
    """Plugin: see the module."""

    def __init__(self) -> None:
        self._ended: dict[Path, dict[str, ElementTree.Element]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Run it there instead of here."""
        if pyfuncitem.get_closest_marker(MARK) is None or THERE in os.environ:
            return None
        if pyfuncitem.path not in self._ended:
            self._ended[pyfuncitem.path] = _run(pyfuncitem)
        for said in self._ended[pyfuncitem.path][pyfuncitem.name]:
            if said.tag == "skipped":
                pytest.skip(said.get("message", ""))
            if said.tag in ("failure", "error"):
                pytest.fail(said.text or said.get("message", ""), pytrace=False)
        return True


def _run(one: pytest.Function) -> dict[str, ElementTree.Element]:
    """What came of all of that module's, by name."""
    names = [
        item.nodeid for item in one.session.items if item.path == one.path and item.get_closest_marker(MARK) is not None
    ]
    folder: Path = one._request.getfixturevalue("tmp_path_factory").mktemp(MARK)
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "-n", "0"]
    ran = subprocess.run(
        [*command, f"--basetemp={folder / 'tests'}", f"--junitxml={report}", *names],
        cwd=one.config.rootpath,
        env=os.environ | {THERE: "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    found = (
        {case.get("name", ""): case for case in ElementTree.parse(report).iter("testcase")} if report.exists() else {}
    )
    if len(found) < len(names):
        pytest.fail(f"the interpreter of its own ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}", pytrace=False)
    return found

"""What every test is held to: it leaves nothing behind, and says so when it is slow.

Concurrency: one pytest process, or two that run side by side. Tests that may start processes are three pieces of work,
each in its order; no more than two tests run at the same time, and those that only compute fill what is left.
Limits: what a fixture of wider scope leaves behind is found at the end of the session, not at the test that made it.
"""

from __future__ import annotations

import os
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import leaks
from tests.fresh import FreshTests

SLOW_S: Final = 0.25
SLOW_SHOWN: Final = 15
COMPUTING: Final = (
    "tests/properties", "tests/sim", "tests/tidy", "tests/unit/actors", "tests/unit/policy", "tests/unit/protocol",
    "tests/unit/storage",
)  # fmt: skip
"""Folders of tests that start few processes and wait for little, so they may run beside those that do."""
SPEAKS: Final = (
    "BUILD_NUMBER", "CI", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "PYTEST_ADDOPTS", "PY_COLORS", "PYTHON_COLORS",
)  # fmt: skip
"""Environment variables by which Python, pytest and our command line say the same in other words or another width."""
LOG: Final = "tests/scenarios/test_log_"
"""Scenarios of the log: about a third of the time of all tests that start processes."""
PROFILE: Final = ("tests/scenarios/test_profile_", "tests/unit/profile")
"""Another third."""


def pytest_configure(config: pytest.Config) -> None:
    """Mark what descends from this run; no deadlines for Hypothesis, because a shared machine pauses now and then."""
    os.environ[leaks.MARK] = uuid.uuid4().hex
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SlowTests())
    config.pluginmanager.register(FreshTests())
    hear_signals()
    hypothesis.settings.register_profile("house", deadline=None, print_blob=True)
    hypothesis.settings.load_profile("house")


def hear_signals() -> None:
    """Programs under test hear Ctrl-C and a lost terminal, even if this run was started with `&` or `nohup`.

    A signal that is ignored stays so in all that is started from here; one with a handler is the default there.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.fixture(scope="session")
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that `tempfile` uses in this run, here and in every process started from here."""
    folder = tmp_path_factory.mktemp("tempfile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_variable_changes_what_is_said() -> Iterator[None]:
    """What tests read of programs is the same in any shell and in CI; what this run itself says is not touched."""
    with pytest.MonkeyPatch.context() as patch:
        for name in SPEAKS:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def session_leaves_nothing(temporary_folder: Path) -> Iterator[None]:
    """The whole run leaves nothing behind: catches fixtures of wider scope."""
    before = leaks.take(temporary_folder)
    yield
    found = leaks.found_since(before, temporary_folder)
    if found:
        pytest.fail("the test run left behind:\n  " + "\n  ".join(found), pytrace=False)


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest, temporary_folder: Path) -> Iterator[None]:
    """Each test leaves nothing behind: descriptors, threads, processes, shared memory, temporary files."""
    if request.node.get_closest_marker("leaks"):
        yield
        return
    before = leaks.take(temporary_folder)
    yield
    computing = request.node.nodeid.startswith(COMPUTING)  # and has as a neighbour one that does not
    found = leaks.found_since(before, temporary_folder, look_at_shared=not computing)
    if found:
        pytest.fail("the test left behind:\n  " + "\n  ".join(found), pytrace=False)


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """A path for a state folder, not yet made."""
    return tmp_path / "state"


class Sharing(LoadScopeScheduling):  # type: ignore[misc]
    """What may start processes is three pieces of work, each in its order; of the rest, each module is one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(COMPUTING):
            return nodeid.partition("::")[0]
        if nodeid.startswith(PROFILE):
            return "profile"
        return "log" if nodeid.startswith(LOG) else "processes"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    """How two processes share the run (`-n 2`)."""
    return Sharing(config, log)


class SlowTests:
    """Names the tests that took over 250 ms and are not marked slow. A report, not a failure: machines differ."""

    def __init__(self) -> None:
        self._unmarked: list[tuple[float, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called where the report is written, also for tests that ran in another process."""
        if report.when == "call" and report.duration > SLOW_S and "slow" not in report.keywords:
            self._unmarked.append((report.duration, report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The list."""
        found = self._unmarked
        if found:
            terminalreporter.section(f"{len(found)} tests over {SLOW_S * 1000:.0f} ms without the mark slow", sep="-")
            for duration, name in sorted(found, reverse=True)[:SLOW_SHOWN]:
                terminalreporter.line(f"{duration:7.2f} s  {name}")

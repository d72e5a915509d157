"""The processes of a runtime, seen and signalled from outside; and programs that host one and can be killed.

All that descends from the host is its family; who is who is known by the names that the processes give themselves.

Known limits: names are there on Linux only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from runtime import Runtime
from tests.scenarios.waiting import until

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final = "tests.scenarios.programs"


def is_denied(said: str) -> bool:
    """Whether py-spy says that the system does not let it look at a process, and not that something went wrong."""
    return "ermission" in said or "not permitted" in said


class Family:
    """The processes under one host."""

    def __init__(self, host: int) -> None:
        self.host = host

    @property
    def spawner(self) -> int:
        """Pid of the spawner; waits for it."""
        return until(lambda: self.named("ms-spawner"), f"a spawner of {self.host}")[0]

    @property
    def engine(self) -> int:
        """Pid of the engine; waits for it."""
        return until(lambda: self.named("ms-engine"), f"an engine of {self.host}")[0]

    @property
    def workers(self) -> list[int]:
        """Pids of the workers that are there now."""
        return self.named("ms-worker")

    @property
    def all(self) -> list[int]:
        """All that descends from the host, whoever it is, without the host."""
        return [process.pid for process in self._descendants()]

    def named(self, name: str) -> list[int]:
        found = []
        for process in self._descendants():
            try:
                if process.name().startswith(name) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
            except psutil.Error:
                continue
        return sorted(found)

    def _descendants(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.host).children(recursive=True)
        except psutil.Error:
            return []


class OwnFamily(Family):
    """The processes of a runtime of the test's own process: those under its spawner, which may be replaced."""

    def __init__(self, rt: Runtime) -> None:
        self._starter: Any = rt._client._starter

    @property
    def host(self) -> int:  # type: ignore[override]
        """Here the root of the family is the spawner."""
        return self.spawner

    @property
    def spawner(self) -> int:
        """Pid of the spawner of now."""
        return int(self._starter.pid)


def kill(*pids: int) -> None:
    """SIGKILL, one right after the other; who is gone already is fine."""
    for pid in pids:
        send(pid, signal.SIGKILL)


def send(pid: int, signum: int) -> None:
    """Send a signal; who is gone already is fine."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass


class Host:
    """A program that runs and can be killed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.family = Family(process.pid)

    @property
    def pid(self) -> int:
        """Its pid."""
        return self.process.pid

    def read_line(self) -> str:
        """The next line that it printed."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program ended with {self.process.wait()}: {self.errors()}")
        return line.rstrip("\n")

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def errors(self) -> str:
        """What it said on the error stream, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def kill_all(self) -> None:
        """Kill it and its processes, if it has not ended.

        A pid that was waited for may be a stranger's by now: a test run makes so many processes that numbers come round
        within a minute or two.
        """
        if self.process.poll() is None:
            kill(self.pid, *self.family.all)

    def end(self, timeout_s: float = 30.0) -> int:
        """Wait for its end; returns the exit code."""
        return self.process.wait(timeout_s)


@contextmanager
def host_program(name: str, *args: object, cwd: Path = ROOT) -> Iterator[Host]:
    """Run `tests/scenarios/programs/<name>.py`; what is left of it and its processes is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"{PROGRAMS}.{name}", *map(str, args)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    host = Host(process)
    try:
        yield host
    finally:
        host.kill_all()
        process.communicate()

"""A fresh interpreter that runs one function of ours and talks in lines of JSON: for what must not run in this process.

Used where a scenario kills the face itself, or measures memory or start-up, which this process has already spoilt.
The child gets its arguments as JSON, answers with `say`, and waits in `listen` until it is told to go on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from runtime.bench.figures import BenchError
from runtime.errors import MainspringError

_ROOT = Path(__file__).resolve().parents[2]


class FreshProcess:
    """One child interpreter, as a context manager. Leaving kills the child's whole family, whatever state it is in."""

    def __init__(self, code: str, *arguments: object, byte_code: Path | None = None) -> None:
        """Start it.

        Args:
            code: Python source; it finds `arguments` as one JSON array in `sys.argv[1]`.
            arguments: Plain JSON values.
            byte_code: A folder where it and all it starts keep byte code, as an installed program has it, whatever the
                environment says of writing it. None: as the environment says.
        """
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        if byte_code is not None:
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            environment["PYTHONPYCACHEPREFIX"] = str(byte_code)
        self.started_ns = time.monotonic_ns()
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def family(self) -> list[int]:
        """Process ids of the child and of all that descend from it."""
        return [self.pid, *(child.pid for child in _descendants(self.pid))]

    def hear(self) -> Any:
        """The next value that the child says. Raises `BenchError` when it failed or ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(
                f"a process of the benchmark ended with status {self._process.wait()}; see its message above"
            )
        value = json.loads(line)
        if isinstance(value, dict) and "failed" in value:
            raise BenchError(value["failed"])
        return value

    def go_on(self) -> None:
        """Let the child continue after its `listen`."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        """Let the child continue and wait for its end. Raises `BenchError` unless it ends well."""
        self.go_on()
        status = self._process.wait(timeout=60)
        if status:
            raise BenchError(f"a process of the benchmark ended with status {status}; see its message above")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            kill_all(self.family())
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL every one of these processes at once, and wait until the ones that are not our children are gone too."""
    found: list[psutil.Process] = []
    for pid in pids:
        try:
            found.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    for process in found:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(found, timeout=30)
    if alive:
        raise BenchError(f"processes {[process.pid for process in alive]} survived SIGKILL")


def program(function: Callable[[], None]) -> str:
    """Source of a child that runs one importable function without arguments."""
    return f"from runtime.bench import fresh; from {function.__module__} import {function.__name__} as f; fresh.run(f)"


def run(function: Callable[[], None]) -> None:
    """In the child: run the function; say what went wrong in one line, without a traceback."""
    try:
        function()
    except (BenchError, MainspringError, OSError) as wrong:
        say({"failed": f"{type(wrong).__name__}: {wrong}"})
        sys.exit(1)


def arguments() -> list[Any]:
    """In the child: what it was started with."""
    found: list[Any] = json.loads(sys.argv[1])
    return found


def say(value: object) -> None:
    """In the child: one value to the parent."""
    print(json.dumps(value), flush=True)


def listen() -> None:
    """In the child: wait until the parent says to go on, or is gone."""
    sys.stdin.readline()

"""An engine whose wall clock the test sets: the entry of an engine process, and the test's hand on it.

The machine's clock stays as it is. What `runtime.host.clock` and the start of an engine read is moved by what stands in
a file, at its next reading, as if somebody had set the clock or the machine had slept: the monotonic clock goes on.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from runtime.host import clock, engine_process
from runtime.host.launch import Launcher

_FILE: Final = "MAINSPRING_TEST_CLOCK"
_ENTRY: Final = "tests.scenarios.set_clock:run"


def run(config: dict[str, Any], fds: list[int], spawner: socket.socket) -> None:
    """An engine process; see `runtime.host.engine_process.run`."""
    path = Path(os.environ[_FILE])

    def time_ns() -> int:
        return time.time_ns() + int(path.read_text())

    with pytest.MonkeyPatch.context() as patch:
        for module in (clock, engine_process):
            patch.setattr(module, "time", SimpleNamespace(time_ns=time_ns, monotonic_ns=time.monotonic_ns))
        engine_process.run(config, fds, spawner)


class WallClock:
    """The wall clock of the engines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set(0)

    def set(self, ahead_s: float) -> None:
        """From now on it is so much ahead of the machine's."""
        fresh = self._path.with_suffix(".new")
        fresh.write_text(str(int(ahead_s * 1e9)))
        fresh.replace(self._path)


@contextmanager
def engines_with_clock(folder: Path) -> Iterator[WallClock]:
    """Engines that are started inside have the clock that is yielded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_FILE, str(folder / "clock"))
        patch.setattr(Launcher, "start_engine", partialmethod(Launcher.start_engine, entry=_ENTRY))
        yield WallClock(folder / "clock")

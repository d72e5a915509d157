"""A one-shot process: it does one thing for the engine, says in a line how that went, and ends.

It is a child of the spawner, under a number that no worker has. It has ended when the spawner says so; by then what it
said is in the pipe, or nothing is, and then it was killed.

    state     start      exited, refused, cannot start
    IDLE      RUNNING
    RUNNING              IDLE (`done` is called)

Concurrency: the loop's thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson

from runtime.host.launch import WorkerStarter
from runtime.host.observe import described

SAID_BYTES_MAX: Final = 64 * 1024


class OneShotProcess:
    """See the module.

    Args:
        number: In the place of a worker's.
        entry: `module:function`, called as a worker's is; its descriptor is the write end of the pipe.
        starter: Asks the spawner.
        done: Called with what it said: `{"failed": why}` when it said nothing.
    """

    def __init__(self, number: int, entry: str, starter: WorkerStarter, done: Callable[[dict[str, Any]], None]) -> None:
        self._number = number
        self._entry = entry
        self._starter = starter
        self._done = done
        self._pipe = -1
        self.pid = 0
        """Of the process, while it runs."""

    def start(self, config: dict[str, Any]) -> None:
        """Start the process. Never while it runs."""
        self._pipe, write_fd = os.pipe()
        try:
            self._starter.spawn(self._number, config, [write_fd], self._entry)
        except OSError as gone:
            self._over(f"cannot start: {gone}")
        finally:
            os.close(write_fd)

    def takes(self, said: dict[str, Any]) -> bool:
        """What the spawner said, when it is of this process."""
        if said["worker"] != self._number:
            return False
        match said["did"]:
            case "spawned":
                self.pid = said["pid"]
            case "exited":
                self._over(described(said["status"])[0])
            case "refused":
                self._over(str(said["text"]))
        return True

    def close(self) -> None:
        """Let go of the pipe; the process ends with the spawner's other children."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _over(self, how: str) -> None:
        said: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            os.set_blocking(self._pipe, False)
            said = orjson.loads(os.read(self._pipe, SAID_BYTES_MAX))
        self.close()
        self.pid = 0
        self._done(said or {"failed": f"the process ended: {how}"})

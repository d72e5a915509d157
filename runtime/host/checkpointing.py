"""The engine's side of checkpoints: starts the process that takes one, and tells the core how that went.

The process is a child of the spawner, under a number that no worker has. It has ended when the spawner says so; by then
what it said is in the pipe, or nothing is, and then it was killed.

Concurrency: the loop's thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson

from actors.protocol import log_messages as log
from runtime.host.launch import WorkerStarter
from runtime.host.observe import described

CHECKPOINTER: Final = 0
"""In the place of a worker's number."""
ENTRY: Final = "runtime.host.checkpointer:run"
SAID_BYTES_MAX: Final = 64 * 1024


class Checkpointing:
    """See the module. `deliver` takes the events."""

    def __init__(self, state_dir: str, starter: WorkerStarter, deliver: Callable[[Any], None]) -> None:
        self._state_dir = state_dir
        self._starter = starter
        self._deliver = deliver
        self._pipe = -1
        self.pid = 0
        """Of the process, while it runs."""

    def take(self, effect: log.TakeCheckpoint) -> None:
        """Start the process."""
        self._pipe, write_fd = os.pipe()
        config = {"state_dir": self._state_dir, "lsn": effect.lsn, "below": effect.below}
        try:
            self._starter.spawn(CHECKPOINTER, config, [write_fd], ENTRY)
        except OSError as gone:
            self._over(f"cannot start: {gone}")
        finally:
            os.close(write_fd)

    def takes(self, said: dict[str, Any]) -> bool:
        """What the spawner said, when it is of this process."""
        if said["worker"] != CHECKPOINTER:
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
        if "lsn" in said:
            self._deliver(log.CheckpointTaken(said["lsn"], said["bytes"], said.get("cpu_ns", 0)))
        else:
            self._deliver(log.CheckpointFailed(said.get("failed", f"the process ended: {how}")))

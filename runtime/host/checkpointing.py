"""The engine's side of checkpoints and of the archive that they fill: starts the processes that take the one and trim
the other, and tells the core how a checkpoint went.

Files of runs that were let go of are reclaimed when a checkpoint has passed them (`blob_reclaimer`).

Concurrency: the loop's thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from actors.protocol import log_messages as log
from actors.trimming import Trimming
from runtime.host.blob_reclaimer import BlobReclaimer
from runtime.host.launch import WorkerStarter
from runtime.host.one_shot import OneShotProcess

CHECKPOINTER: Final = 0
"""In the place of a worker's number."""
TRIMMER: Final = -1
ENTRY: Final = "runtime.host.checkpointer:run"
TRIM_ENTRY: Final = "runtime.host.archive_trimmer:run"


class Checkpointing:
    """See the module.

    Args:
        state_dir: The state folder.
        starter: Asks the spawner.
        deliver: Takes the events.
        reclaimer: Is told of checkpoints; knows whether there is an archive.
    """

    def __init__(
        self,
        state_dir: str,
        starter: WorkerStarter,
        deliver: Callable[[Any], None],
        reclaimer: BlobReclaimer,
    ) -> None:
        self._state_dir = state_dir
        self._deliver = deliver
        self._rule = reclaimer.rule
        self._loop = None if reclaimer.rule is None else reclaimer.loop
        self._reclaimer = reclaimer
        self._taking = OneShotProcess(CHECKPOINTER, ENTRY, starter, self._taken)
        self._trimming = OneShotProcess(TRIMMER, TRIM_ENTRY, starter, self._trimmed)
        self._timer: asyncio.TimerHandle | None = None
        self._plan = Trimming()
        self.archive: dict[str, Any] = {"running": False, "runs_deleted": 0, "trouble": ""}
        """What became of it, for reports."""
        if self._loop is not None:
            self._plan.begin(time.monotonic_ns())
            self._set_timer()

    @property
    def pid(self) -> int:
        """Of the process that takes a checkpoint, while it runs."""
        return self._taking.pid

    def take(self, effect: log.TakeCheckpoint) -> None:
        """Start the process."""
        self._taking.start(
            {"state_dir": self._state_dir, "lsn": effect.lsn, "below": effect.below, "archive": self._rule}
        )

    def takes(self, said: dict[str, Any]) -> bool:
        """What the spawner said, when it is of these processes."""
        return self._taking.takes(said) or self._trimming.takes(said)

    def close(self) -> None:
        """Let go of the pipes; the processes end with the spawner's other children."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None
        self._taking.close()
        self._trimming.close()

    def _taken(self, said: dict[str, Any]) -> None:
        if "lsn" not in said:
            self._deliver(log.CheckpointFailed(said["failed"]))
            return
        self._reclaimer.passed(said["lsn"])
        if self._loop is not None:
            self._plan.due(time.monotonic_ns(), _in_ns(said.get("due_ns")))
            self._set_timer()
        self._deliver(log.CheckpointTaken(said["lsn"], said["bytes"], said.get("cpu_ns", 0)))

    def _set_timer(self) -> None:
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (at_ns := self._plan.at_ns) is not None:
            delay_s = max(0, at_ns - time.monotonic_ns()) / 1e9
            self._timer = self._loop.call_later(delay_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._plan.look(time.monotonic_ns()):
            self.archive["running"] = True
            self._trimming.start({"state_dir": self._state_dir, "archive": self._rule})
        else:
            self._set_timer()

    def _trimmed(self, said: dict[str, Any]) -> None:
        self.archive["running"] = False
        self.archive["runs_deleted"] += said.get("runs", 0)
        self.archive["trouble"] = said.get("failed", "")
        self._plan.ended(time.monotonic_ns(), _in_ns(said.get("due_ns")), failed="failed" in said)
        self._set_timer()


def _in_ns(wall_ns: int | None) -> int | None:
    """From now to a time of the wall clock."""
    return None if wall_ns is None else wall_ns - time.time_ns()

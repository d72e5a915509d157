"""The process "ms-archive": takes what is over out of the archive, and ends.

Entered by the spawner's fork as `run(config, fds, lifeline)`, like a worker. Config keys: `state_dir`, `archive` (an
`ArchiveRule`). Descriptor: the write end of a pipe, for one line of JSON: {"runs": ..., "due_ns": ...}, the latter when
the next run is over (wall clock; null: none), or {"failed": why}.

It steps back behind engine and workers, rests after each step, and dies with the spawner. What a crash leaves behind:
what the next one goes on with.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Final

import orjson

from actors.archived import ArchiveRule
from actors.protocol.errors import MainspringError
from runtime.host import kernel
from runtime.host.checkpointer import NICENESS, OOM_SCORE
from runtime.storage.archive import ArchiveFile
from runtime.storage.archive_trim import Trimmer
from runtime.storage.folder import StateFolder

REST_FACTOR: Final = 3.0
"""After a step that took t it rests as many times t: a quarter of a core at most, and the disk is others' meanwhile."""
RUN_S: Final = 60.0
"""Then it ends, and the next one goes on: nothing of it grows."""


def run(config: dict[str, Any], fds: list[int], lifeline: int) -> None:
    """Trim, say so, and return."""
    kernel.name_process("ms-archive")
    kernel.step_back(NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE)
    try:
        with StateFolder.open(config["state_dir"], create=False, owner=False) as folder:
            said = trim(folder, ArchiveRule.of(config["archive"]))
    except (MainspringError, OSError, MemoryError) as refused:
        said = {"failed": f"{type(refused).__name__}: {getattr(refused, 'message', refused)}"}
    os.write(fds[0], orjson.dumps(said))


def trim(folder: StateFolder, rule: ArchiveRule, run_s: float = RUN_S) -> dict[str, Any]:
    """Trim the archive of a folder, if it has one, for a while.

    Raises:
        ArchiveUnusable, NewerFormat, StateFolderError, DiskFull: As `ArchiveFile.write`.
    """
    found = ArchiveFile.read(folder.path, folder.uuid)
    if found is None:
        return {"runs": 0, "due_ns": None}
    found.close()
    runs, until = 0, time.monotonic() + run_s
    with ArchiveFile.write(folder.path, folder.uuid) as archive:
        trimmer = Trimmer(archive, folder.path, rule)
        while True:
            begun = time.monotonic()
            done = trimmer.step(time.time_ns())
            runs += done.runs
            now = time.monotonic()
            if not done.more:
                return {"runs": runs, "due_ns": trimmer.due_ns()}
            if now >= until:
                return {"runs": runs, "due_ns": 0}
            time.sleep(REST_FACTOR * (now - begun))

"""The process "ms-archive": takes what is over out of the archive, and ends.

Entered by the spawner's fork as `run(config, fds, lifeline)`, like a worker. Config keys: `state_dir`, `archive` (an
`ArchiveRule`). Descriptor: the write end of a pipe, for one line of JSON: {"runs": ..., "due_ns": ...}, the latter when
the next run is over (wall clock; null: none), or {"failed": why}.

It steps back behind engine and workers, rests after each step, and dies with the spawner. What a crash leaves behind:
what the next one goes on with.
"""

from __future__ import annotations

import time
from typing import Any, Final

from actors.archived import ArchiveRule
from runtime.host.one_shot_main import run_one_shot
from runtime.storage.archive import ArchiveFile
from runtime.storage.archive_trim import Trimmer
from runtime.storage.folder import StateFolder

REST_FACTOR: Final = 3.0
"""After a step that took t it rests as many times t: a quarter of a core at most, and the disk is others' meanwhile."""
RUN_S: Final = 60.0
"""Then it ends, and the next one goes on: nothing of it grows."""


def run(config: dict[str, Any], fds: list[int], lifeline: int) -> None:
    """Trim, say so, and return."""
    run_one_shot("ms-archive", fds[0], lambda: _trim(config))


def _trim(config: dict[str, Any]) -> dict[str, Any]:
    with StateFolder.open(config["state_dir"], create=False, owner=False) as folder:
        return trim(folder, ArchiveRule.of(config["archive"]))


def trim(folder: StateFolder, rule: ArchiveRule, run_s: float = RUN_S) -> dict[str, Any]:
    """Trim the archive of a folder, if it has one, for a while.

    Args:
        folder: The state folder.
        rule: How long runs stay.
        run_s: Seconds, after which what is left is for the next process.

    Returns:
        What is said of it, see the module. A crash leaves what the next process goes on with.

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

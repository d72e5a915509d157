"""The process "ms-checkpointer": takes one checkpoint and ends.

Entered by the spawner's fork as `run(config, fds, lifeline)`, like a worker. Config keys: `state_dir`, `lsn`, `below`,
`archive` (an `ArchiveRule`, or null). Descriptor: the write end of a pipe, for one line of JSON: {"lsn": ...,
"bytes": ..., "due_ns": ..., "cpu_ns": ...} or {"failed": why}.

It steps back behind engine and workers, and dies with the spawner. What a crash leaves behind: the checkpoint before.
"""

from __future__ import annotations

import gc
import time
from typing import Any

from actors.archived import ArchiveRule
from runtime.host.one_shot_main import run_one_shot
from runtime.mail.blobs import BlobStore
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.take import take_checkpoint


def run(config: dict[str, Any], fds: list[int], lifeline: int) -> None:
    """Take a checkpoint, say so, and return."""
    gc.disable()  # it makes no cycles, and ends soon
    run_one_shot("ms-checkpointer", fds[0], lambda: take(config))


def take(config: dict[str, Any]) -> dict[str, Any]:
    """Take a checkpoint as the config says; returns what is said of it.

    Raises:
        CheckpointUnusable, ArchiveUnusable, DiskFull, LogCorrupt, StateFolderError, ...: As `take_checkpoint`.
    """
    with StateFolder.open(config["state_dir"], create=False, owner=False) as folder:
        load_blob = BlobStore(folder.blobs_path, fsync=False).open
        rule = None if config.get("archive") is None else ArchiveRule.of(config["archive"])
        taken = take_checkpoint(folder, config["lsn"], config["below"], DiskFiles(), load_blob, rule)
        return {**taken._asdict(), "cpu_ns": time.process_time_ns()}

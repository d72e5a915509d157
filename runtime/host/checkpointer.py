"""The process "ms-checkpointer": takes one checkpoint and ends.

Entered by the spawner's fork as `run(config, fds, lifeline)`, like a worker. Config keys: `state_dir`, `lsn`, `below`,
`archive` (an `ArchiveRule`, or null). Descriptor: the write end of a pipe, for one line of JSON: {"lsn": ...,
"bytes": ..., "due_ns": ..., "cpu_ns": ...} or {"failed": why}.

It steps back behind engine and workers, and dies with the spawner. What a crash leaves behind: the checkpoint before.
"""

from __future__ import annotations

import gc
import os
import time
from contextlib import suppress
from typing import Any, Final

import orjson

from actors.archived import ArchiveRule
from actors.protocol.errors import MainspringError
from runtime.host import kernel
from runtime.mail.blobs import BlobStore
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.take import take_checkpoint

NICENESS: Final = 10
OOM_SCORE: Final = "800"
"""Where memory runs out it is this process that goes, and nobody misses it."""


def run(config: dict[str, Any], fds: list[int], lifeline: int) -> None:
    """Take a checkpoint, say so, and return."""
    kernel.name_process("ms-checkpointer")
    kernel.step_back(NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE)
    gc.disable()  # it makes no cycles, and ends soon
    try:
        with StateFolder.open(config["state_dir"], create=False, owner=False) as folder:
            load_blob = BlobStore(folder.blobs_path, fsync=False).open
            rule = None if config.get("archive") is None else ArchiveRule.of(config["archive"])
            said: dict[str, Any] = take_checkpoint(
                folder, config["lsn"], config["below"], DiskFiles(), load_blob, rule
            )._asdict()
            said["cpu_ns"] = time.process_time_ns()
    except (MainspringError, OSError, MemoryError) as refused:
        said = {"failed": f"{type(refused).__name__}: {getattr(refused, 'message', refused)}"}
    os.write(fds[0], orjson.dumps(said))

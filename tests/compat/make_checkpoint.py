"""Makes a checkpoint as this version writes it, for later versions to read.

    python -m tests.compat.make_checkpoint tests/compat/checkpoint_v3

Run it once, when a form of the file is released, and never again for that folder. `parts` says what is in it: `PUTS`,
one after the other, so that the file has what later ones leave of earlier ones.
"""

from __future__ import annotations

import sys
from array import array
from pathlib import Path
from uuid import UUID

from actors.saved import SavedPart
from runtime.storage.checkpoint import CheckpointFile
from tests.compat.make_log import UUID_TEXT

LSN = 30


def parts(lsn: int) -> list[SavedPart]:
    """The whole state as of an LSN: a small run, and one in pieces."""
    state = b"\3" * (20 * lsn) + b"\1" * (900 - 20 * lsn)
    head = b"".join(b'{"node":%d,"state":%d}' % (node, 3 if node < lsn else 1) for node in range(400))
    edges = array("I", range(1000, 3000)).tobytes()
    return [
        SavedPart(0, "engine", 0, b'{"lsn":%d}' % lsn),
        SavedPart(1, "run", 0, head),
        SavedPart(7, "deps", 0, edges),
        SavedPart(7, "deps", 2000, edges[:400]),
        SavedPart(7, "run", 0, b"small"),
        SavedPart(7, "state", 0, state),
    ]


def make(path: Path) -> None:
    """A folder with nothing but the checkpoint."""
    path.mkdir(parents=True)
    with CheckpointFile.write(str(path), UUID(UUID_TEXT)) as checkpoint:
        for lsn in range(10, LSN + 1, 10):
            checkpoint.put(lsn, parts(lsn), [1, 7])


if __name__ == "__main__":
    make(Path(sys.argv[1]))

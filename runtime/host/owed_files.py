"""What an engine without an archive leaves for the next one that has it: files of runs, and the log that tells of them.

    opened with checkpoints ──► runs finish ──► opened without ──► forgets them ──► opened with: they go to the archive
                                                    └── their files and their records stay

A folder may be opened once without checkpoints, with a small retention perhaps. What memory forgets then is what the
archive is made of later (`actors.owed`). So the files of such runs stay, and the log as long as that is not much
(`actors.checkpoints`).

Known limits: files of owed runs stay until an engine has an archive, or one finds that the log does not know them any
more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from actors import owed
from actors.once import folders
from actors.replay import Replay
from runtime.host.blob_reclaimer import Reclaimable
from runtime.mail.blobs import BlobStore
from runtime.storage.folder import ARCHIVE_NAME, StateFolder


def owed_below(folder: StateFolder, replay: Replay, *, archives: bool, checkpoints: bool) -> int:
    """Which runs are the archive's, at an opening: those with smaller numbers.

    Args:
        folder: The state folder.
        replay: Has folded the log; nothing more.
        archives: Whether this engine has an archive.
        checkpoints: Whether it takes checkpoints; who has these and no archive wants none.
    """
    if archives or checkpoints:
        return owed.ALL_RUNS if archives else 0
    known = os.path.exists(os.path.join(folder.path, ARCHIVE_NAME)) or replay.loaded_lsn > 0
    return owed.owed_below(replay.opened, replay.scheduler.book.next_run_no, archives=known)


def still_owed(let_go: Iterable[Reclaimable], below: int) -> list[Reclaimable]:
    """Of what the log let go of, what is the archive's."""
    return [leaving for leaving in let_go if leaving.run_no < below]


def knows_owed(replay: Replay, below: int) -> bool:
    """Whether there are runs in memory that are the archive's."""
    book = replay.scheduler.book
    return any(no < below for runs in (book.live, book.finished) for no in runs)


def names_owed(replay: Replay, blobs: BlobStore, below: int) -> frozenset[str]:
    """Folders of files of known runs that are the archive's."""
    book = replay.scheduler.book
    runs = [run for run in (*book.live.values(), *book.finished.values()) if run.no < below]
    return frozenset(name for run in runs for name in folders(run) if run.open or blobs.has_run(name))

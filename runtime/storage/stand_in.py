"""An empty checkpoint in the place of one that is lost, so that a log that was cut because of it opens again.

It ends where the log begins, and says only what is known from elsewhere: the clock (`openings.json`), and from which
number on runs are new (`archive.db`). With it the folder opens without salvage, and takes checkpoints.

Known limit: the runs that are lost are counted as far as later records name them; one of which all records were in the
checkpoint leaves no trace.
"""

from __future__ import annotations

from contextlib import suppress

from actors.protocol.archive_errors import ArchiveUnusable
from actors.protocol.errors import EnvironmentFault
from actors.replay import Replay
from actors.saved import save
from actors.scheduler import Scheduler
from runtime.mail.blobs import BlobStore
from runtime.storage.archive import ArchiveFile
from runtime.storage.checkpoint import CHECKPOINT_NAME, CheckpointFile
from runtime.storage.files import Files
from runtime.storage.folder import StateFolder
from runtime.storage.openings import read_openings
from runtime.storage.reader import read_log


def stand_in(folder: StateFolder, replay: Replay, begins: int, files: Files) -> str:
    """Write it.

    Args:
        folder: Owned; its checkpoint is missing or set aside.
        replay: Has folded all of the log, and goes on as if it had begun with this checkpoint.
        begins: The first LSN of the log.
        files: The seam to the disk that has the log.

    Returns:
        What is lost, in words.

    Raises:
        DiskFull, CheckpointUnusable, StateFolderError: It cannot be written.
    """
    empty = Replay(Scheduler([]))
    empty.scheduler.lsn = empty.checkpoint_lsn = begins - 1
    openings = read_openings(folder.path)
    if openings is not None and (opening := openings.before(begins - 1)) is not None:
        empty.offset_ns = opening.wall_ns - opening.now_ns
    for book in (empty.scheduler.book, replay.scheduler.book):
        book.expect_no_at_least(_next_no(folder))
    with CheckpointFile.write(folder.path, folder.uuid) as checkpoint:
        checkpoint.put(begins - 1, save(empty), ())
    replay.loaded_lsn = begins - 1
    lost = _lost_runs(folder, files)
    named = f"; {lost} of the runs in it are named later on" if lost else ""
    return f"{CHECKPOINT_NAME}: all that it held of LSN 1 to {begins - 1} (runs, schedules, policy, keys){named}"


def _next_no(folder: StateFolder) -> int:
    """The number behind those of archived runs."""
    with suppress(EnvironmentFault, ArchiveUnusable):
        archive = ArchiveFile.read(folder.path, folder.uuid)
        if archive is not None:
            with archive:
                return max(archive.numbers(), default=0) + 1
    return 1


def _lost_runs(folder: StateFolder, files: Files) -> int:
    """How many runs the log speaks of that nobody knows any more."""
    from runtime.storage.sieve import Sieve  # lazy: it stands above, and is needed in this emergency only

    store = BlobStore(folder.blobs_path, fsync=False)
    sieve = Sieve(store.open, store.has_run)
    for record in read_log(folder.log, files, salvage=True):
        sieve.take(record, 0)
    return len(sieve.lost_runs())

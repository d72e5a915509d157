"""The files of a segment, one in each shard: made, gone on with, appended to, cut, removed.

    begin ──► aside: header, sync ──► rename, sync of the folder    in each shard, shard 0's last
    go on ──► cut where the log ends ──► sync, sync of the folder   in each shard

A segment is there when shard 0's file is, which is made last and removed first. A log without shards has shard 0 only.

Errors of the disk come as they are (`OSError`); what they mean for the log is the writer's to say (`wal`).
Invariant: `ends` is where the whole batches in each file end; behind it there is nothing but what `cut` cuts off.
Concurrency: the caller's, one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from actors.protocol.errors import LogCorrupt, StateFolderError
from runtime.storage.files import ASIDE, Files, LogFile, write_all
from runtime.storage.merge import segments_in
from runtime.storage.segment import (
    SEGMENT_HEADER_BYTES,
    LogPlace,
    SegmentInfo,
    pack_segment_header,
    segment_name,
    segment_no,
)
from runtime.storage.syncs import Syncs

ShardBatch = tuple[int, list[bytes], int]
"""What one shard has of a batch: its number, buffers, and how many bytes they are together."""


class OpenSegment:
    """The opened files of the segment that is written. Made by `SegmentFolders`.

    Args:
        opened: One file for each shard.
        ends: Where each of them ends.

    Attributes:
        dirty: Shards that have something that was not synced.
    """

    def __init__(self, opened: list[LogFile], ends: Sequence[int]) -> None:
        self._opened = opened
        self.ends = list(ends)
        self.dirty: set[int] = set()

    def append(self, batch: Sequence[ShardBatch]) -> None:
        """Append to each shard its part. Hot. Raises OSError: some of it may be there, and must be `cut`."""
        for shard, pieces, _ in batch:
            write_all(self._opened[shard], pieces)
        for shard, _, size in batch:
            self.ends[shard] += size
            self.dirty.add(shard)

    def cut(self) -> None:
        """Cut off what `append` left behind the ends when it failed. Raises OSError."""
        for file, end in zip(self._opened, self.ends, strict=True):
            if file.size() > end:
                file.truncate(end)

    def sync(self, syncs: Syncs) -> None:
        """Make all of it durable. Raises OSError: some of it may be lost for good."""
        syncs([self._opened[shard] for shard in sorted(self.dirty)])
        self.dirty.clear()

    def close(self) -> None:
        """Close the files as they are. Closing twice is harmless."""
        for file in self._opened:
            file.close()


class SegmentFolders:
    """The folders in which a log has its segments: one for each shard.

    Args:
        place: Of the log.
        files: The seam to the disk.
    """

    def __init__(self, place: LogPlace, files: Files) -> None:
        self._parts = place.parts()
        self._files = files

    def tidy(self, segments: Sequence[SegmentInfo]) -> None:
        """Remove what a crash left: files not yet in place, and segments that some of the shards have and not all: the
        one being made, above the last of these, or those being removed, below the first. Raises OSError."""
        kept = range(segments[0].no, segments[-1].no + 1) if segments else range(0)
        for part in self._parts:
            for name in self._files.list(part.folder):
                if name.endswith(ASIDE):
                    self._files.remove(f"{part.folder}/{name}")
            for name in segments_in(part, self._files) if len(self._parts) > 1 else ():
                if segment_no(name) not in kept:
                    self._files.remove(f"{part.folder}/{name}")
                    self._files.sync_folder(part.folder)

    def begin(self, no: int, first_lsn: int) -> OpenSegment:
        """Make a segment in all shards, each durable with its name. Raises OSError: `take_back` it."""
        made: list[LogFile] = []
        try:
            for part in reversed(self._parts):
                path = f"{part.folder}/{segment_name(no)}"
                made.insert(0, self._files.create(path + ASIDE))
                write_all(made[0], [pack_segment_header(no, first_lsn, part)])
                made[0].sync()
                self._files.rename(path + ASIDE, path)
                self._files.sync_folder(part.folder)
        except OSError:
            for file in made:
                file.close()
            raise
        return OpenSegment(made, [SEGMENT_HEADER_BYTES] * len(made))

    def take_back(self, no: int) -> None:
        """Remove a segment that could not be begun, if possible: the space it holds is needed, and a retry shall not
        build on it. Shard 0 first: then it is none."""
        with suppress(OSError):
            for part in self._parts:
                path = f"{part.folder}/{segment_name(no)}"
                with suppress(FileNotFoundError):
                    self._files.remove(path + ASIDE)
                with suppress(FileNotFoundError):
                    self._files.remove(path)
                    self._files.sync_folder(part.folder)

    def go_on(self, no: int, ends: Sequence[int]) -> OpenSegment:
        """Open the last segment, cut each shard where the log ends, and make all of it and its names durable.

        Raises:
            OSError: As it says. LogCorrupt: a file ends before that.
        """
        opened: list[LogFile] = []
        try:
            for part, end in zip(self._parts, ends, strict=True):
                file = self._files.open(f"{part.folder}/{segment_name(no)}")
                opened.append(file)
                size = file.size()
                if size > end:
                    file.truncate(end)
                file.sync()
                self._files.sync_folder(part.folder)
                if size < end:
                    name = part.prefix + segment_name(no)
                    raise LogCorrupt(f"segment {name} became shorter while it was opened", name, size)
        except BaseException:
            for file in opened:
                file.close()
            raise
        return OpenSegment(opened, ends)

    def remove(self, no: int) -> None:
        """Remove a segment from all shards, durably: no crash may leave a hole among them. Harmless where it is gone.

        Raises:
            StateFolderError: A file could not be removed.
        """
        for part in self._parts:
            try:
                self._files.remove(f"{part.folder}/{segment_name(no)}")
                self._files.sync_folder(part.folder)
            except FileNotFoundError:
                pass
            except OSError as error:
                name = part.prefix + segment_name(no)
                raise StateFolderError(f"cannot remove log segment {name}: {error}") from error

"""Makes the state folder with a log in shards that a version leaves behind, for later versions to open.

    python -m tests.compat.make_shards tests/compat/shards_v3

Run it once, when a format is released, and never again for that folder. The folder holds records of runs and of none on
three shards, two segments, a stretch that salvage gave up, an orderly close, and a torn tail on one of the shards.
"""

from __future__ import annotations

import json
import os
import sys

from actors.protocol.records import Record, RecordType
from runtime.storage.files import DAMAGED, DiskFiles, write_whole
from runtime.storage.folder import IDENTITY_NAME, MAGIC, StateFolder
from runtime.storage.reader import read_log
from runtime.storage.salvage import mend_log
from runtime.storage.segment import LogPlace, segment_name
from runtime.storage.wal import LogWriter
from tests.compat.make_log import CREATED, TORN, UUID_TEXT

SHARDS = 3
LOST_LSN = 3
FILES = DiskFiles()


def record(lsn: int) -> Record:
    """What record `lsn` is."""
    if lsn % 5 == 0:
        return Record(lsn, RecordType.POLICY, json.dumps({"lsn": lsn}).encode())
    if lsn % 2:
        return Record(lsn, RecordType.CANCEL, b"[%d,null,[]]" % (lsn // 2))
    return Record(lsn, RecordType.COMPLETED, b'[17,[[%d,%d,[1],["%s"],1,[2]]]]' % (lsn, lsn // 2, b"x" * lsn))


def write(place: LogPlace, batches: list[int]) -> None:
    """Append batches and close in good order."""
    log = read_log(place, FILES)
    for _ in log:
        pass
    writer = LogWriter(place, FILES, log.report(), segment_bytes=700)
    for count in batches:
        writer.write([record(lsn) for lsn in range(writer.next_lsn, writer.next_lsn + count)], sync=True)
    writer.close()


def damage(place: LogPlace) -> None:
    """Change a byte in the record to be lost, then let salvage mend the log."""
    for part in place.parts():
        path = f"{part.folder}/{segment_name(1)}"
        content = bytearray(FILES.read(path))
        at = content.find(record(LOST_LSN).payload)
        if at >= 0:
            content[at] ^= 0xFF
            with open(path, "wb") as file:
                file.write(content)
    log = read_log(place, FILES, salvage=True)
    for _ in log:
        pass
    mend_log(place, FILES, log.report())
    for part in place.parts():
        FILES.remove(f"{part.folder}/{segment_name(1)}{DAMAGED}")


def main(path: str) -> None:
    """Make the folder. It must not exist."""
    os.mkdir(path)
    log = {"folder": "log", "shards": SHARDS}
    identity = {"magic": MAGIC, "format": 2, "uuid": UUID_TEXT, "created": CREATED, "log": log}
    write_whole(FILES, path, IDENTITY_NAME, json.dumps(identity, indent=1).encode() + b"\n")
    with StateFolder.open(path) as folder:
        place = folder.log
        write(place, [2, 4, 9])
        damage(place)
        write(place, [6])
        with open(f"{place.part(1).folder}/{segment_name(2)}", "ab") as file:
            file.write(TORN)
    os.rmdir(folder.blobs_path)
    os.remove(f"{path}/lock")


if __name__ == "__main__":
    main(sys.argv[1])

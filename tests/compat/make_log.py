"""Makes the state folder that a version leaves behind, for later versions to open.

    python -m tests.compat.make_log tests/compat/log_v3

Run it once, when a format is released, and never again for that folder: what matters is that *old* bytes still open.
The folder holds every record type, two segments, a stretch that salvage gave up, an orderly close, and a torn tail.
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

UUID_TEXT = "0b7c6f0e-5d0c-4d4e-9a53-6f1f2a3b4c5d"
CREATED = "2026-11-29T00:00:00+00:00"
LOST_LSN = 3
TORN = b"\x01\x02\x03"
FILES = DiskFiles()


def payload(lsn: int) -> bytes:
    """What record `lsn` holds."""
    return json.dumps({"lsn": lsn, "text": "ä" * (lsn % 5)}).encode()


def records(first: int, count: int) -> list[Record]:
    """Records of all types that the scheduler writes, in turn."""
    types = [type_ for type_ in RecordType if type_ < RecordType.MARK]  # those that the released logs were made of
    return [Record(lsn, types[lsn % len(types)], payload(lsn)) for lsn in range(first, first + count)]


def write(place: LogPlace, batches: list[int]) -> None:
    """Append batches and close in good order."""
    log = read_log(place, FILES)
    for _ in log:
        pass
    writer = LogWriter(place, FILES, log.report(), segment_bytes=400)
    for count in batches:
        writer.write(records(writer.next_lsn, count), sync=True)
    writer.close()


def damage(place: LogPlace) -> None:
    """Change a byte in the record to be lost, then let salvage mend the log."""
    path = f"{place.folder}/{segment_name(1)}"
    content = bytearray(FILES.read(path))
    content[content.index(payload(LOST_LSN))] ^= 0xFF
    with open(path, "wb") as file:
        file.write(content)
    log = read_log(place, FILES, salvage=True)
    for _ in log:
        pass
    mend_log(place, FILES, log.report())
    FILES.remove(path + DAMAGED)


def main(path: str) -> None:
    """Make the folder. It must not exist."""
    os.mkdir(path)
    identity = {"magic": MAGIC, "format": 1, "uuid": UUID_TEXT, "created": CREATED}
    write_whole(FILES, path, IDENTITY_NAME, json.dumps(identity, indent=1).encode() + b"\n")
    with StateFolder.open(path) as folder:
        place = folder.log
        write(place, [2, 4, 4])
        damage(place)
        write(place, [3])
        last = f"{place.folder}/{segment_name(2)}"
        with open(last, "ab") as file:
            file.write(TORN)
    os.rmdir(folder.blobs_path)
    os.remove(f"{path}/lock")


if __name__ == "__main__":
    main(sys.argv[1])

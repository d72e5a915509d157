"""Makes state folders as an engine of this version leaves them, and what is in them, for later versions to read.

    python -m tests.compat.make_runs tests/compat/runs_v2

Run it once, when forms of records are released, and never again for that folder. Each folder in it holds a log with the
real payloads of simulated lives, all record types among them, and `expected.jsonl`, the export of the version that made
it. `log_v*` beside it is about the bytes of a log, with payloads that mean nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from actors.protocol.records import Record, RecordType
from runtime.storage.files import DiskFiles, write_whole
from runtime.storage.folder import IDENTITY_NAME, MAGIC, StateFolder
from runtime.storage.reader import read_log
from runtime.storage.transfer import export_runs, import_runs
from runtime.storage.wal import LogWriter
from tests.compat.make_log import CREATED, UUID_TEXT
from tests.unit.storage.worlds import records_midway, records_of

EXPECTED = "expected.jsonl"
WORLDS = {"ended": 28, "meddled": 30, "debounced": 35}
HALFWAY = {"open": (50, 400)}


def make(path: Path, records: Iterable[Record]) -> None:
    """A state folder with these records, and its export."""
    path.mkdir(parents=True)
    identity = {"magic": MAGIC, "format": 1, "uuid": UUID_TEXT, "created": CREATED}
    write_whole(DiskFiles(), str(path), IDENTITY_NAME, json.dumps(identity, indent=1).encode() + b"\n")
    with StateFolder.open(path) as folder:
        reader = read_log(folder.log, DiskFiles())
        list(reader)
        writer = LogWriter(folder.log, DiskFiles(), reader.report())
        writer.write([record._replace(lsn=lsn) for lsn, record in enumerate(records, 1)], sync=True)
        writer.close()
    finish(path)


def finish(path: Path) -> None:
    """Write the export, and remove what a folder that is only read does not need."""
    with (path / EXPECTED).open("wb") as file:
        export_runs(path, file)
    (path / "lock").unlink()
    (path / "blobs").rmdir()


def main(path: Path) -> None:
    """Make all folders. They must not exist."""
    for name, seed in WORLDS.items():
        records = list(records_of(seed))
        if name == "ended":  # the first run is let go
            records.append(Record(0, RecordType.RELEASED, b"[1]"))
        make(path / name, records)
    for name, (seed, steps) in HALFWAY.items():
        make(path / name, records_midway(seed, steps))
    make(path / "imported", [])
    import_runs(path / "imported", (path / "meddled" / EXPECTED).read_bytes().splitlines())
    finish_again = path / "imported"
    (finish_again / EXPECTED).unlink()
    finish(finish_again)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""`openings.json`: when engines opened a state folder, and how their clocks stood; else it is looked for in the log.

    {"version": 1, "since_lsn": L, "openings": [[LSN, monotonic clock in ns, wall clock in ns], ...]}

Results are logged on the engine's monotonic clock; which wall clock that is, the record of its opening says. Whoever
begins to read events in the middle of a long log needs the last one before, and records have no order by which it could
be found. So the engine writes it here, before the log says it. From `since_lsn` on all openings are here; what was
before is looked for in the log.

A crash leaves the file before or after. An entry without a record is one of an engine that died before it wrote any;
the next one has the same LSN and takes its place. Where the file cannot be written it goes, since an old one would lie.
Known limits: a release that does not know the file opens the folder, and adds nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

import orjson

from runtime.storage.files import DiskFiles, write_whole

OPENINGS_NAME: Final = "openings.json"
OPENINGS_MAX: Final = 1000
"""That are kept: the latest."""
_VERSION: Final = 1


class Opening(NamedTuple):
    """An engine opened the folder: the record that says so, and what both clocks showed."""

    lsn: int
    now_ns: int
    wall_ns: int


class Openings(NamedTuple):
    """All openings from a record on, in order."""

    since_lsn: int
    entries: list[Opening]

    def before(self, lsn: int) -> Opening | None:
        """The last one up to a record; None: that is not known here."""
        if lsn < self.since_lsn:
            return None
        return next((opening for opening in reversed(self.entries) if opening.lsn <= lsn), None)


def read_openings(state_dir: str) -> Openings | None:
    """What the file says; None: there is none that can be read."""
    try:
        with open(os.path.join(state_dir, OPENINGS_NAME), "rb") as file:
            found = orjson.loads(file.read())
        if found["version"] != _VERSION:
            return None
        return Openings(int(found["since_lsn"]), [Opening(*map(int, row)) for row in found["openings"]])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def clock_offset(state_dir: str, lsn: int) -> int | None:
    """What leads from the engine's clock to the wall clock as of a record, in ns; None: that is not known here."""
    openings = read_openings(state_dir)
    opening = None if openings is None else openings.before(lsn)
    return None if opening is None else opening.wall_ns - opening.now_ns


def note_opening(state_dir: str, opening: Opening) -> None:
    """An engine is about to write the record of its opening."""
    known = read_openings(state_dir) or Openings(opening.lsn, [])
    entries = [*(one for one in known.entries if one.lsn < opening.lsn), opening]
    since_lsn = min(known.since_lsn, opening.lsn)
    if len(entries) > OPENINGS_MAX:
        entries = entries[-OPENINGS_MAX:]
        since_lsn = entries[0].lsn
    content = orjson.dumps({"version": _VERSION, "since_lsn": since_lsn, "openings": [*map(list, entries)]})
    try:
        write_whole(DiskFiles(), state_dir, OPENINGS_NAME, content)
    except OSError:
        with suppress(OSError):
            os.unlink(os.path.join(state_dir, OPENINGS_NAME))

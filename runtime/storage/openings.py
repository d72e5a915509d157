"""`openings.json`: when engines opened a state folder, and how their clocks stood; else it is looked for in the log.

    {"check": ..., "version": 2, "since_lsn": L, "openings": [[LSN, monotonic clock in ns, wall clock in ns], ...]}

Results are logged on the engine's monotonic clock; which wall clock that is, the record of its opening says. Whoever
begins to read events in the middle of a long log needs the last one before, and records have no order by which it could
be found. So the engine writes it here, before the log says it. From `since_lsn` on all openings are here; what was
before is looked for in the log.

A crash leaves the file before or after. What is damaged is as good as missing (`checked`): a clock that is wrong by a
digit would be worse than none. An entry without a record is one of an engine that died before it wrote any; the next
one has the same LSN and takes its place. Where the file cannot be written it goes, since an old one would lie. What a
checkpoint holds has its clock with it, and does not need the file.
Known limits: a release that does not know the file opens the folder, and adds nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

from runtime.storage.checked import checked, read_checked
from runtime.storage.files import DiskFiles, write_whole

OPENINGS_NAME: Final = "openings.json"
OPENINGS_MAX: Final = 1000
"""That are kept: the latest."""
_VERSION: Final = 2


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
            found = read_checked(file.read())
        if found["version"] != _VERSION:
            return None
        return Openings(int(found["since_lsn"]), [Opening(*map(int, row)) for row in found["openings"]])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def note_opening(state_dir: str, opening: Opening) -> None:
    """An engine is about to write the record of its opening."""
    known = read_openings(state_dir) or Openings(opening.lsn, [])
    entries = [*(one for one in known.entries if one.lsn < opening.lsn), opening]
    since_lsn = min(known.since_lsn, opening.lsn)
    if len(entries) > OPENINGS_MAX:
        entries = entries[-OPENINGS_MAX:]
        since_lsn = entries[0].lsn
    content = checked({"version": _VERSION, "since_lsn": since_lsn, "openings": [*map(list, entries)]})
    try:
        write_whole(DiskFiles(), state_dir, OPENINGS_NAME, content)
    except OSError:
        with suppress(OSError):
            os.unlink(os.path.join(state_dir, OPENINGS_NAME))

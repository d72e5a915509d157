"""Which runs that memory let go of are the archive's, as openings of the folder say in the log.

An engine with an archive has its checkpoints put there what memory lets go of, and says that it `archives`. One that is
opened without checkpoints says `owed_below`: runs with smaller numbers are left from an engine with an archive, and
come there when the next one has it. What is submitted without an archive is forgotten for good.

Invariant: what is owed once stays owed, until it is in the archive or the log does not know it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ALL_RUNS: Final = 1 << 62


def said(archives: bool, below: int) -> dict[str, Any]:
    """What the record of an opening says of it.

    Args:
        archives: Whether this engine has an archive.
        below: Runs with smaller numbers are the archive's; not said where it archives.
    """
    return {"archives": True} if archives else {"archives": False, "owed_below": below}


def owed_below(opened: Mapping[str, Any], next_no: int, *, archives: bool) -> int:
    """Runs with smaller numbers are the archive's.

    Args:
        opened: What the latest opening says, if anything.
        next_no: Number of the next run.
        archives: What is believed of an opening that does not say: one of an older version, or one that is not kept.
    """
    if (below := opened.get("owed_below")) is not None:
        return int(below)
    return next_no if opened.get("archives", archives) else 0

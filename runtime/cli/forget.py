"""`forget`: deletes a finished run, from the memory of a running engine and from the archive.

Without an engine the archive is changed, and what the log has let go of is kept from it; a run that an engine would
keep in memory stays, because the folder's log is written by its owner only.
"""

from __future__ import annotations

import json
from pathlib import Path

from actors.protocol.errors import EngineUnavailable, MainspringError, UnknownRun
from runtime.cli.console import Console
from runtime.cli.control import engine_of
from runtime.cli.exits import Exit
from runtime.storage.past_runs import past_of


def forget(state: Path, run: str, console: Console, *, as_json: bool = False) -> Exit:
    """Delete it, and say so.

    Args:
        state: The state folder.
        run: Its id.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        UnknownRun: There is no such run. RunNotEnded, MissingNode: As `Runtime.forget`.
        EngineUnavailable: No engine runs there, and the archive does not have it.
        ArchiveUnusable, DiskFull, StateFolderError, ...: The archive cannot be changed.
    """
    number: int | None = None
    refused: MainspringError | None = None
    try:
        number = engine_of(state)("forget", {"run": run})["no"]
    except (EngineUnavailable, UnknownRun) as error:
        refused = error
    if not past_of(state).forget(run, number) and refused is not None:
        raise refused
    console.say(json.dumps({"forgotten": run}) if as_json else f"forgot run {run}")
    return Exit.OK

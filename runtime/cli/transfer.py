"""`export` and `import`: runs as JSON Lines, from a state folder to a file and from a file into a state folder.

What is exported goes to standard output or a file, messages go to standard error, so that both may stand in a pipe:
`python -m runtime export a/ | ssh there python -m runtime import b/`.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from actors.protocol.errors import DiskFull, ExportFileError, StateFolderError
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.storage.files import DiskFiles
from runtime.storage.transfer import Transfer, export_runs, import_runs, lines_in
from runtime.storage.wal import NO_SPACE


def export_to(
    state: Path, runs: Sequence[str], output: Path | None, console: Console, *, archived: bool = False
) -> Exit:
    """Export and say what was.

    Args:
        state: The state folder.
        runs: Ids; all runs where there are none.
        output: The file; None: standard output. A file is there when all is in it.
        console: Where to say it.
        archived: Also runs of the archive.

    Returns:
        OK, or ENVIRONMENT when large values were missing, which the export then names.
    """
    try:
        if output is None:
            done = export_runs(state, sys.stdout.buffer, runs, archived=archived)
        else:
            done = _into_file(state, runs, output, archived=archived)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        hint = "let the reader take all of it, or write a file: --output FILE"
        raise StateFolderError("the export was not read to its end").hinting(hint) from None
    except OSError as fault:
        if fault.errno in NO_SPACE:
            raise DiskFull(f"no space for the export: {fault}") from fault
        raise StateFolderError(f"the export cannot be written: {fault}") from fault
    console.note([f"exported {summary(done)}", *(f"blob {name} is missing or damaged" for name in done.missing)])
    return Exit.ENVIRONMENT if done.missing else Exit.OK


def import_from(state: Path, source: Path | None, console: Console) -> Exit:
    """Import and say what was.

    Args:
        state: The state folder; made where it is missing.
        source: The file; None: standard input.
        console: Where to say it.
    """
    if source is None:
        done = import_runs(state, lines_in(sys.stdin.buffer))
    else:
        try:
            file = source.open("rb")
        except OSError as fault:
            raise ExportFileError(f"{source} cannot be read: {fault.strerror}") from fault
        with file:
            done = import_runs(state, lines_in(file))
    lines = [f"imported {summary(done)}"]
    if done.crowded:
        lines.append("these are more finished runs than a folder keeps; the oldest go when it is opened")
    console.note([*lines, *(f"blob {name} was missing in the export" for name in done.missing)])
    return Exit.OK


def summary(done: Transfer) -> str:
    """What was moved, in words."""
    return f"{counted(done.runs, 'run')}, {counted(done.nodes, 'node')}, {counted(done.blobs, 'large value')}"


def _into_file(state: Path, runs: Sequence[str], output: Path, *, archived: bool) -> Transfer:
    """Write aside, under a name that nobody else has, then rename."""
    aside = output.with_name(f"{output.name}.{secrets.token_hex(4)}.part")
    try:
        with aside.open("wb") as file:
            done = _written(state, runs, file, archived=archived)
        os.replace(aside, output)
        DiskFiles().sync_folder(str(output.absolute().parent))
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return done


def _written(state: Path, runs: Sequence[str], file: IO[bytes], *, archived: bool) -> Transfer:
    done = export_runs(state, file, runs, archived=archived)
    file.flush()
    os.fsync(file.fileno())
    return done

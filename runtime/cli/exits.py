"""Exit codes, and errors as one or two lines with code and hint.

| code | meaning |
|---|---|
| 0 | success |
| 1 | the run ended, but not all of its nodes succeeded; or `drain` ran out of time |
| 2 | wrong usage: an option, a file, a workflow; the same command will fail again |
| 3 | the environment: the state folder, the disk, the log is damaged |
| 70 | a bug of ours |
| 130 | interrupted with Ctrl-C, or 128 + the number of another signal |
"""

from __future__ import annotations

import os
import tempfile
import traceback
from enum import IntEnum
from typing import Final

from actors.protocol.errors import InternalError, MainspringError, WaitTimeout

NAME: Final = "mainspring"
"""What messages call this program."""


class Exit(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    RUN_FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    BUG = 70
    INTERRUPTED = 130


_BY_FAMILY: Final = {"caller": Exit.USAGE, "environment": Exit.ENVIRONMENT}


def exit_code(error: BaseException) -> Exit:
    """The exit code for an error."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(error, MainspringError):
        if isinstance(error, WaitTimeout):  # the caller's by family; yet the same command may succeed later
            return Exit.RUN_FAILED
        return _BY_FAMILY.get(error.family, Exit.BUG)
    return Exit.BUG


def error_lines(error: MainspringError, name: str = NAME) -> list[str]:
    """The error as it is shown: notes (the traceback of the user's own code), then message and hint."""
    notes = [line for note in getattr(error, "__notes__", ()) for line in note.rstrip("\n").split("\n")]
    lines = [*notes, f"{name}: [{error.code}] {error.message}"]
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    return lines


def bug_lines(error: BaseException) -> list[str]:
    """An error that should not be. The traceback is ours, so it goes to a file that can be sent with a report."""
    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix=f"{NAME}-bug-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        where = f"details are in {path}"
    except OSError:
        where = "details could not be written to a file"
    summary = traceback.format_exception_only(error)[-1].strip()
    return [f"{NAME}: [{InternalError.code}] {summary}", f"  hint: {InternalError.hint}; {where}"]

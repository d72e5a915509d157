"""What a process is called, for `ps`, `top`, py-spy and whoever else looks from outside.

    mainspring: worker 3 [http]        its command line
    ms-worker-3                        its name (prctl, 15 bytes), see `runtime.host.kernel.name_process`

The command line of a process is its own memory, and /proc says where it is; a forked child writes there what it is. A
last byte that is not zero tells Linux that it was rewritten and ends at its first zero. What does not fit is cut; our
children inherit the spawner's, which names the import path and has room for hundreds of bytes.

Known limits: Linux. Elsewhere processes keep the command line of the spawner. The user's own process is never renamed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from runtime.host import kernel
from runtime.profile.model import Process

PREFIX: Final = "mainspring: "
_STAT_ARGUMENTS: Final = slice(45, 47)
"""Of the fields of /proc/self/stat from the state on: where the arguments begin and end."""


def show_title(process: Process) -> bool:
    """Let the command line of this process say what it is. False where that cannot be done."""
    return write_command_line(PREFIX + process.title)


def write_command_line(text: str) -> bool:
    """Rewrite the command line of this process. False where that cannot be done."""
    if not kernel.LINUX:
        return False
    import ctypes  # lazy: spawner and workers have it already, and nobody else comes here

    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            start, end = map(int, file.read().rpartition(b")")[2].split()[_STAT_ARGUMENTS])
        room = end - start
        if not start or room < len(PREFIX):
            return False
        content = text.encode("utf-8", "replace")[: room - 2].ljust(room - 1, b"\0") + b"\x01"
        ctypes.memmove(start, content, room)
        return True
    return False

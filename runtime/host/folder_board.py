"""The board of a state folder that some program has open, for any other process of the same user; and the page of its
processes (`runtime.profile.presence`), which is found in the same way.

A board has no name in the file system. The folder's lock says which process owns the folder (see `storage.folder`); its
descriptors are in /proc, and the board's carries the folder's uuid in its label. So there is nothing to note, to keep
up to date or to sweep, and a pid that was used again, or a copied folder, leads to no board and not to a wrong one.

Known limits: where there is no /proc (macOS), or the owner is in another pid namespace or of another user, none is
found, and who asks goes without.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from runtime.mail.board import LABEL, BoardReader

_DELETED: Final = " (deleted)"


def board_of_process(pid: int, folder_uuid: str) -> BoardReader | None:
    """The board that a process has made for a folder; None when there is none, or it cannot be seen.

    Args:
        pid: Of the owner, as `StateFolder.owner_pid` says.
        folder_uuid: Of the folder.

    Returns:
        A reader, which the caller closes.
    """
    fd = block_of_process(pid, f"{LABEL}:{folder_uuid}", os.O_RDONLY)
    if fd is None:
        return None
    try:
        return BoardReader(fd)
    except ValueError:  # it is no board yet
        return None
    finally:
        os.close(fd)


def block_of_process(pid: int, label: str, flags: int) -> int | None:
    """A descriptor of the block with this label that a process has open; None when there is none, or it cannot be
    seen."""
    wanted, place = f"/memfd:{label}{_DELETED}", f"/proc/{pid}/fd"
    try:
        names = os.listdir(place)
    except OSError:
        return None
    for name in names:
        with suppress(OSError):  # it was closed meanwhile
            if os.readlink(f"{place}/{name}") == wanted:
                return os.open(f"{place}/{name}", flags | os.O_CLOEXEC)
    return None

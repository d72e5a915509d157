"""The board of a state folder that some program has open, for any other process of the same user.

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
    wanted, place = f"/memfd:{LABEL}:{folder_uuid}{_DELETED}", f"/proc/{pid}/fd"
    try:
        names = os.listdir(place)
    except OSError:
        return None
    for name in names:
        with suppress(OSError, ValueError):  # it was closed meanwhile, or is no board yet
            if os.readlink(f"{place}/{name}") == wanted:
                fd = os.open(f"{place}/{name}", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    return BoardReader(fd)
                finally:
                    os.close(fd)
    return None

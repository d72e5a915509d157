"""Folders and files that whoever asks makes in a state folder: they belong to the program's user, also when root asks.

Its processes write their answers there, and its own user asks next time. Another user than the program's is root, or
somebody with its rights: nobody else sees the page (`page_of_folder`).

Concurrency: any thread of any process. What is in the way, such as a link that leads elsewhere, is neither followed nor
given away.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runtime.host.kernel import is_alive


class Owner(NamedTuple):
    """A user, and the group of what is his."""

    uid: int
    gid: int


def owner_of(file: int | str | os.PathLike[str]) -> Owner:
    """Whose a descriptor or a path is; a link by itself. Raises OSError."""
    found = os.fstat(file) if isinstance(file, int) else os.lstat(file)
    return Owner(found.st_uid, found.st_gid)


def make_folder(path: Path, owner: Owner, *, anew: bool = False) -> None:
    """Make a folder that belongs to a user, or give it to him. A crash in here may leave one that does not, which
    whoever asks next gives to him.

    Args:
        path: The folder; that around it is there.
        owner: Whose it shall be.
        anew: It must not be there.

    Raises:
        OSError: It cannot be made, or be his. What was made is gone.
    """
    made = True
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if anew:
            raise
        made = False
    if owner.uid == os.geteuid():
        return
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if owner_of(fd).uid != owner.uid:
                os.fchown(fd, *owner)
        finally:
            os.close(fd)
    except OSError:
        if made:
            with suppress(OSError):
                path.rmdir()
        raise


def write_anew(path: Path, content: bytes, owner: Owner) -> None:
    """Write a file that is a user's, in place of one that may be there.

    Raises:
        OSError: It cannot be written, or something else was put there meanwhile.
    """
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        if owner.uid != os.geteuid():
            os.fchown(fd, *owner)
        file.write(content)


def sweep_requests(root: Path) -> None:
    """Remove folders of requests (see `control`) whose asker is gone."""
    for path in root.glob("ask-*-*-*"):
        with suppress(ValueError, OSError):
            _, pid, start, _ = path.name.split("-")
            if not is_alive(int(pid), int(start)):
                shutil.rmtree(path, ignore_errors=True)

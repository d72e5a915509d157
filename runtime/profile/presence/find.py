"""Which state folder is meant: a runtime, a path, or, where nobody says, the only one that a program of this user has
open on this machine.

Every program that has a folder open has its page (see `page`), whose label says so in /proc; the page has the path in
it. So there is no file with instances to keep true.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Final, NamedTuple

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.host.folder_board import block_of_process
from runtime.profile.presence.page import LABEL, Page

_LINK: Final = f"/memfd:{LABEL}:"


class Running(NamedTuple):
    """A folder that is open: its path, and the program that has it."""

    state_dir: str
    pid: int


def state_dir_of(where: Any) -> str:
    """The state folder of a runtime, or the folder itself; of None the only one that is open.

    Args:
        where: A `Runtime`, an `AsyncRuntime`, a path or None.

    Raises:
        ProfileUnavailable: None is open, or several are.
    """
    if where is None:
        return the_only_one().state_dir
    state_dir = getattr(where, "state_dir", None) or getattr(getattr(where, "config", None), "state_dir", where)
    return str(os.fspath(state_dir))


def the_only_one() -> Running:
    """The folder that is open here.

    Raises:
        ProfileUnavailable: None is, or several are, which are named.
    """
    found = running()
    if not found:
        raise ProfileUnavailable("no program of this user has a state folder open here")
    if len(found) > 1:
        several = ", ".join(f"{one.state_dir} (pid {one.pid})" for one in found)
        error = ProfileUnavailable(f"several state folders are open, say which: {several}")
        raise error.hinting("name one of these folders")
    return found[0]


def page_held(uuid: str, owner: int | None) -> Page | None:
    """The page of a folder, of its engine or, while none has the folder, of whoever else stands in it.

    A program whose engine died and cannot be started again has its page open as before, and is worth a look.

    Args:
        uuid: Of the folder.
        owner: Pid of its engine; None: none has it.
    """
    if owner is not None:
        return _page_in(owner, uuid)
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (page := _page_in(int(name), uuid)) is not None:
                if page.processes():
                    return page
                page.close()
    return None


def _page_in(pid: int, uuid: str) -> Page | None:
    fd = block_of_process(pid, f"{LABEL}:{uuid}", os.O_RDWR)
    try:
        return None if fd is None else Page(fd)
    except ValueError:  # of another version
        return None


def running() -> list[Running]:
    """All folders that programs of this user have open, by path."""
    found: dict[str, Running] = {}
    seen: set[str] = set()
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                for one in _open_in(int(name), seen):
                    found[one.state_dir] = one
    return sorted(found.values())


def _open_in(pid: int, seen: set[str]) -> list[Running]:
    """Folders whose page a process has open, but those whose page was seen in another one."""
    found: list[Running] = []
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            place = f"/proc/{pid}/fd/{name}"
            with suppress(OSError, ValueError):
                link = os.readlink(place)
                if link.startswith(_LINK) and link not in seen:
                    seen.add(link)
                    found += _shown(Page(os.open(place, os.O_RDWR | os.O_CLOEXEC)), pid)
    return found


def _shown(page: Page, pid: int) -> list[Running]:
    try:
        faces = [row.process.pid for row in page.processes() if row.process.role == "face"]
        return [Running(page.state_dir, faces[0] if faces else pid)]
    finally:
        page.close()

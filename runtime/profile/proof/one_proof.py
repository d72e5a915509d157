"""Turns of the proofs of one user on one host: one at a time, so that forked children do not fill the memory together.

Whoever has the turn has bound an abstract unix socket, a name without a file: the kernel lets go of it when its holder
ends, however it does, and nothing is left behind. A forked child would hold it on, so it closes its copy.

Known limits: abstract names are one set for each network namespace, so containers take turns among themselves only;
    another user may take the name, and then no proof is made, which its notes say. Where there are no abstract sockets
    it is a lock on the folder for temporary files, which other users' proofs share.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from runtime.host import kernel

NAME: Final = f"mainspring-proof-{os.getuid() if hasattr(os, 'getuid') else 0}"
"""What is taken."""
_LOOK_S: Final = 0.05
_TURN: Final = threading.Lock()


class _Held:
    """What this process holds, for its forks."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self._hooked = False

    def hook(self) -> None:
        """Once, before the first."""
        if not self._hooked:
            self._hooked = True
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """In the child: the turn is the parent's."""
        while self.sockets:
            with suppress(OSError):
                self.sockets.pop().close()


# global: of this process, as its descriptors are
_HELD: Final = _Held()


@contextmanager
def one_at_a_time(deadline: float) -> Iterator[None]:
    """One proof of this user on this host. Raises TimeoutError."""
    if not _TURN.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise TimeoutError("another proof of this process takes its time")
    try:
        while (give_back := taken()) is None:
            if time.monotonic() >= deadline:
                raise TimeoutError("other processes of this host are being examined")
            time.sleep(_LOOK_S)
        try:
            yield
        finally:
            give_back()
    finally:
        _TURN.release()


def taken() -> Callable[[], None] | None:
    """Take the turn; returns what gives it back, None when somebody else has it."""
    return _bound() if kernel.LINUX else _locked()


def _bound() -> Callable[[], None] | None:
    _HELD.hook()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    _HELD.sockets.append(sock)  # first: a fork from here on must not have it
    try:
        sock.bind(f"\0{NAME}")
    except OSError:
        _let_go(sock)
        return None
    return lambda: _let_go(sock)


def _let_go(sock: socket.socket) -> None:
    with suppress(ValueError):  # this is a fork, which has closed it
        _HELD.sockets.remove(sock)
    sock.close()


def _locked() -> Callable[[], None] | None:
    fd = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None

    def give_back() -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)  # a fork made meanwhile has the descriptor, too
        os.close(fd)

    return give_back

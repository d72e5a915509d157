"""A bell: one process wakes another through the kernel.

`ring` makes the read descriptor readable, `drain` makes it quiet again; rings before a drain melt into one. Neither
blocks. The descriptor can be watched by `poll` or by an event loop.

An `eventfd` where the system has it (one descriptor for both ends), else a non-blocking pipe. A full pipe or counter
means that the bell is ringing already, so a refused write is no loss.

Concurrency: any number of processes and threads may ring; one drains. Ringing is a system call of about 0.4 us, the
wake-up that follows costs tens of microseconds, so `link` rings only for a peer that said it sleeps.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

EVENTFD_AVAILABLE: Final = hasattr(os, "eventfd")
_PIPE_READ_BYTES: Final = 4096


class Bell(NamedTuple):
    """Both descriptors of a bell; the same number twice for an `eventfd`."""

    read_fd: int
    write_fd: int

    @classmethod
    def create(cls, *, eventfd: bool = EVENTFD_AVAILABLE) -> Bell:
        """Make a bell that is quiet. `eventfd=False` makes a pipe even where an eventfd could be had."""
        if eventfd:
            fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            return cls(fd, fd)
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        return cls(read_fd, write_fd)

    def ring(self) -> None:
        """Make the read descriptor readable."""
        try:
            if self.read_fd == self.write_fd:
                os.eventfd_write(self.write_fd, 1)
            else:
                os.write(self.write_fd, b"\x01")
        except BlockingIOError:
            pass  # it rings already

    def drain(self) -> bool:
        """Make the bell quiet; whether it rang."""
        if self.read_fd == self.write_fd:
            try:
                os.eventfd_read(self.read_fd)
            except BlockingIOError:
                return False
            return True
        rang = False
        try:
            while os.read(self.read_fd, _PIPE_READ_BYTES):
                rang = True
        except BlockingIOError:
            pass
        return rang

    def dup(self) -> Bell:
        """The same bell under descriptors of its own."""
        read_fd = os.dup(self.read_fd)
        return Bell(read_fd, read_fd if self.read_fd == self.write_fd else os.dup(self.write_fd))

    def close(self) -> None:
        """Close the descriptors of this process."""
        os.close(self.read_fd)
        if self.write_fd != self.read_fd:
            os.close(self.write_fd)

"""A page of a folder that this process owns, and forks that stand in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.profile.presence.here import HERE
from runtime.profile.presence.page import Page, create_page
from runtime.storage.folder import StateFolder


@contextmanager
def opened_page(state_dir: Path) -> Iterator[Page]:
    """The page of a folder that this process owns."""
    with StateFolder.open(state_dir) as folder:
        found = Page(create_page(str(folder.uuid), folder.path))
        yield found
        found.close()


def _become(user: int) -> None:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


class Child:
    """A fork that stands in the page and does something."""

    def __init__(self, page: Page, body: Callable[[], None], threads: bool = True, user: int | None = None) -> None:
        read_fd, write_fd = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                if user is not None:
                    _become(user)
                HERE.begin(page, "worker", 1, "http", threads=threads)
                os.write(write_fd, b"!")
                body()
            finally:
                os._exit(0)
        os.close(write_fd)
        assert os.read(read_fd, 1) == b"!"
        os.close(read_fd)

    def end(self) -> None:
        """Kill it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

"""Titles: what `ps` shows of a child is what it says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.host import kernel
from runtime.profile.model import Process
from runtime.profile.presence.titles import show_title, write_command_line

pytestmark = pytest.mark.skipif(not kernel.LINUX, reason="the command line is in /proc")


def in_child(text: str | None) -> bytes:
    """The command line of a fork that has rewritten it."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            done = show_title(Process(1, 2, "worker", 3, "http")) if text is None else write_command_line(text)
            os.write(write_fd, Path("/proc/self/cmdline").read_bytes() if done else b"refused")
        finally:
            os._exit(0)
    os.close(write_fd)
    with open(read_fd, "rb") as pipe:
        found = pipe.read()
    os.waitpid(pid, 0)
    return found


def test_the_command_line_is_the_title_and_nothing_else() -> None:
    assert in_child(None).rstrip(b"\0") == b"mainspring: worker 3 [http]"


def test_what_does_not_fit_is_cut() -> None:
    room = len(Path("/proc/self/cmdline").read_bytes())
    assert in_child("x" * 10_000).rstrip(b"\0\1") == b"x" * (room - 2)

"""What Python and the system ask for what every design decision here weighs: locks, clocks, wake-ups, the disk."""

from __future__ import annotations

import os
import select
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial

from bench.micro.timing import Operation
from runtime.bench.machine import state_folder

RECORD = b"x" * 150


def operations() -> Iterator[Operation]:
    """Locks, clocks, a wake-up through the kernel within one process, writes with and without sync."""
    lock = threading.Lock()

    def locked() -> None:
        lock.acquire()
        lock.release()

    yield Operation("call of an empty function", lambda: None)
    yield Operation("lock, taken and given back", locked)
    yield Operation("time.monotonic_ns", time.monotonic_ns)
    yield Operation("time.thread_time_ns", time.thread_time_ns)
    yield from _bell()
    yield from _disk()


def _bell() -> Iterator[Operation]:
    read_fd, write_fd = os.pipe()
    poller = select.poll()
    poller.register(read_fd, select.POLLIN)

    def ring() -> None:
        os.write(write_fd, b"1")
        poller.poll()
        os.read(read_fd, 1)

    try:
        yield Operation("pipe: write, poll, read", ring)
    finally:
        os.close(read_fd)
        os.close(write_fd)


def _disk() -> Iterator[Operation]:
    with tempfile.TemporaryFile(dir=state_folder(), buffering=0) as file:
        sync = getattr(os, "fdatasync", os.fsync)

        def append(count: int) -> None:
            file.write(RECORD * count)
            sync(file.fileno())

        yield Operation("write of 150 bytes, not synced", partial(file.write, RECORD))
        yield Operation("write and fdatasync of one record", partial(append, 1))
        yield Operation("write and fdatasync of 256 records, per record", partial(append, 256), 256)

"""Work on a copy of this process: a forked child that only computes, writes what it found into a pipe and ends.

The child has a low priority, no signals, no descriptors but the pipe, and limits; it is the first to be killed when
memory is short, and dies with the thread that made it. It never returns into the program: whatever happens in it ends
in `os._exit`.

Crash: of the child, an error here that says how it ended; of the parent, the end of the child.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

import psutil

from runtime.host import kernel
from runtime.host.control_group import ControlGroup

_CPU_S: Final = 120
"""Of the child, whatever becomes of its parent."""
_SPARE_BYTES: Final = 64 << 20
_FAILED: Final = b"!"
_DONE: Final = b"="
_CHUNK: Final = 1 << 16


class Apart:
    """A child, from its parent's side."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid, self._fd = pid, fd
        self._pidfd = -1
        with suppress(OSError, AttributeError):
            self._pidfd = os.pidfd_open(pid)

    def answer(self, deadline: float) -> bytes:
        """What it wrote. Reaps it. Raises OSError when it failed, TimeoutError when it took too long."""
        parts: list[bytes] = []
        late = False
        try:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            while True:
                left_ms = int((deadline - time.monotonic()) * 1000)
                if left_ms <= 0 or not poll.poll(left_ms):
                    late = True
                    break
                part = os.read(self._fd, _CHUNK)
                if not part:
                    break
                parts.append(part)
        finally:
            os.close(self._fd)
            status = self._end()
        if late:
            raise TimeoutError("the child took too long and was killed")
        content = b"".join(parts)
        if content[:1] != _DONE:
            how = content[1:].decode("utf-8", "replace") or f"it ended with status {status}"
            raise OSError(f"the child failed: {how}")
        return content[1:]

    def _end(self) -> int:
        """It has nothing more to do: reap it, and nobody else."""
        if self._pidfd >= 0:
            with suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
        else:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:  # the program reaps all children, whosever they are
            return 0


def child_of(work: Callable[[Any, list[Any]], bytes], given: Any) -> Apart:
    """Fork a child that works on `given` and the list of all tracked objects. Raises OSError."""
    parent, everything = os.getpid(), signal.valid_signals()
    read, write = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    try:
        pid = os.fork()
    except BaseException:
        os.close(read)
        os.close(write)
        raise
    finally:
        if os.getpid() == parent:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if pid == 0:
        _work(work, given, write, parent)
    os.close(write)
    return Apart(pid, read)


def _work(work: Callable[[Any, list[Any]], bytes], given: Any, write: int, parent: int) -> NoReturn:
    """All of the child."""
    try:
        gc.disable()
        _alone(write, parent)
        gc.unfreeze()
        try:
            content = _DONE + work(given, gc.get_objects())
        except BaseException as broken:  # noqa: BLE001, RUF100 - said to the parent
            content = _FAILED + f"{type(broken).__name__}: {broken}".encode()
        left = memoryview(content)
        while left:
            left = left[os.write(write, left) :]
    finally:
        os._exit(0)


def _alone(write: int, parent: int) -> None:
    import resource  # lazy: not on every platform, and only the child needs it

    kernel.die_with_parent(parent)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)
    os.closerange(3, write)
    os.closerange(write + 1, max(_fd_limit(), write + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 19)
    with suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"1000")
    kernel.name_process("mainspring-proof")


def _fd_limit() -> int:
    return os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 4096


def room_for_child() -> None:
    """The child may come to copy all of this process. Raises OSError when there is no room for that."""
    memory = psutil.Process().memory_info()
    needed = memory.rss - getattr(memory, "shared", 0) + _SPARE_BYTES
    group = ControlGroup().memory()
    left = min(psutil.virtual_memory().available, *([group.available] if group else ()), 1 << 62)
    if left < needed:
        raise OSError(f"it needs {needed >> 20} MiB, and {left >> 20} are left")

"""The spawner's children: forked, signalled as groups, reaped, and their orphans swept.

States of a child: alive -> exited (still a zombie: its pid cannot be reused) -> reaped. Its group is killed while it is
a zombie, so that a signal never reaches a stranger who got the same pid.

Invariants: whatever is a child of this process and not in the table is an orphan of a dead worker, because workers
adopt their own descendants while they live; such a one is killed and reaped. There is no zombie after `reap`.
Concurrency: one thread, no event loop underneath; that is what makes `fork` safe here.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from runtime.host import kernel

_SWEEPS_MAX: Final = 16
"""Rounds of killing orphans at one time: each round can only reveal the children of those it killed."""
_CAUGHT: Final = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
_EXIT_CRASHED: Final = 70
_KILL_POLL_S: Final = 0.002
"""Between two looks at children that were just killed."""


@dataclass(frozen=True, slots=True)
class Child:
    """One known child. `worker` is its id, 0 for the engine."""

    role: Literal["engine", "worker"]
    worker: int
    pid: int
    start_time: int


class ChildTable:
    """Known children by pid."""

    def __init__(self) -> None:
        self._children: dict[int, Child] = {}

    def __len__(self) -> int:
        return len(self._children)

    def workers(self) -> list[Child]:
        """Workers that are not reaped yet."""
        return [c for c in self._children.values() if c.role == "worker"]

    def worker(self, number: int) -> Child | None:
        """The worker of this id, if it is not reaped yet."""
        return next((c for c in self._children.values() if c.role == "worker" and c.worker == number), None)

    def fork(
        self, role: Literal["engine", "worker"], worker: int, body: Callable[[], None], close: Iterable[int]
    ) -> Child:
        """Fork a child that leads its own session, closes descriptors that are not its business, and runs `body`.

        Raises:
            OSError: There are too many processes, or too little memory.
        """
        parent = os.getpid()
        gc.freeze()  # what is there now never becomes garbage; a collection in a child must not copy its pages
        pid = os.fork()
        if pid == 0:
            _live(role, worker, parent, body, close)
        child = Child(role, worker, pid, kernel.start_time(pid))
        self._children[pid] = child
        return child

    def signal(self, child: Child, signum: int, group: bool) -> None:
        """Signal a child that is not reaped yet, alone or with its group."""
        if child.pid not in self._children:
            return
        if group:
            kernel.signal_group(child.pid, signum)
        else:
            with suppress(OSError):
                os.kill(child.pid, signum)

    def reap(self) -> list[tuple[Child, int]]:
        """Reap all that exited, killing what is left of their groups first.

        Returns known ones with their wait status.
        """
        ended: list[tuple[Child, int]] = []
        for _ in range(_SWEEPS_MAX):
            reaped = self._reap_exited(ended)
            if not (reaped and self._kill_orphans()):
                break
        return ended

    def kill_all(self, timeout_s: float) -> list[tuple[Child, int]]:
        """Kill and reap everything, orphans too. What sits in an uninterruptible call may outlast the timeout."""
        deadline = time.monotonic() + timeout_s
        ended: list[tuple[Child, int]] = []
        for child in self._children.values():
            kernel.signal_group(child.pid, signal.SIGKILL)
        while True:
            ended += self.reap()
            if time.monotonic() > deadline or not (self._kill_orphans() or self._children):
                return ended
            time.sleep(_KILL_POLL_S)

    def _reap_exited(self, ended: list[tuple[Child, int]]) -> int:
        count = 0
        while (found := self._reap_one()) is not None:
            count += 1
            pid, status = found
            if (child := self._children.pop(pid, None)) is not None:
                ended.append((child, status))
        return count

    def _reap_one(self) -> tuple[int, int] | None:
        """Reap one child that exited: kill its group while its pid is still its own, then collect the status."""
        try:
            if hasattr(os, "waitid"):
                exited = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if exited is None:
                    return None
                if exited.si_pid in self._children:
                    kernel.signal_group(exited.si_pid, signal.SIGKILL)
                return os.waitpid(exited.si_pid, 0)
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid in self._children:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        return (pid, status) if pid else None

    def _kill_orphans(self) -> int:
        orphans = [pid for pid in kernel.child_pids(os.getpid()) if pid not in self._children]
        for pid in orphans:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return len(orphans)


def _live(role: str, worker: int, parent: int, body: Callable[[], None], close: Iterable[int]) -> None:
    """All of a child's life; never returns."""
    status = _EXIT_CRASHED
    try:
        os.setsid()
        kernel.die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        for signum in _CAUGHT:
            signal.signal(signum, signal.SIG_DFL)
        if role == "worker":  # handlers know KeyboardInterrupt; an engine must not be stopped in the middle of a turn
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for fd in close:
            with suppress(OSError):
                os.close(fd)
        kernel.name_process(f"ms-{role}" if role == "engine" else f"ms-worker-{worker}")
        gc.enable()
        body()
        status = 0
    except SystemExit as exiting:
        status = exiting.code if isinstance(exiting.code, int) else int(exiting.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(status)

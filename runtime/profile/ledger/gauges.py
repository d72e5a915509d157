"""Gauges: how many there are of what is counted elsewhere, looked at when somebody asks or the books are written.

Of every process: descriptors, threads, children, blocks of shared memory. Of the engine: runs, leases, messages that
wait for room, timers. Of the program: questions and runs that it waits for. None of them is a call on a hot path.

Known limits: what the kernel counts is seen where there is a /proc; elsewhere those books stay empty.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sized
from contextlib import suppress
from functools import partial
from typing import Any, Final

from runtime.host import kernel
from runtime.profile.leak_check.stranded import EngineLook, ProgramLook, stranded_blocks
from runtime.profile.ledger.books import LEDGER, Gauged
from runtime.profile.ledger.kinds import ASK, DESCRIPTOR, LEASE, MESSAGE, PROCESS, RUN, SEGMENT, THREAD, TIMER, VIEW
from runtime.profile.ledger.pins import EVIDENCE

# global: what of this process is shown beside its tasks and threads: the engine's core
SHOWN: Final[dict[str, Any]] = {}
_FD: Final = "/proc/self/fd"
_BLOCK: Final = "/memfd:mainspring"


def gauge_process() -> None:
    """What every process has. Once in each process, forked ones included."""
    LEDGER.gauge(DESCRIPTOR, descriptors)
    LEDGER.gauge(THREAD, threads)
    LEDGER.gauge(PROCESS, children)
    LEDGER.gauge(SEGMENT, segments)
    if stranded_blocks not in EVIDENCE:
        EVIDENCE.append(stranded_blocks)


def gauge_engine(core: Any, host: Any) -> None:
    """What the engine has: an `actors.core.EngineCore` and the `runtime.host.engine_host.EngineHost` around it."""
    scheduler = core.scheduler
    SHOWN["core"] = core  # global: there is one engine in a process
    LEDGER.gauge(RUN, lambda: (len(scheduler.book.live), 0, 0))
    LEDGER.gauge(LEASE, lambda: (core.held(), 0, 0))
    LEDGER.gauge(MESSAGE, lambda: (_backlog(host), 0, 0))
    LEDGER.gauge(TIMER, lambda: (_timers(scheduler), 0, 0))
    EVIDENCE.append(EngineLook(core, host))


def gauge_client(client: Any) -> None:
    """What a program waits for and holds, of a `runtime.host.client.EngineClient`, for as long as that lives.

    Questions, runs, and files of large results.
    """
    intake, starter = client.intake, getattr(client, "_starter", None)
    look = ProgramLook(intake, partial(getattr, starter, "_page", None))
    EVIDENCE.append(look)
    asked = LEDGER.gauge(ASK, partial(_of, intake.queries), look.questions)
    weakref.finalize(client, _forget, look, asked).atexit = False
    counted: list[tuple[str, Sized]] = [(RUN, intake.open)]
    if intake._pins is not None:
        counted.append((VIEW, intake._pins))
    for kind, there in counted:
        gauge = LEDGER.gauge(kind, partial(_of, there))
        weakref.finalize(client, LEDGER.remove_gauge, kind, gauge).atexit = False


def _forget(look: ProgramLook, asked: Any) -> None:
    LEDGER.remove_gauge(ASK, asked)
    with suppress(ValueError):
        EVIDENCE.remove(look)


def _of(there: Sized) -> Gauged:
    return len(there), 0, 0


def _backlog(host: Any) -> int:
    """Frames that wait for room in a ring."""
    posts = (host._face, *host._workers.values())
    return sum(len(post._control) + len(post._work) for post in posts)


def _timers(scheduler: Any) -> int:
    kinds = (scheduler.timers, scheduler.appointments, scheduler.expiries, scheduler.deadlines)
    return sum(len(timers) for timers in kinds)


def descriptors() -> Gauged:
    """Open descriptors, without the one that looks."""
    return len(os.listdir(_FD)) - 1, 0, 0


def threads() -> Gauged:
    """Threads, those of native libraries included."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/task")), 0, 0
    return threading.active_count(), 0, 0


def children() -> Gauged:
    """Child processes, zombies included."""
    return len(kernel.child_pids(os.getpid())), 0, 0


def segments() -> Gauged:
    """Blocks of shared memory of ours that this process has open; a mapped block is open twice, see `blocks`."""
    found = 0
    for name in os.listdir(_FD):
        with suppress(OSError):
            found += os.readlink(f"{_FD}/{name}").startswith(_BLOCK)
    return found, 0, 0

"""What a test may not leave behind: descriptors, threads, processes, shared-memory files, temporary files.

A `Snapshot` is taken before and compared after. Things that are on their way out get a moment (`SETTLE_NS`), so that a
child which was killed but not yet reaped is no leak; what remains is named.

How a process is known as ours, children and orphans alike: every process that is started from here inherits the
environment variable `MARK`, and the kernel shows a process's environment as it was at exec, through any number of
forks. Where there is no /proc (macOS) only children are seen.

Limits: a descriptor that replaces another of the same number and target is not seen. Shared-memory files are watched by
the prefixes that Python and Mainspring give, because other programs use the same folder.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

MARK: Final = "MAINSPRING_TEST_RUN"
SETTLE_NS: Final = 5_000_000_000
SHM: Final = Path("/dev/shm")
SHM_PREFIXES: Final = ("mainspring", "psm_", "sem.mp-", "pym-")
PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was there at one moment."""

    descriptors: dict[int, str]
    threads: frozenset[threading.Thread]
    pids: frozenset[int]
    shared: frozenset[str]
    temporary: frozenset[str]


def take(temporary: Path) -> Snapshot:
    """What is there now.

    Args:
        temporary: The folder that `tempfile` uses in this test run.
    """
    return Snapshot(
        descriptors(),
        frozenset(threading.enumerate()),
        _pids(),
        _shared(),
        frozenset(os.listdir(temporary)),
    )


def found_since(
    before: Snapshot, temporary: Path, settle_ns: int = SETTLE_NS, *, look_at_shared: bool = True
) -> list[str]:
    """One line for each thing that is there now and was not before; waits for what is on its way out.

    Args:
        before: Taken before.
        temporary: The folder that `tempfile` uses in this test run.
        settle_ns: How long is waited.
        look_at_shared: Whether shared memory counts, of which nobody knows whose it is.
    """
    found = _compare(before, temporary)
    left = _shared() - before.shared if look_at_shared else set[str]()
    deadline = time.monotonic_ns() + settle_ns
    while (found or left) and time.monotonic_ns() < deadline:
        gc.collect()
        select.select([], [], [], 0.01)
        found = _compare(before, temporary)
        left &= _shared()  # what comes now comes from another program
    return found + [f"shared memory {SHM / name}" for name in sorted(left)]


def _compare(before: Snapshot, temporary: Path) -> list[str]:
    helpers, helper_descriptors = _standard_library_helpers()
    found = [
        f"descriptor {number} -> {target}"
        for number, target in descriptors().items()
        if before.descriptors.get(number) != target and number not in helper_descriptors
    ]
    found += [f"thread {thread.name!r}" for thread in threading.enumerate() if thread not in before.threads]
    found += [text for pid in _pids() - before.pids - helpers if (text := _ours(pid))]
    found += [f"temporary file {name}" for name in sorted(set(os.listdir(temporary)) - before.temporary)]
    return found


def descriptors() -> dict[int, str]:
    """Open descriptors and what they lead to; the one that looks is left out."""
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    found: dict[int, str] = {}
    for name in os.listdir(folder):
        try:
            found[int(name)] = os.readlink(f"{folder}/{name}") if sys.platform == "linux" else "open"
            os.fstat(int(name))
        except OSError:
            found.pop(int(name), None)
    return found


def _pids() -> frozenset[int]:
    if PROC.joinpath("self").exists():
        return frozenset(int(name) for name in os.listdir(PROC) if name.isdigit())
    return frozenset(child.pid for child in psutil.Process().children(recursive=True))


def _ours(pid: int) -> str:
    """How to name this process if it comes from this test run, else an empty text."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            child = process.ppid() == os.getpid()
            if child or process.environ().get(MARK) == os.environ.get(MARK, "-"):
                return f"process {pid} ({process.status()}{'' if child else ', orphan'}): {process.name()}"
    except psutil.Error:
        pass
    return ""


def _shared() -> frozenset[str]:
    if not SHM.is_dir():
        return frozenset()
    return frozenset(name for name in os.listdir(SHM) if name.startswith(SHM_PREFIXES))


def _standard_library_helpers() -> tuple[frozenset[int], frozenset[int]]:
    """Processes and descriptors that multiprocessing keeps for good once used: resource tracker and fork server."""
    pids: set[int] = set()
    numbers: set[int] = set()
    for module, attribute in (("resource_tracker", "_resource_tracker"), ("forkserver", "_forkserver")):
        loaded = sys.modules.get(f"multiprocessing.{module}")
        helper = getattr(loaded, attribute, None)
        for name in ("_pid", "_forkserver_pid"):
            pids.add(getattr(helper, name, None) or 0)
        for name in ("_fd", "_forkserver_alive_fd"):
            numbers.add(getattr(helper, name, None) or 0)
    return frozenset(pids), frozenset(numbers) - {0}

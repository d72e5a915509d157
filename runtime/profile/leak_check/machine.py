"""What this process has of the machine that may leak, as the kernel knows it: threads, children, descriptors, blocks.

    kind         created at (`origins`)         proved by
    thread       where it was started           (growth)
    executor     where it was made              it was collected, and a thread of it still runs
    process      where it was started           a zombie at two looks
    descriptor   where its socket was made, or  more than its budget, each for `CLOSED_NS`: sockets that the other side
                 its file opened (`Opened`)     closed (CLOSE_WAIT), or pipes whose other end is gone
    transport    where it was connected         as a descriptor, which it has
    segment      where it was made              (growth)

Where nobody noted that (`origins` are those of workers), it is the function that a thread runs, the name of a child's
program, or the sort of thing that a descriptor is, and where it leads.

Left out: threads and children of this package, idle threads of a living pool (pools do not shrink), threads of native
libraries, which no program of Python can end, and the helpers that `multiprocessing` keeps for good.

A connection that waits in a pool is closed by its server now and then, and the pool finds out when it takes it: a few
in CLOSE_WAIT are none of interest, nor a few pipes that a program has not come to yet. How many are is the budget of
"descriptor" (`LEDGER.register_kind`), 16 by itself.

Concurrency: any thread; one at a time for each `ProcessThings`.
Known limits: without a /proc only threads are seen. Of a descriptor nobody knows since when it is open: its time counts
from the first look.
"""

from __future__ import annotations

import gc
import io
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from tracemalloc import get_object_traceback, is_tracing
from types import CodeType, FrameType
from typing import Any, Final

from runtime.host import kernel
from runtime.profile.leak_check.detectors import Seen
from runtime.profile.leak_check.grading import Signature
from runtime.profile.leak_check.pipes import lone_pipes
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import DESCRIPTOR, EXECUTOR, PROCESS, SEGMENT, THREAD, TRANSPORT
from runtime.profile.ledger.origins import ORIGINS, executor_of, fd_of, origin_of
from runtime.profile.ledger.sites import frame_at, places_of
from runtime.profile.model import Frame, Labels, Process

_HELPERS: Final = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver", b"mainspring: ")
_OWN_THREADS: Final = ("mainspring", "pytest_timeout")
_BLOCKS: Final = ("/memfd:", "/dev/shm/")
_CLOSE_WAIT: Final = "08"
CLOSED_NS: Final = 3_000_000_000
"""So long both ends of something may take to close it, one after the other, in a loop that is held up."""
CLOSED_BUDGET: Final = 16
"""Connections that the other side closed and a pool may still have: clients keep 10 to 20 by themselves."""
_NUMBERS: Final = re.compile(r"\d+")
_POOL_FILES: Final = ("/threading.py", "/concurrent/futures/thread.py")


class ProcessThings:
    """Looks at this process, again and again.

    Args:
        process: Who it is.
        ttl_ns: In place of that of the kinds.
        keeps: Says of labels and birth whether a thing is of interest.
        known: What is left out: see `known_things`.
        closed_ns: How long something must be without its other end.
    """

    def __init__(
        self,
        process: Process | None = None,
        ttl_ns: int | None = None,
        keeps: Callable[[Labels, int], bool] | None = None,
        known: frozenset[tuple[str, Any]] = frozenset(),
        closed_ns: int = CLOSED_NS,
    ) -> None:
        self._node_type = process.node_type if process is not None and process.role == "worker" else ""
        self._ttl_ns, self._keeps, self._known = ttl_ns, keeps, known
        self._first: dict[tuple[str, Any], int] = {}
        self._suspects: dict[tuple[str, Any], int] = {}
        self._closed_ns = closed_ns
        self._opened = Opened()
        self.pending_ns = 0
        """Of something that looks like a leak at the last look: when it will be one (monotonic); 0: nothing does."""

    def seen(self) -> Iterator[Seen]:
        """All that is there now."""
        now_ns = time.monotonic_ns()
        first, self._first = self._first, {}
        before, suspects, self.pending_ns = self._suspects, dict[tuple[str, Any], int](), 0
        for kind, name, site, wait, key, since_ns, suspicion in self._things():
            ident = (kind, name)
            since_ns = self._first[ident] = first.get(ident, since_ns or now_ns)
            if ident in self._known or (self._keeps is not None and not self._keeps((), since_ns)):
                continue
            proof = ""
            if suspicion:
                suspects[ident] = before.get(ident, now_ns)
                due_ns = suspects[ident] + (self._closed_ns if kind == DESCRIPTOR else 0)
                proof = suspicion if ident in before and now_ns >= due_ns else ""
                self.pending_ns = max(self.pending_ns, 0 if proof else due_ns)
            ttl_ns = int(LEDGER.book(kind).kind.ttl_s * 1e9) if self._ttl_ns is None else self._ttl_ns
            signature = Signature(kind, site, wait, self._node_type)
            yield Seen(signature, hash(name), since_ns, ttl_ns, key, "", (), proof)
        self._suspects = suspects

    def _things(self) -> Iterator[Thing]:
        yield from _threads()
        if kernel.LINUX:
            yield from _children()
            yield from self._descriptors()

    def _descriptors(self) -> Iterator[Thing]:
        opened = list(_opened())
        self._opened.look(opened)
        return _descriptors(opened, self._opened)


class Opened:
    """Where files were opened, as `tracemalloc` knows it: nobody else notes that, and to note it would cost each call.

    So it is told in a program that traces (`python -X tracemalloc`), as with a ResourceWarning; elsewhere files are
    told by their paths. What is told of a descriptor stays, so that its signature does.
    """

    def __init__(self) -> None:
        self._sites: dict[tuple[int, str], tuple[Frame, ...]] = {}

    def look(self, opened: Iterable[tuple[int, str]]) -> None:
        """These are open now."""
        known, self._sites = self._sites, {}
        files = [one for one in opened if one[1].startswith("/")]
        found = _traced() if is_tracing() and not known.keys() >= set(files) else {}
        self._sites = {one: known[one] if one in known else found.get(one[0], ()) for one in files}

    def site(self, number: int, leads: str) -> tuple[Frame, ...]:
        """Where a file was opened; empty where that is not known."""
        return self._sites.get((number, leads), ())


def _traced() -> dict[int, tuple[Frame, ...]]:
    """By descriptor, where file objects were made. All objects are gone through."""
    found = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), io.FileIO) and (trace := get_object_traceback(thing)) is not None:
            with suppress(ValueError, OSError):  # it is closed
                number = io.FileIO.fileno(thing)
                found[number] = tuple(Frame("open", frame.filename, frame.lineno) for frame in trace)
    return found


Thing = tuple[str, Any, tuple[Frame, ...], tuple[Frame, ...], str, int, str]
"""Kind, identity, site, wait, name for people, since when (0: not known), why it is a leak if that is so twice."""


def known_things() -> frozenset[tuple[str, Any]]:
    """What is there now, to be left out later."""
    return frozenset((kind, name) for kind, name, *_ in ProcessThings()._things())


# --- threads ----------------------------------------------------------------------------------------------------------


def _threads() -> Iterator[Thing]:
    collects = gc.isenabled()
    gc.disable()  # CPython #106883
    try:
        frames = sys._current_frames()
    finally:
        if collects:
            gc.enable()
    for thread in threading.enumerate():
        if thread is threading.main_thread() or thread.name.startswith(_OWN_THREADS):
            continue
        target: Any = getattr(thread, "_target", None)
        kind, suspicion = THREAD, ""
        executor = executor_of(thread)
        wait = _stack(frames.get(thread.ident or 0))
        if executor is not None:
            if executor() is not None:
                continue  # a pool that lives: its threads stay by design
            kind, suspicion = EXECUTOR, "the executor was collected, and this thread of it still runs"
        code: CodeType | None = getattr(target, "__code__", None) or getattr(type(thread).run, "__code__", None)
        runs = () if code is None else (Frame(code.co_qualname, code.co_filename, code.co_firstlineno),)
        site = origin_of(thread) or runs
        if executor is not None and site == runs:  # what it was given to do is the first that is not its own
            site = next(((frame,) for frame in wait if not frame.file.endswith(_POOL_FILES)), site)
        yield kind, thread.ident, site, wait, thread.name, _started_ns(thread), suspicion


def _stack(frame: FrameType | None) -> tuple[Frame, ...]:
    return tuple(Frame(code.co_qualname, code.co_filename, line) for code, line in places_of(frame))


def _started_ns(thread: threading.Thread) -> int:
    """When a thread started, to 10 ms."""
    fields = kernel._stat(f"self/task/{thread.native_id}") if kernel.LINUX else None
    return 0 if fields is None else _monotonic_ns(int(fields[kernel._STAT_START]))


def _monotonic_ns(ticks: int) -> int:
    """A start time of the kernel as monotonic time."""
    now_ns = time.monotonic_ns()
    ago_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return min(now_ns, now_ns - ago_ns)


# --- children ---------------------------------------------------------------------------------------------------------


def _children() -> Iterator[Thing]:
    for pid in kernel.child_pids(os.getpid()):
        fields = kernel._stat(pid)
        if fields is None:
            continue
        name, line = _text(pid, "comm").strip(), _text(pid, "cmdline")
        if any(helper.decode() in line for helper in _HELPERS):
            continue
        zombie = fields[0] == "Z"
        site = ORIGINS.child_site(pid) or (Frame(f"child {name}"),)
        wait = (Frame("zombie"),) if zombie else ()
        start = int(fields[kernel._STAT_START])
        proof = "it has ended, and its parent, this process, does not wait for it" if zombie else ""
        yield PROCESS, (pid, start), site, wait, f"{name} (pid {pid})", _monotonic_ns(start), proof


def _text(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


# --- descriptors ------------------------------------------------------------------------------------------------------


def _descriptors(opened: list[tuple[int, str]], files: Opened) -> Iterator[Thing]:
    closed = _closed_by_peer()
    inodes = {leads.partition(":")[2].strip("[]") for _, leads in opened if leads.startswith("socket:")}
    asked = LEDGER.book(DESCRIPTOR).budget
    budget = CLOSED_BUDGET if asked is None else asked
    if len(inodes & closed.keys()) <= budget:
        closed = {}
    alone = lone_pipes(opened, budget)
    blocks = set[int]()
    connections = {fd_of(transport): one for transport, one in ORIGINS.open_connections()}
    for number, leads in opened:
        ident = (number, leads)
        sort, _, inode = leads.partition(":")
        if leads.startswith(_BLOCKS):
            if not leads.startswith(f"{_BLOCKS[0]}mainspring"):
                with suppress(OSError):  # a mapping has a descriptor of its own
                    block = os.fstat(number).st_ino
                    if block not in blocks:
                        blocks.add(block)
                        site = ORIGINS.block_site(number) or (Frame(_sort_of(leads)),)
                        yield SEGMENT, (block, leads), site, (), leads, 0, ""
            continue
        inode = inode.strip("[]")
        wait: tuple[Frame, ...] = ()
        suspicion = ""
        if sort == "socket" and (peer := closed.get(inode)):
            wait = (Frame("closed by the other side"),)
            suspicion = f"the other side closed it ({peer}), and it is still open here"
        elif number in alone:
            wait = (Frame("no other end"),)
            suspicion = alone[number]
        named = f"{number} -> {leads}"
        connection = connections.get(number) if sort == "socket" else None
        if connection is not None:
            yield TRANSPORT, ident, (frame_at(*connection.place),), wait, named, connection.since_ns, suspicion
            continue
        known = ORIGINS.socket_site(number, inode) if sort == "socket" else files.site(number, leads)
        site = known or (Frame(sort if sort in ("socket", "pipe") else _sort_of(leads)),)
        yield DESCRIPTOR, ident, site, wait, named, 0, suspicion


def _opened() -> Iterator[tuple[int, str]]:
    """Descriptors, and where they lead to."""
    for text in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            leads = os.readlink(f"/proc/self/fd/{text}")
            if not leads.startswith(("anon_inode:", "/dev/", "/proc/")) or leads.startswith(_BLOCKS):
                yield int(text), leads


def _sort_of(path: str) -> str:
    """A path with its numbers left out, so that files of one sort are alike: its folder, and the end of its name."""
    folder, _, name = path.rpartition("/")
    return f"{_NUMBERS.sub('#', folder)}/*{os.path.splitext(name)[1][:12]}"


def _closed_by_peer() -> dict[str, str]:
    """Inodes of TCP sockets in CLOSE_WAIT, with the other side's address as the kernel writes it."""
    found = {}
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/self/net/{name}", encoding="ascii") as file:
            next(file, None)
            for line in file:
                fields = line.split()
                if fields[3] == _CLOSE_WAIT:
                    found[fields[9]] = fields[2]
    return found

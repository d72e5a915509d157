"""Where code of handlers made what has no line of its own: threads, executors, sockets, connections, children, blocks
of shared memory, locks of asyncio.

In a worker, a process of ours, the constructors of the standard library note who calls them: the nearest line that is
of no library. That is a microsecond beside what they cost themselves (a socket: a system call or three). A module that
nobody imported has nothing to be noted; `look` is called when handlers were imported, and now and then.

What ends is not noted here, for nobody says so: what is kept goes with the thing (an attribute of it), or its number is
given to the next (a descriptor, checked by its inode; a pid). Executors, locks that are held, and connections are
entered in the ledger: shut down, released, closed or collected, they leave it.

    kind         noted by                                              kept until
    thread       Thread.start                                          it is collected
    executor     ThreadPoolExecutor                                    shut down, or collected
    process      Popen, multiprocessing, the loop's subprocess_*       the pid has another child
    segment      SharedMemory                                          4,096 newer ones were made
    view         SharedMemory.close that fails: a view is alive        the last view is gone
    lock         asyncio.Lock: acquired, with the task that did        released, or collected
    descriptor   socket                                                the descriptor has another inode
    transport    the loop's create_connection, create_unix_connection  closing, or collected

Safety: what is wrapped does what it did, and fails as it did; a note that fails is none.
Concurrency: any thread.
Known limits: a loop's servers do not say which connections they take; what C libraries open has no line.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from runtime.profile.ledger.books import LEDGER, Gauged
from runtime.profile.ledger.kinds import EXECUTOR, LOCK, TRANSPORT, VIEW
from runtime.profile.ledger.named import enter
from runtime.profile.ledger.sites import Place, frame_at, user_place

if TYPE_CHECKING:
    import asyncio

    from runtime.profile.model import Frame

_MARK: Final = "_mainspring_origin"
_OWN: Final = "mainspring"
_KEPT_MAX: Final = 4_096
"""Children, and blocks."""


class Connection(NamedTuple):
    """A connection of a loop."""

    transport: weakref.ref[Any]
    place: Place
    since_ns: int
    labels: Any


class Origins:
    """See the module. `install` once in a process; there is one of it."""

    def __init__(self) -> None:
        self.on = False
        self.sockets: dict[int, tuple[int, Place]] = {}
        """By descriptor: its inode, and where it was made."""
        self.children: dict[int, Place] = {}
        self.blocks: dict[int, Place] = {}
        """By inode."""
        self.connections: dict[int, Connection] = {}
        self._undo: list[tuple[Any, str, Any]] = []
        self._seen = 0
        self._done: set[str] = set()
        os.register_at_fork(after_in_child=self._forked)

    def install(self) -> None:
        """From now on."""
        if not self.on:
            self.on, self._seen = True, 0
            LEDGER.gauge(TRANSPORT, self._count)
        self.look()

    def look(self) -> None:
        """Wrap what was imported since the last time. Costs nothing where nothing was."""
        if not self.on or len(sys.modules) == self._seen:
            return
        self._seen = len(sys.modules)
        for name, wrap in _WRAPS.items():
            module = sys.modules.get(name)
            if module is not None and name not in self._done:
                with suppress(AttributeError):  # it is being imported right now
                    wrap(self, module)
                    self._done.add(name)

    def remove(self) -> None:
        """Note nothing more: for tests."""
        for owner, name, before in reversed(self._undo):
            setattr(owner, name, before)
        self._undo.clear()
        self._done.clear()
        for there in (self.sockets, self.children, self.blocks, self.connections):
            there.clear()
        self.on = False

    def _forked(self) -> None:
        for there in (self.sockets, self.children, self.blocks, self.connections):
            there.clear()
        if self.on:
            LEDGER.gauge(TRANSPORT, self._count)

    def put(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        """Put a function in place of another, which is written in Python."""
        before = getattr(owner, name)
        mine: Any = functools.wraps(before)(make(before))
        file = before.__code__.co_filename  # so that whoever folds frames of the library folds this one, too
        mine.__code__ = mine.__code__.replace(co_filename=file, co_name=name, co_qualname=before.__qualname__)
        setattr(owner, name, mine)
        self._undo.append((owner, name, before))

    # --- what was noted -------------------------------------------------------------------------------------------

    def note_socket(self, fd: int, place: Place) -> None:
        """This descriptor was opened there."""
        if fd >= 0:
            self.sockets[fd] = os.fstat(fd).st_ino, place

    def note_block(self, fd: int, place: Place) -> None:
        """This block was made, or opened, there; a mapping of it has a descriptor of its own."""
        _put(self.blocks, os.fstat(fd).st_ino, place)

    def note_child(self, pid: int | None, place: Place) -> None:
        """This child was started there."""
        if pid is not None:
            _put(self.children, pid, place)

    def note_connection(self, transport: Any, place: Place) -> None:
        """This connection was made there."""
        key = id(transport)
        gone = functools.partial(_forget, self.connections, key)
        labels = LEDGER.label_set
        self.connections[key] = Connection(
            weakref.ref(transport, gone), place, time.monotonic_ns(), () if labels is None else labels()
        )
        self.note_socket(fd_of(transport), place)

    def socket_site(self, fd: int, inode: str) -> tuple[Frame, ...]:
        """Where the socket that has this descriptor was made; () where that is not known."""
        found = self.sockets.get(fd)
        return (frame_at(*found[1]),) if found is not None and str(found[0]) == inode else ()

    def block_site(self, fd: int) -> tuple[Frame, ...]:
        """Where the block that has this descriptor was made or opened."""
        with suppress(OSError):
            found = self.blocks.get(os.fstat(fd).st_ino)
            return () if found is None else (frame_at(*found),)
        return ()

    def child_site(self, pid: int) -> tuple[Frame, ...]:
        """Where a child was started."""
        found = self.children.get(pid)
        return () if found is None else (frame_at(*found),)

    def open_connections(self) -> Iterator[tuple[Any, Connection]]:
        """Those that are not closing."""
        for found in list(self.connections.values()):
            transport = found.transport()
            if transport is not None and not _is_closing(transport):
                yield transport, found

    def _count(self) -> Gauged:
        since_ns = [found.since_ns for _, found in self.open_connections()]
        return len(since_ns), 0, min(since_ns, default=0)

    # --- a loop ---------------------------------------------------------------------------------------------------

    def dress(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note what connects and starts children in this loop."""
        for name, note in (
            ("create_connection", self.note_connection),
            ("create_unix_connection", self.note_connection),
            ("subprocess_exec", self._note_subprocess),
            ("subprocess_shell", self._note_subprocess),
        ):
            setattr(loop, name, _noting(getattr(loop, name), note))

    def _note_subprocess(self, transport: Any, place: Place) -> None:
        self.note_child(transport.get_pid(), place)


def _put(there: dict[int, Place], key: int, place: Place) -> None:
    """Keep it as the newest; the oldest goes when there are too many."""
    there.pop(key, None)
    there[key] = place
    while len(there) > _KEPT_MAX:
        del there[next(iter(there))]


def _noting(before: Callable[..., Any], note: Callable[[Any, Place], None]) -> Callable[..., Any]:
    """A method of a loop that makes a transport; who awaits it is on the stack when it is called."""

    def made(*args: Any, **kwargs: Any) -> Any:
        return _made(user_place(2), args, kwargs)

    async def _made(place: Place, args: Any, kwargs: Any) -> Any:
        transport, protocol = await before(*args, **kwargs)
        with suppress(Exception):  # a transport of another library
            note(transport, place)
        return transport, protocol

    return functools.wraps(before)(made)


def origin_of(thing: Any) -> tuple[Frame, ...]:
    """Where a thread, an executor or a block was made; () where that is not known."""
    found = getattr(thing, _MARK, None)
    return (frame_at(*found),) if found is not None else ()


def fd_of(transport: Any) -> int:
    """Its descriptor; -1: none."""
    with suppress(Exception):  # a class of users'
        return int(transport.get_extra_info("socket").fileno())
    return -1


def _is_closing(transport: Any) -> bool:
    try:
        return bool(transport.is_closing())
    except Exception:  # noqa: BLE001, RUF100 - a class of users'
        return True


def _forget(there: dict[int, Any], key: int, reference: Any) -> None:
    found = there.get(key)
    if found is not None and found.transport is reference:
        del there[key]


# --- what is wrapped --------------------------------------------------------------------------------------------------


def _threads(origins: Origins, module: Any) -> None:
    def wrap(before: Any) -> Any:
        def start(self: threading.Thread) -> None:
            if not self.name.startswith(_OWN):
                executor = executor_of(self)
                there = None if executor is None else getattr(executor(), _MARK, None)
                setattr(self, _MARK, there or user_place(2))
            before(self)

        return start

    origins.put(module.Thread, "start", wrap)


def executor_of(thread: threading.Thread) -> Callable[[], Any] | None:
    """The weak reference to its executor that a thread of a pool works with."""
    if getattr(getattr(thread, "_target", None), "__module__", "") != "concurrent.futures.thread":
        return None
    args = getattr(thread, "_args", ())
    return args[0] if args and callable(args[0]) else None


def _executors(origins: Origins, module: Any) -> None:
    """An executor that a module makes when it is imported, and the loop's own, live as long as the process."""

    def made(before: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            before(self, *args, **kwargs)
            name = str(getattr(self, "_thread_name_prefix", ""))
            if not name.startswith(_OWN):
                place = user_place(2)
                setattr(self, _MARK, place)
                daemon = name == "asyncio" or place[0].co_name == "<module>"
                self._mainspring_token = enter(EXECUTOR, self, name, place, daemon=daemon)

        return init

    def shut(before: Any) -> Any:
        def shutdown(self: Any, *args: Any, **kwargs: Any) -> None:
            token = self.__dict__.pop("_mainspring_token", 0)
            if token:
                LEDGER.drop(token)
            before(self, *args, **kwargs)

        return shutdown

    origins.put(module.ThreadPoolExecutor, "__init__", made)
    origins.put(module.ThreadPoolExecutor, "shutdown", shut)


def _sockets(origins: Origins, module: Any) -> None:
    def wrap(before: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            before(self, *args, **kwargs)
            with suppress(OSError, ValueError):
                origins.note_socket(self.fileno(), user_place(2))

        return init

    origins.put(module.socket, "__init__", wrap)


def _started(origins: Origins, owner: Any, name: str) -> None:
    def wrap(before: Any) -> Any:
        def start(self: Any, *args: Any, **kwargs: Any) -> None:
            before(self, *args, **kwargs)
            with suppress(Exception):  # a class of users'
                origins.note_child(self.pid, user_place(2))

        return start

    origins.put(owner, name, wrap)


def _blocks(origins: Origins, module: Any) -> None:
    """A block whose `close` fails because views of it live: they are views that nobody gives back."""

    def made(before: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            before(self, *args, **kwargs)
            setattr(self, _MARK, user_place(2))
            with suppress(OSError):
                origins.note_block(self._fd, getattr(self, _MARK))

        return init

    def closed(before: Any) -> Any:
        def close(self: Any) -> None:
            try:
                before(self)
            except BufferError:
                memory, place = getattr(self, "_mmap", None), getattr(self, _MARK, None)
                if memory is not None and place is not None and not getattr(self, "_mainspring_token", 0):
                    why = "its block was to be closed, and could not, because a view of it is alive"
                    self._mainspring_token = enter(VIEW, memory, str(self.name), place, why=why)
                raise
            token = self.__dict__.pop("_mainspring_token", 0)
            if token:
                LEDGER.drop(token)

        return close

    origins.put(module.SharedMemory, "__init__", made)
    origins.put(module.SharedMemory, "close", closed)


def _locks(origins: Origins, module: Any) -> None:
    """A lock of asyncio does not say who has it."""
    current_task = sys.modules["asyncio"].current_task

    def taken(before: Any) -> Any:
        async def acquire(self: Any) -> Any:
            found = await before(self)
            with suppress(Exception):  # no task runs
                owner = weakref.ref(current_task())
                self._mainspring_token = enter(LOCK, self, type(self).__name__, user_place(2), owner=owner)
            return found

        return acquire

    def given(before: Any) -> Any:
        def release(self: Any) -> None:
            token = self.__dict__.pop("_mainspring_token", 0)
            if token:
                LEDGER.drop(token)
            before(self)

        return release

    origins.put(module.Lock, "acquire", taken)
    origins.put(module.Lock, "release", given)


_WRAPS: Final[dict[str, Callable[[Origins, Any], None]]] = {
    "threading": _threads,
    "concurrent.futures.thread": _executors,
    "socket": _sockets,
    "subprocess": lambda origins, module: _started(origins, module.Popen, "__init__"),
    "multiprocessing.process": lambda origins, module: _started(origins, module.BaseProcess, "start"),
    "multiprocessing.shared_memory": _blocks,
    "asyncio.locks": _locks,
}

# global: of this process, whose standard library it wraps
ORIGINS: Final = Origins()

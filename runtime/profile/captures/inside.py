"""`rt.profile`: captures of a runtime's own processes, for blocking callers and for those in an event loop.

    profile = rt.profile.cpu(10)                    or: await rt.profile.cpu(10)
    rt.profile.write(profile, "cpu.html")
    for one in rt.profile.leaks().findings: ...
    server = rt.profile.serve("127.0.0.1:6060")     Go's URLs, until the runtime is closed
    rt.profile.watch(tell=print)                    bounds and objectives, until the runtime is closed

The same as the functions of `runtime.profile.captures`, without saying which folder; what they take and raise stands
there. In an event loop they are done by a thread, and who is cancelled ends the capture.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from runtime.profile.captures import capture
from runtime.profile.captures.graph import Graph
from runtime.profile.model import Profile
from runtime.profile.presence.processes import looked
from runtime.profile.web.server import ProfileServer

if TYPE_CHECKING:
    from runtime.profile.monitor.bounds import Breach
    from runtime.profile.monitor.watching import Watching

P = ParamSpec("P")
T = TypeVar("T")


class _Servers:
    """Both faces: the folder, and what ends with the runtime: servers and watches."""

    def __init__(self, state_dir: str) -> None:
        self.state_dir = state_dir
        self._open: list[ProfileServer | Watching] = []

    def serve(self, listen: str = "127.0.0.1:0", token: str | None = None) -> ProfileServer:
        """Serve Go's URLs over HTTP, until the runtime is closed; see `runtime.profile.web`.

        Args:
            listen: "HOST:PORT" on loopback, port 0 for any, or "unix:/path".
            token: What callers must know; None makes one.

        Returns:
            The server: `url`, `token`, `close()`.

        Raises:
            CallerError: The address is not of this machine alone. EnvironmentFault: it cannot be listened on.
        """
        server = ProfileServer(self.state_dir, listen, token)
        self._open.append(server)
        return server

    def watch(self, *, tell: Callable[[Breach], Any] | None = None, **asked: Any) -> Watching:
        """Watch this runtime in a thread, until it is closed; see `runtime.profile.monitor`.

        Args:
            tell: Called with each breach, after its evidence is saved. None: the logger "mainspring" is, as a warning.
            asked: `bounds`, `slos`, `save` and so on, of `runtime.profile.monitor.watching.watch`.

        Returns:
            The watch: `breaches` so far, `close()`.
        """
        from runtime.profile.monitor.watching import Watching  # lazy: few programs watch

        watching = Watching(self.state_dir, tell=log_breach if tell is None else self._told(tell), **asked)
        self._open.append(watching)
        return watching.start()

    @staticmethod
    def _told(tell: Callable[[Breach], Any]) -> Callable[[Breach], Any]:
        return tell

    def close(self) -> None:
        """End servers and watches; done when the runtime is closed."""
        while self._open:
            self._open.pop().close()

    @staticmethod
    def write(profile: Profile, path: str | os.PathLike[str], fmt: str = "", *, by: Sequence[str] = ()) -> None:
        """Write a profile into a file, whole or not at all.

        Args:
            profile: What is written.
            path: Where to.
            fmt: One of `runtime.profile.formats.FORMATS`; empty: as the name of the file says.
            by: Names of labels that stacks are grouped by.

        Raises:
            CallerError: There is no such format. EnvironmentFault: it cannot be written.
        """
        from runtime.profile.convert import save  # lazy: formats are needed for a file only

        save(profile, Path(path), fmt, by=by)


def _tasks(where: Any, *, merge: bool = True, pids: Collection[int] | None = None) -> Profile:
    """The stacks of all threads and tasks, equal ones as one; see `capture.live`."""
    return capture.live(where, merge=merge, pids=pids)


def _tree(where: Any) -> Graph:
    """Who waits for whom; see `capture.graph`."""
    return capture.graph(where)[0]


def _here(call: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[_Servers, P], T]:
    """A function of captures, for the folder of a face."""

    @wraps(call)
    def called(self: _Servers, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return call(self.state_dir, *args, **kwargs)

    return called


def _awaited(call: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[_Servers, P], Coroutine[Any, Any, T]]:
    """The same, done by a thread. Who is cancelled ends it, where it can be stopped."""
    stoppable = "stop" in inspect.signature(call).parameters

    @wraps(call)
    async def called(self: _Servers, /, *args: P.args, **kwargs: P.kwargs) -> T:
        ended = threading.Event()
        if stoppable:
            asked: Any = kwargs.get("stop") or (lambda: False)
            kwargs["stop"] = lambda: ended.is_set() or asked()
        try:
            return await asyncio.to_thread(call, self.state_dir, *args, **kwargs)
        finally:
            ended.set()

    return called


class Inside(_Servers):
    """For blocking callers."""

    cpu = _here(capture.cpu)
    awaits = _here(capture.awaits)
    tasks = _here(_tasks)
    held = _here(capture.held)
    flight = _here(capture.flight)
    leaks = _here(capture.leaks)
    tree = _here(_tree)
    processes = _here(looked)


class AsyncInside(_Servers):
    """For callers in an event loop. What `watch` is given to tell is called there, and may be a coroutine function."""

    @staticmethod
    def _told(tell: Callable[[Breach], Any]) -> Callable[[Breach], Any]:
        loop = asyncio.get_running_loop()
        going = set[asyncio.Future[Any]]()

        def call(breach: Breach) -> None:
            found = tell(breach)
            if inspect.isawaitable(found):
                task = asyncio.ensure_future(found)
                going.add(task)
                task.add_done_callback(going.discard)

        def told(breach: Breach) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(call, breach)

        return told

    cpu = _awaited(capture.cpu)
    awaits = _awaited(capture.awaits)
    tasks = _awaited(_tasks)
    held = _awaited(capture.held)
    flight = _awaited(capture.flight)
    leaks = _awaited(capture.leaks)
    tree = _awaited(_tree)
    processes = _awaited(looked)


def log_breach(breach: Breach) -> None:
    """What a watch does that nobody told what to do."""
    logging.getLogger("mainspring").warning("%s", breach)

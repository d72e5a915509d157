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
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.profile.captures import capture
from runtime.profile.captures.graph import Graph
from runtime.profile.model import Profile
from runtime.profile.presence.processes import Looked, looked
from runtime.profile.web.server import ProfileServer

if TYPE_CHECKING:
    from runtime.profile.monitor.bounds import Breach
    from runtime.profile.monitor.watching import Watching

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


class Inside(_Servers):
    """For blocking callers."""

    def cpu(
        self,
        seconds: float = capture.SECONDS,
        *,
        hz: float = capture.HZ,
        by: Iterable[str] = (),
        pids: Collection[int] | None = None,
    ) -> Profile:
        """Where CPU time goes; see `capture.cpu`."""
        return capture.cpu(self.state_dir, seconds, hz=hz, by=by, pids=pids)

    def awaits(
        self,
        seconds: float = capture.SECONDS,
        *,
        hz: float = capture.AWAIT_HZ,
        by: Iterable[str] = (),
        pids: Collection[int] | None = None,
    ) -> Profile:
        """What suspended tasks wait for; see `capture.awaits`."""
        return capture.awaits(self.state_dir, seconds, hz=hz, by=by, pids=pids)

    def tasks(self, *, merge: bool = True, pids: Collection[int] | None = None) -> Profile:
        """The stacks of all threads and tasks; see `capture.live`."""
        return capture.live(self.state_dir, merge=merge, pids=pids)

    def held(self, kind: str, *, pids: Collection[int] | None = None) -> Profile:
        """What of a kind of the ledger lives; see `capture.held`."""
        return capture.held(self.state_dir, kind, pids=pids)

    def flight(self, seconds: float = capture.FLIGHT_S, *, pids: Collection[int] | None = None) -> Profile:
        """The last minute; see `capture.flight`."""
        return capture.flight(self.state_dir, seconds, pids=pids)

    def leaks(self, *, seconds: float | None = None, prove: bool = True, min_grade: str = "info") -> Any:
        """What is held though nothing can finish or release it; see `capture.leaks`."""
        return capture.leaks(self.state_dir, seconds=seconds, prove=prove, min_grade=min_grade)

    def tree(self) -> Graph:
        """Who waits for whom; see `capture.graph`."""
        return capture.graph(self.state_dir)[0]

    def processes(self) -> list[Looked]:
        """Processes as they are now; see `runtime.profile.presence`."""
        return looked(self.state_dir)


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

    async def cpu(
        self,
        seconds: float = capture.SECONDS,
        *,
        hz: float = capture.HZ,
        by: Iterable[str] = (),
        pids: Collection[int] | None = None,
    ) -> Profile:
        """Where CPU time goes; see `capture.cpu`."""
        return await _stoppable(lambda stop: capture.cpu(self.state_dir, seconds, hz=hz, by=by, pids=pids, stop=stop))

    async def awaits(
        self,
        seconds: float = capture.SECONDS,
        *,
        hz: float = capture.AWAIT_HZ,
        by: Iterable[str] = (),
        pids: Collection[int] | None = None,
    ) -> Profile:
        """What suspended tasks wait for; see `capture.awaits`."""
        return await _stoppable(
            lambda stop: capture.awaits(self.state_dir, seconds, hz=hz, by=by, pids=pids, stop=stop)
        )

    async def tasks(self, *, merge: bool = True, pids: Collection[int] | None = None) -> Profile:
        """The stacks of all threads and tasks; see `capture.live`."""
        return await asyncio.to_thread(capture.live, self.state_dir, merge=merge, pids=pids)

    async def held(self, kind: str, *, pids: Collection[int] | None = None) -> Profile:
        """What of a kind of the ledger lives; see `capture.held`."""
        return await asyncio.to_thread(capture.held, self.state_dir, kind, pids=pids)

    async def flight(self, seconds: float = capture.FLIGHT_S, *, pids: Collection[int] | None = None) -> Profile:
        """The last minute; see `capture.flight`."""
        return await asyncio.to_thread(capture.flight, self.state_dir, seconds, pids=pids)

    async def leaks(self, *, seconds: float | None = None, prove: bool = True, min_grade: str = "info") -> Any:
        """What is held though nothing can finish or release it; see `capture.leaks`."""
        return await _stoppable(
            lambda stop: capture.leaks(self.state_dir, seconds=seconds, prove=prove, min_grade=min_grade, stop=stop)
        )

    async def tree(self) -> Graph:
        """Who waits for whom; see `capture.graph`."""
        return (await asyncio.to_thread(capture.graph, self.state_dir))[0]

    async def processes(self) -> list[Looked]:
        """Processes as they are now; see `runtime.profile.presence`."""
        return await asyncio.to_thread(looked, self.state_dir)


def log_breach(breach: Breach) -> None:
    """What a watch does that nobody told what to do."""
    logging.getLogger("mainspring").warning("%s", breach)


async def _stoppable(record: Callable[[Callable[[], bool]], T]) -> T:
    """Record in a thread; who is cancelled ends the recording."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(record, stop.is_set)
    finally:
        stop.set()

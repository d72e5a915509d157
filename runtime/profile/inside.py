"""`rt.profile`: captures of a runtime's own processes, for blocking callers and for those in an event loop.

    profile = rt.profile.cpu(10)                    or: await rt.profile.cpu(10)
    rt.profile.write(profile, "cpu.html")
    for one in rt.profile.leaks().findings: ...
    server = rt.profile.serve("127.0.0.1:6060")     Go's URLs, until the runtime is closed

The same as the functions of `runtime.profile.capture`, without saying which folder; what they take and raise stands
there. In an event loop they are done by a thread, and who is cancelled ends the capture.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from runtime.profile import capture
from runtime.profile.graph import Graph
from runtime.profile.model import Profile
from runtime.profile.processes import Looked, looked
from runtime.profile.web import ProfileServer

T = TypeVar("T")


class _Servers:
    """Both faces: the folder, and the servers that end with the runtime."""

    def __init__(self, state_dir: str) -> None:
        self.state_dir = state_dir
        self._servers: list[ProfileServer] = []

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
        self._servers.append(server)
        return server

    def close(self) -> None:
        """End the servers; done when the runtime is closed."""
        while self._servers:
            self._servers.pop().close()

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
        """Processes as they are now; see `runtime.profile.processes`."""
        return looked(self.state_dir)


class AsyncInside(_Servers):
    """For callers in an event loop."""

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
        return await asyncio.to_thread(capture.leaks, self.state_dir, seconds=seconds, prove=prove, min_grade=min_grade)

    async def tree(self) -> Graph:
        """Who waits for whom; see `capture.graph`."""
        return (await asyncio.to_thread(capture.graph, self.state_dir))[0]

    async def processes(self) -> list[Looked]:
        """Processes as they are now; see `runtime.profile.processes`."""
        return await asyncio.to_thread(looked, self.state_dir)


async def _stoppable(record: Callable[[Callable[[], bool]], T]) -> T:
    """Record in a thread; who is cancelled ends the recording."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(record, stop.is_set)
    finally:
        stop.set()

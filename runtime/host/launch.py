"""The spawner seen from outside: `Launcher` for the face, `WorkerStarter` for the engine.

Purpose: starting and ending processes without knowing how that is done.

`Launcher` works in any thread, inside a running loop, in notebooks and web servers: it installs no signal handler,
starts no thread, and gives the spawner a session of its own, so that Ctrl-C on a terminal reaches the program only.
What a crash leaves behind: nothing. If the host is killed, the spawner ends all; if the spawner is killed, the kernel
ends its children, and `Launcher` finds and kills whatever they had started by a mark in the environment (`mark`). If
both are killed at once, engine and workers still die with the spawner; what handlers had started then survives until
the state folder is opened again (see `leftovers`).
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from actors.protocol.errors import EngineUnavailable
from runtime.host import kernel
from runtime.host.channel import Channel
from runtime.host.forks import call_in_forks

ENGINE_ENTRY: Final = "runtime.host.engine_process:run"
WORKER_ENTRY: Final = "runtime.host.worker_main:run"
LOOK: Final = "look"
"""What the spawner says to the face when somebody asks all processes something, see `runtime.profile.presence`."""
_ASYNC_IMPORTS: Final = ("uvloop", "runtime.host.worker_async")
MARK: Final = "MAINSPRING_SPAWNER"
"""Environment variable of all our processes and what they start; its value names the spawner."""
_BOOTSTRAP: Final = (
    "import sys; a = sys.argv; sys.argv = a[4:]; sys.path[:] = a[3].split(chr(10));"
    "from runtime.host.spawner import main; main(int(a[1]), int(a[2]))"
)
_FIRST_FREE_FD: Final = 3
"""Descriptors below are standard streams, even when the host has closed its own."""
_STOP_TIMEOUT_S: Final = 5.0


class Launcher:
    """The face's side: one spawner process.

    `mark` is the environment entry that all its descendants carry.

    Concurrency: `receive` and the senders may be called from different threads; each is serialised.
    """

    def __init__(self, executable: str | None = None) -> None:
        self._executable = executable or _python()
        self.mark = f"{MARK}={os.getpid()}-{secrets.token_hex(8)}"
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._lock = threading.Lock()
        self._gone = False

    @property
    def pid(self) -> int:
        """Pid of the spawner, 0 before `start`."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start the spawner; returns before it has booted.

        Raises:
            EngineUnavailable: The process cannot be started.
        """
        ours, theirs = _socketpair()
        command = [self._executable, *_interpreter_flags(), "-P", "-c", _BOOTSTRAP]
        arguments = [str(theirs.fileno()), str(os.getpid()), "\n".join(_import_path()), *getattr(sys, "argv", [""])]
        try:
            self._process = subprocess.Popen(
                command + arguments,
                pass_fds=[theirs.fileno()],
                close_fds=True,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=dict(os.environ, **dict([self.mark.split("=", 1)])),
            )
        except OSError as refusal:
            ours.close()
            raise EngineUnavailable(f"cannot start a process: {refusal}") from refusal
        finally:
            theirs.close()
        self._channel = Channel(ours)
        call_in_forks(self.abandon)

    def start_engine(self, config: dict[str, Any], fds: Sequence[int], entry: str = ENGINE_ENTRY) -> None:
        """Ask for an engine process; the descriptors are copied and stay the caller's.

        Args:
            config: Handed to the engine as it is.
            fds: Handed to the engine in this order.
            entry: `module:function` called as `function(config, fds, socket to the spawner)`.

        Raises:
            EngineUnavailable: The spawner is gone.
        """
        self._send({"do": "start_engine", "config": config, "entry": entry}, fds)

    def fileno(self) -> int:
        """Descriptor to watch for reading; -1 before `start` and after `stop`."""
        return self._channel.fileno() if self._channel and not self._gone else -1

    def receive(self) -> list[dict[str, Any]]:
        """What the spawner said, without waiting. After its death, once: {"did": "spawner_exited", "status": ...}."""
        with self._lock:
            channel, process = self._channel, self._process
            if channel is None or process is None or self._gone:
                return []
            found = [message.body for message in channel.receive()]
            if channel.closed:
                self._gone = True
                found.append({"did": "spawner_exited", "status": _wait(process)})
                kernel.kill_marked(self.mark)
            return found

    def stop(self) -> None:
        """End the spawner and everything it started, at once; does nothing when there is none. Idempotent."""
        process, channel = self._process, self._channel
        if process is None or channel is None:
            return
        with self._lock, suppress(OSError):
            channel.send({"do": "stop"})
        with suppress(OSError):
            channel.sock.shutdown(socket.SHUT_WR)
        status = _wait(process)
        with self._lock:
            if status and not self._gone:  # it could not clean up
                kernel.kill_marked(self.mark)
            self._gone = True
            channel.close()
            self._process = self._channel = None

    def _send(self, body: dict[str, Any], fds: Sequence[int]) -> None:
        with self._lock:
            if self._channel is None or self._gone:
                raise EngineUnavailable("the spawner process is not running")
            try:
                self._channel.send(body, fds)
            except OSError as broken:
                raise EngineUnavailable(f"the spawner process is gone: {broken}") from broken

    def abandon(self) -> None:
        """In a fork of the host: let go of what is the parent's, without ending it."""
        self._gone = True
        self._lock = threading.Lock()
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.returncode = 0  # not ours to wait for
        self._process = self._channel = None


class WorkerStarter:
    """The engine's side: starts workers and signals them.

    All events come from `receive`; nothing here waits for a worker.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._channel = Channel(sock)

    def fileno(self) -> int:
        """Descriptor to watch for reading."""
        return self._channel.fileno()

    @property
    def closed(self) -> bool:
        """Whether the spawner is gone; the engine should end at once."""
        return self._channel.closed

    def spawn(self, worker: int, config: dict[str, Any], fds: Sequence[int], entry: str = WORKER_ENTRY) -> None:
        """Ask for a worker process; the descriptors are copied and stay the caller's.

        Args:
            worker: Its id; must not be in use.
            config: Handed to the worker as it is.
            fds: Handed to the worker in this order.
            entry: `module:function` called as `function(config, fds, lifeline descriptor)`.

        Raises:
            OSError: The spawner is gone.
        """
        asyncio_mode = config.get("node_type", {}).get("mode") == "asyncio"
        imports = [entry.partition(":")[0], *(_ASYNC_IMPORTS if asyncio_mode else ())]
        body = {"do": "spawn_worker", "worker": worker, "config": config, "entry": entry, "imports": imports}
        self._channel.send(body, fds)

    def kill(self, worker: int, signum: int, group: bool = False) -> None:
        """Signal a worker or its whole group. A worker that is gone is ignored."""
        with suppress(OSError):
            self._channel.send({"do": "kill", "worker": worker, "signal": signum, "group": group})

    def receive(self) -> list[dict[str, Any]]:
        """Events since the last call: spawned, refused, exited."""
        return [message.body for message in self._channel.receive()]

    def close(self) -> None:
        """Close the socket."""
        self._channel.close()


def _socketpair() -> tuple[socket.socket, socket.socket]:
    """A pair that does not sit on the numbers of the standard streams."""
    pair = socket.socketpair()
    if min(s.fileno() for s in pair) >= _FIRST_FREE_FD:
        return pair
    moved = [socket.socket(fileno=fcntl.fcntl(s.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)) for s in pair]
    for s in pair:
        s.close()
    return moved[0], moved[1]


def _import_path() -> list[str]:
    """The host's import path, absolute, with the folder of this package."""
    path = [os.path.abspath(entry) for entry in map(str, sys.path) if "\n" not in entry]
    home = str(Path(__file__).resolve().parents[2])
    return path if home in path else [*path, home]


def _python() -> str:
    """The interpreter; `sys.executable` is another program when Python is embedded in one."""
    if sys.executable and any(word in os.path.basename(sys.executable).lower() for word in ("python", "pypy")):
        return sys.executable
    for name in ("python3", "python"):
        found = os.path.join(sys.exec_prefix, "bin", name)
        if os.access(found, os.X_OK):
            return found
    raise EngineUnavailable(f"no Python interpreter: sys.executable is {sys.executable!r}")


def _interpreter_flags() -> list[str]:
    """The host's own interpreter flags (-X dev, -W, -O ...), as multiprocessing hands them over."""
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    return [flag for flag in flags if flag != "-P"]


def _wait(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()

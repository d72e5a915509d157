"""A real worker process, with the test in the engine's place.

The test holds the engine's ends of link, lease table and output pipe; a stand-in for the engine process asks the
spawner to fork the worker, and lives as long as the worker.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from types import TracebackType
from typing import Any, Self

import orjson

from runtime.host.launch import Launcher, WorkerStarter
from runtime.host.output import OutputCollector, open_output_pipe
from runtime.mail.lease_table import LeaseTable
from runtime.mail.link import Link, create_link

HANDLERS = "tests.unit.host.worker_handlers"
DEADLINE_S = 20.0


def engine(config: dict[str, Any], fds: list[int], sock: socket.socket) -> None:
    """Stand-in for the engine: one worker with all descriptors but the last, which takes the worker's wait status."""
    starter = WorkerStarter(sock)
    starter.spawn(1, config, fds[:-1])
    while not starter.closed:
        select.select([starter.fileno()], [], [])
        for event in starter.receive():
            if event["did"] == "exited":
                os.write(fds[-1], b"%d" % event["status"])
                return


class Rig:
    """One worker of the given mode. Used as a context manager."""

    def __init__(self, mode: str = "process", **config: Any) -> None:
        recycle_rss_bytes = config.pop("recycle_rss_bytes", None)
        node_type = {
            "name": "cpu",
            "mode": mode,
            "slots": config.pop("slots", 1),
            "recycle_rss_bytes": recycle_rss_bytes,
        }
        self.config = {"worker": 1, "node_type": node_type, "blobs": None, **config}
        self.pid = 0
        self.serial = 1
        self.status: int | None = None
        self.frames: list[tuple[str, Any]] = []
        self.outcomes: dict[int, Any] = {}
        self.ended: list[int] = []
        self.output = OutputCollector()
        self.output_bytes = 0
        self._kinds: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self if self.pid else self.begin()

    def begin(self) -> Self:
        """Start the worker."""
        ends, table_fd = create_link(), LeaseTable.create()
        self._output_fd, write_fd = open_output_pipe()
        self.link, self.table = Link(ends.dup(), "a"), LeaseTable(os.dup(table_fd))
        self.launcher = Launcher()
        self.launcher.start()
        self._status_fd, status_fd = os.pipe()
        os.set_blocking(self._status_fd, False)
        fds = [*ends.fds(), table_fd, write_fd, status_fd]
        self.launcher.start_engine(self.config, fds, entry="tests.unit.host.rig:engine")
        ends.close()
        for fd in (table_fd, write_fd, status_fd):
            os.close(fd)
        self.pid = self.frame("H")[0]
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """Stop it, whatever it does."""
        self.launcher.stop()
        self.link.close()
        self.table.close()
        os.close(self._output_fd)
        os.close(self._status_fd)

    # --- as the engine would --------------------------------------------------------------------------------------

    def kind(self, handler: str, shape: str = "args", **options: Any) -> int:
        """Number of a kind, defined at the worker when it is new. A handler without a module is from HANDLERS."""
        name = handler if ":" in handler else f"{HANDLERS}:{handler}"
        data = {"handler": name, "name": handler, "node_type": "cpu", "shape": shape, "timeout_ns": None, **options}
        text = orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()
        if text not in self._kinds:
            self._kinds[text] = len(self._kinds) + 1
            assert self.link.send(b"K[%d,%b]" % (self._kinds[text], text.encode()))
        return self._kinds[text]

    def lease(
        self, kind_no: int, items: list[Any], attempts: list[int] | int = 0, run: str = "run-1", lane: int = 2
    ) -> int:
        """Grant and send leases; returns the first serial."""
        serial, count = self.serial, len(items)
        self.serial += count
        self.table.grant(serial, count)
        nodes = list(range(serial, serial + count))
        frame = b"L" + orjson.dumps([[serial, 7, run, kind_no, nodes, attempts, items, lane]])
        assert self.link.send(frame)
        return serial

    def run(self, handler: str, *items: Any, shape: str = "args", **options: Any) -> list[Any]:
        """Run tasks of one handler and return their outcomes in order: values, or failures (dicts with "kind")."""
        first = self.lease(self.kind(handler, shape, **options), list(items))
        return [self.outcome(serial) for serial in range(first, first + len(items))]

    def stop(self, serial: int, reason: int) -> None:
        """Ask the worker to stop an attempt, the cooperative way."""
        self.table.ask_cancel(serial, reason)
        assert self.link.send(b"C" + orjson.dumps([serial, reason]), control=True)
        os.kill(self.pid, signal.SIGUSR1)

    def drain(self) -> None:
        """Ask the worker to end in good order."""
        assert self.link.send(b"X[]", control=True)

    # --- what the worker says -------------------------------------------------------------------------------------

    def outcome(self, serial: int) -> Any:
        """Value or failure of a lease, as soon as it is there."""
        return self.until(lambda: self.outcomes.get(serial, NOTHING))

    def frame(self, letter: str, count: int = 1) -> Any:
        """Body of the n-th frame with this letter."""

        def look() -> Any:
            bodies = [body for name, body in self.frames if name == letter]
            return bodies[count - 1] if len(bodies) >= count else NOTHING

        return self.until(look)

    def exited(self) -> int:
        """Wait status of the worker, once it is gone."""
        return int(self.until(lambda: NOTHING if self.status is None else self.status))

    def printed(self, text: str) -> str:
        """The worker's output so far, once it contains this text."""
        return str(self.until(lambda: self.words() if text in self.words() else NOTHING))

    def words(self) -> str:
        """What is kept of the output, of all attempts."""
        return "".join(self.output.peek(serial) for serial in self.output.serials())

    def until(self, look: Any) -> Any:
        """Pump messages until `look` finds something."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := look()) is NOTHING:
            assert time.monotonic() < deadline, f"nothing came; frames: {self.frames}, output: {self.words()}"
            self.pump(0.02)
        return found

    def pump(self, timeout_s: float) -> None:
        """Take in what there is; wait for it at most so long."""
        if self.link.arm():
            select.select([self.link.fileno(), self._output_fd, self._status_fd], [], [], timeout_s)
        self.link.disarm()
        self.link.drain_bell()
        control, work = self.link.receive()
        for frame in (*control, *work):
            self._take(frame[:1].decode(), orjson.loads(frame[1:]))
        while data := _read(self._output_fd):
            self.output_bytes += len(data)
            self.output.feed(data)
        if status := _read(self._status_fd):
            self.status = int(status)

    def _take(self, letter: str, body: Any) -> None:
        self.frames.append((letter, body))
        if letter == "D":
            for serial, _, nodes, values, _, ends in body[1]:
                assert len(nodes) == len(values) == len(ends)
                self.outcomes.update(zip(range(serial, serial + len(values)), values, strict=True))
                self.ended += range(serial, serial + len(values))
        elif letter == "E":
            self.outcomes.update({row[0]: row[5] for row in body[1]})
            self.ended += [row[0] for row in body[1]]


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65_536)
    except BlockingIOError:
        return b""


class Nothing:
    """What `look` returns when it has found nothing yet."""


NOTHING = Nothing()

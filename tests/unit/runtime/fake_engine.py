"""The engine's side of a link, played by the test: it reads what the face sends and says what the test wants.

Faults it can play: silence, a full ring, an answer twice, a death with or without last words, a restart that knows
less. Single-threaded: a test that makes the face wait answers before, because frames stay in the ring until they
are read.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from runtime.mail.bell import Bell
from runtime.mail.link import Link, LinkEnds, create_link

if TYPE_CHECKING:
    from runtime.host.client import EngineClient


class FakeEngine:
    """An `EngineStarter` for `EngineClient`. Each `start` is a new incarnation; hello is answered beforehand.

    Args:
        acked_seq: What the first incarnation says it has.
        hello: Whether incarnations say hello by themselves.
        work_bytes: Size of each work lane.
    """

    def __init__(self, acked_seq: int = 0, *, hello: bool = True, work_bytes: int = 1 << 20) -> None:
        self.acked_seq = acked_seq
        self.hello = hello
        self.starts = 0
        self.stopped = False
        self.refuse_start: Exception | None = None
        self._work_bytes = work_bytes
        self._news: deque[dict[str, Any]] = deque()
        self._bell = Bell.create()
        self.link: Link | None = None

    # --- EngineStarter --------------------------------------------------------------------------------------------

    def start(self) -> LinkEnds:
        if self.refuse_start is not None:
            raise self.refuse_start
        if self.link is not None:
            self.link.close()
        ends = create_link(self._work_bytes)
        self.link = Link(ends.dup(), "b")
        if self.hello:
            self.say("H", {"acked_seq": self.acked_seq, "recovery": {"start": self.starts + 1}}, control=True)
        self.starts += 1  # last: a test that waits for it may use the link
        return ends

    def fileno(self) -> int:
        return -1 if self.stopped else self._bell.read_fd

    def news(self) -> list[dict[str, Any]]:
        if not self.stopped:
            self._bell.drain()
        found = list(self._news)
        self._news.clear()
        return found

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self._bell.close()
            if self.link is not None:
                self.link.close()

    # --- what the test does ---------------------------------------------------------------------------------------

    def say(self, letter: str, body: Any, *, control: bool = False) -> None:
        """Send a frame to the face."""
        assert self.link is not None
        assert self.link.send(letter.encode() + orjson.dumps(body), control=control)

    def heard(self) -> list[tuple[str, Any]]:
        """What the face has sent since the last call, as (letter, body); control before work. Graphs stay bytes."""
        assert self.link is not None
        found: list[tuple[str, Any]] = []
        while True:
            control, work = self.link.receive()
            if not control and not work:
                return found
            for frame in (*control, *work):
                letter = chr(frame[0])
                found.append((letter, frame[1:] if letter == "G" else orjson.loads(frame[1:])))

    def end(self, client: EngineClient) -> None:
        """Close a client, and obey when it says so."""
        closing = threading.Thread(target=client.close, args=(False, 0.0))
        closing.start()
        gate = threading.Event()
        while not client.closing:
            gate.wait(0.001)
        self.die(0)
        if client.reader._pump is None:  # nobody listens to the spawner
            client.hear_news()
        closing.join()

    def die(self, status: int = 9) -> None:
        """The process has ended; the spawner says so."""
        self._news.append({"did": "engine_exited", "pid": 1, "status": status})
        with suppress(OSError):  # the client gave up meanwhile, and closed it
            self._bell.ring()

"""What the face sends, as messages to the core: questions and cancels at once, submissions in slices.

A graph of a million nodes takes a second to decode. So submissions are decoded for at most `TURN_NS` a turn, and while
some are left the work lane is not read: what comes later waits in the ring, in order. It is not read either while the
core is full, or while the face does not take what it is told (guarantee G5). The control lane is always read.

What a large graph was decoded to is taken from the collector's sight when the core has it: a list of a million is one
object to count and a million to look at, 8 ms.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol import messages as msg
from runtime.host import decode
from runtime.host.post import Post

FREEZE_NODES_MIN: Final = 65_536
"""A graph of so many nodes is large: a collection that looks at one of its lists takes 0.5 ms."""


class FaceMail:
    """Receives from one face.

    Args:
        face: The engine's end of the link.
        load_blob: Opens a blob by its name.
    """

    def __init__(self, face: Post, load_blob: Callable[[str], Any]) -> None:
        self.session = ""
        self.watches_log = False
        """Whether it wants to know how far the log is written."""
        self.asks_log = False
        """Whether it just asked, so that it is told although nothing was written since."""
        self.unfinished = False
        self._face = face
        self._load_blob = load_blob
        self._submissions: Iterator[Any] = iter(())
        self._large = False

    def listen(self, *, intake_open: bool) -> None:
        """Decide whether the work lane is read, and may wake the engine, from now on."""
        self._face.link.hears_work = intake_open and not self.unfinished and not self._face.crowded

    def receive(self) -> tuple[list[Any], list[Any]]:
        """What the face wants to know or to have ended, and what it submitted, as much as fits into a turn."""
        if self._large:
            self._large = False
            gc.freeze()
        control, work = self._face.link.receive()
        asked = [message for frame in control if (message := self._control(frame)) is not None]
        if work:
            self._submissions = decode.face_submissions(self.session, work, self._load_blob)
        return asked, self._decoded() if work or self.unfinished else []

    def _control(self, frame: bytes) -> Any:
        if frame[:1] == b"W":
            self.watches_log = self.asks_log = bool(orjson.loads(frame[1:]))
            return None
        if frame[:1] != b"H":
            return decode.face_control(self.session, frame)
        hello = orjson.loads(frame[1:])
        self.session = hello["session"]
        return msg.SessionOpened(self.session, hello["open_seq"])

    def _decoded(self) -> list[Any]:
        until_ns = time.monotonic_ns() + limits.TURN_NS
        found: list[Any] = []
        for message in self._submissions:
            if message is not None:
                found.append(message)
                self._large |= type(message) is msg.GraphSubmitted and message.columns.size >= FREEZE_NODES_MIN
            if time.monotonic_ns() >= until_ns:
                self.unfinished = True
                return found
        self.unfinished = False
        return found

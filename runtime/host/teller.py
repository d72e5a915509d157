"""Frames for the session: what is told in one turn is merged, so that many rows travel as one frame.

Order is kept between frames of different letters. Frames for a session that is not connected are dropped: when it comes
again it says what it misses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol.places import packed, unpacked
from runtime.host.face_mail import FaceMail
from runtime.host.post import Post
from runtime.host.scaling import SCALED

_MERGED: Final = frozenset({"R", "F", "N", "P"})
"""Frames whose bodies are lists of rows: those of one turn go as one."""


class Teller:
    """Sends to one face. `session` is the one that said hello; `spoken` says that something was sent since it was
    reset. `others` are those who asked from outside, by their session, and are told the answer.

    Who gets an answer often asks the next thing at once.
    """

    def __init__(self, face: Post, recovery: dict[str, Any]) -> None:
        self.session = ""
        self.spoken = False
        self.others: dict[str, Callable[[Any], None]] = {}
        self._face = face
        self._recovery = recovery
        self._pile: list[fx.Tell] = []
        self._written_said = 0

    def take(self, effect: fx.Tell) -> None:
        """Keep until `send`."""
        if effect.session != self.session:
            if (answered := self.others.pop(effect.session, None)) is not None:
                answered(effect.body)
            return
        last = self._pile[-1] if self._pile else None
        if last is not None and last.frame == effect.frame and not effect.control:
            if effect.frame == "A":
                self._pile[-1] = effect
                return
            if effect.frame in _MERGED:
                last.body.extend(effect.body)
                return
        self._pile.append(effect)

    def send(self) -> None:
        """Send what was taken in this turn."""
        if not self._pile:
            return
        self.spoken = True
        pile, self._pile = self._pile, []
        for tell in pile:
            body = {**tell.body, "recovery": self._recovery} if tell.frame == "H" else tell.body
            frame = tell.frame.encode() + orjson.dumps(body)
            if len(frame) > limits.FRAME_BYTES_MAX and tell.frame in _MERGED:
                self._send_parts(tell.frame, tell.body)
            else:
                self._face.send(frame, control=tell.control)

    def written(self, lsn: int, mail: FaceMail) -> None:
        """Say how far the log is written, durable where that is promised, to who watches it: the latest counts, so a
        face that does not read is told when it does."""
        if not mail.watches_log:
            return
        if (mail.asks_log or lsn > self._written_said) and not self._face.backlog_bytes:
            mail.asks_log, self._written_said = False, lsn
            self._face.send(b"L%d" % lsn, control=True)

    def announce(self, code: str, text: str) -> None:
        """Say something about the engine itself, at once; code "" means all is well again."""
        self._face.send(b"Y" + orjson.dumps([text, code]), control=True)

    def scaled(self, effect: fx.Scaled) -> None:
        """Say that a pool gets another size, or ask whether it should, at once."""
        step = [effect.node_type, effect.before, effect.after, effect.number, effect.figures]
        body = [effect.reason, SCALED, step]
        self._face.send(b"Y" + orjson.dumps(body), control=True)

    def _send_parts(self, letter: str, rows: list[Any]) -> None:
        """Rows that do not fit into one frame: halve them until they do."""
        frame = letter.encode() + orjson.dumps(rows)
        if len(frame) <= limits.FRAME_BYTES_MAX or (len(rows) == 1 and letter != "R"):
            self._face.send(frame)
        elif len(rows) > 1:
            self._send_parts(letter, rows[: len(rows) // 2])
            self._send_parts(letter, rows[len(rows) // 2 :])
        else:
            seq, nodes, values = rows[0]
            nodes, half = unpacked(nodes, len(values)), len(values) // 2
            self._send_parts(letter, [[seq, packed(nodes[:half]), values[:half]]])
            self._send_parts(letter, [[seq, packed(nodes[half:]), values[half:]]])

"""Messages that are longer than a frame: cut into pieces, which follow each other on one lane.

    + part      + part      <letter> rest

Rare: values are small or blobs, and batches are halved until they fit. What is left is one task that takes the
results of very many parents. Its pieces wait at the sender like any other frames, so a ring needs no room for all.

States of a joiner: empty; collecting, from the first piece to the rest. Concurrency: one thread.
"""

from __future__ import annotations

from typing import Final

from actors.protocol import limits

PIECE: Final = b"+"
_STEP: Final = limits.FRAME_BYTES_MAX - len(PIECE)


def in_pieces(message: bytes) -> list[bytes]:
    """Frames for a message of any length; the message itself when it fits.

    Args:
        message: Starts with its letter.
    """
    letter, body = message[:1], memoryview(message)[1:]
    last = max(0, len(body) - 1) // _STEP * _STEP
    return [*(PIECE + body[at : at + _STEP] for at in range(0, last, _STEP)), letter + body[last:]]


class PieceJoiner:
    """The receiving side of one lane."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def whole(self, frame: bytes) -> bytes | None:
        """The message that this frame is, or completes; None when there is more to come."""
        if frame[:1] == PIECE:
            self._parts.append(frame[1:])
            return None
        if not self._parts:
            return frame
        parts, self._parts = self._parts, []
        return b"".join((frame[:1], *parts, frame[1:]))

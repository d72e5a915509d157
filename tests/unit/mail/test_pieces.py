"""Long messages: what is cut comes together again, and short ones are left alone."""

from __future__ import annotations

import pytest

from actors.protocol import limits
from runtime.mail.pieces import PieceJoiner, in_pieces

FRAME = limits.FRAME_BYTES_MAX


@pytest.mark.parametrize("length", [1, 2, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME - 1, 2 * FRAME, 5 * FRAME + 17])
def test_what_is_cut_comes_together_again(length: int) -> None:
    message = b"L" + bytes(range(251)) * (length // 251 + 1)
    message = message[:length]
    frames = in_pieces(message)
    assert all(1 <= len(frame) <= FRAME for frame in frames)
    assert (len(frames) == 1) == (length <= FRAME)
    joiner = PieceJoiner()
    *parts, whole = [joiner.whole(frame) for frame in frames]
    assert parts == [None] * (len(frames) - 1)
    assert whole == message
    assert joiner.whole(b"Knext") == b"Knext"

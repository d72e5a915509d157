"""Questions as text, the same from a program and from a command: what cannot be said is refused before it is sent.

A frame that its lane never takes would stand before all that comes after it.
"""

from __future__ import annotations

from typing import Any

import orjson

from actors.protocol.errors import CallerError


def encode_question(what: str, value: Any, bytes_max: int) -> bytes:
    """The text of a question, or of its arguments.

    Args:
        what: The question, for the message.
        value: To encode.
        bytes_max: Of the text.

    Raises:
        CallerError: A name in it is no text in UTF-8, or it is too long.
    """
    try:
        text = orjson.dumps(value)
    except TypeError as refused:
        raise CallerError(f"{what}: this cannot be asked: {refused}") from None
    if len(text) > bytes_max:
        raise CallerError(f"{what}: {len(text):,} bytes are too long; a question has {bytes_max:,} at most")
    return text

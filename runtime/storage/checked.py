"""Small JSON files and lines that carry a check of themselves.

    {"check": "16 hexadecimal digits of XXH3-64 of the rest", ...the rest...}

The check stands first, so that what is checked is a stretch of bytes: a digit that changed on the disk must not be
taken for what was written.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import xxhash

_CHECK: Final = re.compile(rb'\{"check": "([0-9a-f]{16})", ')


def checked(content: dict[str, Any]) -> bytes:
    """One line of JSON that begins with a check of the rest."""
    text = json.dumps(content, default=str).encode()
    return b'{"check": "%s", %s' % (xxhash.xxh3_64_hexdigest(text).encode(), text[1:])


def has_check(line: bytes) -> bool:
    """Whether it begins with a check, right or wrong."""
    return _CHECK.match(line) is not None


def read_checked(line: bytes, unchecked: tuple[bytes, ...] = ()) -> dict[str, Any]:
    """What `checked` made a line of.

    Args:
        line: As it was read.
        unchecked: How lines begin that older versions wrote, without a check.

    Raises:
        ValueError: It is damaged.
    """
    begins = _CHECK.match(line)
    if begins is not None:
        line = b"{" + line[begins.end() :].rstrip(b"\n")
        if xxhash.xxh3_64_hexdigest(line).encode() != begins[1]:
            raise ValueError("its check is wrong")
    elif not line.startswith(unchecked):
        raise ValueError("it begins as none")
    found = json.loads(line)
    if type(found) is not dict:
        raise ValueError("it is no object")
    return found

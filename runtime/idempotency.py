"""Options of a call that must not be carried out twice: `idempotency_key` and `idempotency_window`. See `actors.keys`.

What is asked for is told apart by a digest of the handler's name, the shape of the call and its encoded arguments, with
size and checksum of values that are stored as files. Options (priority, timeout, times, ...) are no part of it.

Known limit: what only pickle can hold is the same if it is pickled to the same bytes. A set in it may not be, in
another process.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S
from runtime.checks import is_number
from runtime.items import UnwrittenBlobs

KEY_OPTIONS: Final = frozenset({"idempotency_key", "idempotency_window"})
KEY_BYTES_MAX: Final = 200
"""A key is kept in memory and in the log for its window."""
WINDOW_S: Final = 86_400.0
"""The window where none is given: a day."""
WINDOW_S_MAX: Final = 366 * 86_400.0
"""The longest window: a year. More is a mistake in a unit."""


class Key(NamedTuple):
    """A key, and for how long it counts. 0: not at all, and what it stood for is forgotten."""

    key: str
    window_ns: int

    def claim(self, handler: str, shape: str, item: bytes) -> list[Any]:
        """What the header of the submission says; `item` without the names of files."""
        return [self.key, self.window_ns, digest_of(handler, shape, item)]

    def header(self, handler: str, shape: str, item: bytes) -> dict[str, Any]:
        """The same as a part of that header."""
        return {"key": self.claim(handler, shape, item)}

    def blobs(self) -> UnwrittenBlobs:
        """Where large values go when the item is made that is looked at."""
        return UnwrittenBlobs()


def digest_of(handler: str, shape: str, item: bytes) -> str:
    """What tells a call from others."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (handler.encode(), shape.encode(), item):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def key_of(options: dict[str, Any]) -> Key | None:
    """The key among a call's options; None when it is None, or not there.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """
    problems = key_problems(options)
    if problems:
        raise ConfigurationError(f"submit: {'; '.join(problems)}")
    key, window = options.get("idempotency_key"), options.get("idempotency_window", WINDOW_S)
    return None if key is None else Key(key, int(window * NS_PER_S))


def key_problems(options: dict[str, Any]) -> list[str]:
    """What is wrong with them."""
    key, window = options.get("idempotency_key"), options.get("idempotency_window", WINDOW_S)
    problems = []
    if key is None:
        if options.get("idempotency_window") is not None:
            problems.append("idempotency_window needs an idempotency_key")
    elif not fits(key):
        problems.append(f"idempotency_key must be a string of 1 to {KEY_BYTES_MAX} bytes")
    if key is not None and not is_number(window, 0, WINDOW_S_MAX):
        problems.append(f"idempotency_window must be 0 to {WINDOW_S_MAX:,.0f} seconds, not {window!r:.60}")
    return problems


def fits(key: object) -> bool:
    """Whether this can be a key."""
    if not isinstance(key, str):
        return False
    try:
        return 1 <= len(key.encode()) <= KEY_BYTES_MAX
    except UnicodeEncodeError:
        return False

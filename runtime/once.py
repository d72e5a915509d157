"""Options of a call that joins others instead of being carried out by itself: `unique` and `debounce`, beside the
idempotency key. What a call asks for becomes a part of its submission's header; see `actors.once` and `actors.keys`.

With `unique=True` calls are told apart by handler, shape and encoded arguments, large values by a digest of their
content. Options (priority, timeout, times, ...) are no part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S
from runtime.checks import is_number
from runtime.idempotency import KEY_BYTES_MAX, KEY_OPTIONS, Key, digest_of, fits, key_of, key_problems
from runtime.items import UnwrittenBlobs
from runtime.times import WAIT_S_MAX, Times

ONCE_OPTIONS: Final = KEY_OPTIONS | {"unique", "debounce", "debounce_key", "debounce_max"}
LONGEST_S: Final = 86_400.0
"""How long calls may put off a debounced task where nothing is said: a day, or the wait itself if that is longer."""


class Unique(NamedTuple):
    """One at a time: of this key, or (None) of this handler and these arguments."""

    key: str | None

    def header(self, handler: str, shape: str, item: bytes) -> dict[str, Any]:
        """What the header of the submission says; `item` with the digests of large values."""
        return {"unique": f"call {digest_of(handler, shape, item)}" if self.key is None else f"key {self.key}"}

    def blobs(self) -> UnwrittenBlobs:
        """Where large values go when the item is made that is looked at."""
        return DigestedBlobs()


class Debounce(NamedTuple):
    """Calls that come within a wait are one: of this key, or (None) of this handler."""

    wait_ns: int
    key: str | None
    longest_ns: int

    def header(self, handler: str, shape: str, item: bytes) -> dict[str, Any]:
        """What the header of the submission says."""
        key = f"handler {handler}" if self.key is None else f"key {self.key}"
        return {"debounce": [key, self.wait_ns, self.longest_ns]}

    def blobs(self) -> UnwrittenBlobs:
        """Where large values go when the item is made that is looked at."""
        return UnwrittenBlobs()


class DigestedBlobs(UnwrittenBlobs):
    """Takes large values and keeps only what tells them apart."""

    def write(self, key: str, suffix: str, buffers: Sequence[Any]) -> str:
        """A name that says what the content is."""
        digest = hashlib.blake2b(digest_size=16)
        for buffer in buffers:
            digest.update(buffer)
        return f"{digest.hexdigest()}.{suffix}"


Once: TypeAlias = Key | Unique | Debounce


def once_of(options: dict[str, Any]) -> Once | None:
    """What a call asks for with these of its options; None when nothing.

    Raises:
        ConfigurationError: A value is out of range, or they exclude each other; all problems are named.
    """
    unique, wait = options.get("unique"), options.get("debounce")
    asked = [name for name in ("idempotency_key", "unique", "debounce") if options.get(name) not in (None, False)]
    problems = key_problems(options)
    if len(asked) > 1:
        problems.append(f"{' and '.join(asked)} exclude each other")
    if not (unique is None or isinstance(unique, bool) or fits(unique)):
        problems.append(f"unique must be true or a key, a string of 1 to {KEY_BYTES_MAX} bytes")
    problems += _debounce_problems(options)
    if problems:
        raise ConfigurationError(f"submit: {'; '.join(problems)}")
    if wait is not None:
        longest = options.get("debounce_max")
        longest_ns = int((max(LONGEST_S, wait) if longest is None else longest) * NS_PER_S)
        return Debounce(int(wait * NS_PER_S), options.get("debounce_key"), longest_ns)
    if unique:
        return Unique(None if unique is True else unique)
    return key_of(options)


def _debounce_problems(options: dict[str, Any]) -> list[str]:
    wait, key, longest = (options.get(name) for name in ("debounce", "debounce_key", "debounce_max"))
    if wait is None:
        return [f"{name} needs debounce" for name in ("debounce_key", "debounce_max") if options.get(name) is not None]
    problems = []
    if not _is_wait(wait):
        problems.append(f"debounce must be 0.001 to {WAIT_S_MAX:,.0f} seconds, not {wait!r:.60}")
    if not (key is None or fits(key)):
        problems.append(f"debounce_key must be a string of 1 to {KEY_BYTES_MAX} bytes")
    if longest is not None and not (_is_wait(longest) and (not _is_wait(wait) or longest >= wait)):
        problems.append(f"debounce_max must be {wait!r:.60} to {WAIT_S_MAX:,.0f} seconds, not {longest!r:.60}")
    return problems


def _is_wait(value: Any) -> bool:
    return is_number(value, 0.001, WAIT_S_MAX)


def debounced_columns(once: Debounce, times: Times, ends: Sequence[int | None]) -> list[int | None]:
    """The times of a debounced call, as `Times.columns`; the engine works out when it is due.

    Raises:
        ConfigurationError: It has a start of its own, or would be late when it starts.
    """
    if times.delay_ns is not None or times.due_ns is not None:
        raise ConfigurationError("submit: debounce says when the task starts; it excludes delay and due")
    columns = times._replace(delay_ns=once.wait_ns).columns(*ends)
    return [None, *columns[1:]] if len(columns) > 1 else []

"""Checks of what users set: whether a value, whatever it is, is what was asked for. Only `refuse` raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from actors.protocol import values
from actors.protocol.errors import ConfigurationError

SECONDS_MAX: Final = 1e9
"""Longest time that can be set, and largest number of most things: 31 years. More is a mistake in a unit."""
BYTES_MAX: Final = 1 << 62


def is_number(value: object, least: float, most: float = SECONDS_MAX, *, above: bool = False) -> bool:
    """Whether it is a finite number in these bounds; `above`: and not the least itself."""
    return values.is_number(value, least, most, above=above)


def is_whole(value: object, least: int = 1, most: int = 1_000_000_000) -> bool:
    """Whether it is a whole number in these bounds."""
    return values.is_whole(value, least, most)


def is_one_of(value: object, words: Iterable[str]) -> bool:
    """Whether it is one of these words, or of the members of an enumeration of words."""
    return isinstance(value, str) and value in set(words)


def is_range(value: object, most: int) -> bool:
    """Whether it is a whole number from 1 on, or a pair of which the first is 0 or more and not above the second."""
    pair = (value, value) if not isinstance(value, tuple | list) else tuple(value)
    return len(pair) == 2 and is_whole(pair[1], 1, most) and is_whole(pair[0], 0, pair[1])


def listed(value: object) -> tuple[Any, ...]:
    """The items of a list or another iterable; a text, or what is no list, is one item."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)


def refuse(what: str, *checks: tuple[bool, str]) -> None:
    """Raise ConfigurationError naming every check that does not hold."""
    problems = [text for holds, text in checks if not holds]
    if problems:
        raise ConfigurationError(f"{what}: " + "; ".join(problems))

"""Words: numbers in sentences (one place knows that it is "1 node" and "2,000 nodes"), and what may be a name."""

from __future__ import annotations

from actors.protocol import limits


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun.

    Args:
        count: How many.
        noun: What, for one of it: "node", "worker is".
        plural: For any other number; by default with an "s".
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def is_name(value: object) -> bool:
    """Whether something can be called so: text that UTF-8 holds, not empty and not too long."""
    if not isinstance(value, str):
        return False
    try:
        return 0 < len(value.encode()) <= limits.NAME_BYTES_MAX
    except UnicodeEncodeError:
        return False


def asker(session: str | None) -> str:
    """Who asked for something: what came over the commands' socket, or the session of a program, as logs have it."""
    if not session:
        return ""
    return "a command" if session.startswith("command ") else session

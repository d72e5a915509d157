"""Why a value was refused, and where it is: the reason and the path are put together while the encoder unwinds.

A path reads as Python would: `$[3]['user'].born` is the field `born` of what the key `'user'` holds in item 3.
`$` is the value itself; elements of sets and keys of dicts have no such place and are named by their type.

States: none. A `Refused` is made by the encoder that meets the value, each container on the way out adds its step, and
the codec turns it into a `PayloadError`. Paths are found by unwinding, so that they cost nothing when all is well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from actors.protocol import limits
from actors.protocol.errors import PayloadError, PayloadTooLarge

STEP_CHARS_MAX: Final = 60
STEPS_SHOWN_MAX: Final = 16
_KEY_TYPES: Final = frozenset({str, int, bool, float, type(None)})


class Refused(Exception):
    """A value cannot be stored exactly. Internal: the codec answers with `PayloadError`."""

    def __init__(self, reason: str, *, too_large: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.too_large = too_large
        self.steps: list[str] = []

    def at(self, step: str) -> None:
        """Add the step from the container that is being left; innermost first."""
        self.steps.append(step)

    def error(self, root: str = "$") -> PayloadError:
        """The error for the caller. `root` stands for the value as a whole."""
        steps = self.steps[::-1]
        if len(steps) > STEPS_SHOWN_MAX:
            half = STEPS_SHOWN_MAX // 2
            steps = [*steps[:half], f"...({len(steps) - 2 * half} steps)...", *steps[-half:]]
        path = root + "".join(steps)
        kind = PayloadTooLarge if self.too_large else PayloadError
        return kind(f"{path}: {self.reason}", path)


def key_step(key: object) -> str:
    """The step to the value under a key."""
    return f"[{_shown(key)}]"


def inside_key_step(key: object) -> str:
    """The step to something inside a key itself."""
    return f"<key {_shown(key)}>"


def element_step(element: object) -> str:
    """The step to an element of a set."""
    return f"{{{_shown(element)}}}"


def field_step(name: str) -> str:
    """The step to a field of an object."""
    return f".{name}"


def too_deep(value: object) -> Refused:
    """The refusal of a value that is nested too deeply; says so when it contains itself."""
    if _contains_itself(value):
        return Refused("contains itself; only trees and shared references can be stored")
    return Refused(f"is nested more than {limits.PAYLOAD_DEPTH_MAX} levels deep")


def refuse_large_without_store(size: int) -> None:
    """Refuse what could only travel as a blob, where there is no blob store.

    Raises:
        Refused: It is over PAYLOAD_BYTES_MAX_NO_STORE.
    """
    limit = limits.PAYLOAD_BYTES_MAX_NO_STORE
    if size > limit:
        raise Refused(f"has {size:,} bytes; without a blob store the limit is {limit:,}", too_large=True)


def _shown(key: object) -> str:
    if type(key) not in _KEY_TYPES:
        return f"<{type(key).__qualname__}>"
    text = ascii(key) if type(key) is not int or abs(key) < 1 << 256 else "<int>"
    return text if len(text) <= STEP_CHARS_MAX else f"{text[: STEP_CHARS_MAX - 4]}...{text[0]}"


def children(value: object) -> Iterator[Any]:
    """What a container holds, keys included; nothing for any other value."""
    if isinstance(value, dict):
        return chain.from_iterable(value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return iter(value)
    held = getattr(value, "__dict__", None)
    return iter(list(held.values())) if type(held) is dict and not isinstance(value, type) else iter(())


def _contains_itself(value: object) -> bool:
    """Depth-first search without recursion; a container met again while it is open closes a cycle."""
    open_ids = {id(value)}
    closed_ids: set[int] = set()
    stack = [(value, children(value))]
    while stack:
        holder, rest = stack[-1]
        child = next(rest, stack)
        if child is stack:
            stack.pop()
            open_ids.discard(id(holder))
            closed_ids.add(id(holder))
        elif id(child) in open_ids:
            return True
        elif id(child) not in closed_ids and type(child) not in _KEY_TYPES:
            open_ids.add(id(child))
            stack.append((child, children(child)))
    return False

"""What parts of the engine, and of users' programs, say about the tasks that they pin: see `runtime.profile.proof`.

A registry refers to its tasks and will not wake any, so the mark must not go through it; and a task with a limit on its
time ends although nothing can be seen that would end it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from runtime.profile.model import Frame


class Pinned(NamedTuple):
    """What a part says.

    Attributes:
        cut: Containers that refer to tasks, or to things of them, and will not wake any: registries.
        alive: Tasks that will be ended by something that only that part knows, as a limit on their time, and those that
            are meant to wait for ever.
    """

    cut: tuple[Any, ...] = ()
    alive: tuple[Any, ...] = ()


# global: of this process, as its tasks are
PINS: Final[list[Callable[[], Pinned]]] = []
"""Called by the thread that looks, right before it forks; what raises says nothing."""


class Stranded(NamedTuple):
    """A thing that nothing can move or release any more, for whose proof no mark is needed: kind, name, why; where it
    was created, and who has it, where that is known."""

    kind: str
    key: str
    why: str
    site: tuple[Frame, ...] = ()
    owner: str = ""


EVIDENCE: Final[list[Callable[[], Iterable[tuple[Any, ...]]]]] = []
"""Give `Stranded`, or its first fields. What is said twice in a row, a second apart, counts."""


os.register_at_fork(after_in_child=EVIDENCE.clear)  # a child says what it has itself


def evidence_now() -> set[Stranded]:
    """What all of them say."""
    found: set[Stranded] = set()
    for say in tuple(EVIDENCE):
        with suppress(Exception):  # its owner changes it, or ends: the next look will tell
            found.update(Stranded(*one) for one in say())
    return found


def pins_now() -> list[Pinned]:
    """What all of them say."""
    found = []
    for say in tuple(PINS):
        try:
            found.append(say())
        except Exception:  # noqa: S112, BLE001, RUF100 - its owner changes it, or ends
            continue
    return found


def of_attempts(running: Mapping[int, Any]) -> Pinned:
    """Of the attempts that run in this worker: a limit on the time of one ends it."""
    return Pinned((running,), tuple(one.task for one in tuple(running.values()) if one.deadline_ns is not None))

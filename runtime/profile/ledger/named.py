"""Entries of the ledger for things that are held weakly: by name, so that it is known when they are gone, too."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any, Self

from runtime.profile.ledger.books import LEDGER


class Named(weakref.ReferenceType[Any]):
    """A weak reference with a name. `why`: why what it stands for can be ended by nobody, where that is known."""

    __slots__ = ("name", "token", "why")

    name: str
    token: int
    why: str

    def __new__(cls, thing: Any, name: str, *, leaves: bool = False, why: str = "") -> Self:
        """`leaves`: its entry goes when the thing is collected; else that it stays behind is a finding."""
        made = super().__new__(cls, thing, _collected if leaves else None)
        made.name, made.why = name, why
        made.token = 0
        return made

    def __init__(self, *_: Any, **__: Any) -> None:
        """All is done when it is made."""


def _collected(reference: Any) -> None:
    """Whoever looks at the books has the reference, too: it may be called after the entry was released."""
    LEDGER.drop(reference.token)


def enter(
    kind: str,
    thing: Any,
    name: str,
    place: tuple[CodeType, int],
    *,
    owner: Any = None,
    daemon: bool = False,
    why: str = "",
) -> int:
    """Enter a thing, until it is released or collected; returns the token."""
    key = Named(thing, name, leaves=True, why=why)
    key.token = token = LEDGER.track(kind, key, owner=owner, daemon=daemon, code=place[0], lasti=place[1])
    return token


def leave(token: int) -> int:
    """Release an entry, if there is one; returns 0, for whoever keeps the token."""
    if token:
        LEDGER.drop(token)
    return 0

"""Garbage that the collector has not come to, and that does something when it does: objects with `__del__` in Python,
and coroutines and generators that are suspended, whose `finally` is still to run.

A task that such a thing may wake is not lost for good: it is woken by the next collection. What tasks have at hand
themselves is none of it, since it is there for as long as they wait.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from runtime.profile.proof.held import reached

_SUSPENDED = ("cr_suspended", "gi_suspended", "ag_suspended")
_LOOPS = "asyncio."
"""Finalizers that warn, and close what is closed to the world."""


def floating(unmarked: list[Any], tasks: set[int], seen: set[int]) -> list[Any]:
    """What may do something when it is collected.

    Args:
        unmarked: What the mark did not reach.
        tasks: Identities of the tasks among that, and of their coroutines.
        seen: Identities of what is reached by now, or is no part of it.

    Returns:
        Those that no task leads to.
    """
    finalizes: dict[type, bool] = {}
    found = [one for one in unmarked if id(one) not in seen and id(one) not in tasks and _acts(one, finalizes)]
    if not found:
        return found
    there = {id(one): one for one in unmarked}
    held = reached([there[key] for key in tasks if key in there], there)
    return [one for one in found if id(one) not in held]


def _acts(one: Any, finalizes: dict[type, bool]) -> bool:
    kind = type(one)
    found = finalizes.get(kind)
    if found is None:
        found = finalizes[kind] = _has_finalizer(kind)
    return found or any(getattr(one, name, False) for name in _SUSPENDED if kind.__module__ == "builtins")


def _has_finalizer(kind: type) -> bool:
    try:
        own = type.__getattribute__(kind, "__del__")
    except AttributeError:
        return False
    return type(own) is FunctionType and not own.__module__.startswith(_LOOPS)

"""Garbage that the collector has not come to, and that does something when it does: objects with `__del__` in Python,
and coroutines and generators that are suspended, whose `finally` is still to run.

A task that such a thing may wake is not lost for good: it is woken by the next collection. What tasks have at hand
themselves is none of it, since it is there for as long as they wait.
"""

from __future__ import annotations

from types import CoroutineType, FunctionType, GeneratorType
from typing import Any, Final

from runtime.profile.proof.held import reached

_COROUTINES: Final = (CoroutineType, GeneratorType)
_LOOPS: Final = "asyncio."
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
    acts = _Acts()
    found = [one for one in unmarked if acts[type(one)] and id(one) not in seen and id(one) not in tasks]
    found = [one for one in found if type(one) not in _COROUTINES or _is_suspended(one)]
    if not found:
        return found
    there = {id(one): one for one in unmarked}
    held = reached([there[key] for key in tasks if key in there], there)
    return [one for one in found if id(one) not in held]


class _Acts(dict[type, bool]):
    """Types whose objects may do something, remembered."""

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = issubclass(kind, _COROUTINES) or _has_finalizer(kind)
        return found


def _is_suspended(one: Any) -> bool:
    return any(getattr(one, name, False) for name in ("cr_suspended", "gi_suspended"))


def _has_finalizer(kind: type) -> bool:
    try:
        own = type.__getattribute__(kind, "__del__")
    except AttributeError:
        return False
    return type(own) is FunctionType and not own.__module__.startswith(_LOOPS)

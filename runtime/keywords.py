"""Keywords of a call: which are options, and which belong to the handler.

A handler's own parameter wins over an option of the same name. What is neither reaches the handler as it is, and fails
there; where it looks like an option, it is refused while the caller still looks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from actors.protocol.errors import ConfigurationError
from actors.protocol.kinds import SHARING
from runtime.once import ONCE_OPTIONS
from runtime.registry import Options, Task, positional_names
from runtime.times import TIME_OPTIONS

SUBMIT_OPTIONS: Final = frozenset({"priority", "timeout", "run_id", *SHARING}) | TIME_OPTIONS | ONCE_OPTIONS
_OF_TASKS: Final = frozenset(Options.__annotations__) - TIME_OPTIONS
_TASKS_ONLY: Final = _OF_TASKS - SUBMIT_OPTIONS
_OF_NODES: Final = frozenset({"id", "after", "trigger"})
_ALIKE: Final = 0.65
"""How much of two words must be the same, see `difflib`, for one to be taken for the other: "retries" and "retry"."""


def options_for(fn: Callable[..., Any]) -> frozenset[str]:
    """The options of `submit` that this function does not take as arguments of its own."""
    names, takes_any = positional_names(fn.fn if isinstance(fn, Task) else fn)
    return frozenset() if takes_any else SUBMIT_OPTIONS - names


def takes_of(fn: Callable[..., Any]) -> frozenset[str] | None:
    """All keywords that `submit` of this function has a use for; None: any, or nobody knows."""
    fn = fn.fn if isinstance(fn, Task) else fn
    names, takes_any = positional_names(fn)
    return None if takes_any or not _says_what_it_takes(fn) else names | SUBMIT_OPTIONS


def refuse_options_alike(fn: Callable[..., Any], given: Iterable[str]) -> None:
    """Refuse keywords of `submit` that are meant as options, and would be arguments.

    Args:
        fn: The task or function.
        given: Names of keywords that it does not take, and that are no options of `submit`.

    Raises:
        ConfigurationError: Some of them are options of tasks, or written like one. What is not is left to the handler.
    """
    fn = fn.fn if isinstance(fn, Task) else fn
    problems = [text for name in sorted(given) if (text := _trouble(name, _TASKS_ONLY, SUBMIT_OPTIONS))]
    if problems:
        raise ConfigurationError(f"{getattr(fn, '__qualname__', fn)} takes no such argument: {'; '.join(problems)}")


def refuse_options_of_nodes(fn: Callable[..., Any], given: Iterable[str]) -> None:
    """Refuse keywords of a node of a flow that are meant as options, and would be arguments.

    Args:
        fn: The task or function.
        given: Names of the keywords, without `id`, `after` and `trigger`.

    Raises:
        ConfigurationError: The function does not take some of them, which are options or written like one; says where
            the option belongs.
    """
    fn = fn.fn if isinstance(fn, Task) else fn
    names, takes_any = positional_names(fn)
    if takes_any or not _says_what_it_takes(fn):
        return
    problems = [text for name in sorted(set(given) - names) if (text := _trouble(name))]
    if problems:
        raise ConfigurationError(f"{getattr(fn, '__qualname__', fn)} takes no such argument: {'; '.join(problems)}")


def _trouble(name: str, of_tasks: frozenset[str] = _OF_TASKS, of_call: frozenset[str] = _OF_NODES) -> str:
    if name in of_tasks:
        where = f"Flow(name, {name}=...)" if of_call is _OF_NODES else f"rt.options({name}=...)"
        return f"{name}= is an option, which comes with task.options({name}=...) or {where}"
    if name in SUBMIT_OPTIONS:
        return f"{name}= is an option of submit, which a node of a flow cannot have"
    from difflib import get_close_matches  # lazy: only who misspells needs it

    meant = get_close_matches(name, of_call | _OF_TASKS | SUBMIT_OPTIONS, 1, _ALIKE)
    return f"{name}= looks like the option {meant[0]}=" if meant else ""


def _says_what_it_takes(fn: Callable[..., Any]) -> bool:
    try:
        inspect.signature(fn)
    except (ValueError, TypeError):
        return False
    return True

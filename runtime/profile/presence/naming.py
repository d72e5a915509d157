"""Functions under other names, so that every profiler from outside shows whose work runs: `node:http_call`.

A worker is of one node type. What calls handlers there is a copy of its function whose code object has the node type in
its name: the same instructions, so nothing is called that was not called before, and a task costs what it always did.
The file stays the real one, for tracebacks.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final, TypeVar, cast

NODE: Final = "node:"
F = TypeVar("F", bound=Callable[..., Any])


def renamed(method: F, name: str) -> F:
    """A bound method whose function has another name in stacks; itself where it is no plain one.

    Args:
        method: A method of an object, or a function.
        name: The name.

    Returns:
        It, bound to the same object.
    """
    function = getattr(method, "__func__", method)
    if not isinstance(function, FunctionType):
        return method
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    owner = getattr(method, "__self__", None)
    return cast(F, copy if owner is None else MethodType(copy, owner))

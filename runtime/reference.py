"""How a function is named for other processes, and why some functions cannot be.

A handler runs in a worker process, today or after a crash next week, so what is stored is its name:
`pkg.mod:qualname`, or `file:/abs/script.py:qualname` for functions of the main script. The rule that decides is one
question: does the name lead back to the same object? Lambdas, closures, local functions, methods of local classes
and whatever was typed into a notebook have no such name and are refused here, in the submitting program, with the
reason (never later, in a worker).

Generator functions have a name but no result that could be stored; they are refused too.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from actors.protocol.errors import HandlerRefused

MAIN_MODULES: Final = frozenset({"__main__", "__mp_main__"})
"""Names under which Python runs a script; other processes cannot import them."""
_MORE_SCRIPTS: Final = "__mp_main__."
"""Names that workers give to a second script and further ones."""


def reference_of(fn: Callable[..., Any], *, generators: bool = False) -> str:
    """The name under which workers find this function.

    Args:
        fn: A function, builtin, C function, class, classmethod or staticmethod.
        generators: It may be a generator function, as those that make things of a pool are.

    Returns:
        "pkg.mod:qualname", or "file:/abs/script.py:qualname" when it belongs to the script that was started.

    Raises:
        HandlerRefused: Other processes could not find it by name, or it is a generator function.
    """
    refuse_unstorable(fn, generators=generators)
    module_name, qualname = _names_of(fn)
    if module_name in MAIN_MODULES or module_name.startswith(_MORE_SCRIPTS):
        place = _place_of_script(fn, module_name, qualname)
    else:
        place = module_name
    found = _look_up(fn, module_name, qualname)
    if found is not fn and getattr(found, "fn", None) is not fn and found != fn:
        raise HandlerRefused(
            f"{module_name}:{qualname} is another object than the function that was given "
            "(it was replaced, or wrapped by a decorator after it was taken)"
        )
    return f"{place}:{qualname}"


def refuse_unstorable(fn: Callable[..., Any], *, generators: bool = False) -> None:
    """Refuse what can be seen without looking the name up; this is what a decorator can check.

    Raises:
        HandlerRefused: With the reason.
    """
    if isinstance(fn, functools.partial):
        raise HandlerRefused("a functools.partial has no name; give its function and arguments to submit or add")
    _, qualname = _names_of(fn)
    if "<lambda>" in qualname:
        raise HandlerRefused(f"{qualname} is a lambda: it has no name under which a worker could find it")
    if "<locals>" in qualname:
        outer, _, name = qualname.rpartition(".<locals>.")
        what = f"method {name} of a class" if "." in name else f"function {name}"
        raise HandlerRefused(f"{what} defined inside {outer}() exists only while that call runs, not in a worker")
    if not generators and (inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)):
        raise HandlerRefused(f"{qualname} is a generator function: calling it gives no result; return a list instead")
    owner = getattr(fn, "__self__", None)
    if owner is not None and not isinstance(owner, (type, ModuleType)):
        raise HandlerRefused(
            f"{qualname} is bound to an instance of {type(owner).__qualname__}, which a worker does not have; "
            "use a plain function that takes the instance's data"
        )


def _names_of(fn: Callable[..., Any]) -> tuple[str, str]:
    if not callable(fn):
        raise HandlerRefused(f"{type(fn).__name__} object is not callable")
    qualname = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None)
    module = getattr(fn, "__module__", None) or getattr(getattr(fn, "__objclass__", None), "__module__", None)
    owner = getattr(fn, "__self__", None)
    if module is None and owner is not None:
        module = (owner if isinstance(owner, type) else type(owner)).__module__
    if not isinstance(qualname, str) or not isinstance(module, str):
        kind = type(fn)
        raise HandlerRefused(f"an instance of {kind.__module__}.{kind.__qualname__} has no importable name of its own")
    return module, qualname


def _place_of_script(fn: Callable[..., Any], module_name: str, qualname: str) -> str:
    """Where workers find a function of the main program: its real module (`python -m`), else its file."""
    main = sys.modules.get(module_name)
    code = getattr(fn, "__code__", None)
    written_elsewhere = code is not None and code.co_filename.startswith("<")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in MAIN_MODULES and not written_elsewhere:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    if not file or written_elsewhere or not Path(file).is_file():
        raise HandlerRefused(
            f"{qualname} was defined in an interactive session or notebook, which workers cannot import; "
            "move it into a module file"
        )
    return f"file:{Path(file).absolute()}"


def _look_up(fn: Callable[..., Any], module_name: str, qualname: str) -> Any:
    try:
        found: Any = sys.modules.get(module_name) or importlib.import_module(module_name)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as missing:
        raise HandlerRefused(f"{module_name}:{qualname} cannot be found by that name: {missing}") from missing
    return found

"""Names of classes and functions inside stored values: `module:qualname`, and the way back.

A name is given only if it leads back to the same object, in this process now; otherwise a value of that class could be
written and never read. Classes of the main program are the special case: the program sees them in `__main__`, a worker
in the module under which it loaded the script (`__mp_main__`, or `__mp_main__.n` for further scripts), or under their
real name when the program was started with `python -m`. One name serves all: the real one where there is one, else
`__main__:qualname`.

States: none; callers that meet the same class often keep their own small cache.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Final

from actors.protocol.errors import PayloadUnreadable
from runtime.mail.refusal import Refused

MAIN: Final = "__main__"
WORKER_MAIN: Final = "__mp_main__"


def name_of(thing: Any) -> str:
    """The stored name of a class or function.

    Raises:
        Refused: It has no name that leads back to it.
    """
    module = getattr(thing, "__module__", None)
    qualname = getattr(thing, "__qualname__", None)
    if type(module) is not str or type(qualname) is not str:
        raise Refused(f"{type(thing).__qualname__} has no importable name")
    what = "class" if isinstance(thing, type) else "function"
    if "<locals>" in qualname:
        raise Refused(f"{what} {qualname} was defined inside a function, where no other process finds it")
    if not (module + qualname).isprintable():
        raise Refused(f"{what} {qualname!a} has no importable name")
    place = _place(module)
    try:
        found = _walk(_home(place, qualname), qualname)
    except Exception as missing:  # importing runs the module's code, which may fail in any way
        raise Refused(f"{what} {module}.{qualname} cannot be found by that name: {missing}") from None
    if found is not thing:
        raise Refused(f"{module}.{qualname} is another object than the {what} that was given")
    return f"{place}:{qualname}"


def find(name: str) -> Any:
    """The class or function of this name; imports its module if need be.

    Raises:
        PayloadUnreadable: There is none, or its module cannot be imported.
    """
    module, _, qualname = name.partition(":")
    try:
        return _walk(_home(module, qualname), qualname)
    except Exception as missing:  # importing runs the module's code, which may fail in any way
        raise PayloadUnreadable(f"{name} is needed to read a value, but cannot be found: {missing!r}") from missing


def _place(module: str) -> str:
    """The module under which other processes know it."""
    if module.startswith(f"{WORKER_MAIN}."):
        return MAIN
    if module not in (MAIN, WORKER_MAIN):
        return module
    spec = getattr(sys.modules.get(module), "__spec__", None)
    name = getattr(spec, "name", MAIN)
    return name if type(name) is str and name not in (MAIN, WORKER_MAIN) else MAIN


def _home(module: str, qualname: str) -> Any:
    """The module that is meant.

    Raises:
        AttributeError: The main program does not have the name. ImportError, and whatever else importing raises.
    """
    main = sys.modules.get(MAIN)
    if module == MAIN:
        for home in (main, sys.modules.get(WORKER_MAIN)):
            if _has(home, qualname):
                return home
        raise AttributeError(f"neither the main program nor its script has {qualname}")
    if getattr(getattr(main, "__spec__", None), "name", None) == module:  # started with `python -m module`
        return main
    found = sys.modules.get(module)
    return importlib.import_module(module) if found is None else found


def _has(home: ModuleType | None, qualname: str) -> bool:
    try:
        _walk(home, qualname)
    except AttributeError:
        return False
    return True


def _walk(found: Any, qualname: str) -> Any:
    for part in qualname.split("."):
        found = getattr(found, part)
    return found

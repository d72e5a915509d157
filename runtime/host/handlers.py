"""Finding user code by its name, and what is known of it once found.

The only place where user modules are imported. A handler's name is `pkg.mod:qualname`, or
`file:/abs/script.py:qualname` for functions of a main script. A script is run once, under the name `__mp_main__`, so
that code under `if __name__ == "__main__":` does not run; when a script without that guard reaches its `Runtime(...)`,
it is left there (NestedRuntime), and the functions that it had defined so far can be used.

Invariants: a module that failed to import is tried again at the next call, because the missing file may have come.
Known limits: what a module does at import happens in each worker.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Any, Final

from actors.protocol.errors import HandlerRefused, NestedRuntime

MAIN_NAME: Final = "__mp_main__"
"""Name under which workers run the main script; the one that multiprocessing uses, so that class names agree."""
_FILE: Final = "file:"
_STOPPED: Final = "__mainspring_stopped__"


class ProcessRole:
    """Whether this process is a worker. A fact of the process, set once when it boots, and kept by its forks."""

    def __init__(self) -> None:
        self.worker = False


ROLE: Final = ProcessRole()


def inside_worker() -> bool:
    """Whether this process runs handlers. Starting a Runtime here is refused with NestedRuntime."""
    return ROLE.worker


class LazyMain(ModuleType):
    """Stands in for `__main__` until a class of the host's main script is asked for; then the script is run."""

    def __init__(self, path: str) -> None:
        super().__init__("__main__")
        self.__dict__["_path"] = path

    @classmethod
    def install(cls, path: str) -> None:
        """Make it this process's `__main__`."""
        sys.modules["__main__"] = cls(path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module '__main__' has no attribute {name!r}")
        return getattr(_script(self.__dict__["_path"]), name)


class Handler:
    """A task kind together with its function, ready to be called.

    Attributes:
        fn: The function itself.
        code: Of the function, for whoever asks where it is.
        shape: How its arguments are stored, see `actors.protocol.kinds`.
        coroutine: Whether calling it gives a coroutine.
        context_arg: Name of the parameter that takes the TaskContext, or None.
        context_place: Its place among the positional parameters; -1 when it is given by keyword.
        pools: Names under which the handler may ask for pools, with their references.
        pool_args: Parameters that take things of pools: name, place as that of the context, name of the pool.
        simple: Whether it can be called straight from an item that needs no decoding: `fn(item)`, `fn(*item)` and so
        on.
    """

    __slots__ = (
        "batches", "code", "coroutine", "context_arg", "context_place", "fn", "name", "pickle", "pool_args", "pools",
        "shape", "simple", "timeout_ns",
    )  # fmt: skip

    def __init__(self, kind: dict[str, Any], fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.code: CodeType = code_of(fn)
        self.shape: str = kind["shape"]
        self.name: str = kind.get("name") or kind["handler"]
        self.pickle: bool = kind.get("payloads") == "pickle"
        self.timeout_ns: int | None = kind.get("timeout_ns")
        self.coroutine = inspect.iscoroutinefunction(fn)
        self.context_arg: str | None = kind.get("context_arg") if kind.get("context") else None
        self.context_place = _place_of(fn, self.context_arg) if self.context_arg else -1
        self.batches = kind.get("batch") is not None
        self.pools: dict[str, str] = kind.get("pools") or {}
        given: dict[str, str] = kind.get("pool_args") or {}
        self.pool_args = sorted(((name, _place_of(fn, name), pool) for name, pool in given.items()), key=lambda a: a[1])
        if self.context_place >= 0:  # it is put in before things of pools are
            self.context_place -= sum(0 <= place < self.context_place for _, place, _ in self.pool_args)
        self.simple = not (
            self.context_arg or self.coroutine or self.shape == "template" or self.batches or self.pool_args
        )

    def calls(self, items: list[Any]) -> Iterable[Any]:
        """Plain items as they are called with; lazily where that takes more than a look."""
        return map(with_results, items) if self.shape == "mixed" else items


def code_of(fn: Callable[..., Any]) -> CodeType:
    """The code of a function, or of what a decorator or a callable object hides; that of its call where it has none."""
    inner = inspect.unwrap(fn)
    for found in (inner, getattr(inner, "__func__", None), vars(type(inner)).get("__call__")):
        if isinstance(code := getattr(found, "__code__", None), CodeType):
            return code
    return Handler.calls.__code__


def with_results(item: Any) -> list[Any]:
    """The arguments of an item of the shape "mixed": the parents' results in their places."""
    (args, places), results = item
    for place, result in zip(places, results, strict=True):
        args[place] = result
    found: list[Any] = args
    return found


def load(kind: dict[str, Any]) -> Handler:
    """Find the handler of a task kind.

    Raises:
        HandlerRefused: It is not callable, or a generator function. NestedRuntime: its script starts a Runtime before
            it defines the function. Anything else that the import raises.
    """
    return Handler(kind, resolve(kind["handler"]))


def resolve(reference: str) -> Callable[..., Any]:
    """The function behind a name; see `load` for what is raised."""
    place, _, qualname = reference.rpartition(":")
    module = _script(place.removeprefix(_FILE)) if place.startswith(_FILE) else _module(place)
    found: Any = module
    for part in qualname.split("."):
        if found is module and part not in vars(module) and _STOPPED in vars(module):
            raise NestedRuntime(f"{vars(module)[_STOPPED]}; {part!r} is defined after that, so workers cannot reach it")
        found = getattr(found, part)
    registry = sys.modules.get("runtime.registry")  # imported by the user's module, if it has tasks
    if registry is not None and isinstance(found, registry.Task):
        found = found.fn
    if not callable(found):
        raise HandlerRefused(f"{reference} is a {type(found).__name__}, not a function")
    if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        raise HandlerRefused(f"{reference} is a generator function: calling it gives no result; return a list instead")
    function: Callable[..., Any] = found
    return function


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        importlib.invalidate_caches()  # the file may be newer than what the finders remember of its folder
        return importlib.import_module(name)


def _script(path: str) -> ModuleType:
    """Run a script once, as a module that is not `__main__`."""
    names = [MAIN_NAME, *(name for name in sys.modules if name.startswith(f"{MAIN_NAME}."))]
    for name in names:
        known = sys.modules.get(name)
        if known is not None and getattr(known, "__file__", None) == path:
            return known
    name = MAIN_NAME if MAIN_NAME not in sys.modules else f"{MAIN_NAME}.{len(names)}"
    module = ModuleType(name)
    module.__file__ = path
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    if os.path.dirname(path) not in sys.path:
        sys.path.append(os.path.dirname(path))
    first = name == MAIN_NAME
    before = sys.modules.get("__main__")
    sys.modules[name] = module
    if first:  # values of classes that the script defines name "__main__"
        sys.modules["__main__"] = module
    try:
        with _no_loop_running():
            exec(code, vars(module))
    except (NestedRuntime, SystemExit) as left:
        vars(module)[_STOPPED] = f"{path} was left at {type(left).__name__}: {getattr(left, 'message', left)}"
    except BaseException:
        del sys.modules[name]
        if first and before is not None:
            sys.modules["__main__"] = before
        raise
    return module


@contextmanager
def _no_loop_running() -> Iterator[None]:
    """Hide the loop of a worker of mode "asyncio" from the script that it runs.

    A script without the guard reaches `asyncio.run(...)`, which refuses to run inside a loop: its functions would not
    be found, while in a worker of mode "process" the same script is left where it opens its runtime.
    """
    events: Any = sys.modules.get("asyncio.events")
    running = getattr(events, "_get_running_loop", None)  # not there while another thread imports asyncio
    loop = None if running is None else running()
    if loop is None:
        yield
        return
    events._set_running_loop(None)
    try:
        yield
    finally:
        events._set_running_loop(loop)


def _place_of(fn: Callable[..., Any], name: str) -> int:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (ValueError, TypeError):
        return -1
    for place, parameter in enumerate(parameters):
        if parameter.name == name:
            return place if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) else -1
    return -1

"""Object pools: what handlers of a node type use again, instead of making it for each task.

    @tasks.pool("http_call", max_size=8, max_idle=60.0, reset=forget_cookies)
    async def session() -> AsyncIterator[ClientSession]:
        async with ClientSession() as made:
            yield made

    @tasks.task(node_type="http_call")
    async def fetch(url: str, session: ClientSession) -> str: ...          # by its name

A pool belongs to one worker process: things are made there when they are first needed, on its main thread, and never
leave it. A light module: it is imported by user code, in every worker; what lends is `runtime.host.lender`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar, get_args, get_origin, overload

from actors.protocol.errors import ConfigurationError, HandlerRefused
from actors.protocol.words import is_name
from runtime.checks import is_number, is_whole, refuse
from runtime.config import NAME_RULE
from runtime.reference import reference_of, refuse_unstorable

T = TypeVar("T")

THINGS_MAX: Final = 10_000
"""Of one pool in one process: each is a connection or more."""
Check = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Bounds of a pool, and what is done with its things.

    Args:
        node_type: Name of the node type whose tasks may use it; None for all.
        name: As parameters and `TaskContext.pool` name it; the name of the function when None.
        max_size: Most things in one worker process, and so most that its tasks use at once: who finds none waits for
            its turn. None: as many as the worker runs tasks at once.
        max_age: Seconds after which a thing is not lent again; None for no limit.
        max_idle: Seconds after which a thing that nobody used is closed; None for no limit.
        max_uses: Tasks after which a thing is closed; None for no limit.
        timeout: Seconds that a task waits for one, then it fails with PoolTimeout; None waits as long as the attempt
            may take.
        reset: Called with the thing when it comes back, to make it as new. When it raises or returns False, the thing
            is closed. Without it things go from task to task as they are.
        check: Called with a thing before it is lent again. When it raises or returns False, it is closed, and another
            takes its place.
        close: Called with the thing when it goes; without it `aclose` or `close` of the thing is, if it has one. A
            factory that is a generator, or returns a context manager made with `contextlib`, is left instead.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """

    node_type: str | None = None
    name: str | None = None
    max_size: int | None = None
    max_age: float | None = None
    max_idle: float | None = None
    max_uses: int | None = None
    timeout: float | None = None
    reset: Check | None = None
    check: Check | None = None
    close: Check | None = None

    def __post_init__(self) -> None:
        spans = ((name, getattr(self, name)) for name in ("max_age", "max_idle", "timeout"))
        refuse(
            "pool",
            (self.node_type is None or is_name(self.node_type), f"node_type: {NAME_RULE}"),
            (self.name is None or is_name(self.name), NAME_RULE),
            (
                self.max_size is None or is_whole(self.max_size, 1, THINGS_MAX),
                f"max_size must be 1 to {THINGS_MAX:,}, not {self.max_size!r:.60}",
            ),
            (self.max_uses is None or is_whole(self.max_uses), "max_uses must be a whole number of at least 1"),
            *(
                (span is None or is_number(span, 0, above=True), f"{name} must be a number of seconds above 0")
                for name, span in spans
            ),
            *(
                (getattr(self, name) is None or callable(getattr(self, name)), f"{name} must be a function")
                for name in ("reset", "check", "close")
            ),
        )


class Pool(Generic[T]):
    """A factory with bounds; made by `TaskRegistry.pool`. Calling it calls the factory, here and now."""

    def __init__(self, make: Callable[..., Any], options: PoolOptions) -> None:
        refuse_unstorable(make, generators=True)
        self.fn = make
        self.settings = options
        self.name: str = options.name or str(getattr(make, "__name__", ""))
        functools.update_wrapper(self, make)
        if _needed(make):
            raise HandlerRefused(f"{self.name}: the factory of a pool is called without arguments")

    def __call__(self) -> Any:
        return self.fn()

    def __repr__(self) -> str:
        return f"<Pool {self.name} of {self.settings.node_type or 'all node types'}>"

    @property
    def reference(self) -> str:
        """The name under which workers find it. Raises HandlerRefused: they could not."""
        return reference_of(self.fn, generators=True)

    def serves(self, node_type: str) -> bool:
        """Whether tasks of a node type may use it."""
        return self.settings.node_type in (None, node_type)


def _place_of(pool: Pool[Any]) -> tuple[str, str]:
    """Where its factory is defined: one that is defined again there, in a reloaded module, is the same pool."""
    return str(getattr(pool.fn, "__module__", "")), str(getattr(pool.fn, "__qualname__", pool.name))


def _needed(make: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(make).parameters.values()
    except (ValueError, TypeError):
        return False
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.default is p.empty and p.kind not in stars for p in parameters)


class PoolDecorator(Protocol):
    """What `TaskRegistry.pool(...)` returns: makes a pool of a factory of any form."""

    @overload
    def __call__(self, make: Callable[[], AsyncGenerator[T, None]], /) -> Pool[T]: ...
    @overload
    def __call__(self, make: Callable[[], AsyncIterator[T]], /) -> Pool[T]: ...
    @overload
    def __call__(self, make: Callable[[], Generator[T, None, None]], /) -> Pool[T]: ...
    @overload
    def __call__(self, make: Callable[[], Iterator[T]], /) -> Pool[T]: ...
    @overload
    def __call__(self, make: Callable[[], AbstractContextManager[T]], /) -> Pool[T]: ...
    @overload
    def __call__(self, make: Callable[[], AbstractAsyncContextManager[T]], /) -> Pool[T]: ...
    @overload
    def __call__(self, make: Callable[[], Awaitable[T]], /) -> Pool[T]: ...
    @overload
    def __call__(self, make: Callable[[], T], /) -> Pool[T]: ...


class PoolRegistry:
    """The pools of a program, by name; part of `TaskRegistry`. One that is defined again replaces its earlier self."""

    def __init__(self) -> None:
        self.pools: dict[str, Pool[Any]] = {}

    def pool(
        self,
        node_type: str | None = None,
        *,
        name: str | None = None,
        max_size: int | None = None,
        max_age: float | None = None,
        max_idle: float | None = None,
        max_uses: int | None = None,
        timeout: float | None = None,
        reset: Check | None = None,
        check: Check | None = None,
        close: Check | None = None,
    ) -> PoolDecorator:
        """Make a function the factory of a pool: things that the tasks of a node type use one after the other.

        A task gets one in a parameter that is called like the pool or annotated `Annotated[T, pool]`, which must not be
        passed, or takes one with `TaskContext.pool`. See `PoolOptions` for the arguments.

        Returns:
            A decorator for a factory without arguments: a function or coroutine function that returns the thing, a
            generator or asynchronous generator that yields it once, or a function that returns a context manager made
            with `contextlib`.

        Raises:
            ConfigurationError: An argument is out of range, or another factory has this name. HandlerRefused: Workers
                could not find the factory.
        """
        options = PoolOptions(
            node_type, name, max_size, max_age, max_idle, max_uses, timeout, reset=reset, check=check, close=close
        )

        def decorate(make: Callable[[], Any]) -> Pool[Any]:
            pool: Pool[Any] = Pool(make, options)
            before = self.pools.get(pool.name)
            if before is not None and _place_of(before) != _place_of(pool):
                raise ConfigurationError(
                    f"there is a pool {pool.name!r} already, of {':'.join(_place_of(before))}: "
                    f"tell them apart with `name`, whatever their node types"
                )
            self.pools[pool.name] = pool
            return pool

        return decorate


# --- which pools a handler uses -----------------------------------------------------------------------------------


def pools_of(fn: Callable[..., Any], node_type: str, pools: Mapping[str, Pool[Any]], *, asks: bool) -> dict[str, Any]:
    """What a task kind says of pools.

    Args:
        fn: The handler.
        node_type: Its node type.
        pools: Those of its registry.
        asks: It has a TaskContext, and may ask for any of them.

    Returns:
        `pool_args`, the parameters that are filled in with the name of the pool of each, and `pools`, the references
        of all pools that it may use by name. Empty when it uses none, so that such a kind stays what it was.

    Raises:
        ConfigurationError: A parameter is annotated with a pool of another node type. HandlerRefused: Workers cannot
        find a pool by its name.
    """
    here = {pool.name: pool for pool in pools.values() if pool.serves(node_type)}
    args = dict(_parameters(fn, here, node_type))
    used = {pool.name: pool.reference for pool in args.values()}
    if asks:
        used.update((name, pool.reference) for name, pool in here.items())
        if len(here) == 1:
            used.setdefault(node_type, *(pool.reference for pool in here.values()))
    return {"pool_args": {name: pool.name for name, pool in args.items()}, "pools": used} if used else {}


def _parameters(
    fn: Callable[..., Any], here: Mapping[str, Pool[Any]], node_type: str
) -> Iterator[tuple[str, Pool[Any]]]:
    """Parameters that take a thing: annotated `Annotated[T, pool]`, or called like a pool of the node type."""
    code, hints = getattr(fn, "__code__", None), getattr(fn, "__annotations__", None)
    if code is None:
        return
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        pool = _annotated(fn, hints.get(name)) if isinstance(hints, Mapping) else None
        if pool is not None and not pool.serves(node_type):
            raise ConfigurationError(
                f"{name} takes a thing of the pool {pool.name!r}, which is for node type {pool.settings.node_type!r}, "
                f"not for {node_type!r}"
            )
        pool = pool or here.get(name)
        if pool is not None:
            yield name, pool


def _annotated(fn: Callable[..., Any], hint: Any) -> Pool[Any] | None:
    """The pool in an annotation; also when it is a text, under postponed evaluation."""
    if isinstance(hint, str):
        if "Annotated[" not in hint:
            return None
        names = hint.rpartition("]")[0].rpartition(",")[2].strip().split(".")
        found: Any = getattr(fn, "__globals__", {}).get(names[0])
        for name in names[1:]:
            found = getattr(found, name, None)
        return found if isinstance(found, Pool) else None
    if get_origin(hint) is not Annotated:
        return None
    return next((extra for extra in get_args(hint)[1:] if isinstance(extra, Pool)), None)

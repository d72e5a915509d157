"""Tasks: functions with options, and the registry that a program passes to its runtime.

There is no global registry: a `TaskRegistry` is an object you make and pass. A `Task` is called like its function
(directly, in this process) and is what `submit`, `map` and `Flow.add` take, so that type checkers see the handler's
own signature. Any importable function can be used without being a task; it then has the default options.

`kind_of` makes the dictionary that the engine knows a task by (handler name, shape of its arguments, options); the
engine never imports the function itself.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Generic, ParamSpec, TypedDict, TypeVar, Unpack, get_args, overload

from actors.protocol import limits
from actors.protocol.errors import CallerError, ConfigurationError
from actors.protocol.kinds import RATE_COST_RULE, SHARING, Shape, is_cost
from actors.protocol.moments import NS_PER_S
from actors.protocol.states import TriggerRule
from actors.protocol.words import is_name
from runtime.batch import Batch, BatchingDecorator, call_of_one
from runtime.checks import is_one_of, is_whole, refuse
from runtime.config import DEFAULT_NODE_TYPE, NAME_RULE, Payloads, Priority, Retry
from runtime.pools import Pool, PoolRegistry, pools_of
from runtime.reference import reference_of, refuse_unstorable
from runtime.times import DEADLINE_RULE, EXPIRY_RULE, SPAN_RULE, WAIT_RULE, is_expiry, is_wait
from runtime.units import seconds_to_ns

__all__ = ["Options", "Retry", "Task", "TaskOptions", "TaskRegistry", "kind_of"]

P = ParamSpec("P")
R = TypeVar("R")


class Options(TypedDict, total=False):
    """Keyword arguments of `TaskRegistry.task`, `Task.options` and `Runtime.options`; see `TaskOptions`."""

    node_type: str
    timeout: float | None
    retry: Retry | int | None
    priority: Priority | str
    trigger: TriggerRule | str
    payloads: Payloads
    name: str | None
    grace: float | None
    poison: int
    tenant: str
    concurrency_key: str | None
    rate_key: str | None
    rate_cost: float
    expires: float | None
    deadline: float | None


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """How a task is scheduled and run.

    Args:
        node_type: Name of the node type whose workers run it.
        timeout: Seconds one attempt may take; None for no limit.
        retry: When a failed attempt is tried again; a number is short for `Retry(max_attempts=number)`; None never.
        priority: Priority class.
        trigger: When a node may start, judged by its parents: "all_succeeded", "all_done", "any_succeeded" or
            "none_failed". Parents that did not succeed read as None.
        payloads: "json" takes values that come back exactly equal (see the README), "pickle" takes any that pickle
            does.
        name: Shown in tables and stories; the function's name when None.
        grace: Seconds between the steps of an escalation (cooperative, SIGTERM, SIGKILL); None for the default.
        poison: Crashes of its worker after which the task goes to dead letter.
        tenant: On whose account it runs: tenants take turns, by their weights. "" is the default tenant.
        concurrency_key: What it shares with others, such as a printer; `quotas={"key:printer": 1}` says how many may at
            once. None for nothing.
        rate_key: What it calls, such as a service; `rates={"api": Rate(10)}` says how often. None for nothing.
        rate_cost: How many of the calls that `rate_key` allows it takes.
        expires: Seconds after its submission by which it must have started; later it fails with the kind "expired".
            For tasks that are submitted singly. None for no limit.
        deadline: Seconds after its submission by which it must have ended, all attempts and waits included; then it is
            stopped and fails with the kind "deadline". For tasks that are submitted singly. None for no limit.
        batch: The handler takes a list, the arguments of several calls, and returns a list with a result for each; see
            `Batch`. None: it is called once for each call.

    Raises:
        ConfigurationError: A value is out of range; all problems are named.
    """

    node_type: str = DEFAULT_NODE_TYPE
    timeout: float | None = None
    retry: Retry | int | None = None
    priority: Priority | str = Priority.NORMAL
    trigger: TriggerRule | str = TriggerRule.ALL_SUCCEEDED
    payloads: Payloads = "json"
    name: str | None = None
    grace: float | None = None
    poison: int = limits.POISON_CRASHES_MAX
    tenant: str = ""
    concurrency_key: str | None = None
    rate_key: str | None = None
    rate_cost: float = 1.0
    expires: float | None = None
    deadline: float | None = None
    batch: Batch | None = None

    def __post_init__(self) -> None:
        if isinstance(self.retry, int):
            object.__setattr__(self, "retry", Retry(max_attempts=self.retry))
        checks = (
            (is_name(self.node_type), f"node_type: {NAME_RULE}"),
            (self.timeout is None or is_expiry(self.timeout), f"timeout must be {SPAN_RULE}"),
            (self.grace is None or is_wait(self.grace), f"grace must be {WAIT_RULE}"),
            (
                self.retry is None or isinstance(self.retry, Retry),
                "retry must be a Retry, a number of attempts, or None",
            ),
            (is_one_of(self.priority, Priority), f"priority must be one of {', '.join(Priority)}"),
            (is_one_of(self.trigger, TriggerRule), f"trigger must be one of {', '.join(TriggerRule)}"),
            (is_one_of(self.payloads, get_args(Payloads)), "payloads must be 'json' or 'pickle'"),
            (is_whole(self.poison), "poison must be a whole number of at least 1"),
            (self.name is None or is_name(self.name), NAME_RULE),
            (self.tenant == "" or is_name(self.tenant), f"tenant: {NAME_RULE}, or empty"),
            (self.concurrency_key is None or is_name(self.concurrency_key), f"concurrency_key: {NAME_RULE}"),
            (self.rate_key is None or is_name(self.rate_key), f"rate_key: {NAME_RULE}"),
            (is_cost(self.rate_cost), RATE_COST_RULE),
            (self.expires is None or is_expiry(self.expires), EXPIRY_RULE),
            (self.deadline is None or is_expiry(self.deadline), DEADLINE_RULE),
            (self.batch is None or isinstance(self.batch, Batch), "batch must be a Batch"),
        )
        refuse("task options", *checks)

    def or_else(self, defaults: TaskOptions) -> TaskOptions:
        """These options, with the other's where these are left at what a task has without any."""
        changed = {
            f.name: getattr(defaults, f.name)
            for f in fields(TaskOptions)
            if getattr(self, f.name) == getattr(DEFAULT_OPTIONS, f.name)
        }
        return replace(self, **changed)

    def without_expiry(self, what: str) -> TaskOptions:
        """These options.

        Raises:
            ConfigurationError: They have an expiry or a deadline, which would be passed over in silence here.
        """
        for name in ("expires", "deadline"):
            if getattr(self, name) is not None:
                raise ConfigurationError(f"{name} is for tasks that are submitted singly, not for {what}")
        return self

    def with_changes(self, changes: Options) -> TaskOptions:
        """These options with some changed.

        Raises:
            ConfigurationError: An option is unknown or out of range.
        """
        unknown = sorted(set(changes) - set(self.__slots__))
        if unknown:
            raise ConfigurationError(f"unknown task options: {', '.join(unknown)}")
        return replace(self, **changes)


DEFAULT_OPTIONS: Final = TaskOptions()


class Task(Generic[P, R]):
    """A function with options. Calling it calls the function, here and now; `submit` and `Flow.add` run it in a worker.

    Made by `TaskRegistry.task`; `fn` is the function, `settings` its `TaskOptions`.
    """

    fn: Callable[P, R]
    settings: TaskOptions

    def __init__(
        self,
        fn: Callable[P, R],
        settings: TaskOptions = DEFAULT_OPTIONS,
        pools: Mapping[str, Pool[Any]] = MappingProxyType({}),
    ) -> None:
        refuse_unstorable(fn)
        self.fn = fn
        self.settings = settings
        self.pools = pools
        functools.update_wrapper(self, fn)
        if inspect.iscoroutinefunction(fn) and sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.settings.batch is not None:
            one: R = call_of_one(self.fn, *args, **kwargs)
            return one
        return self.fn(*args, **kwargs)

    def options(self, **changes: Unpack[Options]) -> Task[P, R]:
        """The same function with some options changed; this task stays as it is.

        Args:
            changes: Options to change, see `TaskOptions`.

        Returns:
            A task of its own.

        Raises:
            ConfigurationError: An option is unknown or out of range.
        """
        return Task(self.fn, self.settings.with_changes(changes), self.pools)

    def __repr__(self) -> str:
        return f"<Task {self.fn.__module__}:{self.fn.__qualname__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _task_again, (self.fn.__module__, self.fn.__qualname__, self.settings)


def _task_again(module: str, qualname: str, settings: TaskOptions) -> Any:
    found: Any = sys.modules.get(module) or __import__(module, fromlist=["*"])
    for part in qualname.split("."):
        found = getattr(found, part)
    fn = found.fn if isinstance(found, Task) else found
    return found if isinstance(found, Task) and found.settings == settings else Task(fn, settings)


class TaskRegistry(PoolRegistry):
    """The tasks of a program, by name. Pass it to `Runtime`; make as many as you like, there is no default one.

    Iterating gives the tasks. A task that is defined again (a reloaded module) replaces its earlier self.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, Task[..., Any]] = {}

    @overload
    def task(self, fn: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(self, /, **options: Unpack[Options]) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    @overload
    def task(self, /, *, batch: Batch, **options: Unpack[Options]) -> BatchingDecorator: ...

    def task(
        self, fn: Callable[..., Any] | None = None, /, *, batch: Batch | None = None, **options: Unpack[Options]
    ) -> Any:
        """Make a function a task. Used bare (`@tasks.task`) or with options (`@tasks.task(timeout=30.0)`).

        A parameter annotated with `TaskContext` is filled in by the worker and must not be passed. Type checkers know
        that of the first parameter; with the default None the task can also be called directly.

        Args:
            fn: The handler: a plain or async function at the top level of an importable module.
            batch: It takes a list of arguments, one for each of several calls, and returns a list of results: see
                `Batch`. What is submitted, and what the task is called with, is one of them.
            options: See `TaskOptions`.

        Returns:
            The task, or a decorator that makes it.

        Raises:
            HandlerRefused: The function cannot be found by name in a worker, or is a generator function.
            ConfigurationError: An option is out of range.
        """
        if fn is None:
            settings = replace(DEFAULT_OPTIONS.with_changes(options), batch=batch)
            return lambda handler: self._register(handler, settings)
        return self._register(fn, DEFAULT_OPTIONS)

    def _register(self, fn: Callable[..., Any], settings: TaskOptions) -> Task[..., Any]:
        task: Task[..., Any] = Task(fn.fn if isinstance(fn, Task) else fn, settings, self.pools)
        self._tasks[f"{task.fn.__module__}:{task.fn.__qualname__}"] = task
        return task

    def find(self, fn: Callable[..., Any]) -> Task[..., Any] | None:
        """Find the task that was made of a function here, so that the bare function is run with its options.

        Args:
            fn: The function.

        Returns:
            Its task; None when it was not registered.
        """
        task = self._tasks.get(f"{getattr(fn, '__module__', '')}:{getattr(fn, '__qualname__', '')}")
        return task if task is not None and task.fn is fn else None

    def modules(self) -> list[str]:
        """Names of the modules that hold the tasks; workers import them before their first task."""
        return sorted({task.fn.__module__ for task in self._tasks.values()})

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, name: str) -> Task[..., Any]:
        return self._tasks[name]


def kind_of(
    target: Callable[..., Any] | Task[..., Any], options: TaskOptions | None = None, shape: Shape = "args"
) -> dict[str, Any]:
    """The task kind: what the engine and the workers know of a task.

    Args:
        target: A task or an importable function.
        options: Overrides the task's own options; None keeps them.
        shape: How its arguments are stored, see `actors.protocol.kinds.Shape`.

    Returns:
        Plain JSON, times in nanoseconds; equal dictionaries are one kind.

    Raises:
        HandlerRefused: The function cannot be a handler. CallerError: A batching handler is given several arguments.
    """
    fn = target.fn if isinstance(target, Task) else target
    if options is None:
        options = target.settings if isinstance(target, Task) else DEFAULT_OPTIONS
    context_arg = context_parameter(fn)
    retry = options.retry if isinstance(options.retry, Retry) else Retry(max_attempts=1)
    shared = {
        name: getattr(options, name) for name in SHARING if getattr(options, name) != getattr(DEFAULT_OPTIONS, name)
    }
    if options.batch is not None:
        if shape in ("args", "call"):
            raise CallerError(f"{reference_of(fn)} is a batching handler: a call of it has one positional argument")
        shared["batch"] = options.batch.to_wire()
    return {
        "handler": reference_of(fn),
        "name": options.name or getattr(fn, "__qualname__", "") or getattr(fn, "__name__", ""),
        "node_type": options.node_type,
        "shape": shape,
        "timeout_ns": seconds_to_ns(options.timeout),
        "grace_ns": limits.GRACE_NS if options.grace is None else int(options.grace * NS_PER_S),
        "retry": retry.to_wire(),
        "poison": options.poison,
        "priority": str(options.priority),
        "trigger": str(options.trigger),
        "payloads": options.payloads,
        "context": context_arg is not None,
        "context_arg": context_arg,
        **shared,
        **(
            pools_of(fn, options.node_type, target.pools, asks=context_arg is not None)
            if isinstance(target, Task) and target.pools
            else {}
        ),
    }


def context_parameter(fn: Callable[..., Any]) -> str | None:
    """Name of the parameter annotated with `TaskContext`, which the worker fills in; None when there is none."""
    annotations = getattr(fn, "__annotations__", None)
    if not isinstance(annotations, Mapping):
        return None
    return next((str(n) for n, hint in annotations.items() if n != "return" and _means_context(hint)), None)


def _means_context(hint: object) -> bool:
    """Whether an annotation (a class, a union, or text under postponed evaluation) names TaskContext."""
    if isinstance(hint, str):
        parts = (part.strip().strip("'\"") for part in hint.replace("Optional[", "").replace("]", "").split("|"))
        return any(part.rpartition(".")[2] == "TaskContext" for part in parts)
    if isinstance(hint, type):
        return hint.__name__ == "TaskContext" and hint.__module__.partition(".")[0] == "runtime"
    return any(_means_context(part) for part in get_args(hint))


def positional_names(fn: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    """Names of the parameters that can be given by keyword, and whether any other keyword is taken too (`**kwargs`)."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (ValueError, TypeError):
        return frozenset(), False
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = frozenset(p.name for p in parameters if p.kind in by_keyword)
    return names, any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def split_partial(fn: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A `functools.partial`, also a nested one, as its function and the arguments that go first; others unchanged."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    while isinstance(fn, functools.partial):
        args = (*fn.args, *args)
        kwargs = {**fn.keywords, **kwargs}
        fn = fn.func
    return fn, args, kwargs

"""From a call to a frame: the part of `submit` that the blocking and the asyncio face share. Nothing here waits.

A `Plan` is what is known of one function with one set of options: its task kinds by shape, numbered in the session.
It is found by one dictionary look-up, so that a submission costs little more than encoding its argument.

Options and arguments. `priority`, `timeout`, `run_id`, `tenant`, `concurrency_key`, `rate_key`, `rate_cost`, the times
(`runtime.times`) and whether the call joins others (`runtime.once`) may be given as keywords of `submit` and go to the
scheduler, unless the handler itself has a parameter of that name, or takes `**kwargs`: then they are the handler's.
`rt.options(...)` never mixes the two.

Concurrency: any thread. Two threads that meet a function first may both define its kinds; the engine takes equal kinds
for one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, HandlerRefused, PayloadError
from actors.protocol.kinds import Shape
from runtime.config import RuntimeConfig
from runtime.flow import Flow
from runtime.host.client import EngineClient
from runtime.host.decode import BLOB_MARK, SEQ_BYTES
from runtime.items import ANY_KEY, ITEM_BYTES_MAX, NoBlobs, encode_call, graph_of_one, refuse_long_item, shape_of
from runtime.keywords import options_for, refuse_options_alike, takes_of
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from runtime.once import ONCE_OPTIONS, Debounce, Once, debounced_columns, once_of
from runtime.reference import refuse_unstorable
from runtime.registry import (
    DEFAULT_OPTIONS,
    Options,
    Task,
    TaskOptions,
    TaskRegistry,
    kind_of,
    split_partial,
)
from runtime.times import NO_TIMES, TIME_OPTIONS, Times, tail_of, times_of
from runtime.units import seconds_to_ns

RUN_ID_BYTES_MAX: Final = 120
"""A run id names a folder, so it must fit into a file name together with what is put behind it."""
_UNKNOWN: Final = -1


class Plan:
    """What is known of one function with one set of options.

    `one` and `many` are the numbers of its kinds of shape "one" and "args", kept apart because they are needed often.
    """

    __slots__ = ("dispatch", "ends", "fn", "many", "numbers", "one", "options", "own_options", "pickle", "takes")

    def __init__(self, dispatch: Dispatch, fn: Callable[..., Any], options: TaskOptions) -> None:
        self.dispatch = dispatch
        self.fn = fn
        self.options = options
        self.pickle = options.payloads == "pickle"
        self.ends = () if options.expires is None and options.deadline is None else _ends_of(options)
        self.numbers: dict[str, int] = {}
        self.own_options, self.takes = options_for(fn), takes_of(fn)
        self.one = self.many = _UNKNOWN

    def has_options(self, kwargs: dict[str, Any]) -> bool:
        """Whether options are among keywords. Raises ConfigurationError: what looks like one is none."""
        if self.takes is not None and not self.takes.issuperset(kwargs):
            refuse_options_alike(self.fn, kwargs.keys() - self.takes)
        return not self.own_options.isdisjoint(kwargs)

    def kind(self, shape: Shape) -> dict[str, Any]:
        """The task kind of this function for a shape of arguments."""
        kind = kind_of(self.fn, self.options, shape)
        kind["node_type"] = self.dispatch.config.node_type_for(kind["node_type"])
        return kind

    def number(self, shape: Shape) -> int:
        """Its number in the session, for now; defined when it is first asked for, or was given up."""
        number = self.numbers.get(shape, _UNKNOWN)
        if number < self.dispatch.client.kinds_from:
            number = self.numbers[shape] = self.dispatch.client.define(self.kind(shape))
        return number


def _ends_of(options: TaskOptions) -> tuple[int | None, int | None]:
    """How long after its submission a task expires, and must have ended."""
    return seconds_to_ns(options.expires), seconds_to_ns(options.deadline)


class Dispatch:
    """Submits with one set of options. See the module.

    Args:
        client: Sends the frames.
        config: Knows the node types.
        registry: Tasks whose bare function is run with the task's options.
        changes: Options that replace those of the tasks.
    """

    def __init__(
        self, client: EngineClient, config: RuntimeConfig, registry: TaskRegistry, changes: Options | None = None
    ) -> None:
        self.client = client
        self.config = config
        self.registry = registry
        self.changes: Options = changes or {}
        self.codec = Codec(NoBlobs())
        self.plans: dict[Any, Plan] = {}
        self._derived: dict[tuple[tuple[str, Any], ...], Dispatch] = {}
        DEFAULT_OPTIONS.with_changes(self.changes)

    def with_options(self, changes: Options) -> Dispatch:
        """The same with more options changed; kept, because functions are planned anew under other options.

        Raises:
            ConfigurationError: An option is unknown or out of range.
        """
        key = tuple(sorted(changes.items()))
        try:
            found = self._derived.get(key)
        except TypeError as unhashable:  # so is no value that an option can have
            DEFAULT_OPTIONS.with_changes(changes)
            raise ConfigurationError(f"task options: {unhashable}") from unhashable
        if found is None:
            if len(self._derived) >= limits.OPTION_SETS_MAX:
                self._derived.clear()
            merged: Options = {**self.changes, **changes}
            found = self._derived[key] = Dispatch(self.client, self.config, self.registry, merged)
        return found

    def plan(self, fn: Callable[..., Any]) -> Plan:
        """The plan of a function.

        Raises:
            HandlerRefused: It cannot be a handler. UnknownNodeType: its node type is not there.
        """
        if not isinstance(fn, Hashable):
            refuse_unstorable(fn)
            raise HandlerRefused(f"an instance of {type(fn).__qualname__} cannot be a handler: it has no hash")
        found = self.plans.get(fn)
        if found is None:
            task = fn if isinstance(fn, Task) else self.registry.find(fn)
            options = DEFAULT_OPTIONS if task is None else task.settings
            if len(self.plans) >= limits.PLANS_MAX:
                self.plans.clear()
            found = Plan(
                self, fn if task is None else task, options.with_changes(self.changes) if self.changes else options
            )
            self.plans[fn] = found
        return found

    # --- single tasks ---------------------------------------------------------------------------------------------

    def send(
        self,
        make: Callable[..., Any],
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Any,
        times: Times = NO_TIMES,
    ) -> Any:
        """Submit a call whose values are small.

        Args:
            make: Makes the handle, `make(client, run_id)`.
            fn: Task, function or partial.
            args: Positional arguments.
            kwargs: Keyword arguments, with or without options.
            times: Those of a call whose options were taken out.

        Returns:
            The handle.

        Raises:
            BlobNeeded: A value is large; call `send_large`. QueueFull, PayloadError, HandlerRefused, RuntimeClosed, ...
        """
        if type(fn) is functools.partial:
            fn, args, kwargs = with_partial(fn, args, kwargs)
        try:
            plan = self.plans[fn]
        except (KeyError, TypeError):
            plan = self.plan(fn)
        if kwargs or times is not NO_TIMES or plan.ends:
            return self._send_call(make, plan, args, kwargs, times)
        if len(args) == 1:
            item = self.codec.encode(args[0], pickle=plan.pickle, blob_key=ANY_KEY)
            if plan.one < self.client.kinds_from:
                plan.one = plan.number("one")
            return self.client.send_task(plan.one, item, make(self.client))
        item = self.codec.encode_list(list(args), pickle=plan.pickle, blob_key=ANY_KEY)
        if len(item) > ITEM_BYTES_MAX:
            refuse_long_item(len(item))
        if plan.many < self.client.kinds_from:
            plan.many = plan.number("args")
        return self.client.send_task(plan.many, item, make(self.client))

    def _send_call(
        self, make: Callable[..., Any], plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], times: Times
    ) -> Any:
        if kwargs and plan.has_options(kwargs):
            return self._send_with_options(make, plan, args, kwargs, large=False)
        tail = tail_of(times.columns(*plan.ends))
        item = encode_call(self.codec, args, kwargs, pickle=plan.pickle, blob_key=ANY_KEY)
        return self.client.send_task(plan.number(shape_of(args, kwargs)), item, make(self.client), tail)

    def send_large(
        self,
        make: Callable[..., Any],
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Any,
        times: Times = NO_TIMES,
    ) -> Any:
        """Submit a call with values that become files. Writes them: may take as long as the disk does.

        What a crash leaves behind: files that no run names; the next start removes them.
        """
        fn, args, kwargs = with_partial(fn, args, kwargs)
        plan = self.plan(fn)
        if kwargs and plan.has_options(kwargs):
            return self._send_with_options(make, plan, args, kwargs, large=True)
        tail = tail_of(times.columns(*plan.ends))
        number = plan.number(shape_of(args, kwargs))
        client = self.client

        def frame(seq: int) -> bytes:
            key = f"{client.session}-{seq}"
            item = encode_call(client.codec, args, kwargs, pickle=plan.pickle, blob_key=key)
            return b"T[%d,%d,%b%b]" % (seq, number, item, tail)

        handle = make(client)
        client.send_made(handle, frame)
        return handle

    def send_named(
        self,
        make: Callable[..., Any],
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        run_id: str,
        times: Times,
        *,
        large: bool,
    ) -> Any:
        """Submit a single task as a run with a chosen id: a graph of one node. Raises BlobNeeded: a value is large, and
        `large` does not say that it may be written."""
        check_run_id(run_id)
        plan = self.plan(fn)
        kind = plan.kind(shape_of(args, kwargs))
        codec = self.client.codec if large else self.codec
        item = encode_call(codec, args, kwargs, pickle=plan.pickle, blob_key=run_id)
        container = graph_of_one(kind, item, times.columns(*plan.ends), run_id=run_id)
        handle = make(self.client, run_id)
        self.client.send_made(handle, functools.partial(self._graph_frame, container, run_id))
        return handle

    def send_once(
        self,
        make: Callable[..., Any],
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        once: Once,
        times: Times,
        *,
        large: bool,
    ) -> Any:
        """Submit a single task that may join another: a graph of one node, of which the engine may know already.

        Raises:
            BlobNeeded: A value is large, and `large` does not say that it may be written. ConfigurationError: it is a
            debounced call, and has times that it cannot have.
        """
        plan, client = self.plan(fn), self.client
        kind = plan.kind(shape_of(args, kwargs))
        if isinstance(once, Debounce):
            columns = debounced_columns(once, times, plan.ends)
        else:
            columns = times.columns(*plan.ends)
        codec = Codec(once.blobs()) if large else self.codec
        item = encode_call(codec, args, kwargs, pickle=plan.pickle, blob_key=ANY_KEY)
        told_apart = item
        if plan.pickle:
            with suppress(PayloadError):  # equal values may be pickled differently: sets, and what is shared
                told_apart = encode_call(codec, args, kwargs, blob_key=ANY_KEY)
        header = once.header(kind["handler"], kind["shape"], told_apart)
        if large:
            header["files"] = True

        def frame(seq: int) -> bytes:
            run_key, stored = f"{client.session}-{seq}", item
            if large:
                stored = encode_call(client.codec, args, kwargs, pickle=plan.pickle, blob_key=run_key)
            return self._graph_frame(graph_of_one(kind, stored, columns, **header), run_key, seq)

        handle = make(client)
        client.send_made(handle, frame)
        return handle

    def _send_with_options(
        self, make: Callable[..., Any], plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], *, large: bool
    ) -> Any:
        """Submit a call with options among its keywords."""
        other, run_id, once, times, rest = self._split_options(plan, kwargs)
        if once is not None:
            return other.send_once(make, plan.fn, args, rest, once, times, large=large)
        if run_id is not None:
            return other.send_named(make, plan.fn, args, rest, run_id, times, large=large)
        return (other.send_large if large else other.send)(make, plan.fn, args, rest, times)

    def _split_options(
        self, plan: Plan, kwargs: dict[str, Any]
    ) -> tuple[Dispatch, str | None, Once | None, Times, dict[str, Any]]:
        """The options among the keywords, as a dispatch that has them; run id, what it joins, times; the other ones."""
        given = {name: kwargs[name] for name in plan.own_options & kwargs.keys()}
        rest = {name: value for name, value in kwargs.items() if name not in plan.own_options}
        run_id = given.pop("run_id", None)
        joining = {name: given.pop(name) for name in ONCE_OPTIONS & given.keys()}
        once = once_of(joining) if joining else None
        if once is not None and run_id is not None:
            word = next(iter(joining))
            raise ConfigurationError(f"submit: run_id and {word} exclude each other")
        asked = {name: given.pop(name) for name in TIME_OPTIONS & given.keys()}
        other = self.with_options(given) if given else self  # type: ignore[arg-type]  # a subset of Options
        return other, run_id, once, times_of(asked) if asked else NO_TIMES, rest

    # --- flows ----------------------------------------------------------------------------------------------------

    def send_flow(self, make: Callable[..., Any], flow: Flow, run_id: str | None) -> Any:
        """Submit a flow. Writes files when values, or the graph itself, are large.

        Returns:
            The handle, `make(client, run_id)`.

        Raises:
            CycleError, UnknownNodeType, PayloadError, QueueFull, ...
        """
        if run_id is not None:
            check_run_id(run_id)
        DEFAULT_OPTIONS.with_changes(self.changes).without_expiry("flows")
        client = self.client
        made = None
        if not flow.has_large_values:
            made = flow.container(client.codec, "", self.config.node_type_for, run_id)

        def frame(seq: int) -> bytes:
            key = run_id or f"{client.session}-{seq}"
            container = made or flow.container(client.codec, key, self.config.node_type_for, run_id)
            return self._graph_frame(container, key, seq)

        handle = make(client, run_id)
        client.send_made(handle, frame)
        return handle

    def _graph_frame(self, container: bytes, key: str, seq: int) -> bytes:
        number = seq.to_bytes(SEQ_BYTES, "little")
        if len(container) + SEQ_BYTES + 1 <= limits.FRAME_BYTES_MAX:
            return b"G" + number + container
        return b"G" + number + BLOB_MARK + self._blobs().write(key, "graph", [container]).encode()

    def _blobs(self) -> BlobStore:
        store = self.client.blobs
        if store is None:
            raise ConfigurationError("this client has no store for large graphs")
        return store


def with_partial(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A call of a partial as a call of its function."""
    inner, first, named = split_partial(fn)
    return inner, (*first, *args), {**named, **kwargs}


def check_run_id(run_id: str) -> None:
    """Refuse what cannot name a run: it also names the folder of the run's large values.

    Raises:
        ConfigurationError: Says why.
    """
    if not run_id:
        raise ConfigurationError("a run id must be a non-empty string")
    try:
        size = len(run_id.encode())
    except UnicodeEncodeError as broken:
        raise ConfigurationError(f"run id {run_id!a} holds a lone surrogate") from broken
    if size > RUN_ID_BYTES_MAX:
        raise ConfigurationError(f"a run id has at most {RUN_ID_BYTES_MAX} bytes, not {size}")
    if "/" in run_id or run_id.startswith(".") or not run_id.isprintable():
        why = "starts with a dot, or holds a slash or an unprintable character"
        raise ConfigurationError(f"run id {run_id!a} {why}")

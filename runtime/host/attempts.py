"""One attempt on the main thread: decode its arguments, call, await, encode its result; and stop it when asked.

Shared by the simple and the general path of `worker_process`. Nothing here is per batch.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic_ns, sleep
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from actors.protocol import limits
from actors.protocol.errors import DiskFull, HandlerRefused
from actors.worker import WorkGroup
from runtime.context import TaskContext
from runtime.host.handlers import Handler, with_results
from runtime.host.results import BARE, SCALARS, TEXT_CHARS_MAX, Place
from runtime.host.station import PayloadRefused, Station, stop_signal

if TYPE_CHECKING:
    import asyncio

    from runtime.host.batches import BatchCall
    from runtime.host.lending import Lending, ThreadWays

ROOM_S: Final = limits.DISK_FULL_RETRY_NS / 1e9
"""Between two tries to store a result for which the disk has no room: the work is done and shall not be done again.
What stops an attempt stops this too."""
_PLAIN_CONTAINERS: Final = frozenset({dict, list, tuple, set, bytes})
_FLAT: Final = frozenset({dict, list, tuple})
_FLAT_MAX: Final = 16
_FLAT_CHARS_MAX: Final = TEXT_CHARS_MAX // (2 * _FLAT_MAX)
"""Of each text among the keys and values of a flat one."""
"""Containers of so many scalars are copied instead of encoded at once; beyond, the look at the types costs more."""


class Stopper:
    """Delivers a stop request to the attempt that runs on the main thread.

    States: idle; shielded (our own code runs on behalf of the handler: a request waits until the shield ends);
    awaiting (the attempt is a coroutine on `loop`: its task is cancelled). A request is delivered once.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[Any] | None = None
        self._serial = 0
        self._reason = 0
        self._shields = 0
        self._waits = False
        self._kept: WeakSet[asyncio.Task[Any]] = WeakSet()

    def keep(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """These are not the attempt's, and go on when it has ended."""
        self._kept.update(tasks)

    def left(self) -> set[asyncio.Task[Any]]:
        """What the attempt left running."""
        import asyncio  # lazy: a coroutine ran, so it is there

        return {task for task in asyncio.all_tasks(self.loop) if task not in self._kept}

    def stop(self, serial: int, reason: int) -> None:
        """Stop the attempt that runs now. On the main thread; raises the control signal in the handler if it can."""
        self._serial, self._reason = serial, reason
        if self._shields:
            self._waits = True
        elif self.task is not None and self.loop is not None:
            self.loop.call_soon_threadsafe(self.task.cancel)
        else:
            self._raise()

    def reason_for(self, serial: int) -> int:
        """Why this attempt was stopped; 0 when it was not."""
        return self._reason if self._serial == serial else 0

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Keep the main thread from being interrupted; a request that comes meanwhile is delivered at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if self._waits and not self._shields:
            self._waits = False
            if self.task is None:
                self._raise()
            else:
                self.task.cancel()

    def _raise(self) -> None:
        raise stop_signal(self._reason)


class AttemptRunner:
    """See the head of the file."""

    def __init__(self, station: Station, stopper: Stopper) -> None:
        self._station = station
        self._codec = station.codec
        self._stopper = stopper
        self.pools: ThreadWays | None = None
        """Of this worker, once a handler used one."""

    # --- one attempt ----------------------------------------------------------------------------------------------

    def run(
        self, group: WorkGroup, handler: Handler, at: int, place: Place, started_ns: int
    ) -> tuple[Any, bytes | None]:
        """Run a task of any shape.

        Returns its result as it is kept, and the frame of the nodes it adds. Runs user code.
        """
        args, kwargs = arguments(self._station, handler, group.items[at], group.plain)
        context: TaskContext | None = None
        if handler.context_arg is not None:
            attempt = group.attempts[at] if group.attempts else 1
            ends_ns = deadline_of(group, at, handler.timeout_ns, started_ns)
            context = TaskContext(_ContextLink(self._station, self._stopper, place, attempt, ends_ns))
            insert_context(handler, args, kwargs, context)
        try:
            if handler.pools:
                with self._lending(handler, args, kwargs, context):
                    value = self._value(handler, args, kwargs, place.run_key)
            else:
                value = self._value(handler, args, kwargs, place.run_key)
            return value, context.spawned() if context is not None else None
        except BaseException as exc:
            if context is None or (ending := context.ending(exc)) is exc:
                raise
            raise ending from None
        finally:
            if context is not None:
                context.close()

    def _value(self, handler: Handler, args: list[Any], kwargs: dict[str, Any], run_key: str) -> Any:
        value = handler.fn(*args, **kwargs)
        return self.settle(value, handler.pickle, run_key) if needs_settling(value) else value

    def _lending(
        self, handler: Handler, args: list[Any], kwargs: dict[str, Any], context: TaskContext | None
    ) -> Lending:
        from runtime.host.lending import Lending, ThreadWays  # lazy: workers without pools do without

        if self.pools is None:
            self.pools = ThreadWays(self._stopper, lambda waits: self._await(waits, keep=True))
        return Lending(self.pools, handler, args, kwargs, context)

    def run_batch(self, batch: BatchCall, handler: Handler, started_ns: int) -> None:
        """Run a batch; what becomes of its calls is kept in it. Runs user code."""
        args, kwargs = [batch.arguments(handler)], dict[str, Any]()
        if not args[0]:
            return
        context: TaskContext | None = None
        if handler.context_arg is not None:
            places = batch.places
            ends_ns = None if handler.timeout_ns is None else started_ns + handler.timeout_ns
            link = _ContextLink(self._station, self._stopper, places[0], batch.attempt, ends_ns, places)
            context = TaskContext(link)
            insert_context(handler, args, kwargs, context)
        try:
            if handler.pools:
                with self._lending(handler, args, kwargs, context):
                    self._settle_batch(batch, handler, args, kwargs)
            else:
                self._settle_batch(batch, handler, args, kwargs)
        finally:
            if context is not None:
                context.close()

    def _settle_batch(self, batch: BatchCall, handler: Handler, args: list[Any], kwargs: dict[str, Any]) -> None:
        value = handler.fn(*args, **kwargs)
        if hasattr(type(value), "__await__"):
            value = self._await(value)
        for place, result in batch.results(value):
            try:
                kept = self.settle(result, handler.pickle, place.run_key) if needs_settling(result) else result
            except Exception as refused:
                batch.refuse(place, refused)
            else:
                batch.settle(place, kept)

    def settle(self, value: Any, pickle: bool, blob_key: str) -> Any:
        """A result as it is kept: a copy or its text, because what it holds may be changed later. Awaits coroutines.

        Raises:
            HandlerRefused: It is a generator. PayloadRefused: it cannot be stored.
        """
        kind = type(value)
        if kind in _FLAT and len(value) <= _FLAT_MAX and is_flat(value):
            if kind is not dict:
                return value[:]
            if is_flat(value.values()):
                return value.copy()
        if kind not in _PLAIN_CONTAINERS:
            if kind is CoroutineType or hasattr(kind, "__await__"):
                value = self._await(value)
            if issubclass(type(value), (GeneratorType, AsyncGeneratorType)):
                raise HandlerRefused("the handler returned a generator, which has no value; return a list instead")
        while True:
            try:
                return encode_result(self._station, value, pickle, blob_key)
            except DiskFull:
                sleep(ROOM_S)

    def succeeded(self, place: Place, outcome: tuple[Any, bytes | None], started_ns: int) -> None:
        """Enter a result, after the nodes that it adds."""
        value, spawned = outcome
        with self._station.lock:
            if spawned is not None:
                self._station.pile.spawned(spawned)
            self._station.pile.result(place, value, started_ns, monotonic_ns())

    def failed(self, place: Place, started_ns: int, exc: BaseException, handler: Handler | None) -> None:
        """Enter a failure."""
        self._station.fail(place, started_ns, exc, stopped=self._stopper.reason_for(place.serial), handler=handler)

    def stopped_before_start(self, place: Place, reason: int) -> None:
        """Enter that an attempt was stopped before it started."""
        now_ns = monotonic_ns()
        signal = stop_signal(reason)
        self._station.fail(place, now_ns, signal, stopped=reason)

    # --- coroutines -----------------------------------------------------------------------------------------------

    def _await(self, awaitable: Awaitable[Any], *, keep: bool = False) -> Any:
        """Run a coroutine to its end on a loop that is kept; what it leaves running is cancelled, or kept as well."""
        import asyncio  # lazy: 40 ms and some memory, which a worker without coroutines does not need

        stopper = self._stopper
        loop = stopper.loop
        if loop is None:
            loop = stopper.loop = new_loop()
            asyncio.set_event_loop(loop)
        outcome: list[Any] = []

        async def attempt() -> None:
            # Nothing leaves this coroutine, because the loop treats SystemExit and KeyboardInterrupt as its own end.
            try:
                outcome.append(await awaitable)
            except BaseException as exc:
                outcome.extend((None, exc))

        stopper.task = loop.create_task(attempt())
        try:
            loop.run_until_complete(stopper.task)
        finally:
            stopper.task = None
        left = stopper.left()
        if keep:
            stopper.keep(left)
        elif left:
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        if len(outcome) > 1:
            raise outcome[1]
        return outcome[0]


class _ContextLink:
    """What a TaskContext knows and may do; see `runtime.context.AttemptView`."""

    def __init__(
        self,
        station: Station,
        stopper: Stopper,
        place: Place,
        attempt: int,
        deadline_ns: int | None,
        batch: Sequence[Place] = (),
    ) -> None:
        self.place = place
        self.batch = batch
        self.attempt = attempt
        self.deadline_ns = deadline_ns
        self.codec = station.codec
        self.node_types: list[str] = list(station.config.get("node_type_names") or ())
        self._station = station
        self._stopper = stopper

    def stop_reason(self) -> int:
        """Why this attempt shall stop; 0 when it may go on."""
        serial, reason = self._station.table.cancel_asked()
        return reason if serial == self.place.serial else self._stopper.reason_for(self.place.serial)

    def tell(self, letter: bytes, body: list[Any]) -> None:
        """Send on the control lane."""
        with self._stopper.shield():
            self._station.tell(letter, body)


# --- shared with asyncio mode -------------------------------------------------------------------------------------


def arguments(station: Station, handler: Handler, item: Any, plain: bool) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of a stored item.

    Raises:
        PayloadRefused: A stored value cannot be read.
    """
    codec, shape = station.codec, handler.shape
    try:
        if shape == "template":
            template, parents = item
            return codec.decode_template(template, codec.decode_list(parents))
        if shape == "mixed":
            (args, places), results = item
            if not plain:
                item = [[codec.decode_list(args), places], codec.decode_list(results)]
            return with_results(item), {}
        if shape == "one":
            return [item if plain else codec.decode(item)], {}
        if shape == "call":
            args, named = item
            if plain:
                return list(args), dict(named)
            return codec.decode_list(args), dict(zip(named, codec.decode_list(list(named.values())), strict=True))
        return list(item) if plain else codec.decode_list(item), {}
    except Exception as broken:
        raise PayloadRefused("the arguments cannot be read") from broken


def deadline_of(group: WorkGroup, at: int, timeout_ns: int | None, started_ns: int) -> int | None:
    """When an attempt is stopped: at its timeout or the deadline of its task, whichever is first; None for neither."""
    ends_ns = (group.ends_ns[at] or None) if group.ends_ns else None
    if timeout_ns is None:
        return ends_ns
    return started_ns + timeout_ns if ends_ns is None else min(ends_ns, started_ns + timeout_ns)


def insert_context(handler: Handler, args: list[Any], kwargs: dict[str, Any], context: TaskContext) -> None:
    """Put the context where the handler's signature has it."""
    if 0 <= handler.context_place <= len(args):
        args.insert(handler.context_place, context)
    elif handler.context_arg is not None:
        kwargs[handler.context_arg] = context


def is_flat(values: Collection[Any]) -> bool:
    """Whether these few values cannot change, and need no file together."""
    kinds = set(map(type, values))
    if str not in kinds:
        return kinds <= SCALARS
    return kinds <= SCALARS and all(type(one) is not str or len(one) <= _FLAT_CHARS_MAX for one in values)


def needs_settling(value: Any) -> bool:
    """Whether a result may change after it was returned, or may need a file."""
    return type(value) not in BARE and (type(value) is not str or len(value) > TEXT_CHARS_MAX)


def encode_result(station: Station, value: Any, pickle: bool, blob_key: str) -> bytes:
    """A result as JSON text; see `AttemptRunner.settle`. Raises DiskFull: no room for a large one now, try again."""
    try:
        return station.codec.encode(value, pickle=pickle, blob_key=blob_key)
    except (MemoryError, DiskFull):
        raise
    except Exception as refused:
        raise PayloadRefused("the result cannot be stored") from refused


def new_loop() -> asyncio.AbstractEventLoop:
    """A uvloop loop, or asyncio's own where uvloop does not exist."""
    try:
        import uvloop  # lazy: only handlers that are coroutines need it
    except ImportError:
        import asyncio  # lazy: as above

        return asyncio.new_event_loop()
    make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return make()

"""TaskContext: what a handler can know of its attempt and say while it runs.

A handler asks for it with a parameter annotated `TaskContext`; the worker fills it in. It belongs to one attempt and is
dead after it. A light module: it is imported by every worker, and by user code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

import orjson

from actors.protocol import limits
from actors.protocol.control_signals import AttemptCancelled, AttemptTimeout, WaitsForCalls
from actors.protocol.errors import GraphError, RuntimeClosed, TaskFailed
from actors.protocol.words import counted
from runtime.borrowed import Borrower

if TYPE_CHECKING:
    from datetime import datetime

    from runtime.call_book import Asked, CallBook
    from runtime.flow import Flow, Node
    from runtime.host.results import Place
    from runtime.mail.codec import Codec

R = TypeVar("R")

PROGRESS_NS: Final = 50_000_000
"""Between two progress reports of one attempt that are sent; of those in between only the latest would matter."""
_TIMEOUT: Final = 2
_DEADLINE: Final = 3
_NS: Final = 1e9


class AttemptView(Protocol):
    """What a context needs of the worker that runs its attempt."""

    place: Place
    batch: Sequence[Place]
    attempt: Any
    deadline_ns: int | None
    codec: Codec
    node_types: list[str]

    def stop_reason(self) -> int:
        """Why the attempt shall stop (1 cancel, 2 timeout, 3 deadline); 0 when it may go on."""

    def tell(self, letter: bytes, body: list[Any]) -> None:
        """Send a frame to the engine."""


class TaskContext(Borrower):
    """One attempt, seen from inside.

    Attributes:
        run_id: The run that the task belongs to.
        node: Number of the task's node in its run.
        attempt: 1 for the first attempt, 2 for the first retry, and so on.
        idempotency_key: The same for all attempts of this node and different from all others: give it to outside
            services, so that an attempt that is repeated after a crash is recognised there.
        batch_size: How many calls this is at once; 1 but in a batching handler, where what stands above is of the first
            call, and `idempotency_keys` has the key of each, in the order of the arguments.
    """

    __slots__ = (
        "_calls", "_earlier", "_flow", "_progress_ns", "_view", "attempt", "batch_size", "idempotency_key",
        "idempotency_keys", "node", "run_id",
    )  # fmt: skip

    def __init__(self, view: AttemptView) -> None:
        """Made by the worker."""
        self._view: AttemptView | None = view
        self._lending = None
        self._flow: Flow | None = None
        self._calls: CallBook | None = None
        self._progress_ns = 0
        self.run_id = view.place.run_key
        self.node = view.place.node
        self._earlier: list[Any] = []
        self.attempt: int = view.attempt
        if type(view.attempt) is list:
            self.attempt, self._earlier = view.attempt
        self.idempotency_key = f"{view.place.run_key}/{view.place.node}"
        self.batch_size = len(view.batch) or 1
        self.idempotency_keys = tuple(f"{p.run_key}/{p.node}" for p in view.batch) or (self.idempotency_key,)

    def __repr__(self) -> str:
        return f"<TaskContext {self.idempotency_key} attempt {self.attempt}>"

    @property
    def due(self) -> datetime | None:
        """The due time, in UTC, at which a schedule started this run; None when none did.

        It is what a report is for: the same in each attempt, however late that is.
        """
        from runtime.schedules import due_in  # lazy: few handlers are scheduled

        return due_in(self.run_id)

    # --- time and cancel ------------------------------------------------------------------------------------------

    @property
    def deadline_ns(self) -> int | None:
        """When the attempt is stopped, on the clock of `time.monotonic_ns`: at its timeout, or at the deadline of its
        task if that is earlier; None without either."""
        return self._open().deadline_ns

    def remaining(self) -> float | None:
        """Seconds until the timeout, or the deadline of the task if that is earlier; not below 0.

        Returns:
            The seconds; None without either.
        """
        deadline_ns = self._open().deadline_ns
        return None if deadline_ns is None else max(0.0, (deadline_ns - time.monotonic_ns()) / _NS)

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was asked to stop, by a cancel or by its timeout. For loops that end in their own way."""
        return self._open().stop_reason() != 0

    def check_cancelled(self) -> None:
        """End the attempt here if it was asked to stop.

        Raises:
            AttemptCancelled: It was cancelled. AttemptTimeout: it ran over its timeout, or the deadline of its task.
        """
        reason = self._open().stop_reason()
        if reason == _TIMEOUT:
            raise AttemptTimeout("the attempt ran over its timeout")
        if reason == _DEADLINE:
            raise AttemptTimeout("the attempt ran over the deadline of its task")
        if reason:
            raise AttemptCancelled("the attempt was cancelled")

    # --- saying ---------------------------------------------------------------------------------------------------

    def progress(self, done: float, total: float = 1.0, text: str = "") -> None:
        """Report progress. Cheap enough for inner loops: at most 20 reports a second are sent, and the last one.

        Args:
            done: How much is done.
            total: How much there is.
            text: A short remark.
        """
        view = self._open()
        now_ns = time.monotonic_ns()
        if now_ns - self._progress_ns >= PROGRESS_NS or done >= total:
            self._progress_ns = now_ns
            view.tell(b"P", [view.place.serial, float(done), float(total), _clean(text)])

    def log(self, text: str) -> None:
        """Add a line to the story of this task.

        Args:
            text: The line; cut after `limits.MESSAGE_CHARS_MAX` characters.
        """
        view = self._open()
        view.tell(b"O", [view.place.serial, "log", _clean(text)])

    # --- more nodes -----------------------------------------------------------------------------------------------

    def spawn(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        id: str | None = None,  # noqa: A002  the word that users know
        after: Iterable[Node[Any]] = (),
        **kwargs: Any,
    ) -> Node[Any]:
        """Add a node to this run. It starts after this attempt has succeeded; if it does not, the node never was.

        Args:
            fn: A task or any importable function.
            args: Arguments; nodes spawned before by this attempt stand for their results.
            id: A name for the node, unique among those of this attempt.
            after: Nodes spawned before by this attempt that must have ended first.
            kwargs: Keyword arguments.

        Returns:
            The node, for `args` and `after` of others.

        Raises:
            HandlerRefused: The function cannot be a handler. PayloadError: an argument cannot be stored.
            GraphError: This is a batching handler: it is not said which of its calls adds the node.
            MissingNode: A node of another attempt or flow. DuplicateNode: the id is taken.
        """
        if self._open().batch:
            raise GraphError("a batching handler cannot add nodes: it is not said for which of its calls")
        if self._flow is None:
            from runtime.flow import Flow  # lazy: few handlers spawn

            self._flow = Flow(f"spawned by {self.idempotency_key}")
        return self._flow.add(fn, *args, id=id, after=after, **kwargs)

    # --- calls ----------------------------------------------------------------------------------------------------

    @overload
    def ask(self, fn: Callable[..., Coroutine[Any, Any, R]], /, *args: Any, **kwargs: Any) -> Asked[R]: ...

    @overload
    def ask(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Asked[R]: ...

    def ask(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Asked[Any]:
        """Ask for the result of another task, which becomes a node of this run, and go on.

        All that was asked for starts when the handler waits for the first of it. The attempt then gives back its slot,
        and the handler is called again, from its beginning, when all has ended: this time the results are there at
        once. So what comes before a call is done again, and what must not be belongs into a call of its own.

        Args:
            fn: A task or any importable function.
            args: Arguments. A handler makes the same calls each time: they are known by function and arguments.
            kwargs: Keyword arguments.

        Returns:
            What to wait for: `.result()`, or `await` in a coroutine.

        Raises:
            HandlerRefused: The function cannot be a handler. PayloadError: an argument cannot be stored.
            GraphError: This is a batching handler: it is not said which of its calls asks.
        """
        view = self._open()
        if view.batch:
            raise GraphError("a batching handler cannot call other tasks: it is not said for which of its calls")
        if self._calls is None:
            from runtime.call_book import CallBook  # lazy: few handlers call

            self._calls = CallBook(view.codec, self._earlier, f"called by {self.idempotency_key}")
        return self._calls.ask(fn, args, kwargs)

    @overload
    def call(self, fn: Callable[..., Coroutine[Any, Any, R]], /, *args: Any, **kwargs: Any) -> R: ...

    @overload
    def call(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> R: ...

    def call(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run another task and wait for its result, without holding a slot meanwhile: see `ask`.

        Args:
            fn: A task or any importable function.
            args: Arguments.
            kwargs: Keyword arguments.

        Returns:
            Its result.

        Raises:
            TaskFailed: It ended without success, after its own retries. HandlerRefused, PayloadError: as `ask`.
        """
        return self.ask(fn, *args, **kwargs).result()

    @overload
    async def acall(self, fn: Callable[..., Coroutine[Any, Any, R]], /, *args: Any, **kwargs: Any) -> R: ...

    @overload
    async def acall(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> R: ...

    async def acall(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The same for coroutines; several may be awaited together, with `asyncio.gather` or a task group.

        Args:
            fn: A task or any importable function.
            args: Arguments.
            kwargs: Keyword arguments.

        Returns:
            Its result.

        Raises:
            TaskFailed: It ended without success. HandlerRefused, PayloadError: as `ask`.
        """
        return self.ask(fn, *args, **kwargs).result()

    def gather(self, *asked: Asked[R], return_exceptions: bool = False) -> list[R]:
        """The results of several calls, which run side by side.

        Args:
            asked: What `ask` returned.
            return_exceptions: Put the exceptions of those that failed into the list, instead of raising the first.

        Returns:
            The results, in order.

        Raises:
            TaskFailed: One ended without success; all others have ended, too.
        """
        found: list[Any] = []
        for one in asked:
            try:
                found.append(one.result())
            except TaskFailed as failed:
                if not return_exceptions:
                    raise
                found.append(failed)
        return found

    # --- for the worker -------------------------------------------------------------------------------------------

    def spawned(self) -> bytes | None:
        """The frame with the nodes that were spawned; None when there are none.

        Raises:
            GraphError: They are too many for one message, or a call was not waited for. UnknownNodeType, PayloadError:
            as at submission.
        """
        if self._calls is not None and self._calls.waiting:
            raise GraphError(
                f"the handler returned, and {counted(self._calls.waiting, 'call')} that it asked for did not run: wait "
                "for each, and let WaitsForCalls pass"
            )
        return None if self._flow is None else self._frame(_block(self._flow, self._open()))

    def ending(self, exc: BaseException) -> BaseException:
        """What an exception of the handler means.

        Args:
            exc: What left the handler.

        Returns:
            Itself; or that the attempt waits, with the frame of its calls; or why that cannot be.
        """
        if self._calls is None or not self._calls.waiting:
            return exc
        from runtime.call_book import is_waiting  # lazy: as above

        if not is_waiting(exc):
            return exc
        waits, view = WaitsForCalls(), self._open()
        try:
            waits.frame = self._frame(self._calls.block(lambda flow: _block(flow, view)))
        except Exception as refused:
            return refused
        return waits

    def close(self) -> None:
        """The attempt has ended."""
        self._view = self._flow = self._calls = self._lending = None

    def _frame(self, block: dict[str, Any]) -> bytes:
        place = self._open().place
        frame = b"S" + orjson.dumps([place.serial, place.run_no, place.node, block])
        if len(frame) > limits.SPAWNED_BYTES_MAX:
            nodes = counted(block["n"], "spawned node takes", "spawned nodes take")
            raise GraphError(
                f"{nodes} {len(frame):,} bytes; at most {limits.SPAWNED_BYTES_MAX:,} from one attempt: let spawned "
                "tasks spawn the rest"
            )
        return frame

    def _open(self) -> AttemptView:
        if self._view is None:
            raise RuntimeClosed(f"the attempt of {self!r} has ended; its context can no longer be used")
        return self._view


def _block(flow: Flow, view: AttemptView) -> dict[str, Any]:
    """A flow's nodes as columns whose numbers are relative to the block."""
    from actors.protocol.graph import decode  # lazy: few handlers spawn

    def node_type_for(name: str) -> str:
        return name if not view.node_types or name in view.node_types else view.node_types[0]

    header, columns = decode(flow.container(view.codec, view.place.run_key, node_type_for))
    size = columns.size
    after = columns.after
    offsets = columns.after_off
    return {
        "n": size,
        "kinds": header["kinds"],
        "kind_of": list(columns.kind_of) if columns.kind_of is not None else [0] * size,
        "deps": [list(columns.deps[columns.deps_off[i] : columns.deps_off[i + 1]]) for i in range(size)],
        "after": [
            list(after[offsets[i] : offsets[i + 1]]) if after is not None and offsets is not None else []
            for i in range(size)
        ],
        "items": columns.items if columns.items is not None else [None] * size,
        "ids": [columns.ids.get(i) for i in range(size)],
    }


def _clean(text: str) -> str:
    """Text that any reader can take: no lone surrogates, not too long."""
    return str(text)[: limits.MESSAGE_CHARS_MAX].encode("utf-8", "backslashreplace").decode()

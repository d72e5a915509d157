"""Calls of one attempt, seen from its handler: what `TaskContext.call`, `ask`, `gather` and `acall` stand on.

What the engine knows to have ended comes with the lease (`earlier`: digest, state, value or failure of each call). A
call that is among them has its outcome at once; another one is kept, and the first that is waited for raises
`WaitsForCalls`, which ends the attempt: all that was kept goes to the engine, and the handler is called again when it
has ended. See `actors.calls` for the rest.

Concurrency: as a context, for the handler and its threads; calls of different threads are told apart by their digest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from actors.protocol.control_signals import WaitsForCalls
from actors.protocol.errors import GraphError
from actors.protocol.states import NodeState
from actors.protocol.words import counted
from runtime.flow import Flow
from runtime.idempotency import Key
from runtime.items import ANY_KEY, UnwrittenBlobs, encode_call, shape_of
from runtime.mail.codec import Codec
from runtime.mail.failure import exception_of
from runtime.registry import DEFAULT_OPTIONS, Task, kind_of, split_partial

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

STRAY_MAX: Final = 16
"""Calls that were made before and are not made again, before it is taken for certain that a handler asks for something
else each time that it is called: it would never end."""
_NO_OUTCOME: Final = (-1, None)


class Asked(Generic[R_co]):
    """A call that was asked for: `result()` in plain handlers, `await` in coroutines; both wait the same way."""

    __slots__ = ("_calls", "_name", "_outcome")

    def __init__(self, calls: CallBook, name: str, outcome: tuple[int, Any]) -> None:
        """Made by `TaskContext.ask`."""
        self._calls = calls
        self._name = name
        self._outcome = outcome

    def __repr__(self) -> str:
        return f"<Asked {self._name}: {'ended' if self.ended else 'not yet'}>"

    @property
    def ended(self) -> bool:
        """Whether the call has ended, so that `result` does not wait."""
        return self._outcome is not _NO_OUTCOME

    def result(self) -> R_co:
        """Its result.

        Raises:
            TaskFailed: It ended without success; with the handler's exception as its cause where that can be rebuilt.
            WaitsForCalls: It has not ended. Let it pass: it is how the attempt gives back its slot.
        """
        state, value = self._outcome
        if state < 0:
            raise WaitsForCalls(f"waits for {self._name}")
        if state == NodeState.SUCCEEDED:
            found: R_co = self._calls.codec.decode(value)
            return found
        failed = value or {"kind": NodeState(state).name.lower(), "message": "it was not run"}
        raise exception_of(failed, self._calls.codec, state)

    def __await__(self) -> Generator[Any, Any, R_co]:
        return self.result()
        yield  # what makes it a generator


class CallBook:
    """See the head of the file."""

    def __init__(self, codec: Codec, earlier: Sequence[Sequence[Any]], title: str) -> None:
        self.codec = codec
        self._earlier: dict[str, deque[tuple[int, Any]]] = {}
        for digest, state, value in earlier:
            self._earlier.setdefault(digest, deque()).append((state, value))
        self._flow = Flow(title)
        self._digests: list[str] = []
        self._looking = Codec(UnwrittenBlobs())

    def ask(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Asked[Any]:
        """Ask for the result of a call.

        Raises:
            HandlerRefused: The function cannot be a handler. PayloadError: an argument cannot be stored.
        """
        if type(fn) is partial:
            fn, first, named = split_partial(fn)
            args, kwargs = (*first, *args), {**named, **kwargs}
        options = fn.settings if isinstance(fn, Task) else DEFAULT_OPTIONS
        kind = kind_of(fn, options, shape_of(args, kwargs))
        text = encode_call(self._looking, args, kwargs, pickle=options.payloads == "pickle", blob_key=ANY_KEY)
        digest: str = Key("", 0).claim(kind["handler"], kind["shape"], text)[2]
        ended = self._earlier.get(digest)
        if ended:
            return Asked(self, kind["name"], ended.popleft())
        if kwargs.keys() & {"id", "after", "trigger"}:  # words of `Flow.add`
            raise GraphError("id, after and trigger cannot be keyword arguments of a call; pass them by position")
        self._flow.add(fn, *args, **kwargs)
        self._digests.append(digest)
        return Asked(self, kind["name"], _NO_OUTCOME)

    @property
    def waiting(self) -> int:
        """How many calls have not ended."""
        return len(self._digests)

    def block(self, columns_of: Callable[[Flow], dict[str, Any]]) -> dict[str, Any]:
        """The calls that have not ended, as a block of nodes.

        Raises:
            GraphError: The handler does not make the calls that it made before.
        """
        strays = sum(map(len, self._earlier.values()))
        if strays >= STRAY_MAX:
            raise GraphError(
                f"{counted(strays, 'call')} that this task made before it did not make again when it went on; a "
                "handler is called from its beginning, and must make the same calls with the same arguments"
            )
        return {**columns_of(self._flow), "calls": self._digests}


def is_waiting(exc: BaseException) -> bool:
    """Whether an exception says that a handler waits; task groups bring one for each task."""
    if isinstance(exc, BaseExceptionGroup):
        return exc.split(WaitsForCalls)[1] is None
    return isinstance(exc, WaitsForCalls)

"""What is waited for: a cell that is settled once, by whoever reads the engine's frames.

States: OPEN until settled, then one of the others for good. The value is stored before the state, so that a reader
    who sees the state without a lock also sees the value.

A hook is called once, with the cell, after it was settled, by the thread that read the frame; hooks must be quick
and must not raise. Concurrency: cells are settled and hooks are added under the client's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any, Final

from actors.protocol.places import unpacked
from runtime.profile.ledger.sites import user_place

OPEN: Final = 0
VALUE: Final = 1
"""A result, ready to use."""
WIRE: Final = 2
"""A result as a wire value; whoever wants it decodes it."""
FAILED: Final = 3
"""[state, failure] as the engine sent it."""
ERROR: Final = 4
"""An exception of ours: rejected, runtime closed, engine lost."""
ENDED: Final = 5
"""A graph's run is over: [sequence number, run key, state, counts, first failure]; results are asked for."""

Hook = Callable[[Any], object]


class Pending:
    """One cell. Subclasses are handles, batches, queries and waits for an acknowledgement."""

    __slots__ = ("_hooks", "_state", "_value")

    def __init__(self) -> None:
        self._state = OPEN
        self._value: Any = None
        self._hooks: list[Hook] | None = None

    def done(self) -> bool:
        """Whether it is settled."""
        return self._state != OPEN

    def settle(self, state: int, value: Any, woken: list[Pending]) -> None:
        """Settle once; later calls change nothing. Appends itself to `woken` when it has hooks."""
        if self._state == OPEN:
            self._value = value
            self._state = state
            if self._hooks is not None:
                woken.append(self)

    def call_hooks(self) -> None:
        """Call the hooks of a settled cell, once."""
        hooks, self._hooks = self._hooks, None
        for hook in hooks or ():
            hook(self)


class Numbered(Pending):
    """A cell that belongs to one submission of the session."""

    __slots__ = ("seq",)

    def __init__(self) -> None:
        super().__init__()
        self.seq = 0

    def stand_for(self, run_id: str) -> None:
        """The submission stands for a run that was there before. Only what has a run id takes notice."""


class AckWait(Pending):
    """Settled when everything up to a sequence number is durable, or can no longer become so."""

    __slots__ = ("seq",)

    def __init__(self, seq: int) -> None:
        super().__init__()
        self.seq = seq


class Query(Pending):
    """A question to the engine. Kept as text, so that it can be asked again after a restart of the engine.

    `place` and `since_ns` say who asked, and when (monotonic).
    """

    __slots__ = ("frame", "place", "since_ns")

    def __init__(self, frame: bytes) -> None:
        super().__init__()
        self.frame = frame
        self.place = user_place(2)
        self.since_ns = monotonic_ns()


class MapChunk(Numbered):
    """Items of one `map` frame. Settled when none is open.

    Attributes:
        size: How many items; `missing` of them are open.
        values: Results by place, MISSING where there is none yet; wire values where `wire` is set.
        failures: [state, failure] by place; the value there is None.
        sink: Where results go as they arrive, as (values, wire) or (place, state, failure); None when places count.
        stir: A cell to settle at the next result or at the end, for whoever does not want to wait for all.
    """

    __slots__ = ("failures", "missing", "sink", "size", "stir", "values", "wire")

    def __init__(self, size: int, sink: deque[Any] | None = None) -> None:
        super().__init__()
        self.size = size
        self.missing = size
        self.values: list[Any] = []
        self.failures: dict[int, Any] = {}
        self.wire = False
        self.sink = sink
        self.stir: Pending | None = None

    def fill(self, nodes: list[int] | int, values: list[Any], plain: bool, woken: list[Pending]) -> None:
        """Enter results. Items that have one already (delivered again after a restart) keep it."""
        if not plain:
            self.wire = True
        count = len(values)
        places = unpacked(nodes, count)
        first = places[0]
        if type(places) is range or places == list(range(first, first + count)):
            if count == self.missing == self.size:
                self.values = values
                self.missing = 0
            else:
                own = self._own_values()
                if own[first : first + count].count(MISSING) == count:
                    own[first : first + count] = values
                    self.missing -= count
                else:
                    values = self._enter(range(first, first + count), values)
        else:
            values = self._enter(places, values)
        if self.sink is not None and values:
            self.sink.append((values, not plain))
        self._tell(woken)

    def fail(self, node: int, state: str, failure: dict[str, Any], woken: list[Pending]) -> None:
        """Enter the failure of one item."""
        own = self._own_values()
        if own[node] is MISSING:
            own[node] = None
            self.failures[node] = (state, failure)
            self.missing -= 1
            if self.sink is not None:
                self.sink.append((node, state, failure))
            self._tell(woken)

    def settle(self, state: int, value: Any, woken: list[Pending]) -> None:
        """Settle once; also whoever waits for the next result."""
        self._tell_stirred(woken)
        super().settle(state, value, woken)

    def ready_until(self, start: int) -> int:
        """The first place from `start` on that has no result yet; `size` when there is none."""
        if not self.missing:
            return self.size
        return self.values.index(MISSING, start) if self.values else start

    def _tell(self, woken: list[Pending]) -> None:
        if not self.missing:
            self.settle(VALUE, None, woken)
        else:
            self._tell_stirred(woken)

    def _tell_stirred(self, woken: list[Pending]) -> None:
        if self.stir is not None:
            self.stir.settle(VALUE, None, woken)
            self.stir = None

    def _enter(self, nodes: Sequence[int], values: list[Any]) -> list[Any]:
        """Enter results one by one; returns those that were new."""
        own = self._own_values()
        fresh: list[Any] = []
        for node, value in zip(nodes, values, strict=True):
            if own[node] is MISSING:
                own[node] = value
                fresh.append(value)
        self.missing -= len(fresh)
        return fresh

    def _own_values(self) -> list[Any]:
        if not self.values:
            self.values = [MISSING] * self.size
        return self.values


class _Missing:
    """Stands for a result that has not come."""

    __slots__ = ()


MISSING: Final = _Missing()

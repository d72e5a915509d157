"""A batch in a worker: the arguments of its calls as one list, the handler's list as an outcome for each call.

Shared by both modes. A call whose argument cannot be read, or whose result cannot be stored, fails alone; an exception
of the handler, a wrong number of results, a stop or the death of the worker is the end of the attempt for all of them.

States of a call: read, or refused; then settled with a result or a failure. What is settled is entered together at the
end, so that a batch that is stopped in between leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic_ns
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from actors.batching import SUSPECT
from actors.protocol.errors import CallerError, WrongBatchResult
from actors.protocol.words import counted
from actors.worker import WorkGroup
from runtime.batch import Failed
from runtime.host.attempts import arguments
from runtime.host.handlers import Handler
from runtime.host.results import Place
from runtime.host.station import Station, stop_signal
from runtime.profile.sampling.labels import AttemptLabels


class BatchCall:
    """Leases that are run as one call. See the module."""

    def __init__(self, station: Station, group: WorkGroup, serials: Sequence[int]) -> None:
        self._station = station
        self._group = group
        self._read: list[Place] = []
        self._results: list[tuple[Place, Any]] = []
        self._failures: list[tuple[Place, BaseException]] = []
        self.places = [self._place(serial) for serial in serials]

    def _place(self, serial: int) -> Place:
        at = serial - self._group.serial
        return Place(serial, *self._group.runs[at], self._group.nodes[at])

    @property
    def attempt(self) -> int:
        """Number of the attempt that this is for the first of the calls."""
        tries = self._group.attempts
        return tries[self.places[0].serial - self._group.serial] if tries else 1

    @property
    def has_arguments(self) -> bool:
        """Whether the argument of any call could be read."""
        return bool(self._read)

    def scope(self) -> AttemptLabels:
        """What the code of the batch is labelled with: as the first of its calls."""
        return self._station.scope(self._group, 0)

    def arguments(self, handler: Handler) -> list[Any]:
        """The argument of each call that has a readable one."""
        values: list[Any] = []
        for place in self.places:
            item = self._group.items[place.serial - self._group.serial]
            try:
                values.append(only_argument(*arguments(self._station, handler, item, self._group.plain)))
            except Exception as refused:
                self._failures.append((place, refused))
            else:
                self._read.append(place)
        return values

    def results(self, value: Any) -> Iterator[tuple[Place, Any]]:
        """What the handler returned, by call; of those that it says failed, nothing.

        Raises:
            WrongBatchResult: It is no list with a result for each.
        """
        for place, result in zip(self._read, checked(value, len(self._read)), strict=True):
            if isinstance(result, Failed):
                self._failures.append((place, result.exception))
            else:
                yield place, result

    def settle(self, place: Place, value: Any) -> None:
        """The result of a call, as it is kept."""
        self._results.append((place, value))

    def refuse(self, place: Place, why: Exception) -> None:
        """A call fails by itself."""
        self._failures.append((place, why))

    def enter(self, handler: Handler, started_ns: int, ended_ns: int) -> None:
        """Enter all outcomes. A call is said to have taken its part of the time."""
        station = self._station
        failures = [(place, station.failure(exc, 0, handler)) for place, exc in self._failures]
        took_ns, count = ended_ns - started_ns, len(self._results)
        with station.lock:
            for at, (place, value) in enumerate(self._results):
                begun_ns = started_ns + took_ns * at // count
                station.pile.result(place, value, begun_ns, started_ns + took_ns * (at + 1) // count)
            for place, failure in failures:
                station.pile.failure(place, started_ns, ended_ns, failure)

    def fail(self, exc: BaseException, stopped: int, handler: Handler | None, started_ns: int) -> None:
        """The attempt ended for all of them."""
        failure = self._station.failure(exc, stopped, handler)
        if failure["kind"] in SUSPECT and len(self.places) > 1:
            failure["batch"] = len(self.places)
        ended_ns = monotonic_ns()
        with self._station.lock:
            for place in self.places:
                self._station.pile.failure(place, started_ns, ended_ns, failure)

    def stopped_before_start(self, reason: int) -> None:
        """All of them were stopped before they started."""
        self.fail(stop_signal(reason), reason, None, monotonic_ns())


def only_argument(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The argument of one call of a batching handler."""
    if kwargs or len(args) != 1:
        raise CallerError(f"a batching handler takes one argument for each call, not {len(args) + len(kwargs)}")
    return args[0]


def checked(value: Any, count: int) -> Sequence[Any]:
    """What a batching handler returned for so many calls.

    Raises:
        WrongBatchResult: It is no list (or tuple) with a result for each.
    """
    kind = type(value)
    if issubclass(kind, (GeneratorType, AsyncGeneratorType)):
        raise WrongBatchResult("the batching handler returned a generator; return a list with a result for each call")
    if not issubclass(kind, (list, tuple)):
        calls = counted(count, "call")
        raise WrongBatchResult(f"the batching handler returned a value of type {kind.__name__} for {calls}, not a list")
    if len(value) != count:
        found = counted(len(value), "result")
        raise WrongBatchResult(f"the batching handler returned {found} for {counted(count, 'call')}")
    results: Sequence[Any] = value
    return results

"""Where the views find runs: what was known at an LSN, and whatever else keeps runs.

A source names runs by their numbers, which ascend with their submissions, and gives out one at a time. What is cheap
to say of a run without reading all of it goes into `StoredRun.known`, by the names of `run_columns`; the rest is
worked out from the run itself, which is then asked for. Where several sources have a run, the first one counts.

Concurrency: one thread; sources do not change while they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from actors.run import Run
from actors.scheduler import Scheduler

NOTHING_KNOWN: Final[Mapping[str, Any]] = MappingProxyType({})


class Sizes(NamedTuple):
    """About how many there are: the planner chooses by it."""

    runs: int
    nodes: int


class StoredRun:
    """One run as a source has it.

    Args:
        no: Its number.
        ended_ns: When it ended; None: it has not, or that is not known.
        load: Gives the run; called once.
        known: What can be said of it without `load`, by columns of the view `runs`. Not for bundles of single tasks.
        archived: Whether only the archive has it.
    """

    __slots__ = ("_load", "_run", "archived", "ended_ns", "known", "no")

    def __init__(
        self,
        no: int,
        ended_ns: int | None,
        load: Callable[[], Run],
        known: Mapping[str, Any] = NOTHING_KNOWN,
        *,
        archived: bool = False,
    ) -> None:
        self.no = no
        self.ended_ns = ended_ns
        self.known = known
        self.archived = archived
        self._load = load
        self._run: Run | None = None

    @property
    def run(self) -> Run:
        """The run, read when it is asked for first."""
        if self._run is None:
            self._run = self._load()
        return self._run


class RunSource(Protocol):
    """Something that has runs."""

    def numbers(self) -> Iterable[int]:
        """Of all runs, ascending."""

    def numbers_of(self, run_id: str) -> Iterable[int]:
        """Of the runs that may have this id, or a single task with it; a few too many do no harm."""

    def get(self, no: int) -> StoredRun | None:
        """The run of this number; None: it has none."""

    def sizes(self) -> Sizes:
        """How many runs and nodes, about."""


class StateSource:
    """The runs of a scheduler that is looked at."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def numbers(self) -> Iterable[int]:
        """See `RunSource`."""
        book = self._scheduler.book
        return sorted((*book.live, *book.finished))

    def numbers_of(self, run_id: str) -> Iterable[int]:
        """See `RunSource`."""
        found = self._scheduler.book.find(run_id)
        return () if found is None else (found[0].no,)

    def get(self, no: int) -> StoredRun | None:
        """See `RunSource`."""
        book = self._scheduler.book
        run = book.live.get(no) or book.finished.get(no)
        if run is None:
            return None
        found = run
        return StoredRun(no, None if run.open else self._scheduler.ended_ns.get(no), lambda: found)

    def sizes(self) -> Sizes:
        """See `RunSource`."""
        book = self._scheduler.book
        return Sizes(len(book.live) + len(book.finished), book.nodes_live + book.nodes_finished)


class AllSources:
    """Several sources as one."""

    def __init__(self, sources: Iterable[RunSource]) -> None:
        self._sources = tuple(sources)

    def numbers(self) -> Iterator[int]:
        """Of all runs, ascending, each once."""
        return _once(merge(*(source.numbers() for source in self._sources)))

    def numbers_of(self, run_id: str) -> Iterator[int]:
        """Of the runs that may have this id, or a single task with it."""
        return _once(sorted(no for source in self._sources for no in source.numbers_of(run_id)))

    def get(self, no: int) -> StoredRun | None:
        """The run of this number."""
        return next((found for source in self._sources if (found := source.get(no)) is not None), None)

    def sizes(self) -> Sizes:
        """How many runs and nodes, about."""
        sizes = [source.sizes() for source in self._sources]
        return Sizes(sum(size.runs for size in sizes), sum(size.nodes for size in sizes))


def _once(numbers: Iterable[int]) -> Iterator[int]:
    """Ascending numbers without repeats."""
    before = None
    for no in numbers:
        if no != before:
            yield no
        before = no

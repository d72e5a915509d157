"""The views as SQLite reads them: virtual tables, of which a row is there while it is looked at, and no longer.

SQLite says which columns a statement compares with what (`BestIndexObject`); of those that narrow the reading down the
values come back with `Filter`, and only what fits is walked through:

    run_id, run_no, task_id     the run is looked up
    node, node_id               one node of a run, where that is known
    state                       nodes are found at the speed of `bytearray.find`

Invariants: what a filter leaves out does not fit; what it lets through SQLite checks again. So a value of another type
than the column's, which SQLite may convert, narrows nothing down. Rows come in order of `run_no` and `node`.
Concurrency: one statement at a time; what is looked at does not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import apsw

from actors.event_names import key_of
from actors.run import Run
from actors.state_column import where
from runtime.sql.budget import Budget
from runtime.sql.columns import ViewColumn, schema
from runtime.sql.run_columns import RUN_COLUMNS, RunRow
from runtime.sql.seen import STATES_OF, SeenRun
from runtime.sql.sources import AllSources, Sizes, StoredRun
from runtime.sql.task_columns import TASK_COLUMNS

Wanted = dict[str, Any]
"""What columns have to be, as far as it narrows the reading down."""
C = TypeVar("C", "RunCursor", "TaskCursor")
_MISSING: Final = object()
_TYPES: Final[dict[str, type]] = {"TEXT": str, "INTEGER": int}
_STATE_PART: Final = 4
"""One in so many rows is taken to be in a state that is asked for."""


class View(Generic[C]):
    """A view: module and table in one, as SQLite calls them.

    Args:
        sources: Where runs are.
        budget: How long it may be read.

    Attributes:
        columns: Its columns.
        narrowing: Names of those that narrow the reading down.
        cursor: What walks through its rows.
    """

    columns: tuple[ViewColumn[Any], ...]
    narrowing: frozenset[str]
    cursor: type[C]

    def __init__(self, sources: AllSources, budget: Budget) -> None:
        self.sources = sources
        self.budget = budget
        self._sizes = sources.sizes()

    def Connect(self, *_: Any) -> tuple[str, View[C]]:  # noqa: N802 - as SQLite's modules are asked
        """The schema, and what reads it."""
        return schema(self.columns), self

    Create = Connect

    def BestIndexObject(self, index: apsw.IndexInfo) -> bool:  # noqa: N802
        """Choose what narrows the reading down."""
        taken: list[str] = []
        for place in range(index.nConstraint):
            column = self._narrowing(index, place)
            if column is not None and column not in taken:
                taken.append(column)
                index.set_aConstraintUsage_argvIndex(place, len(taken))
        rows = self.rows(frozenset(taken), self._sizes)
        index.idxStr = " ".join(taken)
        index.estimatedRows = max(1, int(rows))
        index.estimatedCost = max(1.0, self.cost(frozenset(taken), self._sizes))
        ascending = all(not index.get_aOrderBy_desc(place) for place in range(index.nOrderBy))
        order = [self._name(index.get_aOrderBy_iColumn(place)) for place in range(index.nOrderBy)]
        index.orderByConsumed = ascending and order == ["run_no", "node"][: len(order)] and len(order) > 0
        return True

    def rows(self, taken: frozenset[str], sizes: Sizes) -> float:
        """About how many rows there will be."""
        raise NotImplementedError

    def cost(self, taken: frozenset[str], sizes: Sizes) -> float:
        """About how many rows are looked at."""
        raise NotImplementedError

    def Open(self) -> C:  # noqa: N802
        """A cursor."""
        return self.cursor(self)

    def Disconnect(self) -> None:  # noqa: N802
        """Nothing to let go of."""

    Destroy = Disconnect

    def _narrowing(self, index: apsw.IndexInfo, place: int) -> str | None:
        """The column that a comparison narrows down."""
        if not index.get_aConstraint_usable(place) or index.get_aConstraint_op(place) != _EQUAL:
            return None
        name = self._name(index.get_aConstraint_iColumn(place))
        return name if name in self.narrowing and index.get_aConstraint_collation(place) == "BINARY" else None

    def _name(self, place: int) -> str:
        return self.columns[place].name if place >= 0 else ""

    def wanted(self, index: str, values: Sequence[Any]) -> Wanted:
        """What is asked for, as far as its type is that of the column."""
        types = {column.name: _TYPES[column.type] for column in self.columns}
        pairs = zip(index.split(), values, strict=True)
        return {name: value for name, value in pairs if type(value) is types[name]}

    def runs(self, wanted: Wanted) -> Iterator[StoredRun]:
        """The runs that may fit, in order."""
        for no in self._numbers(wanted):
            self.budget.check()
            stored = self.sources.get(no)
            if stored is not None:
                yield stored

    def _numbers(self, wanted: Wanted) -> Iterable[int]:
        no = wanted.get("run_no")
        if "task_id" in wanted:
            numbers = self._numbers_of_task(wanted["task_id"])
        elif "run_id" in wanted:
            numbers = self.sources.numbers_of(wanted["run_id"])
        elif no is not None:
            return (no,)
        else:
            return self.sources.numbers()
        return (number for number in numbers if no is None or number == no)

    def _numbers_of_task(self, task_id: str) -> Iterable[int]:
        """Of the runs that may have this task."""
        run_id, slash, _ = task_id.rpartition("/")
        ids = (task_id, run_id) if slash else (task_id,)
        return sorted({no for name in ids for no in self.sources.numbers_of(name)})


class RunsView(View["RunCursor"]):
    """The view `runs`."""

    columns = RUN_COLUMNS
    narrowing = frozenset({"run_id", "run_no", "state"})

    @property
    def cursor(self) -> type[RunCursor]:  # type: ignore[override]
        return RunCursor

    def rows(self, taken: frozenset[str], sizes: Sizes) -> float:
        """A bundle has as many rows as tasks."""
        if taken & {"run_id", "run_no"}:
            return 1
        return sizes.runs / (_STATE_PART if taken else 1)

    def cost(self, taken: frozenset[str], sizes: Sizes) -> float:
        """Every run is looked at, unless one is named."""
        return 2 if taken & {"run_id", "run_no"} else 4 * sizes.runs


class TasksView(View["TaskCursor"]):
    """The view `tasks`."""

    columns = TASK_COLUMNS
    narrowing = frozenset({"run_id", "run_no", "task_id", "node", "node_id", "state"})

    @property
    def cursor(self) -> type[TaskCursor]:  # type: ignore[override]
        return TaskCursor

    def rows(self, taken: frozenset[str], sizes: Sizes) -> float:
        """As many as nodes; a run has about as many as others."""
        run = sizes.nodes / max(1, sizes.runs)
        if "task_id" in taken:
            return 1
        if taken & {"run_id", "run_no"}:
            return 1 if taken & {"node", "node_id"} else run / (_STATE_PART if "state" in taken else 1)
        if "node" in taken:
            return sizes.runs
        return sizes.nodes / (_STATE_PART if "state" in taken else 1)

    def cost(self, taken: frozenset[str], sizes: Sizes) -> float:
        """Rows, and looking for their runs."""
        named = taken & {"task_id", "run_id", "run_no"}
        return 2 * self.rows(taken, sizes) + (2 if named else 4 * sizes.runs)


class RunCursor:
    """Walks through rows of `runs`."""

    def __init__(self, view: View[RunCursor]) -> None:
        self._view = view
        self._of = [column.of for column in view.columns]
        self._names = [column.name for column in view.columns]
        self._rows: Iterator[RunRow] = iter(())
        self._row: RunRow | None = None
        self._number = 0

    def Filter(self, _: int, index: str, values: Sequence[Any]) -> None:  # noqa: N802
        """Begin."""
        wanted = self._view.wanted(index or "", values)
        self._rows = self._found(wanted)
        self._row = next(self._rows, None)

    def Eof(self) -> bool:  # noqa: N802
        """Whether there is no row any more."""
        return self._row is None

    def Next(self) -> None:  # noqa: N802
        """The next row."""
        self._number += 1
        self._row = next(self._rows, None)

    def Rowid(self) -> int:  # noqa: N802
        """A number of the row."""
        return self._number

    def Column(self, place: int) -> Any:  # noqa: N802
        """A value of the row."""
        row = self._row
        if place < 0 or row is None:
            return self._number
        known = row.stored.known
        if known and (value := known.get(self._names[place], _MISSING)) is not _MISSING:
            return value
        return self._of[place](row)

    def Close(self) -> None:  # noqa: N802
        """Let go."""
        self._rows, self._row = iter(()), None

    def _found(self, wanted: Wanted) -> Iterator[RunRow]:
        for stored in self._view.runs(wanted):
            if stored.known or not (seen := SeenRun(stored)).is_bundle:
                yield RunRow(stored)
                continue
            seen.alone = "run_id" in wanted
            for node in _singles(seen.run, wanted.get("run_id")):
                yield RunRow(stored, node, seen)


class TaskCursor:
    """Walks through rows of `tasks`. Hot: a call of `Next`, `Eof` and each column a row."""

    def __init__(self, view: View[TaskCursor]) -> None:
        self._view = view
        self._of = [column.of for column in view.columns]
        self._runs: Iterator[StoredRun] = iter(())
        self._wanted: Wanted = {}
        self._nodes: Iterator[int] = iter(())
        self._seen: SeenRun | None = None
        self._node: int | None = None
        self._number = 0

    def Filter(self, _: int, index: str, values: Sequence[Any]) -> None:  # noqa: N802
        """Begin."""
        self._wanted = self._view.wanted(index or "", values)
        self._runs = self._view.runs(self._wanted)
        self._nodes = iter(())
        self.Next()

    def Eof(self) -> bool:  # noqa: N802
        """Whether there is no row any more."""
        return self._node is None

    def Next(self) -> None:  # noqa: N802
        """The next row."""
        self._number += 1
        node = next(self._nodes, None)
        while node is None:
            stored = next(self._runs, None)
            if stored is None:
                break
            self._seen = seen = SeenRun(stored)
            found = nodes_wanted(seen, self._wanted)
            seen.alone = len(found) == 1
            self._nodes = iter(found)
            node = next(self._nodes, None)
        self._node = node

    def Rowid(self) -> int:  # noqa: N802
        """A number of the row."""
        return self._number

    def Column(self, place: int) -> Any:  # noqa: N802
        """A value of the row."""
        return self._of[place](self._seen, self._node) if place >= 0 else self._number

    def Close(self) -> None:  # noqa: N802
        """Let go."""
        self._runs, self._nodes, self._seen, self._node = iter(()), iter(()), None, None


def nodes_wanted(seen: SeenRun, wanted: Wanted) -> Sequence[int]:
    """The nodes of a run that may fit, ascending."""
    run, found = seen.run, None
    if "task_id" in wanted:
        found = _task(seen, wanted["task_id"])
    if "run_id" in wanted and seen.is_bundle:
        own = [
            *_singles(run, wanted["run_id"]),
            *(range(run.base_size, run.size) if wanted["run_id"] == run.key else ()),
        ]
        found = own if found is None else [node for node in own if node in found]
    if "node" in wanted:
        numbered = seen.nodes_numbered(wanted["node"])
        found = list(numbered) if found is None else [node for node in found if node in numbered]
    if "node_id" in wanted and not seen.is_bundle:
        named = _named(run, wanted["node_id"])
        found = named if found is None else [node for node in found if node in named]
    states = STATES_OF.get(wanted["state"], ()) if "state" in wanted else None
    if states is None:
        return range(run.size) if found is None else found
    if found is None:
        parts = [where(run.state, int(state)) for state in states]
        filled = [part for part in parts if part]
        return filled[0] if len(filled) == 1 else sorted(node for part in filled for node in part)
    return [node for node in found if run.state[node] in states]


def _singles(run: Run, run_id: str | None) -> Sequence[int]:
    """The single tasks of a bundle, or the one with this id."""
    if run_id is None:
        return range(run.base_size)
    number = run_id.rpartition("-")[2]
    node = int(number) - run.seq if number.isascii() and number.isdigit() else -1
    return [node] if 0 <= node < run.base_size and key_of(run, node) == run_id else []


def _task(seen: SeenRun, task_id: str) -> list[int]:
    """The node of a `task_id`."""
    run = seen.run
    if seen.is_bundle and (singles := _singles(run, task_id)):
        return list(singles)
    run_id, _, number = task_id.rpartition("/")
    if run_id != run.key or not (number.isascii() and number.isdigit()):
        return []
    return [int(number)] if int(number) < run.size else []


def _named(run: Run, node_id: str) -> list[int]:
    """The nodes with an id."""
    ids = {} if run.columns is None else run.columns.ids
    found = [node for node, name in ids.items() if name == node_id]
    if node_id.isascii() and node_id.isdigit() and int(node_id) < run.size:
        found.append(int(node_id))
    return sorted(set(found))


_EQUAL: Final = apsw.SQLITE_INDEX_CONSTRAINT_EQ

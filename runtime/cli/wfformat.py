"""Reader of WfFormat 1.5 workflow files: checks everything that a replay needs and names the place of what is wrong.

WfFormat is the JSON format of the WfCommons project. The parts that are read here:

    $.workflow.specification.tasks[]   the graph: `id`, `name`, `parents`, `children`
    $.workflow.execution.tasks[]       what happened: `id`, `runtimeInSeconds`, `command.program`

Invariants of a `Workflow` that was returned: ids are unique; every parent exists and lists the task among its children
and the other way round; the graph has no cycle; every task has a finite runtime of at least zero.

The text is parsed by the standard library and not by orjson, because names may hold lone surrogates (legal JSON) and
because a key that occurs twice must not be silently overwritten. That costs about 20 ms per megabyte.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

from actors.protocol import limits
from actors.protocol.errors import EnvironmentFault, WorkflowFileError
from actors.protocol.words import counted
from runtime.cli.order import cycle, topological

VERSION: Final = "1.5"
PROBLEMS_MAX: Final = 100
"""Checking stops here: one broken generator makes the same mistake in every task."""
RUNTIME_S_MAX: Final = 1e9
"""About 32 years; more is a unit mistake, and would overflow a 64-bit count of nanoseconds soon after."""

_TASKS: Final = "$.workflow.specification.tasks"
_EXECUTION: Final = "$.workflow.execution"


@dataclass(frozen=True, slots=True)
class WorkflowTask:
    """One task: its place in the graph and how long it ran when it was recorded."""

    id: str
    name: str
    program: str
    parents: tuple[str, ...]
    runtime_s: float


@dataclass(frozen=True, slots=True)
class Workflow:
    """A checked workflow. `tasks` keep the order of the file, in which children may come before parents."""

    name: str
    tasks: tuple[WorkflowTask, ...]
    makespan_s: float | None

    def in_order(self) -> list[WorkflowTask]:
        """The tasks, every parent before its children, otherwise in the order of the file."""
        number = {task.id: index for index, task in enumerate(self.tasks)}
        order = topological([[number[parent] for parent in task.parents] for task in self.tasks])
        return [self.tasks[index] for index in order]


def read_workflow(path: Path) -> Workflow:
    """Read and check a workflow file.

    Args:
        path: The file.

    Raises:
        WorkflowFileError: It is not a file, or its content is not a valid workflow. The message names the place.
        EnvironmentFault: The operating system refused to read it.
    """
    try:
        if not path.exists():
            raise WorkflowFileError(f"{path}: no such file")
        if not path.is_file():
            raise WorkflowFileError(f"{path}: not a regular file")
        size = path.stat().st_size
        if size > limits.WORKFLOW_FILE_BYTES_MAX:
            raise WorkflowFileError(
                f"{path}: {size:,} bytes, more than the limit of {limits.WORKFLOW_FILE_BYTES_MAX:,}"
            )
        data = path.read_bytes()
    except OSError as refused:
        raise EnvironmentFault(f"{path} cannot be read: {refused.strerror or refused}") from refused
    return parse_workflow(data, str(path))


def parse_workflow(data: bytes, source: str) -> Workflow:
    """Check the bytes of a workflow file and return the workflow.

    Args:
        data: JSON text, UTF-8, with or without byte order mark.
        source: What messages call the file.

    Raises:
        WorkflowFileError: With the JSON place of the first problem and the number of further ones.
    """
    reader = _Reader(source)
    document = reader.parse(data)
    name = reader.field(document, "$", "name", str)
    reader.version(document)
    flow = reader.field(document, "$", "workflow", dict)
    specification = reader.field(flow, "$.workflow", "specification", dict)
    rows = reader.specification(reader.field(specification, "$.workflow.specification", "tasks", list))
    execution = reader.field(flow, "$.workflow", "execution", dict)
    runtimes = reader.execution(reader.field(execution, _EXECUTION, "tasks", list), rows)
    makespan = execution.get("makespanInSeconds")
    reader.stop_if_wrong()
    tasks = tuple(
        WorkflowTask(task_id, row.name, runtimes[task_id][1], tuple(row.parents), runtimes[task_id][0])
        for task_id, row in rows.items()
    )
    return Workflow(name, tasks, float(makespan) if _is_number(makespan) else None)


@dataclass(slots=True)
class _Row:
    """A task of the specification while it is checked. `place` is its JSON place."""

    place: str
    name: str
    parents: list[str]
    children: list[str]


class _Reader:
    """Collects problems. What makes the rest meaningless raises at once; the others are counted."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[str] = []

    def fail(self, place: str, text: str) -> WorkflowFileError:
        """The error for a problem after which nothing else can be checked."""
        self.problems.append(f"{place}: {text}")
        return self._error()

    def note(self, place: str, text: str) -> None:
        """Count a problem and go on."""
        self.problems.append(f"{place}: {text}")
        if len(self.problems) >= PROBLEMS_MAX:
            raise self._error()

    def stop_if_wrong(self) -> None:
        """Raise if there were problems."""
        if self.problems:
            raise self._error()

    def _error(self) -> WorkflowFileError:
        more = len(self.problems) - 1
        noun = "or more further problem" if more + 1 >= PROBLEMS_MAX else "further problem"
        also = f" (and {counted(more, noun)})" if more else ""
        return WorkflowFileError(f"{self.source}: {self.problems[0]}{also}")

    # --- JSON ---------------------------------------------------------------------------------------------------

    def parse(self, data: bytes) -> dict[str, Any]:
        """The document as an object."""
        if not data.strip():
            raise self.fail("$", "the file is empty")
        try:
            document = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant, object_pairs_hook=_object)
        except UnicodeDecodeError as broken:
            raise self.fail(f"byte {broken.start}", "not UTF-8 text, so not JSON") from None
        except json.JSONDecodeError as broken:
            raise self.fail(f"line {broken.lineno} column {broken.colno}", f"not JSON: {broken.msg}") from None
        except RecursionError:
            raise self.fail("$", "nested too deeply") from None
        except ValueError as broken:
            raise self.fail("$", str(broken)) from None
        if not isinstance(document, dict):
            raise self.fail("$", f"must be an object, not {_kind(document)}")
        return document

    def field(self, parent: dict[str, Any], place: str, key: str, kind: type) -> Any:
        """The value of a key that must exist with this type."""
        if key not in parent:
            raise self.fail(f"{place}.{key}", "missing")
        value = parent[key]
        if not isinstance(value, kind):
            raise self.fail(f"{place}.{key}", f"must be {_KIND_NAMES[kind]}, not {_kind(value)}")
        return value

    def version(self, document: dict[str, Any]) -> None:
        """Only the version that this reader knows."""
        found = self.field(document, "$", "schemaVersion", str)
        if found != VERSION:
            raise self.fail("$.schemaVersion", f"is {_show(found)}; this program reads {VERSION}")

    # --- the graph ----------------------------------------------------------------------------------------------

    def specification(self, tasks: list[Any]) -> dict[str, _Row]:
        """Rows by id, with edges that agree and no cycle."""
        if not tasks:
            raise self.fail(_TASKS, "has no tasks")
        if len(tasks) > limits.NODES_PER_RUN_MAX:
            raise self.fail(_TASKS, f"{len(tasks):,} tasks, more than the limit of {limits.NODES_PER_RUN_MAX:,}")
        rows: dict[str, _Row] = {}
        for index, task in enumerate(tasks):
            place = f"{_TASKS}[{index}]"
            task_id = self._id(task, place, rows)
            if task_id is not None:
                rows[task_id] = self._row(task, place)
        self.stop_if_wrong()
        self._edges_agree(rows)
        self.stop_if_wrong()
        self._no_cycle(rows)
        return rows

    def _id(self, task: Any, place: str, rows: dict[str, _Row]) -> str | None:
        """The id of a task; None, with the problem noted, when there is no usable one."""
        if not isinstance(task, dict):
            self.note(place, f"must be an object, not {_kind(task)}")
        elif "id" not in task:
            self.note(f"{place}.id", "missing")
        elif not isinstance(task["id"], str) or not task["id"]:
            self.note(f"{place}.id", f"must be a non-empty string, not {_show(task['id'])}")
        elif task["id"] in rows:
            self.note(f"{place}.id", f"{_show(task['id'])} is used twice, first at {rows[task['id']].place}")
        else:
            return str(task["id"])
        return None

    def _row(self, task: dict[str, Any], place: str) -> _Row:
        name = task.get("name")
        if not isinstance(name, str):
            self.note(f"{place}.name", "missing" if "name" not in task else f"must be a string, not {_kind(name)}")
        return _Row(place, str(name), self._names(task, place, "parents"), self._names(task, place, "children"))

    def _names(self, task: dict[str, Any], place: str, key: str) -> list[str]:
        names = task.get(key)
        if not isinstance(names, list):
            self.note(f"{place}.{key}", "missing" if key not in task else f"must be an array, not {_kind(names)}")
            return []
        for index, name in enumerate(names):
            if not isinstance(name, str):
                self.note(f"{place}.{key}[{index}]", f"must be a string, not {_kind(name)}")
        found = [name for name in names if isinstance(name, str)]
        if len(set(found)) != len(found):
            twice = next(name for name, count in Counter(found).items() if count > 1)
            self.note(f"{place}.{key}", f"names {_show(twice)} twice")
        return found

    def _edges_agree(self, rows: dict[str, _Row]) -> None:
        """Each edge must be told by both of its ends."""
        parents = {task_id: set(row.parents) for task_id, row in rows.items()}
        children = {task_id: set(row.children) for task_id, row in rows.items()}
        for task_id, row in rows.items():
            self._edges_of(task_id, row, "parents", "children", row.parents, children)
            self._edges_of(task_id, row, "children", "parents", row.children, parents)

    def _edges_of(
        self, task_id: str, row: _Row, key: str, reverse: str, names: list[str], back: dict[str, set[str]]
    ) -> None:
        for index, name in enumerate(names):
            place = f"{row.place}.{key}[{index}]"
            if name == task_id:
                self.note(place, f"task {_show(task_id)} names itself")
            elif name not in back:
                self.note(place, f"task {_show(name)} does not exist")
            elif task_id not in back[name]:
                self.note(
                    place, f"names {_show(name)}, but {_show(name)} does not have {_show(task_id)} among its {reverse}"
                )

    def _no_cycle(self, rows: dict[str, _Row]) -> None:
        path = cycle(_numbers(rows))
        if path:
            names = list(rows)
            ids = [names[index] for index in path]
            shown = ids if len(ids) <= 12 else [*ids[:6], "...", *ids[-5:]]
            text = " -> ".join(map(_plain, shown))
            raise self.fail(f"{rows[ids[0]].place}.parents", f"the graph has a cycle: {text}")

    # --- what happened ------------------------------------------------------------------------------------------

    def execution(self, tasks: list[Any], rows: dict[str, _Row]) -> dict[str, tuple[float, str]]:
        """Runtime and program of every task of the graph."""
        found: dict[str, tuple[float, str]] = {}
        places: dict[str, str] = {}
        for index, task in enumerate(tasks):
            place = f"{_EXECUTION}.tasks[{index}]"
            if not isinstance(task, dict):
                self.note(place, f"must be an object, not {_kind(task)}")
                continue
            task_id = task.get("id")
            if not isinstance(task_id, str):
                self.note(f"{place}.id", "missing" if "id" not in task else f"must be a string, not {_kind(task_id)}")
            elif task_id not in rows:
                self.note(f"{place}.id", f"task {_show(task_id)} is not in the specification")
            elif task_id in found:
                self.note(f"{place}.id", f"{_show(task_id)} is used twice, first at {places[task_id]}")
            else:
                places[task_id] = place
                found[task_id] = (self._runtime(task, place), _program(task))
        for task_id, row in rows.items():
            if task_id not in found:
                self.note(f"{_EXECUTION}.tasks", f"no entry for task {_show(task_id)} of {row.place}")
        return found

    def _runtime(self, task: dict[str, Any], place: str) -> float:
        value = task.get("runtimeInSeconds")
        at = f"{place}.runtimeInSeconds"
        if "runtimeInSeconds" not in task:
            self.note(at, "missing")
        elif not _is_number(value):
            self.note(at, f"must be a number, not {_kind(value)}")
        elif value < 0:
            self.note(at, f"is negative: {_show(value)}")
        elif not value <= RUNTIME_S_MAX:
            self.note(at, f"is {_show(value)}, more than the limit of {RUNTIME_S_MAX:g} seconds")
        else:
            return float(value)
        return 0.0


def _numbers(rows: dict[str, _Row]) -> list[list[int]]:
    number = {task_id: index for index, task_id in enumerate(rows)}
    return [[number[parent] for parent in row.parents] for row in rows.values()]


def _program(task: dict[str, Any]) -> str:
    command = task.get("command")
    program = command.get("program") if isinstance(command, dict) else None
    return program if isinstance(program, str) else ""


def _refuse_constant(text: str) -> None:
    raise ValueError(f"not JSON: {text} is not a JSON number")


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    rows = list(pairs)
    found = dict(rows)
    if len(found) != len(rows):
        twice = next(key for key, count in Counter(key for key, _ in rows).items() if count > 1)
        raise ValueError(f"the key {_show(twice)} occurs twice in one object")
    return found


_KIND_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    type(None): "null",
}


def _kind(value: Any) -> str:
    return _KIND_NAMES.get(type(value), "a number")


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _show(value: Any) -> str:
    """The value as JSON text on one line, cut to a length that fits into a message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:50]}...{text[-25:]}"


def _plain(text: str) -> str:
    return _show(text)[1:-1]

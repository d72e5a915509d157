"""Figures of a recording and of a simulation, by the same code, so that they may be compared.

- makespan: from the first arrival to the last end, without the stretches in which no engine ran.
- wait: from when a task could have begun (it arrived, its parents ended, its time had come) to its first start.
- utilisation: what attempts took, as a part of what the workers of a node type could have worked.
- queues: how many tasks waited, and how many ran, at moments spread over the makespan.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from actors.protocol.kinds import PRIORITIES
from actors.run import Run
from runtime.planning.recording import RecordedRun, Recording
from runtime.planning.world import Simulation

MOMENTS: Final = 60
"""At which queues are looked at."""


class Waits(NamedTuple):
    """Of some tasks, in nanoseconds."""

    tasks: int
    mean_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """One node type. `slots` are places for tasks, on average over the makespan."""

    name: str
    tasks: int
    slots: float
    busy_ns: int
    utilisation: float
    waits: Waits
    waiting: tuple[int, ...]
    running: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HistoryFigures:
    """All figures of one history. `classes` and `tenants` are by name, in the order in which they are shown."""

    makespan_ns: int
    tasks: int
    busy_ns: int
    pools: tuple[PoolFigures, ...]
    classes: dict[str, Waits]
    tenants: dict[str, Waits]


class _Task(NamedTuple):
    node_type: str
    priority: int
    tenant: str
    ready_ns: int
    start_ns: int
    end_ns: int


def recorded_figures(recording: Recording) -> HistoryFigures:
    """Of what was recorded."""
    tasks = list(_tasks(recording, {no: (run.starts, run.ends) for no, run in recording.runs.items()}))
    places = {name: data["workers_max"] * data["slots"] for name, data in recording.node_types.items()}
    return _figures(recording, tasks, recording.busy_ns, places)


def simulated_figures(simulation: Simulation) -> HistoryFigures:
    """Of what was simulated."""
    recording = simulation.recording
    tasks = list(_tasks(recording, {no: (run.starts, run.ends) for no, run in simulation.runs.items()}))
    makespan = max(1, _makespan(recording, tasks))
    places = {
        name: min(simulation.worker_ns[name] / makespan, data["workers_max"]) * data["slots"]
        for name, data in simulation.node_types.items()
    }
    return _figures(recording, tasks, simulation.busy_ns, places)


Times = tuple["array[int]", "array[int]"]


def _tasks(recording: Recording, times: Mapping[int, Times]) -> Iterator[_Task]:
    """All tasks that started."""
    for no, recorded in recording.runs.items():
        if no in times:
            yield from _tasks_of(recording, recorded, *times[no])


def _tasks_of(
    recording: Recording, recorded: RecordedRun, starts: Sequence[int], ends: Sequence[int]
) -> Iterator[_Task]:
    run, arrival_ns = recorded.run, recorded.arrival_ns
    added = _adders(recorded)
    known = len(ends)
    due = run.rare.due
    edges = run.is_graph or run.size > run.base_size
    for node, start_ns in enumerate(starts):
        if not start_ns:
            continue
        ready_ns = arrival_ns
        if edges:
            for parent in run.parents(node):
                if parent < known and ends[parent] > ready_ns:
                    ready_ns = ends[parent]
            adder = added.get(node)
            if adder is not None:
                ready_ns = max(ready_ns, ends[adder] if node not in run.rare.callers else ready_ns)
        if node in due:
            ready_ns = max(ready_ns, recording.axis(due[node]))
        kind = run.kind(node)
        class_ = _class_of(run, node, kind.priority)
        yield _Task(kind.node_type, class_, kind.tenant, min(ready_ns, start_ns), start_ns, ends[node])


def _class_of(run: Run, node: int, priority: int) -> int:
    """That in which it was submitted: the kind of a run that was given another class is of that one by now."""
    return run.rare.lowered.get(node, priority)


def _adders(recorded: RecordedRun) -> dict[int, int]:
    """Who added a node, for those that are the first of what was added."""
    found: dict[int, int] = {}
    bases = sorted((base, node) for node, (_, base) in recorded.blocks.items())
    for at, (base, node) in enumerate(bases):
        stop = bases[at + 1][0] if at + 1 < len(bases) else recorded.run.size
        for added in range(base, stop):
            found[added] = node
    return found


def _makespan(recording: Recording, tasks: Sequence[_Task]) -> int:
    first = min((run.arrival_ns for run in recording.runs.values()), default=0)
    return max((task.end_ns for task in tasks), default=first) - first


def _figures(
    recording: Recording, tasks: Sequence[_Task], busy_ns: Mapping[str, int], places: Mapping[str, float]
) -> HistoryFigures:
    makespan = _makespan(recording, tasks)
    first = min((run.arrival_ns for run in recording.runs.values()), default=0)
    by_type: dict[str, list[_Task]] = defaultdict(list)
    by_class: dict[int, list[int]] = defaultdict(list)
    by_tenant: dict[str, list[int]] = defaultdict(list)
    for task in tasks:
        wait = task.start_ns - task.ready_ns
        by_type[task.node_type].append(task)
        by_class[task.priority].append(wait)
        by_tenant[task.tenant].append(wait)
    moments = [first + makespan * (2 * at + 1) // (2 * MOMENTS) for at in range(MOMENTS)]
    return HistoryFigures(
        makespan_ns=makespan,
        tasks=len(tasks),
        busy_ns=sum(busy_ns.values()),
        pools=tuple(
            _pool(name, by_type[name], busy_ns.get(name, 0), places.get(name, 0.0), makespan, moments)
            for name in sorted(places.keys() | by_type.keys())
        ),
        classes={PRIORITIES[class_]: _waits(found) for class_, found in sorted(by_class.items())},
        tenants={name: _waits(found) for name, found in sorted(by_tenant.items())},
    )


def _pool(
    name: str, tasks: Sequence[_Task], busy_ns: int, slots: float, makespan: int, moments: Sequence[int]
) -> PoolFigures:
    ready = sorted(task.ready_ns for task in tasks)
    starts = sorted(task.start_ns for task in tasks)
    ends = sorted(task.end_ns for task in tasks)
    room = slots * makespan
    return PoolFigures(
        name=name,
        tasks=len(tasks),
        slots=slots,
        busy_ns=busy_ns,
        utilisation=min(1.0, busy_ns / room) if room else 0.0,
        waits=_waits([task.start_ns - task.ready_ns for task in tasks]),
        waiting=tuple(bisect_right(ready, at) - bisect_right(starts, at) for at in moments),
        running=tuple(bisect_right(starts, at) - bisect_right(ends, at) for at in moments),
    )


def _waits(waits: list[int]) -> Waits:
    waits.sort()
    if not waits:
        return Waits(0, 0, 0, 0, 0)
    count = len(waits)
    return Waits(count, sum(waits) // count, _rank(waits, 50), _rank(waits, 99), waits[-1])


def _rank(ordered: Sequence[int], percent: int) -> int:
    """Nearest-rank percentile."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def to_json(figures: HistoryFigures) -> dict[str, Any]:
    """As plain JSON data."""
    return {
        "makespan_ns": figures.makespan_ns,
        "tasks": figures.tasks,
        "busy_ns": figures.busy_ns,
        "pools": [
            {
                "name": pool.name,
                "tasks": pool.tasks,
                "slots": pool.slots,
                "busy_ns": pool.busy_ns,
                "utilisation": pool.utilisation,
                "waits": pool.waits._asdict(),
                "waiting": list(pool.waiting),
                "running": list(pool.running),
            }
            for pool in figures.pools
        ],
        "classes": {name: waits._asdict() for name, waits in figures.classes.items()},
        "tenants": {name: waits._asdict() for name, waits in figures.tenants.items()},
    }

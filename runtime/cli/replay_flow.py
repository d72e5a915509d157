"""A recorded workflow as a flow: one node per task, of the recorded runtime times a scale, after its parents.

How the tasks take their time, and so how many run at once:

- sleeping (default): asyncio workers, with room for every task at once. Sleeping needs no core, so the width of the
  recording overlaps on any machine, and the lower bound of the report is the critical path.
- burning: processes, one task at a time in each, as many as there are workers; CPU time, not time on the clock.

Both are one node type, "replay". The recorded number of cores per task is not modelled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from actors.protocol import limits
from actors.protocol.words import counted
from runtime.cli.replay_tasks import burn, sleep_for
from runtime.cli.wfformat import Workflow
from runtime.config import NodeType
from runtime.flow import Flow, Node

NODE_TYPE: Final = "replay"
SLEEPING_WORKERS_MAX: Final = 2
"""Asyncio workers when none are asked for: one could do it, two keep starts prompt while many tasks end."""


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A flow that replays a workflow, and what is needed to run and to report it.

    `groups` and `parents` are by task id, `parents` as in the file.
    """

    flow: Flow
    node_types: tuple[NodeType, ...]
    groups: dict[str, str]
    parents: dict[str, tuple[str, ...]]
    mode: str


def replay_flow(
    workflow: Workflow, title: str, *, scale: float = 1.0, burning: bool = False, workers: int = 0
) -> ReplayPlan:
    """Make the flow.

    Args:
        workflow: What was recorded.
        title: Name of the flow.
        scale: Factor of the recorded runtimes.
        burning: Use CPU instead of sleeping.
        workers: Worker processes; 0 for the default.
    """
    flow = Flow(title, node_type=NODE_TYPE)
    handler: Any = burn if burning else sleep_for
    nodes: dict[str, Node[Any]] = {}
    for task in workflow.in_order():
        parents = [nodes[parent] for parent in task.parents]
        nodes[task.id] = flow.add(handler, task.runtime_s * scale, id=task.id, after=parents)
    pool, mode = _pool(len(nodes), burning, workers)
    return ReplayPlan(
        flow=flow,
        node_types=(pool,),
        groups=workflow_groups((task.id, task.name, task.program) for task in workflow.tasks),
        parents={task.id: task.parents for task in workflow.tasks},
        mode=f"{mode}, recorded runtimes × {scale:g}",
    )


def _pool(tasks: int, burning: bool, workers: int) -> tuple[NodeType, str]:
    """The node type, and how it works in words."""
    cores = os.cpu_count() or 1
    if burning:
        count = workers or cores
        text = f"{counted(count, 'process', 'processes')}, one task at a time in each, using CPU"
        return NodeType(NODE_TYPE, workers=count), text
    count = workers or min(SLEEPING_WORKERS_MAX, cores)
    room = min(limits.PREFETCH_MAX, max(1, -(-tasks // count)))
    processes = counted(count, "asyncio process", "asyncio processes")
    text = f"{processes}, up to {counted(room, 'task')} at once in each, sleeping"
    return NodeType(NODE_TYPE, workers=count, mode="asyncio", concurrency=room), text


def workflow_groups(names: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """What stands for the node type of each task of a replayed workflow.

    Some systems give every task its own name and tell the program (`mProject_ID0000001`, program `mProject`); others
    give all tasks of a step one name and put a whole script into the program. So: the name where names repeat, else
    the program where it is one word, else the name without its number.

    Args:
        names: (id, name, program) of every task.
    """
    rows = list(names)
    repeats = len({name for _, name, _ in rows}) < len(rows)
    return {task_id: name if repeats else _program_or_stem(name, program) for task_id, name, program in rows}


def _program_or_stem(name: str, program: str) -> str:
    words = program.split()
    if len(words) == 1 and program:
        return words[0].rsplit("/", 1)[-1] or words[0]
    stem = name.rstrip("0123456789")
    for ending in ("_ID", "-ID", "_", "-"):
        if stem.endswith(ending) and len(stem) > len(ending) and stem != name:
            return stem[: -len(ending)]
    return stem or name

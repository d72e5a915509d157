"""What happened in a run, as columns: the plain data from which every report is made.

Knows nothing of a running engine: it is filled from what `RunHandle.nodes()` returned and from the definition. Rows
keep the order of the definition, nodes that were spawned while running come last. A node that never started has 0 in
`starts` and `ends`.

Nodes are grouped by `groups`: by the name of their task, or, in a replayed workflow, by what stands for it. `pools`
says which node type's workers ran them, where a run has more than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.views import NodeStatus


@dataclass(slots=True)
class Trace:
    """One run as columns; row i of every column belongs to node i.

    Args:
        title: What people call it: the flow's name or the file's stem.
        run_id: Id of the run.
        state: State of the run.
        durability: "fsync", "os" or "none"; part of every report.
        workers: Worker processes.
        slots: Tasks that they can run at once, all together.
        mode: How tasks were run, in words.
        elapsed_ns: From submission to the end as the submitter saw it.
        facts: Further (name, text) pairs for the head of a report.
        parents: Row numbers of the parents.
        groups: Name of the task, or what stands for the node type in a replayed workflow.
        pools: Node type by group; empty when there is only one.
        errors: Message of a failed node by row.
    """

    title: str
    run_id: str
    state: str
    durability: str
    workers: int
    slots: int
    mode: str = ""
    elapsed_ns: int = 0
    facts: list[tuple[str, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    pools: dict[str, str] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def fill(
        self,
        nodes: Sequence[NodeStatus],
        groups: Mapping[str, str] | None = None,
        parents: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Take over the table of nodes.

        Args:
            nodes: All nodes of the run, by number.
            groups: Group by node id; without it the name of the node's task.
            parents: Parents by node id, to be told in the order of a file.
        """
        number = {node.id: node.index for node in nodes} if parents is not None else {}
        for node in nodes:
            listed = parents.get(node.id) if parents is not None else None
            self.ids.append(node.id)
            self.parents.append(list(node.parents) if listed is None else [number[name] for name in listed])
            self.groups.append(node.name if groups is None else groups.get(node.id, node.name))
            self.states.append(node.state.name.lower())
            self.attempts.append(node.attempts)
            self.starts.append(node.started_ns or 0)
            self.ends.append(node.ended_ns or 0)
            self.pids.append(node.worker_pid or 0)

    def label(self, row: int) -> str:
        """What to call a node: its id, behind the name of its task if the id is only a number."""
        node_id = self.ids[row]
        return f"{self.groups[row]} {node_id}" if node_id.isdecimal() else node_id

    def duration(self, row: int) -> int:
        """Nanoseconds of the last attempt; 0 if the node did not run to an end."""
        start, end = self.starts[row], self.ends[row]
        return end - start if start and end > start else 0

    def ran(self, row: int) -> bool:
        """True if the node started and ended."""
        return bool(self.starts[row] and self.ends[row])

    def origin(self) -> int:
        """First start of all nodes; 0 if none started."""
        return min(filter(None, self.starts), default=0)

    def as_json(self, makespan_ns: int) -> dict[str, Any]:
        """The object that `--json` writes."""
        ids = self.ids
        columns = zip(ids, self.parents, self.states, self.attempts, self.starts, self.ends, self.pids, strict=True)
        return {
            "run_id": self.run_id,
            "state": self.state,
            "makespan_s": makespan_ns / 1e9,
            "workers": self.workers,
            "nodes": [
                {
                    "id": node_id,
                    "parents": [ids[parent] for parent in parents],
                    "state": state,
                    "attempts": attempts,
                    "started_ns": start or None,
                    "ended_ns": end or None,
                    "worker_pid": pid or None,
                }
                for node_id, parents, state, attempts, start, end, pid in columns
            ],
        }

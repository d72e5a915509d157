"""What happened in a run, as columns: the plain data from which every report is made.

Knows nothing of a running engine: it is filled from the rows of `RunHandle.nodes()` and from the definition. Rows keep
the order of the definition. A node that never started has 0 in `starts` and `ends`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

TERMINAL: Final = ("succeeded", "failed", "cancelled", "skipped")


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
        groups: Node type, or what stands for it in a replayed workflow.
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
        rows: Sequence[Mapping[str, Any]],
        groups: Mapping[str, str],
        parents: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Add the rows of `RunHandle.nodes()`.

        Args:
            rows: Dicts with id, parents, state, attempts, started_ns, ended_ns, worker_pid.
            groups: Group by node id; a node that is missing here (one spawned while running) is of group "spawned".
            parents: Parents by node id where they are to be told as in a file; else those of the rows.
        """
        first = len(self.ids)
        number = {str(row["id"]): first + i for i, row in enumerate(rows)}
        for row in rows:
            node_id = str(row["id"])
            names = row["parents"] if parents is None else parents.get(node_id, row["parents"])
            self.ids.append(node_id)
            self.parents.append([number[str(name)] for name in names])
            self.groups.append(groups.get(node_id, "spawned"))
            self.states.append(str(row["state"]))
            self.attempts.append(int(row["attempts"]))
            self.starts.append(int(row["started_ns"] or 0))
            self.ends.append(int(row["ended_ns"] or 0))
            self.pids.append(int(row["worker_pid"] or 0))

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

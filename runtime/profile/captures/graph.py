"""Who waits for whom, over all processes: what is made of all answers to "tree" (see `graph_here`).

    face: thread ──waits──► run ──runs──► node ──in──► worker: task ──awaits──► task ...
                                          node ──calls──► node

Each process says what it knows. An edge may name something that another process describes; `Graph.merged` puts them
together, and `Graph.cycles` finds what can never go on: a strongly connected component of more than one, or one that
waits for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import orjson

from runtime.profile.proof.rings import components

WORKER: Final = "worker:"
"""Of an edge to whatever a worker runs; it becomes the task of the node, or the worker's main thread."""


class WaitNode(NamedTuple):
    """Something that waits or is waited for.

    Attributes:
        id: Unique over all processes.
        kind: "thread", "task", "run" or "node".
        title: Its name.
        state: "running", "waiting", "ready".
        at: Where it is: "function (file:line)"; empty for what is at no place in code, as a run.
        process: Title of its process.
        pid: Its process.
        age_s: Since when it is there; negative: not known.
        awaits: What it waits for, in words, where edges do not say it, or not all of it.
        labels: Of the running code.
    """

    id: str
    kind: str
    title: str
    state: str
    at: str
    process: str
    pid: int
    age_s: float = -1.0
    awaits: str = ""
    labels: tuple[tuple[str, str], ...] = ()


class WaitEdge(NamedTuple):
    """One waits for another one: "awaits", "joins", "runs", "calls", "in"."""

    waits: str
    waited_for: str
    how: str


class Graph:
    """What all processes know, as one.

    Attributes:
        nodes: By id.
        after: What each of them waits for, with how.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, WaitNode] = {}
        self.after: dict[str, dict[str, str]] = {}

    def __repr__(self) -> str:
        return f"<Graph: {len(self.nodes)} nodes>"

    @classmethod
    def merged(cls, answers: Iterable[bytes]) -> Graph:
        """All answers as one graph."""
        made, edges = cls(), list[WaitEdge]()
        for content in answers:
            found = orjson.loads(content)
            for row in found["nodes"]:
                node = WaitNode(*row)
                node = node._replace(labels=tuple((name, text) for name, text in node.labels))
                before = made.nodes.get(node.id)
                if before is None or before.state != "running":
                    made.nodes[node.id] = node
            edges += (WaitEdge(*row) for row in found["edges"])
        carried = {edge.waits for edge in edges if edge.how == "in" and not edge.waited_for.startswith(WORKER)}
        for waits, waited_for, how in edges:
            if waited_for.startswith(WORKER):
                if waits in carried:
                    continue
                waited_for = f"thread:{waited_for.removeprefix(WORKER)}:main"
            if waits in made.nodes and waited_for in made.nodes:
                made.after.setdefault(waits, {})[waited_for] = how
        return made

    def roots(self) -> list[WaitNode]:
        """Those that nobody waits for; of a cycle that nobody waits for, its first. Main threads and pool threads that
        wait for nothing are left out."""
        waited = {target for after in self.after.values() for target in after}
        found = [
            node
            for node in self.nodes.values()
            if node.id not in waited and (node.kind != "thread" or node.id in self.after)
        ]
        reached = set(self._reached(node.id for node in found))
        for ring in self.cycles():
            if not reached & set(ring):
                found.append(self.nodes[ring[0]])
                reached.update(self._reached([ring[0]]))
        return found

    def _reached(self, begin: Iterable[str]) -> Iterator[str]:
        seen, waiting = set[str](), list(begin)
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                yield one
                waiting += self.after.get(one, ())

    def cycles(self) -> list[list[str]]:
        """Rings that can never go on, each as the ids of those in it, sorted."""
        found = []
        for component in components(self.after, lambda one: list(self.after.get(one, ()))):
            one = component[0]
            if len(component) > 1 or one in self.after.get(one, ()):
                found.append(sorted(component))
        return sorted(found)

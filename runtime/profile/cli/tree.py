"""`tree`: who waits for whom, over all processes, as a forest; what can never go on is marked, in red on a terminal.

Many that are alike (a thousand tasks at one place) are one line with their number.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Final

from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.report import duration_text
from runtime.profile.captures.capture import graph
from runtime.profile.captures.graph import Graph, WaitNode
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import note_all, state_of
from runtime.profile.cli.stacks import as_json

ALIKE_MAX: Final = 3
"""So many that are alike are shown one by one."""
DEPTH_MAX: Final = 100
RED: Final = "\x1b[31m"


def show_tree(arguments: Namespace, console: Console) -> int:
    """The command `tree`."""
    found, notes = graph(state_of(arguments, console))
    if arguments.json:
        nodes = [node._asdict() for node in found.nodes.values()]
        edges = [[one, other, how] for one, after in found.after.items() for other, how in after.items()]
        console.say(as_json({"nodes": nodes, "edges": edges, "cycles": found.cycles(), "notes": notes}))
        return ProfileExit.OK
    for line, marked in tree_lines(found, every=arguments.all):
        console.say(line, RED if marked else "")
    note_all(console, notes)
    return ProfileExit.OK


def tree_lines(found: Graph, *, every: bool = False) -> Iterator[tuple[str, bool]]:
    """The lines of the forest, and whether each is of a cycle."""
    cycles = found.cycles()
    for ring in cycles:
        titles = " → ".join(found.nodes[one].title for one in [*in_order(found, ring), in_order(found, ring)[0]])
        yield f"cycle of {len(ring)}: {titles}", True
    if cycles:
        yield "", False
    rings = {one for ring in cycles for one in ring}
    seen: set[str] = set()
    roots = sorted(found.roots(), key=lambda node: (_RANK.get(node.kind, 9), node.process, node.title))
    if not roots:
        yield "nobody waits for anybody", False
    for node, alike in grouped(found, roots, every):
        yield from _lines(found, node, alike, "", "", seen, rings, every)


_RANK: Final = {"thread": 0, "run": 1, "node": 2, "task": 3}


def in_order(found: Graph, ring: Sequence[str]) -> list[str]:
    """A ring as it goes round, as far as one walk does."""
    members, walk = set(ring), [ring[0]]
    while True:
        after = next((one for one in found.after.get(walk[-1], ()) if one in members and one not in walk), None)
        if after is None:
            return walk
        walk.append(after)


def grouped(found: Graph, nodes: Sequence[WaitNode], every: bool) -> Iterator[tuple[WaitNode, int]]:
    """Nodes, those that are alike and wait for nobody with an edge as one with their number."""
    groups: dict[tuple[str, ...], list[WaitNode]] = {}
    for node in nodes:
        own = (node.id,) if found.after.get(node.id) else (node.kind, node.at, node.state, node.awaits, node.process)
        groups.setdefault(own, []).append(node)
    for members in groups.values():
        if every or len(members) <= ALIKE_MAX:
            yield from ((node, 1) for node in members)
        else:
            yield max(members, key=lambda node: node.age_s), len(members)


def _lines(
    found: Graph,
    node: WaitNode,
    alike: int,
    indent: str,
    how: str,
    seen: set[str],
    rings: set[str],
    every: bool,
) -> Iterator[tuple[str, bool]]:
    text = f"{indent}{how + ' ' if how else ''}{node_text(node, alike)}"
    after = found.after.get(node.id, {})
    if node.id in seen and after:
        yield f"{text}  (see above)", node.id in rings
        return
    seen.add(node.id)
    yield text, node.id in rings
    if len(indent) > 2 * DEPTH_MAX:
        yield f"{indent}  …", False
        return
    below = [found.nodes[one] for one in after]
    for child, number in grouped(found, below, every):
        yield from _lines(found, child, number, f"{indent}  ", after[child.id], seen, rings, every)


def node_text(node: WaitNode, alike: int = 1) -> str:
    """One of them on a line."""
    parts = [f"{counted(alike, node.kind)} as {node.title}" if alike > 1 else _named(node)]
    parts += [node.state, f"awaits {node.awaits}" if node.awaits else ""]
    parts += [duration_text(round(node.age_s * 1e9)) if node.age_s >= 0 else ""]
    parts += [f"{name}={text}" for name, text in node.labels if text]
    where = f"  at {_short(node.at)}" if node.at else ""
    return f"{', '.join(filter(None, parts))}  ({node.process}){where}"


def _named(node: WaitNode) -> str:
    return node.title if node.kind == "run" else f"{node.kind} {node.title}"


def _short(at: str) -> str:
    name, _, rest = at.rpartition(" (")
    return f"{name} ({os.path.join(*rest.split(os.sep)[-2:])}" if name else at

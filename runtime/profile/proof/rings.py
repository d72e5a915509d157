"""Strongly connected components of a graph of any objects, by Tarjan's algorithm without recursion, and what is
upstream of each: linear in nodes and edges. And which part of many objects leads anywhere."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, TypeVar

Node = TypeVar("Node", bound=Hashable)
_UPSTREAM_MAX: Final = 3
_LOOKS_MAX: Final = 8


def leading(goals: dict[int, Any], things: list[Any], targets: dict[int, int]) -> dict[int, Any]:
    """What leads to some objects, by identity.

    Of what leaked tasks have, that is a part in five; so the rest is looked at in C only. It is looked at from the
    youngest on: what has a thing is mostly older than that, so the second look finds no more.

    Args:
        goals: The objects, by identity.
        things: What may lead there.
        targets: For weak references among these what they refer to.

    Returns:
        Those that do, and `goals`; or all, where many looks still found more.
    """
    leads = dict(goals)
    known = leads.keys()
    weak = [one for one in things if id(one) in targets] if targets else []
    for _ in range(_LOOKS_MAX):
        before = len(leads)
        leads.update((id(one), one) for one in weak if targets[id(one)] in leads)
        for one in reversed(things):
            if not known.isdisjoint(map(id, gc.get_referents(one))):
                leads[id(one)] = one
        if len(leads) == before:
            return leads
    return leads | {id(one): one for one in things}


def components(starts: Iterable[Node], after: Callable[[Node], Iterable[Node]]) -> list[list[Node]]:
    """Components of what is reached from `starts`; one comes before those that lead to it."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    open_nodes: dict[Node, None] = {}
    found: list[list[Node]] = []
    for start in starts:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        open_nodes[start] = None
        path = [(start, iter(after(start)))]
        while path:
            node, rest = path[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    open_nodes[other] = None
                    path.append((other, iter(after(other))))
                    break
                if other in open_nodes:
                    low[node] = min(low[node], index[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_closed(node, open_nodes))
    return found


def _closed(node: Node, open_nodes: dict[Node, None]) -> list[Node]:
    component: list[Node] = []
    while True:
        last, _ = open_nodes.popitem()
        component.append(last)
        if last == node:
            return component


def upstream(
    found: list[list[Node]], after: Callable[[Node], Iterable[Node]], counts: Callable[[Node], bool]
) -> list[list[Node]]:
    """For each of `components`, in their order, the nearest nodes of interest that lead to it from outside; a few."""
    place = {node: at for at, component in enumerate(found) for node in component}
    above: list[dict[Node, None]] = [{} for _ in found]
    for at in range(len(found) - 1, -1, -1):
        own = [node for node in found[at] if counts(node)][:_UPSTREAM_MAX]
        told = own or list(above[at])
        for node in found[at]:
            for other in after(node):
                there = above[place[other]]
                if place[other] != at and len(there) < _UPSTREAM_MAX:
                    there.update(dict.fromkeys(told))
    return [list(nodes)[:_UPSTREAM_MAX] for nodes in above]

"""Of things that the ledger knows: which have only tasks that nothing can wake (rows 10, 12, 20, 21). A part of the
mark (`mark`), so of the forked child.

A thing is told by its weak reference in the ledger. Who refers to it weakly (a loop to its generators, a thread to its
executor) will not give it back, so of the mark it counts what was reached before such references were followed. What
was not is a leak, if

  - tasks of which it is proved that nothing wakes them refer to it, directly or not;
  - nothing else does: no reference is left that nobody accounts for, at it or at what leads to it, and no task that may
    yet be woken.

What is left over without such a task is garbage that the collector has not come to, and no leak.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from typing import Any, Final

_BATCH: Final = 20_000


def held_by_leaks(
    things: set[int],
    unmarked: list[Any],
    cut: list[Any],
    proved: set[int],
    doubtful: set[int],
    waited: set[int],
) -> set[int]:
    """Identities of things that only what is proved has.

    Args:
        things: Identities of the things.
        unmarked: What the mark had not reached before it followed weak references.
        cut: Registries, whose references are accounted for.
        proved: Identities of the tasks, and their coroutines, that nothing wakes.
        doubtful: The same of tasks of which that is not proved.
        waited: Identities of what tasks wait for, to which the mark refers.
    """
    there = {id(one): one for one in unmarked}
    found = reached([there[key] for key in proved if key in there], there).intersection(things)
    if not found:
        return found
    doubted = [there[key] for key in doubtful if key in there]
    del there
    seeds = _unaccounted(unmarked, cut, proved | doubtful, waited)
    there = {id(one): one for one in unmarked if id(one) not in proved}  # who has such a task does not let it go on
    return found - reached(doubted + seeds, there)


def reached(seeds: list[Any], there: dict[int, Any]) -> set[int]:
    """What is reached from these among what is there, themselves included."""
    seen = set(map(id, seeds))
    frontier = list(seeds)
    while frontier:
        batch, frontier = frontier[:_BATCH], frontier[_BATCH:]
        for one in gc.get_referents(*batch):
            key = id(one)
            if key in there and key not in seen:
                seen.add(key)
                frontier.append(one)
    return seen


def _unaccounted(unmarked: list[Any], cut: list[Any], tasks: set[int], waited: set[int]) -> list[Any]:
    """What has more references than these have. Tasks are pinned by whoever runs them. No variable here may name one of
    them while they are counted."""
    counts = references(unmarked, cut)
    counts.update(waited)
    return [
        one
        for one in unmarked
        if sys.getrefcount(one) > counts.get(id(one), 0) + OWN_REFERENCES and id(one) not in tasks
    ]


def references(unmarked: list[Any], cut: list[Any]) -> Counter[int]:
    """How many references to each object, by its identity, these have. Counted in C, since there are millions."""
    counts: Counter[int] = Counter()
    for sources in (unmarked, cut):
        for first in range(0, len(sources), _BATCH):
            counts.update(map(id, gc.get_referents(*sources[first : first + _BATCH])))
    return counts


def _own_references() -> int:
    """References to an object of `unmarked` that are ours: the heap, the list, the variable and the argument."""
    heap: list[list[Any]] = [[], []]
    unmarked = list(heap)
    counts = [sys.getrefcount(one) for one in unmarked]
    return counts[0]


OWN_REFERENCES: Final = _own_references()

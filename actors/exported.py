"""A run as lines of plain JSON: what `export` writes, and what `actors.imported` makes a run of again.

    run    identity, options (`kinds`), times, and how the run is as a whole
    node   one each, in order: place in the graph, state, argument, result or failure, times, and what few nodes have
    story  what happened, in order
    end    the run is whole

Times are wall clock nanoseconds since 1970. Arguments and results are wire values (see `runtime.mail.codec`). What has
its usual value is left out. `FORM_VERSION` counts: the minor part when a field is added that may be missing, the major
part when a line means something else.

What is not in them: leases, what running attempts wanted to add, and LSNs, which belong to one log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors.protocol.states import NodeState
from actors.rare import WHOLE
from actors.run import Run
from actors.state_column import SUCCEEDED
from actors.timing import read_timing

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

FORM_VERSION: Final = "1.1"
BY_NODE: Final = MappingProxyType(
    {
        "attempts": "failed_attempts",
        "backoff_until": "backoff_until_ns",
        "callers": "called_by",
        "classes": "class",
        "crashes": "crashes",
        "deadlines": "deadline_ns",
        "died": "died_ns",
        "due": "due_ns",
        "ended_early": "ended_early_ns",
        "expires": "expires_ns",
        "failures": "failure",
        "lowered": "lowered_class",
        "moments": "deadline_moment_ns",
        "parked": "parked",
        "progress": "progress",
    }
)
"""Facts of `actors.rare.Rare` by node, and the fields that hold them."""
BY_FLAG: Final = MappingProxyType(
    {"alone": "runs_alone", "appointed": "due_is_moment", "discarded": "discarded", "gave_way": "gave_way"}
)
"""Sets of nodes of `Rare`, and the fields that are true for those in them."""
OTHERWISE: Final = frozenset({"calls", "debounce", "ended", "events", "known_as", "revived"})
"""What else of `Rare` is exported."""
LEFT_OUT: Final = frozenset({"overdue", "refused", "spawned"})
"""What belongs to attempts that run now, and ends with the engine that runs them."""
STATES: Final = tuple(state.name.lower() for state in NodeState)
TIMES_NODES: Final = 65_536
"""Nodes whose times are looked up together."""


def lines_of(scheduler: Scheduler, run: Run, keys: Mapping[str, list[list[Any]]]) -> Iterator[dict[str, Any]]:
    """The lines of a run, as a log tells of it that was folded and not yet gone on with (`Replay.finish`).

    Args:
        scheduler: Knows the run.
        run: To be exported.
        keys: `Keys.by_run` of the scheduler.
    """
    yield _head(scheduler, run, keys)
    for first in range(0, run.size, TIMES_NODES):
        nodes = range(first, min(first + TIMES_NODES, run.size))
        times = read_timing(run, nodes)
        for node in nodes:
            yield _node(run, node, times.get(node))
    for at_ns, node, event, detail, _ in run.rare.events:
        yield {"type": "story", "run": run.key, "at_ns": at_ns, "node": node, "event": event, "detail": detail}
    yield {"type": "end", "run": run.key, "nodes": run.size}


def _head(scheduler: Scheduler, run: Run, keys: Mapping[str, list[list[Any]]]) -> dict[str, Any]:
    rare = run.rare
    found: dict[str, Any] = {
        "type": "run",
        "run": run.key,
        "name": run.name,
        "state": str(run.run_state()),
        "form": "graph" if run.is_graph else "map" if run.is_map else "tasks",
        "session": run.session,
        "seq": run.seq,
        "created_ns": run.created_ns,
        "ended_ns": scheduler.ended_ns.get(run.no),
        "size": run.size,
        "base_size": run.base_size,
        "bytes": [run.items_bytes, run.results_bytes],
        "kinds": [orjson.loads(kind.text) for kind in run.kinds],
    }
    burst = rare.debounce
    more = {
        "cancel_asked": run.cancel_asked,
        "revived": rare.revived,
        "grown": bool(run.waits) and not run.is_graph,
        "known_as": rare.known_as,
        "debounce": burst and [burst.wait_ns, burst.until_ns, burst.calls, [*burst.files]],
        "keys": keys.get(run.key),
    }
    if WHOLE in rare.classes:
        found["class"] = rare.classes[WHOLE]
    if WHOLE in rare.ended_early:
        found["cancelled_ns"] = rare.ended_early[WHOLE]
    return {**found, **{name: value for name, value in more.items() if value}}


def _node(run: Run, node: int, times: tuple[int, int, int] | None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "node", "run": run.key, "node": node}
    columns, rare, state = run.columns, run.rare, run.state[node]
    kind = 0
    if columns is not None:
        if node in columns.ids:
            found["id"] = columns.ids[node]
        kind = 0 if columns.kind_of is None else columns.kind_of[node]
    found |= {"task": run.kinds[kind].name, "kind": kind, "state": STATES[state]}
    if columns is not None:
        if deps := columns.deps[columns.deps_off[node] : columns.deps_off[node + 1]]:
            found["parents"] = deps.tolist()
        off, after = columns.after_off, columns.after
        if off is not None and after is not None and off[node] != off[node + 1]:
            found["after"] = after[off[node] : off[node + 1]].tolist()
    if run.items is not None and run.items[node] is not None:
        found["argument"] = run.items[node]
    if state == SUCCEEDED:
        found["result"] = run.results[node]
    if times is not None:
        found["started_ns"], found["ended_ns"], found["pid"] = times
    if calls := rare.calls.get(node):
        found["calls"] = {"nodes": calls.nodes, "digests": calls.digests, "waits": calls.waits}
    for attribute, name in BY_NODE.items():
        if node in (facts := getattr(rare, attribute)):
            found[name] = facts[node]
    for attribute, name in BY_FLAG.items():
        if node in getattr(rare, attribute):
            found[name] = True
    return found

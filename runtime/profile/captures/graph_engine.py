"""Who waits for whom, as the engine knows it: runs for their nodes, nodes that run for their workers, callers for what
they called.

Only reads, beside the engine: what it changes meanwhile may be missed, and nothing is counted by it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from actors.calls import called_by
from actors.protocol.words import counted
from actors.state_column import PENDING, TERMINAL_FIRST
from runtime.profile.captures.graph import WORKER, WaitEdge, WaitNode

RUNS_MAX: Final = 1_000
NODES_MAX: Final = 10_000
_TRIES: Final = 100


def engine(core: Any, title: str, pid: int) -> Iterator[WaitNode | WaitEdge]:
    """Runs that have not ended, nodes that run, and those that wait for what they called.

    Args:
        core: An `actors.core.EngineCore`.
        title: What this process is called.
        pid: Its number.

    Yields:
        What there is, and who waits for whom.
    """
    for run in [run for run in _list(core.scheduler.book.live.values()) if run.open][:RUNS_MAX]:
        yield from _run(run, title, pid)
    now_ns = time.monotonic_ns()
    yield from _held(core, title, pid)
    for found in _list(core.running_nodes())[:NODES_MAX]:
        age_s = (now_ns - found.started_ns) / 1e9 if found.started_ns else -1.0
        me = _node_id(found.run.no, found.node)
        yield _node(found.run, found.node, "running", title, pid)._replace(age_s=age_s)
        yield WaitEdge(f"run:{found.run.key}", me, "runs")
        yield WaitEdge(me, f"{WORKER}{found.pid}", "in")


def _held(core: Any, title: str, pid: int) -> Iterator[WaitNode | WaitEdge]:
    """Nodes that workers hold: they run there, or are next; which of them, the latest look at the workers says."""
    left = NODES_MAX
    for pool in _list(core.pools.values()):
        for worker in _list(pool.workers.values()):
            for group in _list(worker.book.groups()):
                nodes = [node for node, is_open in zip(group.nodes, group.open, strict=False) if is_open][:left]
                left -= len(nodes)
                for node in nodes:
                    me = _node_id(group.run.no, node)
                    yield _node(group.run, node, "held", title, pid)
                    yield WaitEdge(f"run:{group.run.key}", me, "runs")
                    yield WaitEdge(me, f"{WORKER}{worker.pid}", "in")


def _run(run: Any, title: str, pid: int) -> Iterator[WaitNode | WaitEdge]:
    me, name = f"run:{run.key}", f" ({run.name})" if run.name else ""
    awaits = f"the end of {counted(run.open, 'node')}"
    yield WaitNode(me, "run", f"run {run.key}{name}", "running", "", title, pid, awaits=awaits)
    called: set[int] = set()
    callers = [node for node in _list(run.rare.calls)[:NODES_MAX] if run.state[node] == PENDING]
    for caller in callers:
        yield _node(run, caller, "waiting", title, pid)
        for node in called_by(run, caller):
            if run.state[node] < TERMINAL_FIRST:
                called.add(node)
                if node not in callers:
                    yield _node(run, node, "ready", title, pid)
                yield WaitEdge(_node_id(run.no, caller), _node_id(run.no, node), "calls")
    yield from (WaitEdge(me, _node_id(run.no, caller), "runs") for caller in callers if caller not in called)


def _node(run: Any, node: int, state: str, title: str, pid: int) -> WaitNode:
    kind = run.kind(node)
    labels = (("node_type", str(kind.node_type)),)
    return WaitNode(
        _node_id(run.no, node), "node", f"{kind.name} {run.node_id(node)}", state, "", title, pid, labels=labels
    )


def _node_id(run_no: int, node: int) -> str:
    return f"node:{run_no}:{node}"


def _list(things: Iterable[Any]) -> list[Any]:
    """A copy of what another thread may change."""
    for _ in range(_TRIES):
        with suppress(RuntimeError):
            return list(things)
    return []

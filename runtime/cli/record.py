"""From a run to its trace: waiting with a meter, then asking the engine once for all it knows.

Uses the public face only, so that any program can make the same report of its own runs:

    handle = rt.submit(flow)
    watch(handle, meter_for(Console.standard(), flow.name))
    trace = trace_of(rt, handle)
    write_output(Path("report.html"), html_page(trace, analyse(trace)))
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from actors.protocol.errors import TaskFailed, WaitTimeout
from actors.protocol.words import counted
from runtime.cli.progress import REFRESH_S, Meter
from runtime.cli.trace import Trace
from runtime.config import NodeType
from runtime.engine import Runtime
from runtime.handle import RunHandle
from runtime.views import Counts

FAILURES_READ_MAX: Final = 100
"""Failed nodes whose message is asked for; of the others only the state is known."""


STILL_LOOKS: Final = 20
"""Looks in a row that see nothing run and nothing end, before the engine is asked why: two seconds."""


def watch(handle: RunHandle, meter: Meter, each: Callable[[Counts], object] | None = None) -> None:
    """Wait for the end of a run and show how far it is, or why it does not move.

    Args:
        handle: The run.
        meter: Shows it; closed in the end, whatever happens.
        each: Called with the counts ten times a second.
    """
    done = still = 0
    said = ""
    try:
        while not handle.done():
            try:
                handle.wait(REFRESH_S)
            except WaitTimeout:
                pass
            counts = handle.progress().counts
            meter.show(counts.done, counts.total, counts.running, counts.failed)
            still = 0 if counts.running or counts.done != done else still + 1
            done = counts.done
            if still and not still % STILL_LOOKS and (why := handle.why()) != said:
                said = why
                meter.note(f"nothing moves; why() says: {why}")
            if each is not None:
                each(counts)
    finally:
        meter.close()


def trace_of(
    rt: Runtime,
    handle: RunHandle,
    *,
    title: str = "",
    mode: str = "",
    groups: Mapping[str, str] | None = None,
    parents: Mapping[str, Sequence[str]] | None = None,
    pools: Mapping[str, str] | None = None,
) -> Trace:
    """All that the engine knows of a run that has ended.

    Args:
        rt: The runtime.
        handle: The run.
        title: What to call it; the flow's name by default.
        mode: How tasks are run, in words; made from the node types by default.
        groups: Group by node id; the name of its task by default.
        parents: Parents by node id, in the order of a file.
        pools: Node type by group, where there are several.
    """
    status = handle.status()
    node_types = rt.config.node_types
    trace = Trace(
        title=title or status.name or handle.run_id,
        run_id=handle.run_id,
        state=str(status.state),
        durability=rt.config.durability,
        workers=sum(node_type.workers_range[1] for node_type in node_types),
        slots=sum(node_type.workers_range[1] * node_type.slots for node_type in node_types),
        mode=mode or "; ".join(map(pool_text, node_types)),
        elapsed_ns=max(0, (status.ended_ns or status.created_ns) - status.created_ns),
        facts=[("machine", machine_text())],
        pools=dict(pools or {}),
    )
    trace.fill(handle.nodes(), groups, parents)
    failed = [row for row, state in enumerate(trace.states) if state == "failed"]
    trace.errors = {row: failure_text(handle, row) for row in failed[:FAILURES_READ_MAX]}
    return trace


def failure_text(handle: RunHandle, node: int) -> str:
    """Why a node failed: its message, then the traceback of its handler where there is one."""
    try:
        handle.result(node)
    except TaskFailed as failed:
        return f"{failed.message}\n{failed.traceback_text}".rstrip()
    return ""


def pool_text(node_type: NodeType) -> str:
    """A node type in words."""
    low, high = node_type.workers_range
    kind = "process" if node_type.mode == "process" else "asyncio process"
    processes = ("" if low == high else f"{low} to ") + counted(high, kind, f"{kind}es")
    each = "" if node_type.mode == "process" else f", up to {counted(node_type.slots, 'task')} at once in each"
    return f"{node_type.name}: {processes}{each}"


def machine_text() -> str:
    """The machine and the Python that ran it, without names of hosts."""
    cores = os.cpu_count() or 1
    system = f"{platform.system()} {platform.machine()}"
    return f"{counted(cores, 'core')}, {system}, {platform.python_implementation()} {platform.python_version()}"

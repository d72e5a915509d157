"""What is said of a run that ended, from what the log keeps of it: the same in memory, after a restart, in the archive.

What a handler printed and its lines of `context.log` are in the engine's memory only. Of a failure, the end of what was
printed is a part, and that stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.rare import WHOLE

if TYPE_CHECKING:
    from actors.run import Run


def end_of(run: Run, ended_ns: int | None, events: list[list[Any]]) -> list[list[Any]]:
    """The line of a story that says how a run of several nodes ended, unless it is among the events already."""
    said = f"run {run.run_state()}"
    if run.open or not run.is_graph or ended_ns is None:
        return []
    if any(node == WHOLE and event == said for _, node, event, *_ in events):
        return []
    return [[ended_ns, WHOLE, said, "", run.lsn]]


def name_of(run: Run, node: int | None = None) -> str:
    """What a run is called: the name of the flow, or of what a task executes."""
    kind = (run.kinds[0] if run.kinds else None) if node is None else run.kind(node)
    return run.name or ("" if kind is None else kind.name)


def output_of(run: Run, node: int) -> dict[str, Any]:
    """What is left of what the latest attempt of a node printed, as the reply to a question."""
    text = (run.rare.failures.get(node) or {}).get("output")
    return {"text": text if isinstance(text, str) else "", "truncated": False}

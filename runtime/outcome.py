"""From what the engine said about the end of a task or run, to what the caller gets: a value or an exception.

Pure, and shared by the blocking and the asyncio handles. Results stay as wire values until somebody asks for them,
so that classes of the user are imported in the caller's thread and a result nobody reads costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from actors.protocol.errors import MainspringError, ProtocolError, TaskFailed
from actors.protocol.states import NodeState, RunState
from actors.protocol.words import counted
from runtime.host.pending import ENDED, ERROR, FAILED, VALUE, WIRE, Pending
from runtime.host.submissions import fresh
from runtime.mail.codec import Codec
from runtime.mail.failure import exception_of
from runtime.views import Counts, ResultRow

if TYPE_CHECKING:
    from runtime.host.client import EngineClient

_SKIPPED: Final = NodeState.SKIPPED.name.lower()


def value_of(cell: Pending, client: EngineClient, run_id: str) -> Any:
    """The value of a settled cell of one task.

    Raises:
        TaskFailed: Or one of its kinds, with the handler's exception as its cause where it could be rebuilt.
        MainspringError: The submission was rejected, the runtime was closed, the engine was lost.
        PayloadUnreadable: A class, module or file that the value needs is gone.
    """
    if cell._state == VALUE:
        return cell._value
    if cell._state == WIRE:
        return _decoded(cell, client)
    raise error_of_cell(cell, client, run_id)


def end_of(cell: Pending, client: EngineClient, run_id: str) -> RunState:
    """How the task of a settled cell ended, as the run that it is. Raises what was said instead of an end."""
    if cell._state in (VALUE, WIRE):
        return RunState.SUCCEEDED
    if cell._state == ENDED:
        return RunState(cell._value[2])
    if cell._state != FAILED:
        raise error_of_cell(cell, client, run_id)
    state = str(cell._value[0])
    return RunState.SUCCEEDED if state == _SKIPPED else RunState(state)


def error_of_cell(cell: Pending, client: EngineClient, run_id: str) -> MainspringError:
    """The exception of a settled cell that has no value."""
    if cell._state == FAILED:
        state, failure = cell._value
        return task_error(failure, client.codec, state, f"run {run_id}")
    if cell._state == ERROR:
        return fresh(cell._value)
    return ProtocolError(f"run {run_id} is in state {cell._state}, which has neither value nor error")


def _decoded(cell: Pending, client: EngineClient) -> Any:
    """Decode once. Value and state change together under the lock, so that two callers do not decode in turn."""
    with client.lock:
        state, wire = cell._state, cell._value
    if state == VALUE:
        return wire
    value = client.codec.decode(wire)
    with client.lock:
        if cell._state == WIRE:
            cell._value = value
            cell._state = VALUE
        return cell._value


def task_error(failure: dict[str, Any], codec: Codec, state: NodeState | int | str, where: str) -> TaskFailed:
    """The exception of a task that did not succeed, with a note that says which task it was."""
    error = exception_of(failure, codec, state)
    error.add_note(where)
    return error


def settle_from_row(row: ResultRow) -> tuple[int, Any]:
    """State and value of a cell, from a row of results."""
    if row.state == NodeState.SUCCEEDED:
        return WIRE, row.value
    return FAILED, [row.state.name.lower(), row.failure or {"kind": row.state.name.lower()}]


def value_of_row(row: ResultRow, codec: Codec, run_id: str) -> Any:
    """The value of a node; raises TaskFailed when it did not succeed."""
    if row.state != NodeState.SUCCEEDED:
        raise error_of_row(row, codec, run_id)
    return codec.decode(row.value)


def error_of_row(row: ResultRow, codec: Codec, run_id: str) -> TaskFailed:
    """The exception of a node that did not succeed."""
    failure = row.failure or {"kind": row.state.name.lower(), "message": f"node {row.id} was {row.state.name.lower()}"}
    return task_error(failure, codec, row.state, f"node {row.id} of run {run_id}")


def values_of_rows(rows: Sequence[ResultRow], codec: Codec) -> dict[str, Any]:
    """Values of the nodes that succeeded, by id."""
    return {row.id: codec.decode(row.value) for row in rows if row.state == NodeState.SUCCEEDED}


def final_value(rows: Sequence[ResultRow], codec: Codec, run_id: str) -> Any:
    """Result of a whole run from its final nodes: the value where there is one, else a dictionary by id."""
    if len(rows) == 1:
        return value_of_row(rows[0], codec, run_id)
    failed = next((row for row in rows if row.state != NodeState.SUCCEEDED), None)
    if failed is not None:
        raise error_of_row(failed, codec, run_id)
    return values_of_rows(rows, codec)


def run_error(ending: Sequence[Any], codec: Codec) -> TaskFailed | None:
    """The exception of a run that did not succeed, from the engine's word about its end; None when it did.

    Args:
        ending: `[sequence number, run key, state, counts, first failure]`, the last one `[node, id, failure]` or None.
        codec: Decodes texts and arguments.
    """
    _, run_id, state, counts, *more = ending
    if state == RunState.SUCCEEDED:
        return None
    told = Counts(*counts)
    where = (
        f"run {run_id}: {told.failed:,} of {counted(told.total, 'node')} failed, {told.cancelled:,} cancelled, "
        f"{told.skipped:,} skipped, {told.succeeded:,} succeeded"
    )
    first = more[0] if more else None
    node, name, failure = first or (None, None, {"kind": str(state), "message": f"the run is over: {state}"})
    ending_state = "cancelled" if failure.get("kind") == "cancelled" or state == RunState.CANCELLED else "failed"
    error = task_error(failure, codec, ending_state, where)
    if node is not None:
        error.add_note(f"first: node {node if name is None else name}")
    return error

"""What submitting has in common for blocking callers and for asyncio; all of it but the waiting."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from actors.protocol.errors import CallerError
from runtime.dispatch import Dispatch
from runtime.flow import Flow
from runtime.handle_base import Handle
from runtime.host.client import EngineClient
from runtime.host.pending import ERROR
from runtime.host.submissions import fresh

if TYPE_CHECKING:
    from runtime.context import TaskContext

P = ParamSpec("P")
R = TypeVar("R")
Fn: TypeAlias = Callable[..., R]
AsyncFn: TypeAlias = Callable[..., Coroutine[Any, Any, R]]
AskingFn: TypeAlias = "Callable[Concatenate[TaskContext, P], R]"
"""A handler whose first parameter is its context, which the worker fills in; the caller passes the others."""
AskingAsyncFn: TypeAlias = "Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]]"


class SubmitterBase:
    """Submits with one set of options."""

    def __init__(self, client: EngineClient, dispatch: Dispatch) -> None:
        self._client = client
        self._dispatch = dispatch


def raise_if_refused(state: int, error: Any, handle: Handle) -> None:
    """Raise the error of a submission that was rejected, or whose acknowledgement cannot come now."""
    if handle._state == ERROR:
        raise fresh(handle._value)
    if state == ERROR and not handle._state:
        lost = fresh(error)
        lost.add_note(f"run {handle.run_id} was sent and not acknowledged: it may be taken when the engine goes on")
        raise lost


def flow_arguments(flow: Flow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of a flow's submission; refuses everything else."""
    if args or set(kwargs) - {"run_id"}:
        raise CallerError(f"{flow!r} takes no arguments but run_id; options belong to its tasks or to Flow(name, ...)")
    return {"run_id": kwargs.get("run_id")}

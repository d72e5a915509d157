"""Every error a user can meet, importable from one place, and the way back from an engine's answer to its class.

The classes live in `actors.protocol.errors`, because the engine's decisions raise them too. An engine answers with a
code and a message; `error_of` finds the class by its stable code, so that `except DuplicateRun:` works in the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from actors.protocol.archive_errors import ArchiveUnusable, RunArchived, RunNotEnded
from actors.protocol.control_signals import AttemptCancelled, AttemptTimeout, ControlSignal, SkipNode, WaitsForCalls
from actors.protocol.errors import (
    BreakerOpen,
    CallerError,
    CheckpointUnusable,
    ConfigurationError,
    CycleError,
    DiskFull,
    DuplicateNode,
    DuplicateRun,
    EngineUnavailable,
    EnvironmentFault,
    ExportFileError,
    GraphError,
    HandlerMissing,
    HandlerRefused,
    IllegalTransition,
    InternalError,
    InvariantBroken,
    KeyConflict,
    LogCorrupt,
    LogFailed,
    MainspringError,
    MissingNode,
    NestedRuntime,
    NewerFormat,
    NotAStateFolder,
    OlderFormat,
    OtherShards,
    PayloadError,
    PayloadTooLarge,
    PayloadUnreadable,
    ProtocolError,
    QueueFull,
    RunBeingCancelled,
    RuntimeClosed,
    StateFolderError,
    StateFolderInUse,
    TaskCancelled,
    TaskFailed,
    TaskSkipped,
    TooManyKeys,
    UniqueTaskOpen,
    UnknownMoment,
    UnknownNodeType,
    UnknownRun,
    WaitTimeout,
    WorkflowFileError,
    WrongBatchResult,
)
from actors.protocol.event_errors import (
    BridgeConflict,
    BridgeUnavailable,
    CursorBeyondEnd,
    CursorTooOld,
    LogOvertaken,
    SubscriberTooSlow,
    SubscriptionInUse,
)
from actors.protocol.pool_errors import PoolTimeout, UnknownPool
from actors.protocol.profile_errors import LeaksFound, ProfileTooSmall, ProfileUnavailable, ProfileUnreadable
from actors.protocol.query_errors import BadQuery, QueryRefused, QueryTooLarge, QueryTooLong

__all__ = [
    "ArchiveUnusable",
    "AttemptCancelled",
    "AttemptTimeout",
    "BadQuery",
    "BreakerOpen",
    "BridgeConflict",
    "BridgeUnavailable",
    "CallerError",
    "CheckpointUnusable",
    "ConfigurationError",
    "ControlSignal",
    "CursorBeyondEnd",
    "CursorTooOld",
    "CycleError",
    "DiskFull",
    "DuplicateNode",
    "DuplicateRun",
    "EngineUnavailable",
    "EnvironmentFault",
    "ExportFileError",
    "GraphError",
    "HandlerMissing",
    "HandlerRefused",
    "IllegalTransition",
    "InternalError",
    "InvariantBroken",
    "KeyConflict",
    "LeaksFound",
    "LogCorrupt",
    "LogFailed",
    "LogOvertaken",
    "MainspringError",
    "MissingNode",
    "NestedRuntime",
    "NewerFormat",
    "NotAStateFolder",
    "OlderFormat",
    "OtherShards",
    "PayloadError",
    "PayloadTooLarge",
    "PayloadUnreadable",
    "PoolTimeout",
    "ProfileTooSmall",
    "ProfileUnavailable",
    "ProfileUnreadable",
    "ProtocolError",
    "QueryRefused",
    "QueryTooLarge",
    "QueryTooLong",
    "QueueFull",
    "RunArchived",
    "RunBeingCancelled",
    "RunNotEnded",
    "RuntimeClosed",
    "SkipNode",
    "StateFolderError",
    "StateFolderInUse",
    "SubscriberTooSlow",
    "SubscriptionInUse",
    "TaskCancelled",
    "TaskFailed",
    "TaskSkipped",
    "TooManyKeys",
    "UniqueTaskOpen",
    "UnknownMoment",
    "UnknownNodeType",
    "UnknownPool",
    "UnknownRun",
    "WaitTimeout",
    "WaitsForCalls",
    "WorkflowFileError",
    "WrongBatchResult",
    "error_of",
    "error_to_wire",
]


@cache
def classes_by_code() -> Mapping[str, type[MainspringError]]:
    """Every error class under its stable code."""
    found: dict[str, type[MainspringError]] = {}
    waiting: list[type[MainspringError]] = [MainspringError]
    while waiting:
        cls = waiting.pop()
        found.setdefault(cls.code, cls)
        waiting.extend(cls.__subclasses__())
    return found


def error_of(answer: Mapping[str, Any]) -> MainspringError:
    """The error that an engine's answer means.

    Args:
        answer: `{"code": ..., "message": ..., "args": [...]}`; `args` follow the message in the constructor and may be
            absent. An unknown code (a newer engine) becomes an `InternalError`.

    Returns:
        The error, not raised.
    """
    code = str(answer.get("code", ""))
    message = str(answer.get("message", ""))
    cls = classes_by_code().get(code)
    if cls is None:
        return InternalError(f"{code}: {message}")
    more = [tuple(a) if isinstance(a, list) else a for a in answer.get("args") or ()]
    try:
        return cls(message, *more)
    except TypeError:
        return cls(message)


def error_to_wire(error: MainspringError) -> dict[str, Any]:
    """The answer that `error_of` turns into this error again."""
    return {"code": error.code, "message": error.message, "args": list(error.args[1:])}

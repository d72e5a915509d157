"""Mainspring: a durable workflow engine that lives inside a Python program. Here are its stage and its public face.

    from runtime import Flow, NodeType, Priority, Retry, Runtime, TaskRegistry

What is imported from here is public; everything else may change. Names are loaded when they are first asked for, so
that `import runtime` costs a worker or a command-line program nothing.

Reading order of the face: `config`, `protection` and `scheduling` (what can be set), `registry` and `reference`
(tasks and their names), `flow` (graphs), `keywords`, `dispatch` and `items` (from a call to a frame), `handle`,
`outcome` and `views` (from the engine's word to the caller's), `submitter_base`, `submitter` and `engine` (the blocking
face), `aio` (the asyncio face), `mapping` and `iterate` (map), `schedules` and `schedule_calls` (what runs again),
`event_calls` and the modules whose names begin with `event` (what happens), `bridges` (to other servers), `query_calls`
(what happened, in SQL), `executor`, `letters` and `operations` (what an operator does). Below it: `host` (processes),
`mail` (queues and values), `storage` (disk), `sql` (the views), `planning` (what would have happened), `profile`,
`bench`, `cli`.

Knows processes, disks and clocks. Decides nothing: that is what `actors` is for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from actors.event_kinds import EVENT_KINDS as EVENT_KINDS
    from actors.event_kinds import Event as Event
    from actors.protocol.states import NodeState as NodeState
    from actors.protocol.states import RunState as RunState
    from actors.protocol.states import TriggerRule as TriggerRule
    from runtime.aio import AsyncRuntime as AsyncRuntime
    from runtime.aio_events import AsyncEventStream as AsyncEventStream
    from runtime.aio_subscription import AsyncSubscription as AsyncSubscription
    from runtime.batch import Batch as Batch
    from runtime.batch import Failed as Failed
    from runtime.call_book import Asked as Asked
    from runtime.config import NodeType as NodeType
    from runtime.config import Priority as Priority
    from runtime.config import Retry as Retry
    from runtime.context import TaskContext as TaskContext
    from runtime.engine import Runtime as Runtime
    from runtime.event_buffer import EventStatistics as EventStatistics
    from runtime.event_stream import EventStream as EventStream
    from runtime.executor import Executor as Executor
    from runtime.flow import Flow as Flow
    from runtime.flow import Node as Node
    from runtime.handle import RunHandle as RunHandle
    from runtime.handle import TaskHandle as TaskHandle
    from runtime.host.scaling import ScaleFigures as ScaleFigures
    from runtime.host.scaling import ScaleStep as ScaleStep
    from runtime.letters import DeadLetter as DeadLetter
    from runtime.letters import DeadLetterDetails as DeadLetterDetails
    from runtime.mail.versions import upcast as upcast
    from runtime.mail.versions import versioned as versioned
    from runtime.profiling import Profiling as Profiling
    from runtime.protection import Breaker as Breaker
    from runtime.protection import RetryBudget as RetryBudget
    from runtime.registry import Task as Task
    from runtime.registry import TaskRegistry as TaskRegistry
    from runtime.retention import Retention as Retention
    from runtime.schedules import ScheduleStatus as ScheduleStatus
    from runtime.scheduling import Rate as Rate
    from runtime.scheduling import Scheduling as Scheduling
    from runtime.scheduling import SchedulingStatus as SchedulingStatus
    from runtime.scheduling import Share as Share
    from runtime.sql.folder import query as query
    from runtime.sql.rows import QueryRow as QueryRow
    from runtime.sql.rows import QueryRows as QueryRows
    from runtime.storage.history import history as history
    from runtime.storage.reshard import ReshardReport as ReshardReport
    from runtime.storage.reshard import reshard as reshard
    from runtime.storage.transfer import Transfer as Transfer
    from runtime.storage.transfer import export_runs as export_runs
    from runtime.storage.transfer import import_runs as import_runs
    from runtime.subscription import Subscription as Subscription
    from runtime.views import Progress as Progress
    from runtime.views import RunProgress as RunProgress

__all__ = [
    "Asked",
    "AsyncEventStream",
    "AsyncRuntime",
    "AsyncSubscription",
    "Batch",
    "Breaker",
    "DeadLetter",
    "DeadLetterDetails",
    "EVENT_KINDS",
    "Event",
    "EventStatistics",
    "EventStream",
    "Executor",
    "Failed",
    "Flow",
    "Node",
    "NodeState",
    "NodeType",
    "Priority",
    "Profiling",
    "Progress",
    "QueryRow",
    "QueryRows",
    "Rate",
    "ReshardReport",
    "Retention",
    "Retry",
    "RetryBudget",
    "RunHandle",
    "RunProgress",
    "RunState",
    "Runtime",
    "ScaleFigures",
    "ScaleStep",
    "ScheduleStatus",
    "Scheduling",
    "SchedulingStatus",
    "Share",
    "Subscription",
    "Task",
    "TaskContext",
    "TaskHandle",
    "TaskRegistry",
    "Transfer",
    "TriggerRule",
    "errors",
    "export_runs",
    "history",
    "import_runs",
    "query",
    "reshard",
    "upcast",
    "versioned",
]

_HOME: Final = {
    "Asked": "runtime.call_book",
    "AsyncEventStream": "runtime.aio_events",
    "AsyncRuntime": "runtime.aio",
    "AsyncSubscription": "runtime.aio_subscription",
    "Batch": "runtime.batch",
    "Breaker": "runtime.protection",
    "DeadLetter": "runtime.letters",
    "DeadLetterDetails": "runtime.letters",
    "EVENT_KINDS": "actors.event_kinds",
    "Event": "actors.event_kinds",
    "EventStatistics": "runtime.event_buffer",
    "EventStream": "runtime.event_stream",
    "Executor": "runtime.executor",
    "Failed": "runtime.batch",
    "Flow": "runtime.flow",
    "Node": "runtime.flow",
    "NodeState": "actors.protocol.states",
    "NodeType": "runtime.config",
    "Priority": "runtime.config",
    "Profiling": "runtime.profiling",
    "Progress": "runtime.views",
    "QueryRow": "runtime.sql.rows",
    "QueryRows": "runtime.sql.rows",
    "Rate": "runtime.scheduling",
    "ReshardReport": "runtime.storage.reshard",
    "Retention": "runtime.retention",
    "Retry": "runtime.config",
    "RetryBudget": "runtime.protection",
    "RunHandle": "runtime.handle",
    "RunProgress": "runtime.views",
    "RunState": "actors.protocol.states",
    "Runtime": "runtime.engine",
    "ScaleFigures": "runtime.host.scaling",
    "ScaleStep": "runtime.host.scaling",
    "ScheduleStatus": "runtime.schedules",
    "Scheduling": "runtime.scheduling",
    "SchedulingStatus": "runtime.scheduling",
    "Share": "runtime.scheduling",
    "Subscription": "runtime.subscription",
    "Task": "runtime.registry",
    "TaskContext": "runtime.context",
    "TaskHandle": "runtime.handle",
    "TaskRegistry": "runtime.registry",
    "Transfer": "runtime.storage.transfer",
    "TriggerRule": "actors.protocol.states",
    "history": "runtime.storage.history",
    "export_runs": "runtime.storage.transfer",
    "import_runs": "runtime.storage.transfer",
    "query": "runtime.sql.folder",
    "reshard": "runtime.storage.reshard",
    "upcast": "runtime.mail.versions",
    "versioned": "runtime.mail.versions",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("runtime.errors")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'runtime' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

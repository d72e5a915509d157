"""Every error a user can meet, in three families, each class with a stable code and a hint.

The family says whose move it is:

- `CallerError`: the call was wrong; the same call will fail again.
- `EnvironmentFault`: the machine, disk or folder got in the way; `retryable` says whether trying again can help.
- `InternalError`: a bug of ours; please report it with the story that is printed.

Codes are append-only. All classes survive pickling, because each keeps its constructor arguments in `args`.
What the engine raises inside a handler is no error: `actors.protocol.control_signals`.
"""

from __future__ import annotations

from typing import ClassVar, Self


class MainspringError(Exception):
    """Base of all errors raised by Mainspring. `code` is stable, `hint` says what to do next."""

    code: ClassVar[str] = "MS000"
    hint: str = ""
    family: ClassVar[str] = "bug"

    def __str__(self) -> str:
        said = f"[{self.code}] {self.message}"
        gap = "\n" if "\n" in said else " "
        return f"{said}{gap}({self.hint})" if self.hint else said

    @property
    def message(self) -> str:
        """The message without code and hint."""
        return str(self.args[0]) if self.args else ""

    def hinting(self, hint: str) -> Self:
        """The same error with a hint of its own, where that of its class does not fit."""
        self.hint = hint
        return self


class CallerError(MainspringError):
    """The call was wrong. Calling again with the same arguments fails again."""

    code = "MS100"
    family = "caller"


class EnvironmentFault(MainspringError):
    """Something outside the program got in the way."""

    code = "MS200"
    family = "environment"
    retryable: ClassVar[bool] = False


class InternalError(MainspringError):
    """A bug of ours. The message carries the story of what led to it."""

    code = "MS900"
    family = "bug"
    hint = "this is a bug in Mainspring; please report it with this message"


# --- caller -----------------------------------------------------------------------------------------------------


class ConfigurationError(CallerError):
    """A setting is out of its range; all problems are listed at once."""

    code = "MS101"
    hint = "correct the settings named in the message"


class HandlerRefused(CallerError):
    """The function cannot be a handler: a lambda, closure, local or generator function, or not importable."""

    code = "MS102"
    hint = "define the handler as a plain function at the top level of an importable module"


class UnknownNodeType(CallerError):
    """A task names a node type that the runtime was not given."""

    code = "MS103"
    hint = "add NodeType(name) to node_types="


class PayloadError(CallerError):
    """A value cannot be stored so that it comes back equal. Args: message, path to the value."""

    code = "MS104"
    hint = "convert the value at that path, or choose payloads='pickle' for this handler"

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(message, path)
        self.path = path


class PayloadTooLarge(PayloadError):
    """A value is over the stated limit."""

    code = "MS105"
    hint = "pass a path or a smaller piece; the limit is limits.PAYLOAD_BYTES_MAX"


class PayloadUnreadable(PayloadError):
    """A stored value cannot be read back: its blob file is gone or damaged, or its class cannot be imported."""

    code = "MS106"
    hint = "restore the file, module or class named in the message, or define the step that it says is missing"


class WrongBatchResult(CallerError):
    """A batching handler returned something else than a list with a result for each of its calls."""

    code = "MS108"
    hint = "return a list as long as the one the handler was given; Failed(exception) stands for a call that failed"


class GraphError(CallerError):
    """The graph is not a valid DAG."""

    code = "MS110"
    hint = "correct the graph; the message names the nodes"


class CycleError(GraphError):
    """The graph has a cycle. Args: message, the node ids on the cycle in order."""

    code = "MS111"

    def __init__(self, message: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(message, path)
        self.path = path


class DuplicateNode(GraphError):
    """Two nodes have the same id."""

    code = "MS112"


class MissingNode(GraphError):
    """A call or an edge names a node that does not exist, or that belongs to another flow."""

    code = "MS113"
    hint = (
        "name a node by the id that it was given, or by its number where it was given none; `dead` lists dead letters"
    )


class DuplicateRun(CallerError):
    """A run with this id exists already, with the same definition or another one."""

    code = "MS120"
    hint = "choose another run_id, or attach to the existing run with rt.handle(run_id)"


class UnknownRun(CallerError):
    """No run with this id is known; it may have been removed by the retention rule."""

    code = "MS121"
    hint = "check the id; of finished runs the latest are kept, and others in the archive, as Retention says"


class RuntimeClosed(CallerError):
    """The runtime was closed, or is draining."""

    code = "MS122"
    hint = "submit before close(), or open a new Runtime"


class QueueFull(CallerError):
    """The engine is full and the `_nowait` form was used. Nothing was accepted."""

    code = "MS123"
    hint = "wait and retry, or use the waiting form"


class NestedRuntime(CallerError):
    """A Runtime was started inside a worker: by a task, or by a main script that has no guard before a handler."""

    code = "MS124"
    hint = (
        "in a task, add the tasks it needs with TaskContext.spawn, or wait for them with TaskContext.call; in a main "
        "script, start the Runtime under if __name__ == '__main__': (handlers that stand before it are found anyway)"
    )


class KeyConflict(CallerError):
    """An idempotency key stands for another handler or other arguments."""

    code = "MS125"
    hint = "use a new idempotency_key for what is different"


class TooManyKeys(CallerError):
    """As many idempotency keys as are kept are within their windows."""

    code = "MS126"
    hint = "use shorter windows; the limit is limits.KEYS_MAX"


class RunBeingCancelled(CallerError):
    """Nodes of a run cannot go again while others are still being stopped."""

    code = "MS129"
    hint = "wait for the end of the run, then ask again"


class UniqueTaskOpen(CallerError):
    """A unique task that has ended cannot go again while another run stands for it."""

    code = "MS134"
    hint = "wait for the end of that run, then ask again"


class UnknownMoment(CallerError):
    """The log does not reach to this moment: it is before its first record that is kept, or after its last."""

    code = "MS142"
    hint = "name an LSN that the log still holds, or a time since its first record"


class TaskFailed(MainspringError):
    """A task ended without success. Args: message, kind, type name, traceback text."""

    code = "MS130"
    family = "caller"
    hint = ""

    def __init__(self, message: str, kind: str = "error", type_name: str = "", traceback_text: str = "") -> None:
        super().__init__(message, kind, type_name, traceback_text)
        self.kind = kind
        self.type_name = type_name
        self.traceback_text = traceback_text


class TaskCancelled(TaskFailed):
    """The task was cancelled."""

    code = "MS131"


class TaskSkipped(TaskFailed):
    """The task was skipped because its trigger rule was not met, or a parent asked for it."""

    code = "MS132"


class WaitTimeout(CallerError, TimeoutError):
    """`result(timeout=...)` elapsed; the task goes on."""

    code = "MS133"
    hint = "wait longer or cancel the task"


class WorkflowFileError(CallerError):
    """A workflow file is malformed. The message names the place."""

    code = "MS140"
    hint = "correct the file at the place named"


class ExportFileError(CallerError):
    """A file of exported runs is malformed, of a version that cannot be read, or does not fit the folder."""

    code = "MS141"
    hint = "nothing was imported; correct the file, or export it again"


# --- environment ------------------------------------------------------------------------------------------------


class StateFolderError(EnvironmentFault):
    """The state folder cannot be used."""

    code = "MS201"
    hint = "choose another folder, or correct its permissions"


class StateFolderInUse(StateFolderError):
    """Another process owns the state folder. Args: message, pid of the holder."""

    code = "MS202"
    hint = "stop the other process, or use another folder"
    retryable = True

    def __init__(self, message: str, pid: int = 0) -> None:
        super().__init__(message, pid)
        self.pid = pid


class NotAStateFolder(StateFolderError):
    """The folder is not empty and not ours."""

    code = "MS203"
    hint = "name an empty or new folder"


class OtherShards(StateFolderError):
    """The log of the state folder lies in another number of shards than was asked for."""

    code = "MS221"
    hint = "leave log_shards= out to open it as it is; python -m runtime reshard STATE N changes it, offline"


class NewerFormat(StateFolderError):
    """The folder was written by a newer version of Mainspring."""

    code = "MS204"
    hint = "open it with the version that wrote it, or newer"


class OlderFormat(StateFolderError):
    """A record has a form that this version of Mainspring does not read any more."""

    code = "MS219"
    hint = "export the folder with a version that reads it, and import that"


class LogCorrupt(EnvironmentFault):
    """The log is damaged before its tail. Args: message, segment, offset."""

    code = "MS205"
    hint = "run: python -m runtime verify STATE; salvage=True opens it and reports what was dropped"

    def __init__(self, message: str, segment: str = "", offset: int = -1) -> None:
        super().__init__(message, segment, offset)
        self.segment = segment
        self.offset = offset


class DiskFull(EnvironmentFault):
    """There is no space left for the log. Running work pauses and resumes when space returns."""

    code = "MS206"
    hint = "free space on the disk of the state folder"
    retryable = True


class LogFailed(EnvironmentFault):
    """Writing or syncing the log failed; the engine stopped accepting work, nothing acknowledged is lost."""

    code = "MS207"
    hint = "check the disk, then open the state folder again"


class EngineUnavailable(EnvironmentFault):
    """No engine: it was not started, cannot be, or crashed more often than the restart intensity allows."""

    code = "MS208"
    hint = "opening the folder with Runtime(...) starts an engine, and recovers everything acknowledged"
    retryable = True


class HandlerMissing(EnvironmentFault):
    """Workers cannot import a handler. Its tasks wait, and go on when they can. Announced in the log, not raised."""

    code = "MS209"
    hint = "put its module where workers can import it; else cancel its tasks, or open with missing_handler='fail'"
    retryable = True


class BreakerOpen(EnvironmentFault):
    """Most attempts of a node type fail, so its tasks wait until some succeed. Announced in the log, not raised."""

    code = "MS210"
    hint = "see why its tasks fail; they go on by themselves, or set another Breaker in its NodeType"
    retryable = True


class CheckpointUnusable(EnvironmentFault):
    """The checkpoint is damaged or missing, and the log needs it."""

    code = "MS211"
    hint = "restore the folder from a copy; salvage=True opens what can be read, and what the checkpoint held is lost"


# --- bug --------------------------------------------------------------------------------------------------------


class IllegalTransition(InternalError):
    """A state machine was given an event that its table does not have; nothing was changed."""

    code = "MS901"


class InvariantBroken(InternalError):
    """check_invariants() found a contradiction."""

    code = "MS902"


class ProtocolError(InternalError):
    """A message or record does not have the agreed form."""

    code = "MS903"

"""Python files for `run`: what such a file defines, and how it is loaded.

A file defines one of

    flow                a `Flow`
    build()             a function that returns a `Flow` (when building it takes time, or reads something)

and, if it needs them,

    tasks               a `TaskRegistry`; without it the flow's functions bring their own options
    node_types          a list of `NodeType`; without it each node type that the tasks name gets a pool: asyncio where
                        all its handlers are async, else processes

The file is run as workers run it, under the name `__mp_main__`: code under `if __name__ == "__main__":` does not run,
and its functions have the same names in the log as when the file is started as a script, so that either way of
starting can resume what the other began. Its folder comes first on the import path, as for a script.

Errors of the file are the user's: they are shown with the user's own traceback, without a frame of ours.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final

from actors.protocol.errors import EnvironmentFault, MainspringError, WorkflowFileError
from runtime.config import NodeType
from runtime.flow import Flow
from runtime.registry import TaskRegistry

MODULE_NAME: Final = "__mp_main__"


@dataclass(frozen=True, slots=True)
class FlowFile:
    """What a Python file defined. `node_types` is None when the file names none."""

    flow: Flow
    tasks: TaskRegistry | None
    node_types: tuple[NodeType, ...] | None


def load_flow_file(path: Path) -> FlowFile:
    """Run a Python file and take what it defines.

    Args:
        path: The file.

    Raises:
        WorkflowFileError: It raised, or does not define what is needed. The user's traceback is in the error's notes.
        EnvironmentFault: It cannot be read.
    """
    path = path.absolute()
    module = _run(path)
    flow = vars(module).get("flow")
    build = vars(module).get("build")
    if flow is None and build is None:
        raise WorkflowFileError(f"{path}: defines neither `flow` (a Flow) nor `build()` that returns one")
    if flow is None:
        if not callable(build):
            raise WorkflowFileError(f"{path}: `build` is a {type(build).__name__}, not a function")
        flow = _call(build, path, "build()")
    if not isinstance(flow, Flow):
        source = "`flow` is" if "flow" in vars(module) else "`build()` returned"
        raise WorkflowFileError(f"{path}: {source} a {type(flow).__name__}, not a Flow")
    return FlowFile(flow, _registry(module, path), _node_types(module, path))


def _registry(module: ModuleType, path: Path) -> TaskRegistry | None:
    tasks = vars(module).get("tasks")
    if tasks is not None and not isinstance(tasks, TaskRegistry):
        raise WorkflowFileError(f"{path}: `tasks` is a {type(tasks).__name__}, not a TaskRegistry")
    return tasks


def _node_types(module: ModuleType, path: Path) -> tuple[NodeType, ...] | None:
    found = vars(module).get("node_types")
    if found is None:
        return None
    if not isinstance(found, Sequence) or not all(isinstance(node_type, NodeType) for node_type in found):
        raise WorkflowFileError(f"{path}: `node_types` must be a list of NodeType")
    return tuple(found)


def _run(path: Path) -> ModuleType:
    """Run the file as a module and return it."""
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise WorkflowFileError(f"{path}: no such file") from None
    except OSError as refused:
        raise EnvironmentFault(f"{path} cannot be read: {refused.strerror or refused}") from refused
    module = ModuleType(MODULE_NAME)
    module.__file__ = str(path)
    sys.modules[MODULE_NAME] = module
    sys.path.insert(0, str(path.parent))
    sys.argv[:] = [str(path)]

    def execute() -> None:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))

    _call(execute, path, "")
    return module


def _call(function: Callable[[], Any], path: Path, what: str) -> Any:
    """Call user code; what it raises becomes an error that shows the user's traceback and nothing of ours."""
    where = f"{path}: {what}" if what else f"{path}:"
    try:
        return function()
    except SystemExit as left:
        text = f"{where} called sys.exit({'' if left.code is None else left.code!r})"
        raise WorkflowFileError(text) from None
    except MainspringError as refused:
        if _frames_of_user(refused.__traceback__, path) is None:
            raise
        refused.add_note(_users_traceback(refused, path))
        raise
    except Exception as raised:
        summary = traceback.format_exception_only(raised)[-1].strip()
        error = WorkflowFileError(f"{where} {summary}")
        error.add_note(_users_traceback(raised, path))
        raise error from None


def _users_traceback(error: BaseException, path: Path) -> str:
    """The traceback from the first frame in the user's file on, without our own frames at its end."""
    frames = _frames_of_user(error.__traceback__, path)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    return "".join([*lines, *traceback.format_exception_only(error)])


def _frames_of_user(trace: TracebackType | None, path: Path) -> traceback.StackSummary | None:
    """The frames from the first one in the user's file on, without ours; None if there is none in that file."""
    frames = traceback.extract_tb(trace)
    first = next((index for index, frame in enumerate(frames) if frame.filename == str(path)), None)
    if first is None:
        return None
    home = str(Path(__file__).resolve().parents[2])
    ours = (f"{home}/runtime/", f"{home}/actors/")
    return traceback.StackSummary.from_list(
        [frame for frame in frames[first:] if not frame.filename.startswith(ours) and "<frozen " not in frame.filename]
    )

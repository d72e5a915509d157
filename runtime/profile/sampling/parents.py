"""Who waits for a task: the tasks above the running one, and whose work a pool's thread does.

The frames of one task's chain of awaits are on the stack while it runs. Who awaits the task is found by its callbacks:
a task that awaits another is its callback (`task.__wakeup`), a `TaskGroup` knows its parent, and `gather`, `wait` and
`shield` keep a future in a closure, whose callbacks lead on. It works with asyncio and uvloop alike, because tasks and
futures are asyncio's own in both.

Known limits: private attributes, each read under a guard: where one is missing, a stack begins with its own task. Of
several that wait for a task one is chosen.
"""

from __future__ import annotations

import sys
from types import CodeType, CoroutineType, FrameType, FunctionType, MethodType
from typing import Any, Final

from runtime.profile.sampling.labels import LABELS

PARENTS_MAX: Final = 12
CHAIN_MAX: Final = 96
_SEARCH_MAX: Final = 24
_POOL_FRAMES: Final = 8

Places = tuple[CodeType | str, ...]


def running_task() -> Any:
    """The task that this thread runs; None outside of one, and while asyncio is being imported."""
    running_loop = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    current_task = getattr(sys.modules.get("asyncio.tasks"), "current_task", None)
    if running_loop is None or current_task is None or (loop := running_loop()) is None:
        return None
    return current_task(loop)


def parent_of(task: Any) -> Any:
    """The task that waits for this one; None where nobody does, or it cannot be seen."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    future, task_type, left = asyncio.Future, asyncio.Task, _SEARCH_MAX
    futures: list[Any] = [task]
    while futures and left:
        for callback, *_ in getattr(futures.pop(), "_callbacks", None) or ():
            left -= 1
            owner = getattr(callback, "__self__", None)
            if isinstance(owner, task_type):
                if owner is not task:
                    return owner
            elif isinstance(owner, asyncio.TaskGroup):
                return owner._parent_task
            elif type(callback) is FunctionType:
                for cell in callback.__closure__ or ():
                    held = _content(cell)
                    if isinstance(held, future) and held is not task and not isinstance(held, task_type):
                        futures.append(held)
            else:  # a partial, as `wait_for` has one
                futures += [a for a in getattr(callback, "args", ()) if isinstance(a, future) and a is not task]
            if not left:
                break
    return None


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def chain_of(coroutine: Any) -> tuple[list[CodeType | str], list[int]]:
    """Where a suspended coroutine is: its frames down to what it waits for, the outermost first."""
    places: list[CodeType | str] = []
    offsets: list[int] = []
    while coroutine is not None and len(places) < CHAIN_MAX:
        if type(coroutine) is CoroutineType:
            frame, below = coroutine.cr_frame, coroutine.cr_await
        elif hasattr(coroutine, "gi_frame"):
            frame, below = coroutine.gi_frame, coroutine.gi_yieldfrom
        elif hasattr(coroutine, "ag_frame"):
            frame, below = coroutine.ag_frame, coroutine.ag_await
        elif hasattr(coroutine, "cr_frame"):
            frame, below = coroutine.cr_frame, coroutine.cr_await
        else:
            break
        if frame is None:
            break
        places.append(frame.f_code)
        offsets.append(frame.f_lasti)
        coroutine = below
    return places, offsets


def _code_of(coroutine: Any) -> CodeType | None:
    for name in ("cr_code", "gi_code", "ag_code"):
        found: CodeType | None = getattr(coroutine, name, None)
        if found is not None:
            return found
    return None


def task_frame(task: Any) -> str:
    """A task as a frame. Numbers in its name are left out, because what is added up must be few."""
    name = task.get_name()
    if name.startswith("Task-") and name[5:].isdigit():
        return "<task>"
    kept = "".join("#" if letter.isdigit() else letter for letter in name.partition("@")[0][:80])
    while "##" in kept:
        kept = kept.replace("##", "#")
    return sys.intern(f"<task {kept}>")


def above(task: Any) -> tuple[list[CodeType | str], list[int]]:
    """The chains of the tasks that wait for a task, the innermost frame first, each task behind its frames' end."""
    places: list[CodeType | str] = []
    offsets: list[int] = []
    seen = {id(task)}
    for _ in range(PARENTS_MAX):
        parent = parent_of(task)
        if parent is None or id(parent) in seen:
            break
        seen.add(id(parent))
        places.append(task_frame(task))
        offsets.append(-1)
        found, at = chain_of(parent.get_coro())
        places += reversed(found)
        offsets += reversed(at)
        task = parent
    return places, offsets


def chain_above(places: Places, offsets: tuple[int, ...]) -> tuple[Places, tuple[int, ...]]:
    """A running stack as far as its task's first frame, with the tasks that wait for that one behind it.

    What runs the loop has no part in what its tasks do; and uvloop has no frames by which it could be told later.
    """
    task = running_task()
    if task is None:
        return places, offsets
    try:
        code = _code_of(task.get_coro())
        for at in range(len(places) - 1, -1, -1):
            if places[at] is code:
                places, offsets = places[: at + 1], offsets[: at + 1]
                break
        found, ends = above(task)
    except Exception:  # noqa: BLE001, RUF100 - see the known limits
        return places, offsets
    return (*places, *found), (*offsets, *ends)


def context_of(task: Any) -> Any:
    """The context of a suspended task; None where it cannot be seen."""
    if hasattr(task, "get_context"):  # 3.12
        return task.get_context()
    waiter = getattr(task, "_fut_waiter", None)
    for callback, *context in getattr(waiter, "_callbacks", None) or ():
        if getattr(callback, "__self__", None) is task and context:
            return context[0]
    return None


class PoolWork:
    """Whose work a thread of a `ThreadPoolExecutor` does, where that came with its context (`asyncio.to_thread`)."""

    @staticmethod
    def labels_in(frame: FrameType | None) -> Any:
        """The value of `LABELS` there; None where there is none."""
        outer: list[FrameType] = []
        while frame is not None:
            outer.append(frame)
            frame = frame.f_back
        for at in reversed(outer[-_POOL_FRAMES:]):
            code = at.f_code
            if code.co_name == "run" and code.co_filename.endswith("concurrent/futures/thread.py"):
                return PoolWork._of(at.f_locals.get("self"))
        return None

    @staticmethod
    def _of(item: Any) -> Any:
        fn = getattr(item, "fn", None)
        fn = getattr(fn, "func", fn)
        context = getattr(fn, "__self__", None)
        if isinstance(fn, MethodType) or type(context).__name__ != "Context":
            return None
        return context.get(LABELS) if context is not None else None

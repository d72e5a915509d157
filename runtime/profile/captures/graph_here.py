"""Who waits for whom in this process: the answer to "tree".

Threads that wait for a run or another thread; tasks and the tasks that they await; in the engine what `graph_engine`
says; in a worker, which task carries which node.

What a task awaits is known where that is a task, a gather, or one of asyncio's own ways to wait for tasks (`wait`,
`wait_for`, `shield`, `TaskGroup`), whose frames say it. A bare future has nobody who is known to fill it: that is said
in words.

Concurrency: any thread. What moves meanwhile may be missed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Any, Final

from runtime.profile.captures.graph import WaitEdge, WaitNode
from runtime.profile.captures.snapshot import all_tasks, await_chain
from runtime.profile.ledger.books import LEDGER, LedgerEntry
from runtime.profile.ledger.gauges import SHOWN
from runtime.profile.ledger.kinds import TASK
from runtime.profile.model import in_pieces
from runtime.profile.presence.here import Request
from runtime.profile.turns import TURNS

_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_ASYNCIO: Final = f"{os.sep}asyncio{os.sep}"
_LINKS_MAX: Final = 64
_ANSWERS: Final = "mainspring-answer"


def answer(request: Request) -> list[bytes]:
    """The answer to "tree"."""
    nodes, edges = here(request.process.title, request.process.pid)
    pieces = [b'{"nodes":', *in_pieces([*node] for node in nodes), b',"edges":']
    pieces += (*in_pieces([*edge] for edge in edges), b"}")
    while nodes:
        nodes.pop()
    while edges:
        edges.pop()
    return pieces


def here(title: str, pid: int) -> tuple[list[WaitNode], list[WaitEdge]]:
    """What this process knows.

    Args:
        title: What it is called.
        pid: Its number.

    Returns:
        What waits or is waited for, and who waits for whom.
    """
    nodes: list[WaitNode] = []
    edges: list[WaitEdge] = []
    parts = [_tasks(title, pid), _threads(title, pid)]
    core = SHOWN.get("core")
    if core is not None:  # only the engine has it, and the modules that it takes
        parts.append(import_module("runtime.profile.captures.graph_engine").engine(core, title, pid))
    for part in parts:
        for one in part:
            if isinstance(one, WaitNode):
                nodes.append(one)
            else:
                edges.append(one)
    return nodes, edges


# --- tasks ------------------------------------------------------------------------------------------------------------


def _tasks(title: str, pid: int) -> Iterator[WaitNode | WaitEdge]:
    tasks = list(all_tasks())
    entries: dict[int, LedgerEntry] = {}
    for entry in LEDGER.entries(TASK) if tasks else ():
        TURNS.breathe()
        task = entry.key() if type(entry.key) is weakref.ReferenceType else None
        if task is not None:
            entries[id(task)] = entry
    now_ns = time.monotonic_ns()
    for task in tasks:
        with suppress(RuntimeError, AttributeError):
            yield from _task(task, entries.pop(id(task), None), now_ns, title, pid)
        TURNS.breathe()


def _task(task: Any, entry: LedgerEntry | None, now_ns: int, title: str, pid: int) -> Iterator[WaitNode | WaitEdge]:
    places, last = await_chain(task.get_coro())
    waiter = getattr(task, "_fut_waiter", None)
    waiter = last if waiter is None else waiter
    me = _task_id(pid, task)
    at = ""
    if places:
        code, line = places[-1]
        at = f"{code.co_qualname} ({code.co_filename}:{line})"
    frames = list(frames_of(task))
    waits = {id(other): other for other in awaited(task, frames)}
    yield WaitNode(
        me,
        "task",
        task.get_name(),
        "ready" if waiter is None else "waiting",
        at,
        title,
        pid,
        -1.0 if entry is None else (now_ns - entry.since_ns) / 1e9,
        "" if waits or waiter is None else type(waiter).__name__,
        () if entry is None else entry.labels,
    )
    yield from (WaitEdge(me, _task_id(pid, other), "awaits") for other in waits.values())
    place: Any = entry.owner if entry is not None else None
    if hasattr(place, "run_no") and hasattr(place, "node"):  # an attempt: `runtime.host.results.Place`
        yield WaitEdge(f"node:{place.run_no}:{place.node}", me, "in")
    for frame in frames:
        yield from _runs_waited_for(me, frame)


def awaited(task: Any, frames: list[FrameType]) -> Iterator[Any]:
    """Tasks that are not done and that a suspended task waits for.

    Args:
        task: It.
        frames: Of its coroutines, the outermost first.

    Yields:
        Each, some more than once.
    """
    waiter = getattr(task, "_fut_waiter", None)
    found: list[Any] = [waiter]
    if frames and _ASYNCIO in frames[-1].f_code.co_filename:
        local = frames[-1].f_locals
        several = local.get("fs") or getattr(local.get("self"), "_tasks", None)
        found += [local.get("fut"), *(list(several) if isinstance(several, set | frozenset | list) else ())]
    seen: set[int] = set()
    for one in found:  # which grows while it is read: a gather of gathers, behind a shield
        if id(one) in seen:
            continue
        seen.add(id(one))
        TURNS.breathe()  # a gather may be of thousands
        inner = _behind_shield(one)
        children = getattr(inner or one, "_children", None)
        found += [*([inner] if inner is not None else ()), *(children if isinstance(children, list) else ())]
        if _is_task(one) and one is not task and not one.done():
            yield one


def _behind_shield(future: Any) -> Any:
    """What `asyncio.shield` protects: its future knows that by the closure of its callback only."""
    for callback, *_ in getattr(future, "_callbacks", None) or ():
        if getattr(callback, "__qualname__", "").endswith("_outer_done_callback"):
            for cell in callback.__closure__ or ():
                with suppress(ValueError):
                    if cell.cell_contents is not future and hasattr(cell.cell_contents, "add_done_callback"):
                        return cell.cell_contents
    return None


def _is_task(thing: Any) -> bool:
    return hasattr(type(thing), "get_coro") and hasattr(type(thing), "get_name")


def frames_of(task: Any) -> Iterator[FrameType]:
    """Frames of the coroutines of a suspended task, the outermost first."""
    link = task.get_coro()
    for _ in range(_LINKS_MAX):
        frame = getattr(link, "cr_frame", None)
        if frame is None or link.cr_running:
            return
        yield frame
        link = link.cr_await


def _task_id(pid: int, task: Any) -> str:
    return f"task:{pid}:{id(task):x}"


# --- threads ----------------------------------------------------------------------------------------------------------


def _threads(title: str, pid: int) -> Iterator[WaitNode | WaitEdge]:
    threads = {thread.ident: thread for thread in threading.enumerate()}
    for ident, innermost in sys._current_frames().items():
        thread = threads.get(ident)
        if thread is None or thread.name == _ANSWERS:
            continue
        me = _thread_id(pid, thread)
        edges: list[WaitEdge] = []
        at, frame = "", innermost
        while frame is not None:
            at = at or f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
            edges += _runs_waited_for(me, frame)
            other = frame.f_locals.get("self") if frame.f_code.co_qualname == "Thread.join" else None
            if isinstance(other, threading.Thread):
                edges.append(WaitEdge(me, _thread_id(pid, other), "joins"))
            if frame.f_back is None:
                break
            frame = frame.f_back
        yield WaitNode(me, "thread", thread.name, "waiting" if edges else "", at, title, pid)
        yield from edges


def _runs_waited_for(me: str, frame: FrameType) -> Iterator[WaitEdge]:
    """The run whose handle a frame of ours waits with."""
    if frame.f_code.co_filename.startswith(_OURS):
        handle = frame.f_locals.get("self")
        run_id = getattr(handle, "run_id", None) if type(handle).__name__.endswith("Handle") else None
        if isinstance(run_id, str):
            yield WaitEdge(me, f"run:{run_id}", "waits")


def _thread_id(pid: int, thread: threading.Thread) -> str:
    return f"thread:{pid}:{'main' if thread is threading.main_thread() else thread.ident}"

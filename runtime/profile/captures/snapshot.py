"""What a process is at: the stack of every thread, and of every asyncio task the chain of what it awaits.

The result is a `Profile` of kind LIVE: one sample for each thread and task, weight 1. Besides the labels of the running
code a sample has labels of its own, which `merged` takes away where only equal stacks are wanted:

    state     thread: running, sleeping, foreign (of a native library: no Python stack), answering (this very question,
              within a handler: its stack is what it was at before); task: running, waiting, ready
    task      its name                             created   where: "file:line function"
    age_s     since it was created, in seconds     awaits    what it waits for, the last link of the chain

`Task.get_stack` shows only the outermost frame of a suspended task, so the chain of `cr_await`, `gi_yieldfrom` and
`ag_await` is walked, 1 to 5 us a task. A coroutine that runs is not walked: its frames are in its thread's stack.

Concurrency: any thread; other threads run meanwhile. Every millisecond the interpreter is let go, so that an event loop
waits for that at most, whatever the number of tasks. The collector is off while frames are taken (CPython #106883).
Known limits: a task may go on while it is looked at; its links are then of two moments.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType
from typing import Any, Final

from runtime.host import kernel
from runtime.profile.ledger.books import KIND_BITS, LEDGER
from runtime.profile.ledger.kinds import TASK
from runtime.profile.ledger.sites import Places, frame_at, places_of
from runtime.profile.model import COUNT, LIVE, Frame, Labels, Process, Profile, StackSample
from runtime.profile.presence.here import Here, Request
from runtime.profile.turns import TURNS

TASKS_MAX: Final = 100_000
"""Tasks of one process that are looked at; what is beyond is in the notes."""
OWN_LABELS: Final = frozenset({"state", "task", "created", "age_s", "awaits"})
_APART: Final = OWN_LABELS - {"state", "created"}
"""What equal stacks differ in."""
_LINKS_MAX: Final = 128
_ANSWERS: Final = "mainspring-answer"
_STATES: Final = {"R": "running", "S": "sleeping", "D": "in the kernel", "T": "stopped", "t": "traced"}
_STACK_HEAD: Final = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+).*\(most recent call first\):")
_STACK_LINE: Final = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')


def answer(request: Request) -> list[bytes]:
    """The answer to "dump"."""
    found = snapshot(request.process, request.main)
    content = found.json_pieces()
    found.let_go()
    return content


def snapshot(process: Process | None = None, main: Places = ()) -> Profile:
    """This process as it is now.

    Args:
        process: Who it is.
        main: Where the main thread was, if that is known better than from now.

    Returns:
        The profile.
    """
    profile, cache = Profile(LIVE, COUNT, begun_ns=time.time_ns()), FrameCache()
    _add_threads(profile, process, main, cache)
    _add_tasks(profile, process, cache)
    return profile


def merged(profile: Profile) -> Profile:
    """Equal stacks as one sample, whatever their names and ages."""

    def plain(sample: StackSample) -> StackSample:
        kept = tuple(pair for pair in sample.labels if pair[0] not in _APART)
        return sample._replace(labels=kept)

    return profile.map(plain)


# --- threads ----------------------------------------------------------------------------------------------------------


def _add_threads(profile: Profile, process: Process | None, main: Places, cache: FrameCache) -> None:
    known = {thread.ident: thread for thread in threading.enumerate()}
    collects = gc.isenabled()
    gc.disable()
    try:
        frames = {ident: places_of(frame) for ident, frame in sys._current_frames().items()}
    finally:
        if collects:
            gc.enable()
    kernels = _kernel_threads()
    nameless = 0
    for ident, places in frames.items():
        thread = known.get(ident)
        nameless += thread is None
        if (thread is None and places[0][0] is Here._have_answered.__code__) or (thread and thread.name == _ANSWERS):
            continue
        state = kernels.get(_native_id(thread), ("", ""))[1]
        state = _STATES.get(state, state)
        if thread is threading.main_thread() and main:
            places = main
            if ident == threading.get_ident():
                state = "answering"
        labels = _labels((), state=state)
        profile.add(
            StackSample(cache.frames(places), labels, process, f"{ident:#x}" if thread is None else thread.name), 1
        )
    for native, comm in _foreign(kernels, {_native_id(thread) for thread in known.values()}, nameless):
        profile.add(StackSample((Frame(comm),), (("state", "foreign"),), process, f"{comm} {native}"), 1)


def _foreign(kernels: dict[int, tuple[str, str]], ours: set[int], nameless: int) -> list[tuple[int, str]]:
    """Threads of native libraries. Which ones belong to Python threads that `threading` does not know cannot be told:
    as many are taken for them, first those that have their process's name, and the newest."""
    own = kernels.get(os.getpid(), ("", ""))[0]
    rest = [(native, comm) for native, (comm, _) in kernels.items() if native not in ours]
    return sorted(rest, key=lambda one: (one[1] != own, -one[0]))[nameless:]


def _native_id(thread: threading.Thread | None) -> int:
    """As the kernel numbers it; 0: not known. In a fork, `native_id` of the main thread is still the parent's."""
    if thread is threading.main_thread() and kernel.LINUX:
        return os.getpid()
    return 0 if thread is None else thread.native_id or 0


def _kernel_threads() -> dict[int, tuple[str, str]]:
    """Name and state of each thread that the kernel knows, by its id."""
    found: dict[int, tuple[str, str]] = {}
    with suppress(OSError):
        for name in os.listdir("/proc/self/task"):
            with suppress(OSError), open(f"/proc/self/task/{name}/stat", "rb") as file:
                head, _, rest = file.read().rpartition(b")")
                found[int(name)] = (head.partition(b"(")[2].decode("utf-8", "replace"), chr(rest.lstrip()[0]))
    return found


class FrameCache:
    """Frames by code and line, for one snapshot: thousands of tasks are in few places."""

    def __init__(self) -> None:
        self._frames: dict[tuple[int, int], Frame] = {}
        self._sites: dict[tuple[int, int], str] = {}

    def frames(self, places: Places) -> tuple[Frame, ...]:
        """The stack of these places."""
        frames = self._frames
        found = []
        for code, line in places:
            frame = frames.get((id(code), line))
            if frame is None:
                frame = frames[id(code), line] = Frame(code.co_qualname, code.co_filename, line)
            found.append(frame)
        return tuple(found)

    def site(self, code: CodeType, lasti: int) -> str:
        """A place of the ledger, as text."""
        found = self._sites.get((id(code), lasti))
        if found is None:
            at = frame_at(code, lasti)
            found = self._sites[id(code), lasti] = f"{at.file}:{at.line} {at.name}"
        return found


# --- tasks ------------------------------------------------------------------------------------------------------------


def _add_tasks(profile: Profile, process: Process | None, cache: FrameCache) -> None:
    tasks = list(all_tasks())
    if len(tasks) > TASKS_MAX:
        profile.notes.append(f"{len(tasks):,} tasks, of which {TASKS_MAX:,} were looked at")
        del tasks[TASKS_MAX:]
    entries = _entries_of_tasks() if tasks else {}
    running = _running_tasks()
    now_ns = time.monotonic_ns()
    for task in tasks:
        with suppress(Exception):  # it went on meanwhile, or what it waits for is of a class of users'
            profile.add(_of_task(task, entries.pop(id(task), None), running, now_ns, process, cache), 1)
        TURNS.breathe()


def _of_task(
    task: Any, entry: _Noted | None, running: set[int], now_ns: int, process: Process | None, cache: FrameCache
) -> StackSample:
    places, last = await_chain(task.get_coro())
    waiter = getattr(task, "_fut_waiter", None)
    state = "running" if id(task) in running else "waiting" if waiter is not None or last is not None else "ready"
    age, created = "", ""
    labels: Labels = ()
    if entry is not None:
        since_ns, code, lasti, kept = entry
        age, created = f"{(now_ns - since_ns) / 1e9:.3f}", cache.site(code, lasti)
        labels = LEDGER.expand(kept) if kept else ()
    awaits = _said(waiter if waiter is not None else last) if state == "waiting" else ""
    facts = (("age_s", age), ("awaits", awaits), ("created", created), ("state", state), ("task", task.get_name()))
    own: Labels = tuple(pair for pair in facts if pair[1])
    return StackSample(cache.frames(places), tuple(sorted(own + labels)) if labels else own, process, "tasks")


def await_chain(coro: Any) -> tuple[Places, Any]:
    """Where a suspended coroutine is, the outermost place first, and what its last link waits for; None: it runs or is
    ready."""
    places: list[tuple[CodeType, int]] = []
    link = coro
    for _ in range(_LINKS_MAX):
        kind = type(link)
        if kind is CoroutineType:
            frame, after, runs = link.cr_frame, None if link.cr_running else link.cr_await, link.cr_running
        elif kind is GeneratorType:
            frame, after, runs = link.gi_frame, None if link.gi_running else link.gi_yieldfrom, link.gi_running
        elif kind is AsyncGeneratorType:
            frame, runs = link.ag_frame, link.ag_running and link.ag_await is None
            after = link.ag_await
        else:
            inner = _inside(link)
            if inner is None:
                return tuple(places), link
            link = inner
            continue
        _note(places, frame)
        if runs or after is None:
            return tuple(places), None
        link = after
    return tuple(places), link


def _note(places: list[tuple[CodeType, int]], frame: FrameType | None) -> None:
    if frame is not None:
        places.append((frame.f_code, frame.f_lineno or 0))


def _inside(link: Any) -> Any:
    """What an iterator of the interpreter drives: of `__await__` of a coroutine, `__anext__` of a generator and so on.
    Only the collector knows."""
    if type(link).__name__ not in ("coroutine_wrapper", "async_generator_asend", "async_generator_athrow"):
        return None
    kinds = (CoroutineType, AsyncGeneratorType, GeneratorType)
    return next((found for found in gc.get_referents(link) if type(found) in kinds), None)


def _said(thing: Any) -> str:
    """What is waited for, in a few words. Its own `repr` is not asked: it may be user code."""
    kind = type(thing)
    if hasattr(kind, "get_coro") and hasattr(kind, "get_name"):
        return f"task {thing.get_name()}"
    children = getattr(thing, "_children", None)
    if kind.__name__ == "_GatheringFuture" and isinstance(children, list):
        return f"gather of {len(children)}"
    return kind.__name__


def all_tasks() -> Iterator[Any]:
    """Tasks of all loops that are not done. Empty where asyncio was never loaded."""
    module: Any = sys.modules.get("asyncio.tasks")
    if module is None:
        return
    kept = [getattr(module, name, ()) for name in ("_scheduled_tasks", "_all_tasks", "_eager_tasks")]
    seen: set[int] = set()
    for group in kept:
        for _ in range(1000):
            try:
                found = list(group)
                break
            except RuntimeError:  # it changed meanwhile
                continue
        else:
            continue
        for task in found:
            if id(task) not in seen and not task.done():
                seen.add(id(task))
                yield task


def _running_tasks() -> set[int]:
    module: Any = sys.modules.get("asyncio.tasks")
    return {id(task) for task in list(getattr(module, "_current_tasks", {}).values())}


_Noted = tuple[int, CodeType, int, Any]
"""Of an entry of the ledger: since when, where, and its label set as it is kept."""


def _entries_of_tasks() -> dict[int, _Noted]:
    """What the ledger knows of living tasks, by their id."""
    found: dict[int, _Noted] = {}
    for token, (code, lasti, key, _, labels) in LEDGER.book(TASK).rows():
        TURNS.breathe()
        task = key() if type(key) is weakref.ReferenceType else None
        if task is not None:
            found[id(task)] = (token >> KIND_BITS, code, lasti, labels)
    return found


def _labels(labels: Labels, **facts: str) -> Labels:
    return tuple(sorted({**dict(labels), **{name: text for name, text in facts.items() if text}}.items()))


# --- what the C handler wrote -----------------------------------------------------------------------------------------


def hung_profile(text: str, process: Process) -> Profile:
    """The stacks that `faulthandler` wrote, as a profile."""
    profile = Profile(LIVE, COUNT, begun_ns=time.time_ns())
    profile.notes.append(f"{process.named} does not come to its next bytecode: it is in a C function")
    thread, frames = "", list[Frame]()
    for line in [*text.splitlines(), "Thread 0x0 (most recent call first):"]:
        head = _STACK_HEAD.match(line)
        if head is None:
            if found := _STACK_LINE.match(line):
                file, at, name = found.groups()
                frames.append(Frame(name, file, int(at) if at.isdigit() else 0))
            continue
        if frames:
            labels = (("state", "in C"),) if thread == "MainThread" else ()
            profile.add(StackSample(tuple(reversed(frames)), labels, process, thread), 1)
        frames = []
        thread = "MainThread" if line.startswith("Current") else f"0x{head[1].lstrip('0')}"
    return profile

"""Rows of ticks as samples of a profile: code and offset become function, file and line, and machinery is folded.

    [what booted this process] [loop] node:http_call  handler  what it calls
                                      └─ from here on a stack is shown

- A stack of an attempt begins with its node type; the frames of the worker below are left out.
- Where a task of a handler runs, the tasks that wait for it come first, each ended by a frame `<task ...>`.
- The frames of an event loop are one, `<loop>`; those of a pool's thread none.
- The innermost frames of the profiler itself are left out: they are `<profiler>`, with the time that it took.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType
from typing import Final

from runtime.profile.labels import Labels
from runtime.profile.model import CPU, Frame, Process, Profile, Sample
from runtime.profile.naming import NODE
from runtime.profile.ticks import Bucket, Places

LOOP: Final = Frame("<loop>")
_LOOP_FILES: Final = ("asyncio/base_events.py", "asyncio/events.py", "asyncio/runners.py", "asyncio/selector_events.py",
                      "asyncio/unix_events.py", "/selectors.py", "uvloop/__init__.py")  # fmt: skip
_POOL_FILES: Final = ("concurrent/futures/thread.py", "/threading.py")
_PROFILER: Final = "runtime/profile/"
_BOOT_FILES: Final = ("runtime/host/spawner.py", "runtime/host/worker_main.py", "runtime/host/children.py")


class Names:
    """Frames of places, found once each."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Frame, CodeType | str]] = {}

    def frame(self, place: CodeType | str, offset: int) -> Frame:
        """Function, file and line; a text is a frame of its own."""
        if isinstance(place, str):
            return Frame(place)
        key = id(place), offset
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = frame_of(place, offset), place  # which keeps the id from being used again
        return known[0]


def frame_of(code: CodeType, offset: int) -> Frame:
    """A place in a code object; a renamed one stands for a node type."""
    if code.co_name.startswith(NODE):
        return Frame(code.co_name)
    line = code.co_firstlineno
    if offset >= 0:
        for start, end, at in code.co_lines():
            if start <= offset < end:
                line = at or line
                break
    return Frame(code.co_qualname, code.co_filename, line)


def is_loop(frame: Frame) -> bool:
    """Whether this is machinery of an event loop."""
    return frame.file.endswith(_LOOP_FILES)


def folded(frames: list[Frame], labels: Labels) -> tuple[Frame, ...]:
    """A stack, root first, as it is shown."""
    while len(frames) > 1 and _is_ours(frames[-1]):
        frames.pop()
    start = 0
    for at, frame in enumerate(frames):
        if frame.name.startswith(NODE) and not frame.file:
            start = at
        elif frame.file.endswith(_BOOT_FILES) and not start:
            start = at + 1
    kept: list[Frame] = []
    pool = True
    for frame in frames[start:] or frames[-1:]:
        if is_loop(frame):
            if not kept or kept[-1] != LOOP:
                kept.append(LOOP)
        elif not (pool and frame.file.endswith(_POOL_FILES)):
            kept.append(frame)
            pool = False
    if not kept:
        kept = frames[-1:]
    if not kept[0].name.startswith(NODE):
        node_type = dict(labels).get("node_type")
        if node_type:
            kept.insert(0, Frame(NODE + node_type))
    if len(kept) > 2 and kept[0].name.startswith(NODE) and kept[1] == LOOP:
        del kept[1]
    return tuple(kept)


def stack_of(names: Names, places: Places, offsets: tuple[int, ...], labels: Labels) -> tuple[Frame, ...]:
    """The stack of a row: the tasks that wait come first, and the loop that runs the innermost of them is not shown."""
    frames = [names.frame(*place) for place in zip(reversed(places), reversed(offsets), strict=True)]
    last = next((at for at in range(len(places)) if isinstance(places[at], str) and at), 0)
    if last:
        cut = len(places) - last
        above, running = frames[:cut], frames[cut:]
        while len(running) > 1 and (_is_machinery(running[0])):
            running.pop(0)
        inner = max((at for at, frame in enumerate(running) if is_loop(frame)), default=-1)
        frames = above + running[inner + 1 :]
    return folded(frames, labels)


def _is_machinery(frame: Frame) -> bool:
    return is_loop(frame) or frame.file.endswith((*_BOOT_FILES, "runtime/host/worker_async.py"))


def _is_ours(frame: Frame) -> bool:
    return _PROFILER in frame.file and "/tests/" not in frame.file


def profile_of(buckets: Iterable[Bucket], process: Process | None, hz: float, names: Names | None = None) -> Profile:
    """What buckets of ticks say, as a profile of kind CPU; when it was is for the caller to say."""
    names = names or Names()
    made = Profile(CPU, hz=hz)
    for bucket in buckets:
        for row in list(bucket.rows.values()):
            stack = stack_of(names, row.places, row.offsets, row.labels)
            made.add(Sample(stack, row.labels, process, row.thread), row.ns, row.seen)
    return made

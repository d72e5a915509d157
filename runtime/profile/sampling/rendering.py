"""Rows of ticks as samples of a profile: code and offset become function, file and line, and machinery is folded.

    [what booted this process] [loop] node:http_call  handler  what it calls
                                      └─ from here on a stack is shown

- A stack of an attempt begins with its node type; the frames of the worker below are left out.
- Where a task of a handler runs, the tasks that wait for it come first, each ended by a frame `<task ...>`.
- The frames of an event loop are one, `<loop>`; those of a pool's thread none.
- The innermost frames of the profiler itself are left out: they are `<profiler>`, with the time that it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from runtime.profile.ledger.sites import frame_at
from runtime.profile.model import CPU, Frame, Process, Profile, StackSample
from runtime.profile.presence.naming import NODE
from runtime.profile.sampling.buckets import Bucket, Places
from runtime.profile.sampling.labels import Labels
from runtime.profile.turns import TURNS

LOOP: Final = Frame("<loop>")
_LOOP_FILES: Final = ("asyncio/base_events.py", "asyncio/events.py", "asyncio/runners.py", "asyncio/selector_events.py",
                      "asyncio/unix_events.py", "/selectors.py", "uvloop/__init__.py")  # fmt: skip
_POOL_FILES: Final = ("concurrent/futures/thread.py", "/threading.py")
_PROFILER: Final = "runtime/profile/"
_BELOW_HANDLER: Final = ("runtime/host/attempts.py", "runtime/host/batches_async.py", "runtime/host/worker_async.py")
_BOOT_FILES: Final = (
    "runtime/host/engine_process.py",
    "runtime/host/spawner.py",
    "runtime/host/worker_main.py",
    "runtime/host/children.py",
    "/runpy.py",
)


_LOOPS, _POOLS, _BOOTS, _BELOW, _OURS = 1, 2, 4, 8, 16
"""What a file is of; several at once."""
_STACKS_MAX: Final = 4_096


class Names:
    """Frames of places, found once each, and stacks: a program is at the same ones second by second."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Frame, CodeType | str]] = {}
        self._stacks: dict[tuple[Any, ...], tuple[tuple[Frame, ...], Places]] = {}

    def stack(self, places: Places, offsets: tuple[int, ...], labels: Labels) -> tuple[Frame, ...]:
        """As `stack_of`."""
        node_type = dict(labels).get("node_type", "")
        key = (node_type, offsets, *map(id, places))
        known = self._stacks.get(key)
        if known is None:
            if len(self._stacks) >= _STACKS_MAX:
                self._stacks.clear()
            known = self._stacks[key] = stack_of(self, places, offsets, labels), places  # the ids are theirs so long
        return known[0]

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
    return Frame(code.co_name) if code.co_name.startswith(NODE) else frame_at(code, offset)


@lru_cache(maxsize=_STACKS_MAX)
def _kinds_of(file: str) -> int:
    found = _LOOPS if file.endswith(_LOOP_FILES) else 0
    found |= _POOLS if file.endswith(_POOL_FILES) else 0
    found |= _BOOTS if file.endswith(_BOOT_FILES) else 0
    found |= _BELOW if file.endswith(_BELOW_HANDLER) else 0
    return found | (_OURS if _PROFILER in file and "/tests/" not in file else 0)


def is_loop(frame: Frame) -> bool:
    """Whether this is machinery of an event loop."""
    return bool(_kinds_of(frame.file) & _LOOPS)


def stack_of(names: Names, places: Places, offsets: tuple[int, ...], labels: Labels) -> tuple[Frame, ...]:
    """The stack of a row as it is shown, root first."""
    last = next((at for at in range(1, len(places)) if isinstance(places[at], str)), len(places))
    running = [names.frame(*place) for place in zip(places[:last], offsets[:last], strict=True)][::-1]
    above = [names.frame(*place) for place in zip(places[last:], offsets[last:], strict=True)][::-1]
    while len(running) > 1 and _kinds_of(running[-1].file) & _OURS:
        running.pop()
    frames = _without_boot([*_one_loop(above), *_one_loop(running)]) or running[-1:]
    return _under_node(frames, dict(labels).get("node_type", ""))


def _one_loop(frames: list[Frame]) -> Iterator[Frame]:
    """The frames with those of a loop as one, and without those of a pool's thread."""
    at_root, before = True, None
    for frame in frames:
        if is_loop(frame):
            if before is not LOOP:
                yield LOOP
            before = LOOP
        elif not (at_root and _kinds_of(frame.file) & _POOLS):
            yield frame
            at_root, before = False, None


def _without_boot(frames: list[Frame]) -> list[Frame]:
    for at in range(len(frames) - 2, -1, -1):
        if _kinds_of(frames[at].file) & _BOOTS:
            return frames[at + 1 :]
    return frames


def _under_node(frames: list[Frame], node_type: str) -> tuple[Frame, ...]:
    """From the frame of the node type on; where an attempt's code has none on its stack, one is put before it."""
    node = next((at for at, frame in enumerate(frames) if frame.name.startswith(NODE) and not frame.file), -1)
    if node < 0 and not node_type:
        return tuple(frames)
    rest = frames[node + 1 :]
    while len(rest) > 1 and (rest[0] is LOOP or _kinds_of(rest[0].file) & _BELOW):
        rest = rest[1:]
    return Frame(NODE + node_type) if node < 0 else frames[node], *rest


def profile_of(buckets: Iterable[Bucket], process: Process | None, hz: float, names: Names | None = None) -> Profile:
    """What buckets of ticks say, as a profile of kind CPU; when it was is for the caller to say."""
    names = names or Names()
    made = Profile(CPU, hz=hz)
    for bucket in buckets:
        for row in list(bucket.rows.values()):
            TURNS.breathe()
            stack = names.stack(row.places, row.offsets, row.labels)
            made.add(StackSample(stack, row.labels, process, row.thread), row.ns, row.seen)
    return made

"""Threads as ticks see them: stacks, CPU clocks and names, without a lock."""

from __future__ import annotations

import gc
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Final

from runtime.profile.sampling.buckets import Places

DEPTH_MAX: Final = 192
_HAS_GIL: Final = bool(getattr(sys, "_is_gil_enabled", lambda: True)())
_clock_of = getattr(time, "pthread_getcpuclockid", None)


def walk(frame: FrameType | None) -> tuple[Places, tuple[int, ...]]:
    """Codes and offsets of a stack, the innermost frame first."""
    places: list[CodeType | str] = []
    offsets: list[int] = []
    left = DEPTH_MAX
    while frame is not None and left:
        places.append(frame.f_code)
        offsets.append(frame.f_lasti)
        frame = frame.f_back
        left -= 1
    return tuple(places), tuple(offsets)


def other_frames() -> dict[int, FrameType]:
    """The innermost frames of all threads but the main one; none without an interpreter lock, where that may crash."""
    if not _HAS_GIL:
        return {}
    collects = gc.isenabled()
    if collects:
        gc.disable()
    frames = sys._current_frames()
    if collects:
        gc.enable()
    frames.pop(threading.main_thread().ident or 0, None)
    return frames


def clock_of(thread: int) -> int:
    """Number of a live thread's CPU clock; 0 where there is none. Its identifier must come from `_current_frames`."""
    try:
        return int(_clock_of(thread)) if _clock_of is not None else 0
    except OSError:
        return 0


def thread_name(thread: int) -> str:
    """Its name; "foreign" for one that Python did not start."""
    found = threading._active.get(thread)  # type: ignore[attr-defined]  # `enumerate` takes a lock
    return str(found.name) if found is not None else "foreign"

"""Where something was created: kept as code objects and places in them, looked up when somebody asks."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from types import CodeType, FrameType
from typing import Final

from runtime.profile.model import Frame

SITE_DEPTH_MAX: Final = 32
_FRAMES_MAX: Final = 256
_CALLERS_MAX: Final = 64
_USERS, _INSTALLED, _OURS = range(3)
_OWN: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
_STANDARD: Final = (os.path.join(os.path.dirname(os.__file__), ""), "<frozen ")
_PACKAGES: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

# global: code, which a process has once
HANDLERS: Final[set[CodeType]] = set()
"""Handlers of the profiler's own signals: who looks at a thread does not mean them."""
Place = tuple[CodeType, int]
"""A code object, and the instruction in it."""
Places = tuple[Place, ...]


def frame_at(code: CodeType, lasti: int) -> Frame:
    """A place in a code object; without an instruction (-1) its first line."""
    line = code.co_firstlineno
    if lasti >= 0:
        for start, end, at in code.co_lines():
            if start <= lasti < end:
                line = at or line
                break
    return Frame(code.co_qualname, code.co_filename, line)


def places_of(frame: FrameType | None) -> Places:
    """Where a thread is: code and line, the outermost first; while a handler of ours runs, where it was interrupted."""
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _FRAMES_MAX:
        if frame.f_code in HANDLERS:
            found.clear()
        else:
            found.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(reversed(found))


def callers(frame: FrameType, depth: int) -> tuple[tuple[CodeType, int], ...]:
    """Callers of a frame, the outermost first, the frame itself not included."""
    found: list[tuple[CodeType, int]] = []
    at = frame.f_back
    while at is not None and len(found) < min(depth, SITE_DEPTH_MAX) - 1:
        found.append((at.f_code, at.f_lasti))
        at = at.f_back
    return tuple(reversed(found))


def user_place(depth: int = 1, until: FrameType | None = None) -> Place:
    """The user's line: the nearest caller that is of no library; else of an installed one; else whoever calls.

    Args:
        depth: Callers that are passed over without a look; 1: that of this function.
        until: The last one that is looked at, such as the outermost of a task; None: the thread's.
    """
    first: FrameType | None = sys._getframe(depth)
    assert first is not None
    installed: Place | None = None
    at = first
    for _ in range(_CALLERS_MAX):
        code = at.f_code
        rank = _rank(code.co_filename)
        if rank == _USERS:
            return code, at.f_lasti
        if rank == _INSTALLED and installed is None:
            installed = code, at.f_lasti
        if at.f_back is None or at is until:
            break
        at = at.f_back
    return installed or (first.f_code, first.f_lasti)


@lru_cache(10_000)
def _rank(file: str) -> int:
    """Whose a file is."""
    if file.startswith(_OWN):
        return _OURS
    if any(folder in file for folder in _PACKAGES):
        return _INSTALLED
    return _OURS if file.startswith(_STANDARD) else _USERS

"""Where something was created: kept as code objects and places in them, looked up when somebody asks."""

from __future__ import annotations

from types import CodeType, FrameType
from typing import Final

from runtime.profile.model import Frame

SITE_DEPTH_MAX: Final = 32


def frame_at(code: CodeType, lasti: int) -> Frame:
    """A place in a code object; without an instruction (-1) its first line."""
    line = code.co_firstlineno
    if lasti >= 0:
        for start, end, at in code.co_lines():
            if start <= lasti < end:
                line = at or line
                break
    return Frame(code.co_qualname, code.co_filename, line)


def callers(frame: FrameType, depth: int) -> tuple[tuple[CodeType, int], ...]:
    """Callers of a frame, the outermost first, the frame itself not included."""
    found: list[tuple[CodeType, int]] = []
    at = frame.f_back
    while at is not None and len(found) < min(depth, SITE_DEPTH_MAX) - 1:
        found.append((at.f_code, at.f_lasti))
        at = at.f_back
    return tuple(reversed(found))

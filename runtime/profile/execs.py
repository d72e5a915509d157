"""`exec` under a timer: interval timers survive it, handlers do not, so a tick would end the new program.

While they are wrapped, `os.execv` and `os.execve`, which all other forms in `os` call, have the timer taken off first;
where they fail, it goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final


class Wrapped:
    """The functions that `os` had before."""

    def __init__(self) -> None:
        self.real: dict[str, Callable[..., Any]] = {}

    def wrap(self, before: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call `before` before each `exec`, and `failed` after one that came back. Again is harmless."""
        for name in ("execv", "execve"):
            if name not in self.real:
                real = self.real[name] = getattr(os, name)
                setattr(os, name, _wrapped(name, real, before, failed))

    def unwrap(self) -> None:
        """As it was. Again is harmless."""
        for name, real in self.real.items():
            setattr(os, name, real)
        self.real.clear()


def _wrapped(
    name: str, real: Callable[..., Any], before: Callable[[], None], failed: Callable[[], None]
) -> Callable[..., Any]:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before()
        try:
            return real(*args, **kwargs)
        finally:
            failed()

    wrapped.__name__ = wrapped.__qualname__ = name
    return wrapped


# global: of this process, as its signal handlers are
EXECS: Final = Wrapped()

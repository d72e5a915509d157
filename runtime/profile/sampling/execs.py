"""`exec` under a timer: interval timers survive it, handlers do not, so a tick would end the new program.

While they are wrapped, `os.execv` and `os.execve`, which all other forms in `os` call, have the timer taken off first;
where they fail, it goes on. Where somebody else has wrapped them since, ours stays below his and passes on.

Concurrency: wrapped and unwrapped by the main thread; any thread may call them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final


class Wrapped:
    """The functions that `os` had before, and ours in their place."""

    def __init__(self) -> None:
        self.real: dict[str, Callable[..., Any]] = {}
        self._ours: dict[str, Callable[..., Any]] = {}

    def wrap(self, before: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call `before` before each `exec`, and `failed` after one that came back. Again is harmless."""
        for name in ("execv", "execve"):
            if name not in self.real:
                real = self.real[name] = getattr(os, name)
                self._ours[name] = _wrapped(name, real, before, failed)
                setattr(os, name, self._ours[name])

    def unwrap(self) -> None:
        """As it was, but where somebody else has wrapped it since. Again is harmless."""
        for name in [name for name, ours in self._ours.items() if getattr(os, name) is ours]:
            setattr(os, name, self.real.pop(name))
            del self._ours[name]


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

"""`rt.profile`: look inside a runtime; see `runtime.profile.captures`.

A part of both faces, in a file of its own. What it takes is loaded when it is asked for first: most programs do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.config import RuntimeConfig
    from runtime.profile.captures.inside import AsyncInside, Inside


class ProfileCalls:
    """For blocking callers."""

    config: RuntimeConfig
    _inside: Inside | None = None

    @property
    def profile(self) -> Inside:
        """What every process of this runtime holds, waits for and computes: `rt.profile.cpu(10)` and so on."""
        if self._inside is None:
            from runtime.profile.captures.inside import Inside  # lazy: few programs ask

            self._inside = Inside(self.config.state_dir)
        return self._inside

    def _begin_profile(self) -> None:
        if (asked := self.config.profiling).watch:
            self.profile.watch(bounds=asked.bounds, slos=asked.slos, tell=asked.tell)

    def _end_profile(self) -> None:
        """After the engine has ended, so that nobody is waited for who could still answer."""
        if self._inside is not None:
            self._inside.close()


class AsyncProfileCalls:
    """For callers in an event loop."""

    config: RuntimeConfig
    _inside: AsyncInside | None = None

    @property
    def profile(self) -> AsyncInside:
        """What every process of this runtime holds, waits for and computes: `await rt.profile.cpu(10)` and so on."""
        if self._inside is None:
            from runtime.profile.captures.inside import AsyncInside  # lazy: few programs ask

            self._inside = AsyncInside(self.config.state_dir)
        return self._inside

    def _begin_profile(self) -> None:
        if (asked := self.config.profiling).watch:
            self.profile.watch(bounds=asked.bounds, slos=asked.slos, tell=asked.tell)

    def _end_profile(self, stop_engine: Callable[[], None]) -> None:
        """Outside of the loop: end the engine, and then what looked at it, as in `ProfileCalls`."""
        try:
            stop_engine()
        finally:
            if self._inside is not None:
                self._inside.close()

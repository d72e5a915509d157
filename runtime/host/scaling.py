"""Steps in the size of a pool as the program hears of them: a line in its log, and a call of its own function.

Frame from the engine, among its announcements: Y [reason, "scaled", [node type, workers before, workers after]].

Concurrency: `announce_scaled` runs under the client's lock; the function is called without it, by the thread that read
the frame, as the hooks of results are: it must be quick, and what it raises is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from actors.protocol.words import counted
from runtime.host.pending import VALUE, Pending

_LOG: Final = logging.getLogger("mainspring")
SCALED: Final = "scaled"
"""In the place of an error's code: it is no trouble."""

OnScale = Callable[[str, int, int, str], object]
"""Called with node type, workers before, workers after, and the reason in words."""


def announce_scaled(reason: str, step: tuple[str, int, int], on_scale: OnScale | None, woken: list[Pending]) -> None:
    """Log the step, and have the program's function called when the lock is free."""
    node_type, before, after = step
    _LOG.info("node type %s: %d -> %s: %s", node_type, before, counted(after, "worker"), reason)
    if on_scale is not None:
        ScaleHook(on_scale, (node_type, before, after, reason)).settle(VALUE, None, woken)


class ScaleHook(Pending):
    """A cell whose one hook is the program's function."""

    __slots__ = ()

    def __init__(self, on_scale: OnScale, step: tuple[str, int, int, str]) -> None:
        super().__init__()
        self._hooks = [lambda _: on_scale(*step)]

"""A one-shot process, from its beginning to its end; the engine's side is `one_shot`.

It steps back behind engine and workers, does its work, and writes one line of JSON into its pipe: what came of it, or
{"failed": why}. It dies with the spawner.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson

from actors.protocol.errors import MainspringError
from runtime.host import kernel

NICENESS: Final = 10
OOM_SCORE: Final = "800"
"""Where memory runs out it is this process that goes, and nobody misses it."""


def run_one_shot(name: str, fd: int, work: Callable[[], dict[str, Any]]) -> None:
    """Do the work of this process, and say how that went.

    Args:
        name: What the process is called.
        fd: The write end of the pipe.
        work: Returns what is said, as plain JSON data.
    """
    kernel.name_process(name)
    kernel.step_back(NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE)
    try:
        said = work()
    except (MainspringError, OSError, MemoryError) as refused:
        said = {"failed": f"{type(refused).__name__}: {getattr(refused, 'message', refused)}"}
    with suppress(BrokenPipeError):  # the engine is gone, and nobody asks
        os.write(fd, orjson.dumps(said))

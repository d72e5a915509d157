"""Running a test under a loop. uvloop keeps a pipe once it was used, so it has a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import uvloop


def run(main: Callable[[], Any], loop: str) -> None:
    """Run a coroutine function under "asyncio" or "uvloop"; what fails there fails here."""
    if loop == "asyncio":
        asyncio.run(main())
        return
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())
            code = 0
        except BaseException:  # noqa: BLE001, RUF100 - said, and the exit code is the failure
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0

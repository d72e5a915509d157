"""A forked child that runs one function and must end well; it is reaped, or killed and reaped, in any case."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def forked(function: Callable[[], None]) -> Iterator[int]:
    """Run `function` in a child, and give its pid. Leaving the block waits for the child, which must have succeeded."""
    pid = os.fork()
    if pid == 0:
        _run(function)
    try:
        yield pid
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _run(function: Callable[[], None]) -> NoReturn:
    try:
        function()
        os._exit(0)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(1)

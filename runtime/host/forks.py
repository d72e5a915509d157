"""Telling an object that it now lives in a fork of its process, where its threads are gone and its descriptors shared.

Known limits: a fork hook cannot be taken back, so each call leaves a few hundred bytes in the process for good.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable


def call_in_forks(method: Callable[[], None]) -> None:
    """Call a bound method first thing in every fork of this process, for as long as its object lives.

    Args:
        method: It runs in the child, before any other code; its object is held weakly.
    """
    known = weakref.WeakMethod(method)

    def in_child() -> None:
        found = known()
        if found is not None:
            found()

    os.register_at_fork(after_in_child=in_child)

"""On whose account a task of asyncio runs, seen from outside: the labels in its context."""

from __future__ import annotations

import gc
from contextlib import suppress
from contextvars import Context
from typing import Any

from runtime.profile.sampling.labels import LABELS, Labels, expand


def labels_of(task: Any) -> Labels:
    """The labels of a task, suspended or running; none where its context cannot be seen.

    `Task.get_context` is new in Python 3.12, and of one that runs no callback has it; but a task refers to its context.
    """
    with suppress(Exception):  # a class of users'
        for one in gc.get_referents(task):
            if type(one) is Context:
                return expand(one.get(LABELS))
    return ()

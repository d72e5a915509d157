"""Waiting for several handles at once, and taking results as they come.

Concurrency: the calling thread reads the engine's frames, as with a single handle.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeVar

from actors.protocol.errors import WaitTimeout
from runtime.handle_base import SyncHandle
from runtime.host.pending import VALUE, Numbered

Waited = TypeVar("Waited", bound=SyncHandle)


def wait(
    handles: Iterable[Waited], timeout: float | None = None, *, first: bool = False
) -> tuple[set[Waited], set[Waited]]:
    """Wait for all handles, or for the first one that ends.

    Args:
        handles: Of one runtime.
        timeout: Seconds; None waits as long as it takes.
        first: Return when one has ended.

    Returns:
        The handles that have ended, and the others (when the time was over, or with `first`).
    """
    waiting = list(handles)
    deadline = None if timeout is None else time.monotonic() + timeout
    if first:
        if waiting and not any(handle.done() for handle in waiting):
            next(_ended(waiting, deadline), None)
    else:
        for handle in waiting:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not handle._client.wait(handle, left):
                break
    done = {handle for handle in waiting if handle.done()}
    return done, set(waiting) - done


def as_completed(handles: Iterable[Waited], timeout: float | None = None) -> Iterator[Waited]:
    """The handles in the order in which they end.

    Args:
        handles: Of one runtime.
        timeout: Seconds for all of them; None waits as long as it takes.

    Raises:
        WaitTimeout: The time is over; the tasks go on.
    """
    waiting = list(handles)
    deadline = None if timeout is None else time.monotonic() + timeout
    count = 0
    for handle in _ended(waiting, deadline):
        count += 1
        yield handle
    if count < len(waiting):
        raise WaitTimeout(f"{len(waiting) - count} of {len(waiting)} did not end within {timeout} s")


def _ended(waiting: list[Waited], deadline: float | None) -> Iterator[Waited]:
    """Handles as they end, until all have or the time is over."""
    if not waiting:
        return
    client = waiting[0]._client
    ended: deque[Waited] = deque()
    gates: list[Numbered] = []

    def hook(handle: Waited, _: object = None) -> None:
        ended.append(handle)
        if gates:
            client.settle(gates[-1], VALUE, None)

    hooks = [(handle, partial(hook, handle)) for handle in waiting]
    for handle, call in hooks:
        if not client.reader.add_hook(handle, call):
            ended.append(handle)
    left_count = len(waiting)
    try:
        while left_count:
            while ended:
                left_count -= 1
                yield ended.popleft()
            if not left_count:
                return
            gate = Numbered()
            gates[:] = [gate]
            left = None if deadline is None else deadline - time.monotonic()
            if not ended and ((left is not None and left <= 0) or not client.wait(gate, left)):
                return
    finally:
        for handle, call in hooks:
            client.reader.drop_hook(handle, call)

"""What is alive without anything referring to it, as far as it can only be seen before a fork: tasks, and what the
threads of this process are at.

In a forked child the other threads' frames are gone, and while a frame runs the collector does not look into it. So
the local variables of all frames are taken here, by the thread that forks, right before it does.

`Roots.own` are the containers of this module: they must not count as something that refers to a task.
Known limits: what a running frame has on its evaluation stack and in no variable (an argument of a C function that it
    calls) cannot be seen. What hangs on it shows as a reference that nobody accounts for, see `mark`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import CHECKOUT, EXECUTOR, GENERATOR, SUBSCRIPTION
from runtime.profile.ledger.pins import Pinned

_OPTIMIZED: Final = 0x1
"""Of `co_flags`: local variables are no dictionary; 3.11 and 3.12 make one of them when somebody looks."""
_MADE_HERE: Final = 3
"""References to such a dictionary that only the frame, this module and the question itself have."""
_OWN_FILES: Final = tuple(os.path.join(os.path.dirname(__file__), name) for name in ("roots.py", "mark.py", "prove.py"))
_THINGS: Final = (GENERATOR, EXECUTOR, SUBSCRIPTION, CHECKOUT)
_LOOPS: Final = os.path.dirname(asyncio.__file__)
_FRAMES_MAX: Final = 10_000


class RunningFrame(NamedTuple):
    """A frame that runs. `observes` is one of the thread that asks, or of an event loop's own code: what it has at hand
    says nothing about who will release it."""

    name: str
    values: Any
    observes: bool


class Roots(NamedTuple):
    """All that is handed to the mark. Lists, whose identities are in `own`."""

    tasks: list[Any]
    places: list[RunningFrame]
    roots: list[Any]
    cut: list[Any]
    alive: list[Any]
    running: list[int]
    """Identities of frames that run: in a forked child, what those of other threads point to is gone."""
    things: Sequence[Any] = ()
    """Weak references of the ledger to things that somebody may have to give back, and their tokens."""
    tokens: Sequence[int] = ()

    def own(self) -> set[int]:
        """Identities of the containers, and of what the mark must not look into."""
        own = {id(self), *map(id, self), *map(id, self.places), *(id(place.values) for place in self.places)}
        return own.union(self.running, map(id, self.things))


def tasks_there() -> list[Any]:
    """Tasks of all loops of this process that have not ended. Raises AttributeError where Python does not list them."""
    found: set[Any] = set()
    for some in _lists_of_tasks():
        for _ in range(1_000):  # as asyncio.all_tasks does: another thread may change it
            try:
                found.update(list(some))
                break
            except RuntimeError:
                continue
    return [task for task in found if not task.done()]


def _lists_of_tasks() -> list[Any]:
    names = ("_scheduled_tasks", "_all_tasks", "_eager_tasks")
    found = [some for name in names if isinstance(some := getattr(asyncio.tasks, name, None), (set, weakref.WeakSet))]
    if not found:
        raise AttributeError("asyncio.tasks lists no tasks")
    return found


def places_there(running: list[int]) -> list[RunningFrame]:
    """The local variables of all frames of all threads. Python 3.13 has a view of them; before, looking makes a
    dictionary that the frame keeps, and with it what was in it: it is emptied again, unless user code has it, too."""
    me = threading.get_ident()
    places: list[RunningFrame] = []
    for ident, top in sys._current_frames().items():
        frame: FrameType | None = top
        for _ in range(_FRAMES_MAX):
            if frame is None:
                break
            running.append(id(frame))
            code = frame.f_code
            if code.co_filename not in _OWN_FILES:
                observes = ident == me or code.co_filename.startswith(_LOOPS)
                places.append(RunningFrame(code.co_qualname, _values(frame, code), observes))
            frame = frame.f_back
    del top, frame  # one of them is this function's own: a ring that would keep all of it
    return places


def _values(frame: FrameType, code: CodeType) -> Any:
    found = frame.f_locals
    if not code.co_flags & _OPTIMIZED:
        return [found]  # of a module or class: the namespace itself
    values = list(found.values())
    if type(found) is dict and sys.getrefcount(found) == _MADE_HERE:
        found.clear()
    return values


def snapshot(roots_extra: Iterable[Any], pins: Iterable[Pinned], tasks: list[Any]) -> Roots:
    """Take it. What this thread runs in `runtime.profile.proof` is left out."""
    roots: list[Any] = [sys.modules, sys.modules["builtins"], *threading.enumerate(), *roots_extra]
    roots += {id(loop): loop for loop in map(_loop_of, tasks) if loop is not None}.values()
    cut, alive = _lists_of_tasks(), list[Any]()
    cut += [some.data for some in cut if hasattr(some, "data")]
    cut += [LEDGER.book(kind.name).live for kind in LEDGER.kinds()]
    for pin in pins:
        cut += pin.cut
        alive += pin.alive
    running: list[int] = []
    tokens, things = things_there()
    return Roots(tasks, places_there(running), roots, cut, alive, running, things, tokens)


def things_there() -> tuple[list[int], list[Any]]:
    """What the ledger knows and a mark can prove to be held in vain; of generators those whose task has ended."""
    found: dict[int, Any] = {}
    for kind in _THINGS:
        for token, (_, _, key, owner, _) in LEDGER.book(kind).rows():
            if isinstance(key, weakref.ReferenceType) and (kind != GENERATOR or _has_ended(owner)):
                found[token] = key
    return list(found), list(found.values())


def _has_ended(owner: Any) -> bool:
    task = owner() if isinstance(owner, weakref.ReferenceType) else owner
    return owner is not None and (task is None or task.done())


def signal_handlers() -> list[Any]:
    """What is called for signals; the signal module keeps it where the collector does not look."""
    found = []
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            found.append(handler)
    return found


def _loop_of(task: Any) -> Any:
    try:
        return task.get_loop()
    except Exception:  # noqa: BLE001, RUF100 - of another library
        return None

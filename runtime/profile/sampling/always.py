"""What is always on in a process of the engine: labels of code, ticks at 19 a second of CPU time, looks at what waits.

`begin`, `begin_loop` and `end` are called once each by whoever boots a worker or the engine. A program of a user has
none of it unless somebody asks: its signals are its own.

Who asks "always" is told what there is of it in each process, and can switch it off and on in processes that run, or
change the rate of ticks: `python -m runtime.bench profile-cost` does, to see what it costs. The books stay on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from runtime.profile.ledger.books import LEDGER
from runtime.profile.presence.naming import NODE, F, renamed
from runtime.profile.sampling.labels import LABELS, expand
from runtime.profile.sampling.pace import HZ
from runtime.profile.sampling.ticks import TICKS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from runtime.profile.presence.here import Request

ALWAYS: Final = "always"


def begin(*, signal: bool = True) -> None:
    """In the main thread, before there is work.

    Args:
        signal: Whether SIGPROF may interrupt system calls here; see `runtime.config.NodeType.profile_signal`.
    """
    LEDGER.label_set, LEDGER.expand = LABELS.get, expand
    TICKS.allowed = signal
    if signal:
        TICKS.start(ALWAYS, HZ)


def begin_loop(
    loop: asyncio.AbstractEventLoop, *, looks: bool = True, enters: Callable[[], bool] | None = None
) -> None:
    """This process works in that loop.

    Args:
        loop: It.
        looks: Say what waits there, once a second.
        enters: Says whether all tasks that its factory makes are in the books; None: they are not.
    """
    from runtime.profile.sampling.waits import HERE_WAITS  # lazy: mode "process" does without

    HERE_WAITS.begin(loop, always=looks, enters=enters)


def end() -> None:
    """Before the process ends."""
    TICKS.stop(ALWAYS)


def begin_executor(loop: asyncio.AbstractEventLoop) -> None:
    """What that loop runs for `run_in_executor(None, ...)` keeps the labels, and the context, of who asked for it."""
    from runtime.profile.sampling.carried import CarryingPool  # lazy: mode "process" does without

    loop.set_default_executor(CarryingPool(thread_name_prefix="asyncio"))


def dressed(function: F, node_type: str) -> F:
    """A function under the name of a node type, as outside profilers see it."""
    return renamed(function, NODE + node_type)


def dress(worker: Any, node_type: str, *methods: str) -> None:
    """Give methods of a worker the name of its node type, as outside profilers see them."""
    for name in methods:
        setattr(worker, name, renamed(getattr(worker, name), NODE + node_type))


def answer(request: Request) -> bytes:
    """Options: `on` (None: only say what there is), `hz` of ticks. A process that never had it has none now."""
    from runtime.profile.sampling.always_on import switched  # lazy: only who asks needs it

    return switched(request.options.get("on"), float(request.options.get("hz", HZ)), ALWAYS)

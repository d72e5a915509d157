"""How long a thread of ours may keep the interpreter while others want it: `TURNS.short()`, `TURNS.long()`.

An answer is made by a thread, and while it computes, whoever wants the interpreter waits for the switch interval, 5 ms
by default: an event loop would stand still for as long, again and again. In a block of `TURNS.short()` that is a tenth
of a millisecond.

Our thread needs that, too. CPython asks who has the interpreter to let go of it when it was kept for a whole interval.
Code that makes a call of the kernel now and then lets go before that is over, and has it again before others have woken
up: beside code that did so each 0.6 ms, our thread waited for 0.1 s and more each time that it had let go itself, with
5 ms as with 0.5, and a question took a second.

`TURNS.long()` is for the moment before a fork: no other thread is asked to run.

The collector of cycles is off in such a block, unless what is made in it stays. It looks at all that is new at once,
which are the thousands of objects that an answer is made of, and nobody else runs meanwhile; a moment later most of
them are gone by themselves. If they stay (`TURNS.short(keeps=True)`), all of them would be looked at in one go at the
end, 4 ms after a survey of 10,000 tasks: there it looks at some hundred at a time (`COLLECTS`), and never at all that
is old. It begins with what the program itself has made lately, so this is for what is rare.

Of several that overlap the longest counts. What was set before is set again when the last one ends, unless somebody
else has set something else meanwhile.

Known limits: a single call of C code (`orjson.dumps`) is not interrupted, so what is large must be done in pieces.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final, ParamSpec, TypeVar

SHORT_S: Final = 0.0001
COLLECTS: Final = (500, 5, 10_000)
"""500 objects are 0.1 ms."""
LONG_S: Final = 10.0
_BREATH_NS: Final = 500_000
_LET_GO_S: Final = 0.0001
"""Not 0: who lets go for no time has the interpreter back before others have woken up."""
_HALF_US: Final = 5e-7
"""It is cut to whole microseconds, which would make it one less each time."""
P = ParamSpec("P")
T = TypeVar("T")


class _Turn:
    """A block that goes on: equal to itself only."""

    def __init__(self, seconds: float, keeps: bool) -> None:
        self.seconds, self.keeps = seconds, keeps


class ThreadTurns:
    """See the module."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[_Turn] = []
        self._before = self._ours = 0.0
        self._thresholds: tuple[int, int, int] | None = None
        self._often = COLLECTS
        self._silenced = False
        self._breath_ns = 0
        os.register_at_fork(after_in_child=self._forked)

    @contextmanager
    def short(self, begun: Callable[[], object] = lambda: None, *, keeps: bool = False) -> Iterator[None]:
        """Others have the interpreter soon when they want it, and so has this thread.

        Args:
            begun: Called when that is so.
            keeps: Most of what is made in it stays.
        """
        with self._of(SHORT_S, keeps):
            begun()
            time.sleep(_LET_GO_S)  # who waits already does so for as long as it was before
            yield

    @contextmanager
    def long(self) -> Iterator[None]:
        """Others have the interpreter when this thread waits for something."""
        with self._of(LONG_S, False):
            yield

    def breathe(self) -> None:
        """Let go of the interpreter each half millisecond, in a loop that computes for long: for no time, or within
        a block of ours for so long that others have woken up.

        Who waits for it asks for it when the interval is over; but where threads are more than cores, he comes to that
        only when the scheduler takes the core from who computes, 3 ms later.
        """
        if time.monotonic_ns() >= self._breath_ns:
            time.sleep(_LET_GO_S if self._asked else 0)
            self._breath_ns = time.monotonic_ns() + _BREATH_NS  # from when it is ours again, or it is hardly ever

    def shortly(self, fn: Callable[P, T]) -> Callable[P, T]:
        """Decorator: run this in short turns; what it makes may stay."""

        @wraps(fn)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with self.short(keeps=True):
                return fn(*args, **kwargs)

        return run

    @contextmanager
    def _of(self, seconds: float, keeps: bool) -> Iterator[None]:
        turn = _Turn(seconds, keeps)
        try:
            with self._lock:
                if not self._asked:
                    self._before = sys.getswitchinterval()
                self._asked.append(turn)
                self._set()
            yield
        finally:
            with self._lock:
                if turn in self._asked:
                    self._asked.remove(turn)
                    self._leave()

    def _leave(self) -> None:
        if self._asked:
            self._set()
            return
        self._collect(often=False, off=False)
        if sys.getswitchinterval() == self._ours:
            sys.setswitchinterval(self._before + _HALF_US)

    def _set(self) -> None:
        longest = max(turn.seconds for turn in self._asked)
        often = longest <= SHORT_S and any(turn.keeps for turn in self._asked)
        self._collect(often=often, off=not often)
        sys.setswitchinterval((longest if longest > SHORT_S else min(longest, self._before)) + _HALF_US)
        self._ours = sys.getswitchinterval()

    def _collect(self, *, often: bool, off: bool) -> None:
        """The collector often, or off, or as the program has it."""
        if often and self._thresholds is None and gc.get_threshold()[0]:
            self._thresholds = gc.get_threshold()
            gc.set_threshold(*COLLECTS)
            self._often = gc.get_threshold()  # which may have fewer generations
        elif not often and self._thresholds is not None:
            if gc.get_threshold() == self._often:
                gc.set_threshold(*self._thresholds)
            self._thresholds = None
        if off and gc.isenabled():
            gc.disable()
            self._silenced = True
        elif not off and self._silenced:
            gc.enable()
            self._silenced = False

    def _forked(self) -> None:
        """Whoever asked for it is not in the child."""
        self._lock = threading.Lock()
        if self._asked:
            self._asked.clear()
            self._leave()


# global: of this process, as the switch interval is
TURNS: Final = ThreadTurns()

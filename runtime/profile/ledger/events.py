"""Rows 2 to 4 of the ledger, where asyncio only prints: coroutines that nobody awaited, tasks that were collected while
they waited, exceptions that nobody took.

`install` is for a process whose loops this package does not make: a program, a test. What an interpreter does with a
coroutine that nobody awaited is a function of `warnings`, which it looks up each time, so filters do not matter; what
loops say goes to the logger "asyncio". The line that lacks the await is what Python notes of each coroutine when it is
asked to, which costs each of them: so it is asked with the first such event. Where the interpreter has no such
function, the warning is not counted, and the rest works.

Concurrency: installed and removed by one thread; hooks run in whichever thread collects. They raise nothing.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import DESTROYED, UNAWAITED, UNREAD
from runtime.profile.model import Frame

KEPT_MAX: Final = 1_000
_HOOK: Final = "_warn_unawaited_coroutine"
_SAID: Final = {
    "Task was destroyed but it is pending!": DESTROYED,
    "Task exception was never retrieved": UNREAD,
    "Future exception was never retrieved": UNREAD,
}
_CORO: Final = re.compile(r"name='([^']*)' coro=<(\S+?)\(\).*? at ([^>]*?):(\d+)>")


class NotedEvent(tuple[str, str, tuple[Frame, ...]]):
    """Kind, name, and where the coroutine is defined or stands."""

    __slots__ = ()


class EventHooks(logging.Handler):
    """Notes what happens between `install` and `remove`.

    Args:
        enter: Whether coroutines that nobody awaited are entered in the ledger, too.
    """

    def __init__(self, enter: bool = False) -> None:
        super().__init__(logging.ERROR)
        self.events: list[NotedEvent] = []
        self._enter = enter
        self._before: Callable[[Any], None] | None = None

    def install(self, *, loops: bool = True) -> None:
        """From now on. `loops`: what loops say, too; a worker's own loop enters that itself."""
        before = getattr(warnings, _HOOK, None)
        other = getattr(before, "__self__", None)
        if before is not None and not (self._enter and isinstance(other, EventHooks) and other._enter):
            self._before = before
            setattr(warnings, _HOOK, self._unawaited)
        if loops:
            logging.getLogger("asyncio").addHandler(self)

    def remove(self) -> None:
        """No more. Again is harmless; a hook that somebody put before this one stays, and passes on."""
        if self._enter:
            sys.set_coroutine_origin_tracking_depth(0)
        if self._before is not None and getattr(warnings, _HOOK, None) == self._unawaited:
            setattr(warnings, _HOOK, self._before)
        logging.getLogger("asyncio").removeHandler(self)

    def _unawaited(self, coro: Any) -> None:
        try:
            code: CodeType = coro.cr_code
            self._note(UNAWAITED, coro.__qualname__, Frame(code.co_qualname, code.co_filename, code.co_firstlineno))
            if self._enter:
                self._enter_unawaited(coro, code)
        except Exception:  # noqa: S110, BLE001, RUF100 - it runs within a collection
            pass
        if self._before is not None:
            self._before(coro)

    def _enter_unawaited(self, coro: Any, code: CodeType) -> None:
        """Where the call is, once that is known: then those of which it was not known are told by it."""
        origin = coro.cr_origin
        if not origin:
            sys.set_coroutine_origin_tracking_depth(max(1, sys.get_coroutine_origin_tracking_depth()))
            LEDGER.note(UNAWAITED, coro.__qualname__, code)
            return
        for token, entry in LEDGER.book(UNAWAITED).rows():
            if entry[0] is code:
                LEDGER.drop(token)
        LEDGER.note(UNAWAITED, coro.__qualname__, _line(*origin[0]))

    def emit(self, record: logging.LogRecord) -> None:
        """What a loop says. Called by the logger."""
        try:
            text = record.getMessage()
            kind = _SAID.get(text.partition("\n")[0])
            if kind is not None:
                found = _CORO.search(text)
                name, code, file, line = found.groups() if found else (text.partition("\n")[2][:100], "", "", "0")
                self._note(kind, name, Frame(code or "task", file, int(line)))
        except Exception:  # noqa: S110, BLE001, RUF100 - it runs within a collection
            pass

    def _note(self, kind: str, name: str, frame: Frame) -> None:
        if len(self.events) < KEPT_MAX:
            self.events.append(NotedEvent((kind, name, (frame,))))


@lru_cache(1_000)
def _line(file: str, line: int, function: str) -> CodeType:
    """A place for the ledger where only its line is known."""
    made = compile("", file, "exec")
    return made.replace(co_firstlineno=line, co_name=function, co_qualname=function)

"""How far the log is written, as the engine says it while somebody here wants to know.

Events are read from the log itself; all that the engine adds is one small frame a turn, with the latest LSN, and none
where nobody watches.

Concurrency: any thread. `told` is called by the thread that reads the engine's frames. Callbacks run in that thread,
must be quick, and must not raise. The lock is held for an assignment only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

FIRST_WORD_S: Final = 10.0
"""How long the engine may take to say it. Then what it said last counts, or what is written is read as it is."""


class Horizon:
    """See the module.

    Args:
        ask: Tells the engine whether to say it.
    """

    def __init__(self, ask: Callable[[bool], None]) -> None:
        self.lsn = 0
        """The last LSN that may be read."""
        self.closed = False
        self.words = 0
        """How often the engine said it."""
        self._ask = ask
        self._heard = threading.Condition(threading.Lock())
        self._watchers: dict[object, Callable[[], None] | None] = {}

    def told(self, lsn: int) -> None:
        """The engine has written up to here."""
        with self._heard:
            self.lsn = max(self.lsn, lsn)
            self.words += 1
            self._wake()

    def watch(self, watcher: object, lock: threading.Lock, callback: Callable[[], None] | None = None) -> None:
        """This watcher wants to know from now on; `callback` is called at each change.

        Args:
            watcher: Who.
            lock: The client's, under which the engine is asked.
            callback: What to call.
        """
        with lock:
            with self._heard:
                first = not self._watchers and not self.closed
                self._watchers[watcher] = callback
            if first:
                self._ask(True)

    def leave(self, watcher: object, lock: threading.Lock) -> None:
        """It does not any more. Again is harmless."""
        with lock:
            with self._heard:
                last = self._watchers.pop(watcher, self) is not self and not self._watchers and not self.closed
            if last:
                self._ask(False)

    def refresh(self, lock: threading.Lock) -> int:
        """Have the engine say it anew; returns what `words` will exceed when it has."""
        with lock:
            words = self.words
            if not self.closed:
                self._ask(True)
        return words

    def ask_again(self) -> None:
        """There is a new engine. Called under the client's lock."""
        if self._watchers:
            self._ask(True)

    def close(self) -> None:
        """Nothing more will be written: who waits is woken."""
        with self._heard:
            self.closed = True
            self._wake()

    def wait(self, beyond_lsn: int, timeout_s: float | None, stop: Callable[[], bool] = lambda: False) -> bool:
        """Wait until more than this is written, or nothing will be, or `stop` says so (see `nudge`).

        Returns:
            False: the time is over.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with self._heard:
            while self.lsn <= beyond_lsn and not (self.closed or stop()):
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._heard.wait(left)
        return True

    def nudge(self) -> None:
        """Let who waits look again."""
        with self._heard:
            self._wake()

    def _wake(self) -> None:
        self._heard.notify_all()
        for callback in self._watchers.values():
            if callback is not None:
                callback()

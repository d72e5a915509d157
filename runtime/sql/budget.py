"""How long a query may take, all of it: waiting for its turn, reading the log, and the statement.

Concurrency: `stop` from any thread.
"""

from __future__ import annotations

import time
from typing import Final

from actors.protocol.query_errors import QueryTooLong

TIMEOUT_S: Final = 60.0
"""What a query has, unless it is told otherwise."""
ROWS_MAX: Final = 100_000
"""Rows that it gives at most, unless it is told otherwise."""


class Budget:
    """See the module.

    Args:
        timeout: Seconds; None: as long as it takes.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self._timeout = timeout
        self._until = None if timeout is None else time.monotonic() + timeout
        self._stopped = False

    def left(self) -> float | None:
        """Seconds that are left, at least 0; None: no end."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def over(self) -> bool:
        """Whether it is used up, or was taken away."""
        return self._stopped or (self._until is not None and time.monotonic() > self._until)

    def check(self) -> None:
        """Raise QueryTooLong when it is over."""
        if self._stopped:
            raise QueryTooLong("the query was given up")
        if self.over():
            raise QueryTooLong(f"the query took longer than its {self._timeout:g} seconds")

    def stop(self) -> None:
        """Nobody waits for the answer any more."""
        self._stopped = True

"""Places of those who are answered, and of those who have not shown a token yet; these never take a place of those.

    come ──► door: a few seconds for all of a request, and the oldest goes when another one comes
               │ let_in, with a token
               ▼
             inside: for as long as the answer takes

Who is sent away from the door has his socket shut down, at which his thread ends; only then is his place another's, so
there are never more threads than places.

Concurrency: any thread; `come` by the one that accepts.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any, Final

DOOR_S: Final = 5.0
"""From the moment that he came: whoever has not said all of his request with a token by then is let go."""
CALLERS_MAX: Final = 64
"""At once, with a token, and as many at the door: no number of callers takes threads and descriptors without end."""
_LEAVES_S: Final = 1.0
"""For the thread of one who is sent away, which has nothing more to wait for."""


class Callers:
    """See the module.

    Args:
        most: Places inside, and as many at the door.
    """

    def __init__(self, most: int = CALLERS_MAX) -> None:
        self._most = most
        self._moves = threading.Condition()
        self._door: dict[Any, float] = {}
        """Sockets of who may be sent away, the oldest first, and until when each may stay."""
        self._outside = 0
        self._inside: set[Any] = set()

    def come(self, connection: Any) -> bool:
        """Somebody is at the door, and the oldest there goes if it is full. False: there is no place after all."""
        with self._moves:
            if self._outside >= self._most:
                self._send_away(next(iter(self._door), None))
                if not self._moves.wait_for(lambda: self._outside < self._most, _LEAVES_S):
                    return False
            self._outside += 1
            self._door[connection] = time.monotonic() + DOOR_S
            return True

    def let_in(self, connection: Any) -> bool:
        """He has a token. False: as many as may be are inside."""
        with self._moves:
            if self._door.pop(connection, None) is None or len(self._inside) >= self._most:
                return False
            self._inside.add(connection)
            self._outside -= 1
            self._moves.notify()
            return True

    def close(self, connection: Any) -> None:
        """His socket is about to be closed: nobody shuts it down from now on, its number may be another's."""
        with self._moves:
            self._door.pop(connection, None)

    def leave(self, connection: Any) -> None:
        """His thread ends."""
        with self._moves:
            self._door.pop(connection, None)
            if connection in self._inside:
                self._inside.remove(connection)
            else:
                self._outside -= 1
            self._moves.notify()

    def expire(self) -> float | None:
        """Send away whose time is over. Returns seconds until the next one's is; None: nobody is at the door."""
        with self._moves:
            now_s = time.monotonic()
            while self._door:
                connection, until_s = next(iter(self._door.items()))
                if until_s > now_s:
                    return until_s - now_s
                self._send_away(connection)
            return None

    def end(self) -> None:
        """Nobody at the door is answered any more."""
        with self._moves:
            for connection in list(self._door):
                self._send_away(connection)

    def _send_away(self, connection: Any) -> None:
        if self._door.pop(connection, None) is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

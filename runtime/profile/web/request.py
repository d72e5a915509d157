"""A request to the server of the profiler, as views see it, and what they answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from runtime.profile.web.server import ProfileServer

RATED_S: Final = 60.0
"""Between two proofs, or two dumps of everything one by one."""
PIDS_MAX: Final = 50
"""That one question may name."""


class WebRefusal(Exception):
    """A request is answered with a status and a text."""

    def __init__(self, status: int, text: str, retry_s: float = 0.0) -> None:
        super().__init__(text)
        self.status, self.text, self.retry_s = status, text, retry_s


class Reply(NamedTuple):
    """What a view gives: content, its type, and the name of the file that it is."""

    content: bytes
    kind: str = "text/plain; charset=utf-8"
    file: str = ""


class WebRequest:
    """A request, as views see it.

    Attributes:
        state_dir: The folder.
        path: What was asked for.
        stop: Whether the caller is gone, or the server closes: what was recorded by then is enough.
    """

    def __init__(self, server: ProfileServer, path: str, query: str, stop: Callable[[], bool]) -> None:
        self._server, self.path, self.stop = server, path, stop
        self.state_dir = server.state_dir
        self._is_alone, self._done = False, set[str]()
        self._query = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}

    def text(self, name: str, default: str = "") -> str:
        """An argument."""
        return self._query.get(name, default)

    def number(self, name: str, default: float, most: float) -> float:
        """An argument that is a number, 0 to `most`. Raises WebRefusal."""
        text = self._query.get(name, "")
        try:
            value = float(text) if text else default
        except ValueError:
            value = -1.0
        if not 0 <= value <= most:
            raise WebRefusal(400, f"{name} must be a number from 0 to {most:g}, not {text!r}")
        return value

    def pids(self) -> frozenset[int] | None:
        """Processes that are wanted, `proc=12,13`; None: all. Raises WebRefusal."""
        text = self._query.get("proc", "")
        try:
            found = frozenset(map(int, text.split(","))) if text else None
        except ValueError:
            raise WebRefusal(400, f"proc must be process ids with commas between, not {text!r}") from None
        if found and (len(found) > PIDS_MAX or max(map(abs, found)) >= 1 << 31):
            raise WebRefusal(400, f"proc must be at most {PIDS_MAX} process ids")
        return found

    @contextmanager
    def alone(self, seconds: float = 0.0) -> Iterator[None]:
        """The one capture that may run; within it, this request may do several. Raises WebRefusal when there is one."""
        server = self._server
        if self._is_alone:
            yield
            return
        if not server.capturing.acquire(blocking=False):
            raise WebRefusal(429, "a capture is running", max(1.0, server.until_s - time.monotonic()))
        try:
            server.until_s = time.monotonic() + seconds
            self._is_alone = True
            yield
        finally:
            self._is_alone = False
            server.capturing.release()

    def rated(self, what: str) -> None:
        """Refuse what another request did less than a minute ago; "": nothing. It is done now, so whatever else could
        refuse it comes before. Raises WebRefusal."""
        if not what or what in self._done:
            return
        now_s = time.monotonic()
        with self._server.rating:
            left_s = self._server.done_s.get(what, -RATED_S) + RATED_S - now_s
            if left_s > 0:
                raise WebRefusal(429, f"{what} is possible once in {RATED_S:g} s", left_s)
            self._server.done_s[what] = now_s
        self._done.add(what)

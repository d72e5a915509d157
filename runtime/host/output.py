"""What handlers print: captured through a pipe, attributed to attempts, bounded.

Wire: the worker's descriptors 1 and 2 are one pipe; the engine reads its other end. Plain bytes, and before them,
whenever the attempt they belong to changes, a marker `\\0 \\1 <serial in digits> \\0`. Nothing is written when nothing
is printed. `sys.stdout` and `sys.stderr` write the marker and write through, so what was printed right before a kill is
not lost. What C code or a child process writes goes to the same pipe without a marker: it counts for the attempt that
printed last.

Bounds: `limits.OUTPUT_BYTES_MAX` for each attempt, first quarter and last three quarters, with a mark between them;
for all attempts whose result is not there yet `OUTPUT_SERIALS_MAX` and `OUTPUT_PENDING_BYTES_MAX`, oldest first; a
writer that is faster than the reader waits, as with any pipe.

Known limits: output that itself contains a marker is attributed to what it says. One write longer than PIPE_BUF may be
torn by another writer of the same worker (a thread or a child).
"""

from __future__ import annotations

import fcntl
import io
import os
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from actors.protocol import limits

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_MARKER: Final = re.compile(rb"\x00\x01([0-9]{1,20})\x00")
_MARKER_BEGUN: Final = re.compile(rb"\x00(?:\x01[0-9]{0,20})?\Z")
_F_SETPIPE_SZ: Final = getattr(fcntl, "F_SETPIPE_SZ", None)
PIPE_BYTES: Final = 256 * limits.KIB
"""Size of a worker's output pipe: a burst of this size does not wait. The kernel's default is 64 KiB."""
_HEAD_BYTES: Final = limits.OUTPUT_BYTES_MAX // 4
_TAIL_BYTES: Final = limits.OUTPUT_BYTES_MAX - _HEAD_BYTES


def open_output_pipe() -> tuple[int, int]:
    """Make a worker's output pipe: (read end, not blocking; write end)."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    if _F_SETPIPE_SZ is not None:
        with suppress(OSError):  # over the user's share of pipe memory
            fcntl.fcntl(write_fd, _F_SETPIPE_SZ, PIPE_BYTES)
    return read_fd, write_fd


# --- in the worker ------------------------------------------------------------------------------------------------


class OutputMarks:
    """Knows whose output was written last, for both streams of a worker."""

    def __init__(self, serial_now: Callable[[], int]) -> None:
        self._serial_now = serial_now
        self._last = 0

    def before(self) -> bytes:
        """What goes before the next bytes: a marker, or nothing."""
        serial = self._serial_now()
        if serial == self._last:
            return b""
        self._last = serial
        return b"\0\1%d\0" % serial


class MarkedFile(io.RawIOBase):
    """Writes bytes to a descriptor, with a marker where the attempt changes.

    Concurrency: any thread; a marker and its bytes are one write.
    """

    def __init__(self, fd: int, marks: OutputMarks) -> None:
        super().__init__()
        self._fd = fd
        self._marks = marks

    def writable(self) -> bool:
        """It is there to be written to."""
        return True

    def fileno(self) -> int:
        """The descriptor, for those who write past us."""
        return self._fd

    def isatty(self) -> bool:
        """It is a pipe."""
        return False

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of it; waits while the pipe is full."""
        view = memoryview(data).cast("B")
        rest = memoryview(self._marks.before() + view.tobytes()) if view.nbytes else view
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        return view.nbytes


class CapturedStreams:
    """The worker's standard streams, while they lead to the pipe."""

    def __init__(self, pipe_fd: int, serial_now: Callable[[], int]) -> None:
        os.dup2(pipe_fd, 1, inheritable=True)
        os.dup2(pipe_fd, 2, inheritable=True)
        os.close(pipe_fd)
        self._marks = OutputMarks(serial_now)
        self.stdout = _text(MarkedFile(1, self._marks))
        self.stderr = _text(MarkedFile(2, self._marks))
        self.restore()

    def restore(self) -> None:
        """Make `sys.stdout` and `sys.stderr` ours, also after a handler replaced or closed them."""
        if self.stdout.closed:
            self.stdout = _text(MarkedFile(1, self._marks))
        if self.stderr.closed:
            self.stderr = _text(MarkedFile(2, self._marks))
        if sys.stdout is not self.stdout:
            sys.stdout = self.stdout
        if sys.stderr is not self.stderr:
            sys.stderr = self.stderr


def _text(raw: MarkedFile) -> io.TextIOWrapper:
    # A raw file instead of a buffered one: our `write` takes all bytes, so no buffer is needed, and none can be lost.
    raw_as_buffer: Any = raw
    return io.TextIOWrapper(raw_as_buffer, "utf-8", "backslashreplace", newline="\n", write_through=True)


# --- in the engine ------------------------------------------------------------------------------------------------


class _Kept:
    """Output of one attempt: its head, its tail, and how much there was."""

    __slots__ = ("bytes_seen", "head", "tail", "tail_bytes")

    def __init__(self) -> None:
        self.head = bytearray()
        self.tail: deque[bytes] = deque()
        self.tail_bytes = 0
        self.bytes_seen = 0

    @property
    def bytes_kept(self) -> int:
        return len(self.head) + self.tail_bytes

    def add(self, data: bytes) -> None:
        self.bytes_seen += len(data)
        room = _HEAD_BYTES - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if len(data) > _TAIL_BYTES:
            data = data[-_TAIL_BYTES:]
        if not data:
            return
        if self.tail and len(self.tail[-1]) + len(data) <= 4 * limits.KIB:
            self.tail[-1] += data  # a deque of single bytes would take much more than its bytes
        else:
            self.tail.append(data)
        self.tail_bytes += len(data)
        while self.tail_bytes - len(self.tail[0]) >= _TAIL_BYTES:
            self.tail_bytes -= len(self.tail.popleft())

    def text(self) -> str:
        tail = b"".join(self.tail)[-_TAIL_BYTES:]
        cut = self.bytes_seen - len(self.head) - len(tail)
        mark = f"\n... truncated {cut} bytes ...\n".encode() if cut > 0 else b""
        return (bytes(self.head) + mark + tail).decode("utf-8", "replace")


class OutputCollector:
    """Keeps what the attempts of one worker printed, within the bounds at the head of the file.

    Concurrency: one thread. `feed` takes time in proportion to the bytes.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._bytes = 0
        self._serial = 0
        self._partial = b""

    def feed(self, data: bytes) -> None:
        """Take in what was read from the pipe, cut anywhere."""
        parts = _MARKER.split(self._partial + data)
        begun = _MARKER_BEGUN.search(parts[-1])
        self._partial = begun[0] if begun else b""
        if begun:
            parts[-1] = parts[-1][: begun.start()]
        self._add(parts[0])
        for number, text in zip(parts[1::2], parts[2::2], strict=True):
            self._serial = int(number)
            self._add(text)

    @property
    def latest(self) -> int:
        """The attempt that printed last; what comes without a mark counts for it."""
        return self._serial

    def serials(self) -> list[int]:
        """Attempts of which something is kept, oldest first."""
        return list(self._kept)

    def peek(self, serial: int) -> str:
        """What an attempt printed so far; empty when nothing."""
        kept = self._kept.get(serial)
        return kept.text() if kept else ""

    def take(self, serial: int) -> str:
        """What an attempt printed, which is then forgotten; empty when nothing, or when it is too long ago."""
        kept = self._kept.pop(serial, None)
        if kept is None:
            return ""
        self._bytes -= kept.bytes_kept
        return kept.text()

    def _add(self, data: bytes) -> None:
        if not data:
            return
        kept = self._kept.get(self._serial)
        if kept is None:
            kept = self._kept[self._serial] = _Kept()
        self._bytes -= kept.bytes_kept
        kept.add(data)
        self._bytes += kept.bytes_kept
        while len(self._kept) > limits.OUTPUT_SERIALS_MAX or self._bytes > limits.OUTPUT_PENDING_BYTES_MAX:
            self._bytes -= self._kept.popitem(last=False)[1].bytes_kept

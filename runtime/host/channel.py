"""Messages with file descriptors between spawner, face and engine: u32 length + JSON, descriptors by SCM_RIGHTS.

Purpose: the slow, rare talk about processes. Work never travels here.
Each message says in "fds" how many descriptors belong to it; a stream keeps descriptors in order, so counting pairs
them. Invariants: a message is delivered whole or not at all; received descriptors are not inherited by `exec`.
Concurrency: one thread at a time for each direction.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

_LENGTH: Final = struct.Struct("<I")
_FDS_MAX: Final = 64
"""Descriptors in one message; a worker's start passes about ten. Below the kernel's 253."""
_READ_BYTES: Final = 65_536
_CLOEXEC: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Message(NamedTuple):
    """One message and its descriptors, which the receiver now owns."""

    body: dict[str, Any]
    fds: list[int]


class Channel:
    """One end of a stream socket. `closed` is True once the peer is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.closed = False
        self._inbox = bytearray()
        self._fds: deque[int] = deque()
        self._outbox = bytearray()

    def fileno(self) -> int:
        """Descriptor to watch for reading."""
        return self.sock.fileno()

    def send(self, body: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send and wait until the kernel took it all.

        Raises:
            OSError: The peer is gone.
        """
        data = _encoded(body, len(fds))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.sock.sendmsg([data], rights)
        if sent < len(data):
            self.sock.sendall(data[sent:])

    def post(self, body: dict[str, Any]) -> None:
        """Send without waiting: what the kernel does not take now goes with the next `flush`.

        A peer that is gone is ignored.
        """
        self._outbox += _encoded(body, 0)
        self.flush()

    def flush(self) -> None:
        """Send what was posted, as far as there is room."""
        try:
            while self._outbox:
                del self._outbox[: self.sock.send(self._outbox, socket.MSG_DONTWAIT)]
        except BlockingIOError:
            return
        except OSError:
            self._outbox.clear()

    @property
    def wants_write(self) -> bool:
        """Whether something posted waits for room."""
        return bool(self._outbox)

    def receive(self) -> list[Message]:
        """What has arrived, without waiting. At the end of the stream `closed` becomes True."""
        while not self.closed:
            try:
                data, rights, _, _ = self.sock.recvmsg(
                    _READ_BYTES, socket.CMSG_SPACE(_FDS_MAX * 4), socket.MSG_DONTWAIT | _CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError:
                data, rights = b"", []
            self._keep_fds(rights)
            if not data:
                self.closed = True
            self._inbox += data
        return self._parsed()

    def close(self) -> None:
        """Close the socket and the descriptors nobody took."""
        self.closed = True
        while self._fds:
            os.close(self._fds.popleft())
        self.sock.close()

    def _keep_fds(self, rights: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                for fd in found:
                    os.set_inheritable(fd, False)
                self._fds.extend(found)

    def _parsed(self) -> list[Message]:
        found: list[Message] = []
        start, inbox = 0, self._inbox
        while len(inbox) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(inbox, start)[0]
            if end > len(inbox):
                break
            body = _decoded(bytes(inbox[start + _LENGTH.size : end]))
            found.append(Message(body, [self._fds.popleft() for _ in range(body.pop("fds", 0))]))
            start = end
        del inbox[:start]
        return found


def _encoded(body: dict[str, Any], fds: int) -> bytes:
    if fds > _FDS_MAX:
        raise ValueError(f"at most {_FDS_MAX} descriptors in one message, not {fds}")
    counted = {**body, "fds": fds} if fds else body
    try:
        text = orjson.dumps(counted)
    except TypeError:  # a path that is not UTF-8: lone surrogates, which only the standard library writes
        import json  # lazy: only for such paths

        text = json.dumps(counted).encode()
    return _LENGTH.pack(len(text)) + text


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        body: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        import json  # lazy: only for such paths

        body = json.loads(text)
    return body

"""The socket through which commands reach a running engine: where it is, who may use it, and how to ask.

    STATE/commands     a Unix socket, mode 0600: the user who owns it, on this machine, and nobody else

The engine that owns the folder listens there and removes it when it ends in order; what one that was killed left is
removed at the next start. One connection is one question: a line `[what, args]` of JSON, answered by a line
`[result, error]`. Questions and answers are those of `runtime.host.client`; who answers is `command_desk`.

Known limits: where a file system has no sockets, or the folder's path is too long and there is no /proc, the engine
goes without, and commands say so. `shutil.copytree` cannot copy sockets: who copies the folder of an engine that runs,
or was killed, leaves this one out (`ignore=shutil.ignore_patterns("commands")`); cp and tar manage.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import EngineUnavailable, QueueFull
from runtime.errors import error_of
from runtime.host.questions import encode_question

NAME: Final = "commands"
WRITTEN: Final = "written"
"""The question how far the log is written, durable where that is promised. It waits for nothing."""
ANSWER_S: Final = 10.0
"""How long a command waits for its answer: the log's disk may be slow, a person may not."""
BUSY_S: Final = 0.02
"""How long a caller waits before it asks again, where too many ask at once."""
_PATH_BYTES_MAX: Final = 100
"""Of a socket's address; Linux takes 107 bytes, macOS 103."""
_READ_BYTES: Final = 65_536


@contextmanager
def _address(state_dir: str) -> Iterator[str]:
    """The socket's path, or a short one that leads to the same place."""
    path = os.path.join(state_dir, NAME)
    if len(os.fsencode(path)) <= _PATH_BYTES_MAX:
        yield path
        return
    folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{NAME}"
    finally:
        os.close(folder)


def listening(state_dir: str) -> socket.socket | None:
    """The socket of this folder, which the caller owns; None where there cannot be one.

    What a crash leaves behind: a socket that nobody listens to.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove(state_dir)
        with _address(state_dir) as address:
            sock.bind(address)
            os.chmod(address, 0o600)  # nobody can connect before `listen`
        sock.listen(limits.COMMANDS_OPEN_MAX)
        sock.setblocking(False)
    except OSError:
        sock.close()
        return None
    return sock


def remove(state_dir: str) -> None:
    """Remove the socket, if there is one. The caller owns the folder."""
    path = os.path.join(state_dir, NAME)
    with suppress(OSError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)


def ask(state_dir: str, what: str, args: dict[str, Any], timeout_s: float = ANSWER_S) -> Any:
    """Ask the engine that has this folder open.

    Args:
        state_dir: The state folder.
        what: The question.
        args: Its arguments.
        timeout_s: How long to wait.

    Raises:
        CallerError: It cannot be asked: a name is no text, or it is too long.
        EngineUnavailable: None listens, it did not answer, or it was busy with other callers all the time.
        MainspringError: What it answered.
    """
    deadline = time.monotonic() + timeout_s
    question = encode_question(what, [what, args], limits.QUESTION_BYTES_MAX) + b"\n"
    while True:
        try:
            return _ask(state_dir, question, timeout_s)
        except QueueFull as busy:  # nothing was asked yet
            if time.monotonic() + BUSY_S > deadline:
                raise EngineUnavailable(f"the engine on {state_dir} takes no commands: {busy.message}") from busy
            time.sleep(BUSY_S)


def _ask(state_dir: str, question: bytes, timeout_s: float) -> Any:
    """Ask once. Raises QueueFull: others ask."""
    answer = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            with _address(state_dir) as address:
                sock.connect(address)
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have said why, and hung up
                sock.sendall(question)
                while data := sock.recv(_READ_BYTES):
                    answer += data
            while not answer.endswith(b"\n") and (data := sock.recv(_READ_BYTES)):
                answer += data
    except BlockingIOError as full:
        raise QueueFull("too many others ask") from full
    except TimeoutError as late:
        raise EngineUnavailable(
            f"the engine did not answer within {timeout_s:g} s; what it was told may hold"
        ) from late
    except OSError as error:
        raise EngineUnavailable(f"the engine on {state_dir} takes no commands: {error.strerror or error}") from error
    if not answer.endswith(b"\n"):
        raise EngineUnavailable("the engine ended before it answered; what it was told may hold")
    result, refused = orjson.loads(answer)
    if refused is not None:
        raise error_of(refused)
    return result

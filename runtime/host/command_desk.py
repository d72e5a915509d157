"""The engine's side of commands: takes questions from the socket, hands them to the core, passes the answers on.

A caller is a session of its own to the core, so its answer waits for the log like every other. See `command_socket`
for who may call.

Bounds: `COMMANDS_OPEN_MAX` callers at once, more are told so and may call again; `COMMAND_BYTES_MAX` a question; a
caller that has not asked after `COMMAND_WAIT_NS` is hung up on. Concurrency: the engine's loop.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final, cast

import orjson

from actors.persister import Persister
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import CallerError, QueueFull
from actors.protocol.words import counted
from runtime.errors import error_to_wire
from runtime.host import command_socket
from runtime.host.teller import Teller

QUESTIONS: Final = frozenset(
    {
        "cancel",
        "dead",
        "discard",
        "forget",
        "held",
        "letter",
        "policy",
        "priority",
        "replay",
        "rerun",
        "schedules",
        "why",
    }
)
"""What may be asked from outside."""


class CommandDesk:
    """See the module.

    Args:
        loop: Not running yet.
        state_dir: The folder, which the caller owns.
        deliver: Gives a message to the core.
        teller: Knows whom an answer goes to.
        persister: Knows how far the log is written.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        state_dir: str,
        deliver: Callable[[Any], None],
        teller: Teller,
        persister: Persister,
    ) -> None:
        self.loop = loop
        self.callers: set[Caller] = set()
        self._state_dir = state_dir
        self._deliver = deliver
        self._teller = teller
        self._persister = persister
        self._numbers = itertools.count(1)
        self._server: asyncio.AbstractServer | None = None

    def open(self) -> None:
        """Take calls from now on. The engine has begun, because the loop runs in here."""
        sock = command_socket.listening(self._state_dir)
        if sock is not None:
            opening = self.loop.create_unix_server(lambda: Caller(self), sock=sock)
            self._server = self.loop.run_until_complete(opening)

    def asked(self, caller: Caller, line: bytes) -> None:
        """Hand a question on; what is none is answered here."""
        try:
            what, args = orjson.loads(line)
            if what == command_socket.WRITTEN:
                log = self._persister
                caller.answer([0, {"lsn": log.written_lsn, "last": log.last_lsn, "durability": log.durability}, None])
                return
            if what not in QUESTIONS or not isinstance(args, dict):
                raise CallerError(f"{what!r:.60} is no command")
        except (ValueError, TypeError) as broken:
            caller.answer([0, None, error_to_wire(CallerError(f"a command is [what, args]: {broken}"))])
            return
        except CallerError as refused:
            caller.answer([0, None, error_to_wire(refused)])
            return
        session = f"command {next(self._numbers)}"
        self._teller.others[session] = caller.answer
        if what == "cancel":
            self._deliver(msg.CancelAsked(session, 0, str(args.get("run")), None))
        else:
            self._deliver(msg.Queried(session, 0, what, args))

    def close(self) -> None:
        """Take no more calls, and remove the socket."""
        if self._server is not None:
            self._server.close()
            command_socket.remove(self._state_dir)
        for caller in list(self.callers):
            caller.hang_up()


class Caller(asyncio.Protocol):
    """One connection."""

    def __init__(self, desk: CommandDesk) -> None:
        self._desk = desk
        self._data = bytearray()
        self._asked = False
        self._transport: asyncio.Transport | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody calls."""
        self._transport = cast("asyncio.Transport", transport)
        if len(self._desk.callers) >= limits.COMMANDS_OPEN_MAX:
            self._asked = True
            self.answer(
                [0, None, error_to_wire(QueueFull(counted(len(self._desk.callers), "other asks", "others ask")))]
            )
            return
        self._desk.callers.add(self)
        self._patience = self._desk.loop.call_later(limits.COMMAND_WAIT_NS / 1e9, self.hang_up)

    def data_received(self, data: bytes) -> None:
        """A part of the question."""
        if self._asked:
            return
        self._data += data
        line, end, _ = self._data.partition(b"\n")
        if len(line) > limits.COMMAND_BYTES_MAX:
            self.hang_up()
        elif end:
            self._asked = True
            if self._patience is not None:
                self._patience.cancel()
            self._desk.asked(self, bytes(line))

    def eof_received(self) -> bool:
        """The caller has said all; the answer still goes to it."""
        return self._asked

    def connection_lost(self, error: Exception | None) -> None:
        """It is over, from either side."""
        self._transport = None
        self._desk.callers.discard(self)
        if self._patience is not None:
            self._patience.cancel()

    def answer(self, body: list[Any]) -> None:
        """Say it and hang up; nobody may be there any more."""
        if self._transport is not None:
            self._transport.write(orjson.dumps(body[1:]) + b"\n")
            self._transport.close()

    def hang_up(self) -> None:
        """End it without a word."""
        if self._transport is not None:
            self._transport.abort()

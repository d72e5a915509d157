"""NATS JetStream: events go to a stream, under the subjects SUBJECT.KIND (`mainspring.run.succeeded`).

Each message says which sequence number the stream must have before it. So a message that is refused, or gets lost,
takes all behind it with it: there is no hole, and one answer, to the last of a batch, stands for all. `Nats-Msg-Id` is
known to the server as a repeat within the stream's window, whatever else goes wrong.

A batch that fails is looked into by `standing`; where the stream has not moved, the next one is sent singly, each with
its own answer, which says why.

Concurrency: one task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig

from actors.event_kinds import EVENT_KINDS
from actors.protocol.event_errors import BridgeConflict
from runtime.bridges.outlet import ANSWER_S, CONNECT_S, OutletDisturbed, OutletLost, check_source
from runtime.bridges.standing import StreamStanding
from runtime.bridges.wire import BridgeMessage, BridgeSource, StreamPosition, read_message_id

DUPLICATES_S: Final = 120.0
"""For how long a new stream knows repeats by their ids: what NATS has as default."""
WRONG_SEQUENCE: Final = 10071
"""The server's code for: the stream has another last sequence number than the message says."""
_REFUSALS: Final = (nats.errors.AuthorizationError, nats.errors.InvalidUserCredentialsError)
_FAULTS: Final = (nats.errors.Error, OSError, TimeoutError, ValueError)


class NatsOutlet:
    """See the module.

    Args:
        server: Where; one of those that the bridge knows.
        stream: The stream's name.
        subject: What the subjects begin with.
        source: Who writes.
        keep: Messages that a stream keeps which is made here; None: all.
        credentials: A file with the user's credentials.
    """

    def __init__(
        self,
        server: str,
        stream: str,
        subject: str,
        source: BridgeSource,
        *,
        keep: int | None = None,
        credentials: str | None = None,
    ) -> None:
        self.repeats = 0
        self._server = server
        self._stream = stream
        self._subject = subject
        self._source = source
        self._prefix = f"{source.text}/"
        self._keep = keep
        self._more = {} if credentials is None else {"user_credentials": credentials}
        self._connection: Any = None
        self._streams: Any = None
        self._last: StreamPosition | None = None
        self._sequence = 0
        self._singly = False

    async def open(self) -> None:
        """Connect. Raises OutletLost."""
        said: list[Exception] = []

        async def hear(error: Exception) -> None:
            said.append(error)

        self._connection = Client()
        connecting = self._connection.connect(
            self._server,
            name=f"mainspring bridge {self._source.bridge}",
            allow_reconnect=False,  # who comes back has to look at the stream first
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_S,
            error_cb=hear,
            **self._more,
        )
        try:
            await asyncio.wait_for(connecting, 2 * CONNECT_S)
        except _REFUSALS as error:
            raise OutletLost(_text(error), refused=True) from error
        except _FAULTS as error:
            why = _text(said[-1] if said else error)
            raise OutletLost(why, refused="authorization" in why.lower()) from error
        self._streams = self._connection.jetstream(timeout=ANSWER_S)

    async def standing(self) -> StreamStanding:
        """What the stream has; made where there is none. Raises OutletLost, BridgeConflict."""
        before = self._last
        try:
            found = await self._look()
        except nats.js.errors.ServiceUnavailableError as error:
            raise OutletLost("the server has no JetStream, or it is not ready") from error
        except _FAULTS as error:
            raise OutletLost(_text(error)) from error
        self._last = found.last
        self._singly = self._singly and found.last == before
        return found

    async def _look(self) -> StreamStanding:
        try:
            info = await self._streams.stream_info(self._stream)
        except nats.js.errors.NotFoundError:
            info = await self._streams.add_stream(self._new_stream())
        self._check_subjects(info.config.subjects or [])
        self._sequence = info.state.last_seq
        if not info.state.messages:
            return StreamStanding(None, sure=not self._sequence)
        try:
            message, sure = await self._streams.get_msg(self._stream, seq=self._sequence), True
        except nats.js.errors.NotFoundError:
            message, sure = await self._streams.get_msg(self._stream, subject=f"{self._subject}.>"), False
        return StreamStanding(self._position_of(message), sure=sure)

    def _new_stream(self) -> Any:
        return StreamConfig(
            name=self._stream,
            subjects=[f"{self._subject}.>"],
            storage=StorageType.FILE,
            duplicate_window=DUPLICATES_S,
            max_msgs=self._keep or -1,
            description=f"events of Mainspring state folder {self._source.folder}",
        )

    def _check_subjects(self, subjects: Sequence[str]) -> None:
        missing = [kind for kind in EVENT_KINDS if not any(covers(one, f"{self._subject}.{kind}") for one in subjects)]
        if missing:
            taken = ", ".join(subjects) or "no subjects"
            raise BridgeConflict(f"stream {self._stream} takes {taken}, and not {self._subject}.{missing[0]}")

    def _position_of(self, message: Any) -> StreamPosition:
        found = read_message_id((message.headers or {}).get("Nats-Msg-Id", ""))
        if found is None:
            raise BridgeConflict(f"stream {self._stream} has a message that no bridge wrote, on {message.subject}")
        check_source(f"stream {self._stream}", found[0], self._source)
        return found[1]

    async def publish(self, messages: Sequence[BridgeMessage]) -> None:
        """Send; returns when the server has confirmed all. Raises OutletLost, OutletDisturbed."""
        try:
            if self._singly:
                for message in messages:
                    await self._publish_last(message)
                self._singly = False
                return
            for number, message in enumerate(messages[:-1], self._sequence):
                await self._connection.publish(
                    self._subject_of(message), message.body, headers=self._head(message, number)
                )
            await self._publish_last(messages[-1], len(messages) - 1)
        except nats.js.errors.NoStreamResponseError as error:
            self._singly = True
            raise OutletLost("no stream takes it: the server is not ready, or the stream is gone") from error
        except nats.js.errors.APIError as error:
            if error.err_code == WRONG_SEQUENCE and not self._singly:
                self._singly = True
                raise OutletDisturbed(str(error)) from error
            self._singly = True
            raise OutletLost(_text(error)) from error
        except _FAULTS as error:
            raise OutletLost(_text(error)) from error

    async def _publish_last(self, message: BridgeMessage, before: int = 0) -> None:
        """Send one, behind so many that were sent without asking for an answer, and wait for the answer."""
        head = self._head(message, self._sequence + before)
        subject = self._subject_of(message)
        answer = await self._streams.publish(subject, message.body, stream=self._stream, headers=head)
        if answer.duplicate:
            self.repeats += 1
            if before:
                self._singly = True
                raise OutletDisturbed(f"{message.at.text} was there")
            return
        self._sequence, self._last = answer.seq, message.at

    def _subject_of(self, message: BridgeMessage) -> str:
        return f"{self._subject}.{message.kind}"

    def _head(self, message: BridgeMessage, sequence: int) -> dict[str, str]:
        return {
            "Nats-Msg-Id": f"{self._prefix}{message.at.lsn}-{message.at.place}",
            "Nats-Expected-Last-Sequence": str(sequence),
        }

    async def close(self) -> None:
        """Let go of the connection. Again, and at any time, is harmless."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                await connection.close()


def covers(pattern: str, subject: str) -> bool:
    """Whether a subject of a stream takes messages of this subject."""
    wanted = subject.split(".")
    parts = pattern.split(".")
    for place, part in enumerate(parts):
        if part == ">":
            return len(wanted) > place
        if place >= len(wanted) or part not in ("*", wanted[place]):
            return False
    return len(parts) == len(wanted)


def _text(error: BaseException) -> str:
    text = str(error).removeprefix("nats: ").strip("'")
    return text or type(error).__name__

"""Redis Streams: each event is an entry of one stream, with the id LSN-PLACE, and the fields source, kind and event.

An id has to be above that of the last entry ever added, so the server refuses what it has. A batch is one transaction:
all of it is added or nothing, but for entries that were there. So there is no hole, and the last id says where to go
on, also when entries were trimmed.

Concurrency: one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from actors.protocol.event_errors import BridgeConflict
from runtime.bridges.outlet import ANSWER_S, CONNECT_S, OutletDisturbed, OutletLost, check_source
from runtime.bridges.standing import StreamStanding
from runtime.bridges.wire import BridgeMessage, BridgeSource, read_position

NEVER: Final = "0-0"
"""The last id of a stream that had no entries."""
_FAULTS: Final = (RedisError, OSError, TimeoutError, ValueError)
_NOT_HERE: Final = ("unknown command", "unknown subcommand")


class RedisOutlet:
    """See the module.

    Args:
        server: Where.
        stream: The key of the stream.
        source: Who writes.
        keep: Entries that are kept, about; None: all.
    """

    def __init__(self, server: str, stream: str, source: BridgeSource, *, keep: int | None = None) -> None:
        self.repeats = 0
        self._server = server
        self._stream = stream
        self._source = source
        self._keep = keep
        self._client: Any = None

    async def open(self) -> None:
        """Connect. Raises OutletLost."""
        try:
            self._client = redis.asyncio.from_url(
                self._server,
                socket_timeout=ANSWER_S,
                socket_connect_timeout=CONNECT_S,
                retry=Retry(NoBackoff(), 0),
                single_connection_client=True,
            )
            await self._client.ping()
        except (AuthenticationError, NoPermissionError) as error:
            raise OutletLost(str(error), refused=True) from error
        except _FAULTS as error:
            raise OutletLost(_text(error), refused=_is_refusal(error)) from error

    async def standing(self) -> StreamStanding:
        """What the stream has. Raises OutletLost, BridgeConflict."""
        pipe = self._client.pipeline(transaction=True)
        pipe.type(self._stream)
        pipe.xinfo_stream(self._stream)
        pipe.xrevrange(self._stream, count=1)
        try:
            kind, info, entries = await pipe.execute(raise_on_error=False)
        except _FAULTS as error:
            raise OutletLost(_text(error), refused=_is_refusal(error)) from error
        if _plain(kind) == "none":
            return StreamStanding(None)
        if _plain(kind) != "stream":
            raise BridgeConflict(f"key {self._stream} of the server is no stream, but a {_plain(kind)}")
        for answer in (info, entries):
            if isinstance(answer, Exception):
                raise OutletLost(_text(answer), refused=_is_refusal(answer))
        for at, fields in entries:
            self._check(_plain(at), {_plain(name): _plain(value) for name, value in fields.items()})
        last = _plain(info["last-generated-id"])
        return StreamStanding(None if last == NEVER else read_position(last))

    def _check(self, at: str, fields: dict[str, str]) -> None:
        folder, _, bridge = fields.get("source", "").partition("/")
        if not bridge:
            raise BridgeConflict(f"stream {self._stream} has an entry that no bridge wrote, {at}")
        check_source(f"stream {self._stream}", BridgeSource(folder, bridge), self._source)

    async def publish(self, messages: Sequence[BridgeMessage]) -> None:
        """Send; returns when the server has confirmed all. Raises OutletLost, OutletDisturbed."""
        source = self._source.text
        pipe = self._client.pipeline(transaction=True)
        for message in messages:
            fields = {"source": source, "kind": message.kind, "event": message.body}
            pipe.xadd(self._stream, fields, id=message.at.text, maxlen=self._keep, approximate=True)
        try:
            answers = await pipe.execute(raise_on_error=False)
        except _FAULTS as error:
            raise OutletLost(_text(error)) from error
        failures = [answer for answer in answers if isinstance(answer, Exception)]
        if not failures:
            return
        repeats = [failure for failure in failures if "equal or smaller" in str(failure)]
        self.repeats += len(repeats)
        if len(repeats) < len(failures):
            raise OutletLost(_text(next(failure for failure in failures if failure not in repeats)))
        raise OutletDisturbed(str(failures[0]))

    async def close(self) -> None:
        """Let go of the connection. Again, and at any time, is harmless."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                await client.aclose()


def _is_refusal(error: BaseException) -> bool:
    """Whether the server said no, and will say so again."""
    return isinstance(error, ResponseError) and any(words in str(error) for words in _NOT_HERE)


def _plain(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__

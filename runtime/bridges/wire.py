"""What a bridge publishes: an event as JSON, with its position and whose it is.

position    LSN-PLACE           ascends; in Redis the id of the entry
source      FOLDER-UUID/BRIDGE  who wrote it: the identity of the state folder and the name of the bridge
message id  SOURCE/LSN-PLACE    in NATS, where it also is what the server knows repeats by
body        {"lsn": ..., "place": ..., "at_ns": ..., "kind": ..., "run": ..., ...}, as `events --json` prints it
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import orjson

from actors.event_kinds import Event
from actors.protocol import limits

CAUSE_CHARS: Final = 1000
"""Of the cause of an event that is too large as it is."""
_POSITION: Final = re.compile(r"(\d{1,19})-(\d{1,19})\Z")


class StreamPosition(NamedTuple):
    """The place of an event in its log."""

    lsn: int
    place: int

    @property
    def text(self) -> str:
        """As it is published."""
        return f"{self.lsn}-{self.place}"


class BridgeMessage(NamedTuple):
    """One event, ready to be sent."""

    at: StreamPosition
    kind: str
    body: bytes


class BridgeSource(NamedTuple):
    """Who writes."""

    folder: str
    bridge: str

    @property
    def text(self) -> str:
        """As it is published."""
        return f"{self.folder}/{self.bridge}"


def read_position(text: str) -> StreamPosition | None:
    """From its text; None: it is none."""
    found = _POSITION.match(text)
    return None if found is None else StreamPosition(int(found[1]), int(found[2]))


def read_message_id(text: str) -> tuple[BridgeSource, StreamPosition] | None:
    """Who wrote a message of this id, and its position; None: no bridge did."""
    folder, _, rest = text.partition("/")
    bridge, _, at = rest.rpartition("/")
    position = read_position(at)
    return None if position is None or not folder or not bridge else (BridgeSource(folder, bridge), position)


def messages_of(events: Iterable[Event]) -> list[BridgeMessage]:
    """The messages of events, in their order."""
    return [BridgeMessage(StreamPosition(event.lsn, event.place), event.kind, _body(event)) for event in events]


def _body(event: Event) -> bytes:
    body = _json(event)
    if len(body) > limits.BRIDGE_EVENT_BYTES:
        return _json(event._replace(cause=event.cause[:CAUSE_CHARS], data={"left_out_bytes": len(body)}))
    return body


def _json(event: Event) -> bytes:
    facts = event._asdict()
    try:
        return orjson.dumps(facts)
    except TypeError:  # a text that is no UTF-8, or a number of more than 64 bits
        return json.dumps(facts).encode()

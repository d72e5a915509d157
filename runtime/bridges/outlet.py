"""The seam between a bridge and a server: what each kind of server has to do, and how it fails.

`publish` sends messages so that they are in the stream in their order without a hole, however it ends: whoever is
interrupted asks `standing` and goes on behind that. An outlet that failed is closed, and another one is made.

Failures: `OutletDisturbed` (the stream is not as it was left: look again), `OutletLost` (the server is gone or does not
take it: connect again, later), `BridgeConflict` (the stream is somebody else's: nothing helps).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from actors.protocol.event_errors import BridgeConflict
from runtime.bridges.standing import StreamStanding
from runtime.bridges.wire import BridgeMessage, BridgeSource

CONNECT_S: Final = 5.0
"""How long a server may take to accept a connection."""
ANSWER_S: Final = 10.0
"""How long a server may take to answer."""


class OutletLost(Exception):
    """The server is gone, or does not take what it is sent. `refused`: it answered, and said no."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class OutletDisturbed(Exception):
    """The stream is not as it was left: something came late from a connection before, or was lost on the way."""


class Outlet(Protocol):
    """A connection to a stream. Known by the methods it has."""

    repeats: int
    """Messages that the server had already."""

    async def open(self) -> None:
        """Connect. Raises OutletLost."""

    async def standing(self) -> StreamStanding:
        """What the stream has; made where there is none. Raises OutletLost, BridgeConflict."""

    async def publish(self, messages: Sequence[BridgeMessage]) -> None:
        """Send; returns when the server has confirmed all. Raises OutletLost, OutletDisturbed."""

    async def close(self) -> None:
        """Let go of the connection. Again, and at any time, is harmless."""


def check_source(what: str, found: BridgeSource, own: BridgeSource) -> None:
    """Raise BridgeConflict where a stream is another one's."""
    if found.folder != own.folder:
        raise BridgeConflict(f"{what} has events of state folder {found.folder}, and this one is {own.folder}")
    if found.bridge != own.bridge:
        raise BridgeConflict(
            f"{what} is written by bridge {found.bridge!r} of this folder, and this one is {own.bridge!r}"
        )

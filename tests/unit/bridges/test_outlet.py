"""Whose a stream is, and who may write it."""

from __future__ import annotations

import pytest

from actors.protocol.event_errors import BridgeConflict
from runtime.bridges.outlet import check_source
from runtime.bridges.wire import BridgeSource


def test_a_stream_is_of_one_folder_and_one_bridge() -> None:
    own = BridgeSource("f", "b")
    check_source("stream s", own, own)
    with pytest.raises(BridgeConflict, match="stream s has events of state folder g, and this one is f"):
        check_source("stream s", BridgeSource("g", "b"), own)
    with pytest.raises(BridgeConflict, match="stream s is written by bridge 'c' of this folder"):
        check_source("stream s", BridgeSource("f", "c"), own)

"""The engine process, run here with the test as its face: how it ends when it has a bug."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.core import EngineCore
from runtime.config import RuntimeConfig
from runtime.host import engine_process
from runtime.mail.link import Link, create_link


@pytest.mark.parametrize("method", ["receive", "start"])
def test_a_turn_that_raises_ends_the_engine(state_dir: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Not only the turn: a loop that went on would leave the engine alive and deaf, and nobody would start another."""

    def fail(*_: Any) -> list[Any]:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(engine_process, "_settle_memory", lambda: None)
    monkeypatch.setattr(engine_process.uvloop, "new_event_loop", asyncio.new_event_loop)  # leaves no pipe for good
    monkeypatch.setattr(EngineCore, method, fail)
    ends, (ours, theirs) = create_link(), socket.socketpair()
    face = Link(ends.dup(), "a")
    face.send(b"H" + orjson.dumps({"session": "s", "open_seq": 1}), control=True)
    try:
        with pytest.raises(ZeroDivisionError):
            engine_process.run(RuntimeConfig(str(state_dir)).to_wire(), ends.fds(), theirs)
        control, _ = face.receive()
        said = [orjson.loads(frame[1:])[:2] for frame in control if frame[:1] == b"Y"]
        assert said == [["the engine failed: ZeroDivisionError('a bug')", "MS900"]]
    finally:
        face.close()
        ours.close()
        theirs.close()

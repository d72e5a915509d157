"""The engine process, run here with the test as its face: how it ends when it has a bug."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.core import EngineCore
from runtime.config import RuntimeConfig
from runtime.host import engine_process
from runtime.mail.link import Link, create_link


def test_collections_look_at_few_objects() -> None:
    """However many lists there come to be, as when a graph with a million items is decoded."""
    looks: list[tuple[int, int]] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looks.append(
                (info["generation"], sum(len(gc.get_objects(g)) for g in range(min(1, info["generation"]) + 1)))
            )

    before = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(note)
    try:
        gc.set_threshold(*engine_process.GC_THRESHOLD)
        kept = [[number] for number in range(300_000)]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert len(kept) > len(looks) > 20
    assert max(objects for _, objects in looks) < 45_000
    assert {generation for generation, _ in looks} == {0, 1}


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

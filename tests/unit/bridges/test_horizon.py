"""How far a bridge may read: what an engine says, and what is whole where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.errors import EngineUnavailable
from runtime.bridges import horizon as horizon_module
from runtime.bridges.horizon import OutsideHorizon
from runtime.host import command_socket
from runtime.storage.folder import StateFolder
from runtime.storage.segment import segment_name
from tests.unit.bridges.folders import Openings


@pytest.fixture(params=[1, 3])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Openings]:
    made = Openings(tmp_path, request.param)
    yield made
    made.close()


class Engine:
    """What is asked, and what an engine answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: dict[str, Any] | None = None
        self.asked = self.synced = 0
        monkeypatch.setattr(command_socket, "ask", self.ask)
        monkeypatch.setattr(horizon_module, "_sync", self.sync)

    def ask(self, state_dir: str, what: str, args: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert (what, args) == (command_socket.WRITTEN, {})
        self.asked += 1
        if self.answer is None:
            raise EngineUnavailable("none")
        return self.answer

    def sync(self, place: object) -> None:
        self.synced += 1


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    return Engine(monkeypatch)


def test_an_engine_is_asked_only_when_the_log_has_grown(log: Openings, engine: Engine) -> None:
    log.write(4)
    horizon = OutsideHorizon(log.path)
    engine.answer = {"lsn": 3, "last": 4, "durability": "fsync"}
    assert horizon.look(1) == 3
    assert horizon.look(3) == 3
    assert engine.asked == 1, "there was something to be read"
    assert horizon.look(4) == 3
    assert engine.asked == 2, "something was on its way to the disk"
    engine.answer = {"lsn": 4, "last": 4, "durability": "fsync"}
    assert horizon.look(4) == 4
    for _ in range(5):
        assert horizon.look(5) == 4
    assert engine.asked == 3, "nothing happens"
    log.write(1)
    engine.answer = {"lsn": 5, "last": 5, "durability": "fsync"}
    assert horizon.look(5) == 5
    assert engine.synced == 0


@pytest.mark.parametrize("durability", ["os", "none"])
def test_what_an_engine_does_not_sync_is_synced_here(log: Openings, engine: Engine, durability: str) -> None:
    log.write(4)
    engine.answer = {"lsn": 4, "last": 4, "durability": durability}
    assert OutsideHorizon(log.path).look(1) == 4
    assert engine.synced == 1


def test_without_an_engine_what_is_whole_is_made_durable(log: Openings, engine: Engine) -> None:
    log.write(7)
    horizon = OutsideHorizon(log.path)
    assert horizon.look(1) == 7
    assert engine.synced == 1
    assert horizon.settled
    with StateFolder.open(log.path) as folder:
        assert folder.owner, "the lock was given back"


def test_while_an_engine_begins_nothing_is_said(log: Openings, engine: Engine) -> None:
    log.write(7)
    horizon = OutsideHorizon(log.path)
    with StateFolder.open(log.path):
        assert horizon.look(1) == 0
        assert not horizon.settled
    assert horizon.look(1) == 7


def test_what_is_synced_is_the_last_segment_of_each_shard(log: Openings, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write(20)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    with StateFolder.open(log.path, owner=False, create=False) as folder:
        horizon_module._sync(folder.log)
        assert synced == [f"{part.folder}/{segment_name(log.writer.active.no)}" for part in folder.log.parts()]


def test_what_grows_is_seen_in_every_shard(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path, log_shards=3) as folder:
        parts = folder.log.parts()
        seen = {horizon_module._size_of(folder.log)}
        for part in parts:
            (Path(part.folder) / segment_name(1)).write_bytes(b"more")
            seen.add(horizon_module._size_of(folder.log))
    assert len(seen) == 4

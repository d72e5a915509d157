"""The loop of a bridge, with a stream that fails as it is told."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol import limits
from actors.protocol.errors import CallerError, ConfigurationError
from actors.protocol.event_errors import BridgeConflict, BridgeUnavailable
from runtime.bridges import AsyncBridge, Bridge
from runtime.bridges import backoff as backoff_module
from runtime.bridges import target as target_module
from runtime.bridges.standing import StreamStanding
from runtime.bridges.wire import BridgeSource, StreamPosition
from runtime.storage.cursors import names_of
from tests.unit.bridges.folders import BrokenStream, Openings

PATIENCE_S = 30.0
TO = "redis://there"


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backoff_module, "FIRST_S", 0.0)
        yield


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Openings]:
    made = Openings(tmp_path)
    yield made
    made.close()


def leading_to(stream: BrokenStream, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(target_module._LIBRARIES, "redis", "json")
    patch.setitem(target_module._MAKERS, "redis", lambda target, source, server: stream.outlet(source))


FAILURES = st.tuples(st.integers(0, 5), st.sampled_from(["lost", "disturbed"]), st.integers(0, 4))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(FAILURES, max_size=8), st.integers(1, 4), st.integers(1, 25))
def test_whatever_fails_the_stream_has_each_event_once(
    failures: list[tuple[int, str, int]], batch: int, count: int
) -> None:
    stream = BrokenStream(failures)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BRIDGE_BATCH_EVENTS", batch)
        leading_to(stream, patch)
        log = Openings(Path(folder) / "state")
        try:
            log.write(count)
            for _ in range(2):
                with Bridge(log.path, TO, follow=False) as bridge:
                    bridge.run()
            assert stream.entries == log.positions
            assert stream.sources == {BridgeSource(log.uuid, "redis-mainspring")}
        finally:
            log.close()


def test_it_follows_until_it_is_closed(log: Openings, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = BrokenStream()
    leading_to(stream, monkeypatch)
    log.write(3)
    arrived = threading.Event()
    publish = stream.publish

    async def published(messages: Any) -> None:
        await publish(messages)
        if len(stream.entries) == 3:
            log.write(2)
        else:
            arrived.set()

    monkeypatch.setattr(stream, "publish", published)
    bridge = Bridge(log.path, TO)
    thread = threading.Thread(target=bridge.run)
    thread.start()
    assert arrived.wait(PATIENCE_S)
    bridge.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [at.lsn for at in stream.entries] == [1, 2, 3, 4, 5]
    found = bridge.statistics()
    assert (found.published, found.connections, found.position, found.lost) == (5, 1, "5-0", ())
    with pytest.raises(CallerError, match="runs once"):
        bridge.run()


def test_a_server_that_is_away_at_first_is_waited_for_as_long_as_it_was_said(
    log: Openings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream = BrokenStream()
    leading_to(stream, monkeypatch)
    log.write(1)
    stream.refuses = 3
    with Bridge(log.path, TO, follow=False) as bridge:
        bridge.run()
    assert len(stream.entries) == 1
    (said,) = [one.getMessage() for one in caplog.records if "trying again" in one.getMessage()]
    assert said.endswith("trying again, for 10 s (patience)"), "once, and until when"
    stream.refuses = 3
    with pytest.raises(BridgeUnavailable, match="redis://there cannot be reached: refused"):
        Bridge(log.path, TO, follow=False, patience=0).run()


def test_a_bridge_that_never_began_keeps_no_log(log: Openings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither without its library, nor without its server; one that has published is remembered all the same."""
    stream = BrokenStream()
    leading_to(stream, monkeypatch)
    log.write(1)
    monkeypatch.setitem(target_module._LIBRARIES, "redis", "no_such_library")
    with pytest.raises(ConfigurationError, match="not installed"):
        Bridge(log.path, TO)
    assert names_of(str(log.path)) == []
    monkeypatch.setitem(target_module._LIBRARIES, "redis", "json")
    stream.refuses = 1
    with pytest.raises(BridgeUnavailable):
        Bridge(log.path, TO, patience=0).run()
    assert names_of(str(log.path)) == []
    with Bridge(log.path, TO, follow=False) as bridge:
        bridge.run()
    stream.refuses = 1
    with pytest.raises(BridgeUnavailable):
        Bridge(log.path, TO, patience=0).run()
    assert names_of(str(log.path)) == ["redis-mainspring"]


def test_a_stream_of_others_ends_it_and_leaves_the_cursor(log: Openings, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = BrokenStream()
    leading_to(stream, monkeypatch)
    log.write(2)
    stream.entries = [StreamPosition(90, 0)]
    with pytest.raises(BridgeConflict, match="the folder is an older copy"):
        Bridge(log.path, TO).run()
    stream.entries = []
    with Bridge(log.path, TO, follow=False) as bridge:
        bridge.run()
    assert len(stream.entries) == 2


def test_a_bridge_that_was_not_run_lets_go_of_its_name(log: Openings, monkeypatch: pytest.MonkeyPatch) -> None:
    leading_to(BrokenStream(), monkeypatch)
    for _ in range(2):
        with Bridge(log.path, TO, name="x"):
            pass
    with pytest.raises(ConfigurationError, match="patience"):
        Bridge(log.path, TO, patience=-1)
    with pytest.raises(ConfigurationError, match="no kind"):
        Bridge(log.path, TO, "nothing")


def test_a_batch_that_hangs_does_not_keep_it_open(log: Openings, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = BrokenStream()
    leading_to(stream, monkeypatch)
    monkeypatch.setattr("runtime.bridges.bridge.LEAVING_S", 0.01)
    log.write(1)

    async def main() -> None:
        async with AsyncBridge(log.path, TO) as bridge:
            hanging = asyncio.Event()

            async def publish(messages: Any) -> None:
                hanging.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(stream, "publish", publish)
            running = asyncio.ensure_future(bridge.run())
            await hanging.wait()
            bridge.close()
            await asyncio.wait_for(running, PATIENCE_S)
            assert bridge.statistics().published == 0

    asyncio.run(main())


def test_a_task_that_is_cancelled_lets_go_of_everything(log: Openings, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = BrokenStream()
    leading_to(stream, monkeypatch)

    async def main() -> None:
        running = asyncio.ensure_future(AsyncBridge(log.path, TO).run())
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    with Bridge(log.path, TO):
        pass


def test_standing_of_the_double_is_that_of_its_entries() -> None:
    assert asyncio.run(BrokenStream().standing()) == StreamStanding(None)

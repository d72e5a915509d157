"""Whoever waits reads; nobody who waits is forgotten, and no wake-up is lost between readers."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.handle import TaskHandle
from runtime.host.client import EngineClient
from runtime.host.pending import VALUE, Pending
from tests.scenarios.waiting import until
from tests.unit.runtime.fake_engine import FakeEngine


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def client(engine: FakeEngine) -> Iterator[EngineClient]:
    client = EngineClient(engine, "s", None)
    client.start()
    yield client
    engine.end(client)


def tasks(client: EngineClient, count: int) -> list[TaskHandle[Any]]:
    return [client.send_task(0, b"1", TaskHandle(client)) for _ in range(count)]


def answer(engine: FakeEngine, seq: int, value: Any) -> None:
    engine.say("R", [[seq, [0], [value]]])


def test_a_caller_reads_for_itself(client: EngineClient, engine: FakeEngine) -> None:
    client.attach_thread()
    (handle,) = tasks(client, 1)
    answer(engine, 1, "x")
    assert handle.result(10) == "x"
    assert handle.result(0) == "x"


def test_the_pump_reads_when_nobody_waits(client: EngineClient, engine: FakeEngine) -> None:
    client.attach_thread()
    (handle,) = tasks(client, 1)
    seen = threading.Event()
    threads: list[str] = []

    def note(_: Any) -> None:
        threads.append(threading.current_thread().name)
        seen.set()

    handle.add_done_callback(note)
    answer(engine, 1, "x")
    assert seen.wait(10)
    assert threads == ["mainspring-pump"]


def test_a_callback_of_an_ended_task_is_called_at_once(client: EngineClient, engine: FakeEngine) -> None:
    client.attach_thread()
    (handle,) = tasks(client, 1)
    answer(engine, 1, "x")
    handle.result(10)
    seen: list[Any] = []
    handle.add_done_callback(seen.append)
    assert seen == [handle]


def test_a_callback_may_submit_and_wait(client: EngineClient, engine: FakeEngine) -> None:
    client.attach_thread()
    (first,) = tasks(client, 1)
    done = threading.Event()
    inner: list[Any] = []

    def go_on(_: Any) -> None:
        (second,) = tasks(client, 1)
        answer(engine, 2, "second")
        inner.append(second.result(10))
        done.set()

    first.add_done_callback(go_on)
    answer(engine, 1, "first")
    assert done.wait(10)
    assert inner == ["second"]


def test_a_callback_that_raises_harms_nobody(
    client: EngineClient, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    client.attach_thread()
    bad, good = tasks(client, 2)

    def explode(_: Any) -> None:
        raise RuntimeError("boom")

    bad.add_done_callback(explode)
    engine.say("R", [[1, [0, 1], ["a", "b"]]])
    assert good.result(10) == "b"
    assert bad.result(10) == "a"
    until(lambda: "a callback raised" in caplog.text, "the thread that reads to call the callbacks")


def test_a_time_out_leaves_nothing_behind(client: EngineClient, engine: FakeEngine) -> None:
    client.attach_thread()
    (handle,) = tasks(client, 1)
    assert not client.wait(handle, 0.0)
    assert not client.wait(handle, 0.02)
    assert not handle._hooks
    answer(engine, 1, "x")
    assert handle.result(10) == "x"


def test_later_calls_come_from_the_reading_thread(client: EngineClient) -> None:
    client.attach_thread()
    seen = threading.Event()
    client.reader.later(lambda: 1 / 0)
    client.reader.later(seen.set)
    assert seen.wait(10)


def test_an_interrupted_reader_loses_nothing(client: EngineClient, engine: FakeEngine) -> None:
    """Ctrl-C may strike while frames are applied; whoever reads next applies them again."""
    first, second = tasks(client, 2)
    seen: list[Any] = []
    second.add_done_callback(seen.append)
    engine.say("R", [[1, [0, 1], ["a", "b"]]])
    take, strikes = client.take, [KeyboardInterrupt()]

    def struck(control: list[bytes], work: list[bytes], woken: list[Pending]) -> None:
        if strikes:
            raise strikes.pop()
        take(control, work, woken)

    client.take = struck  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        first.result(10)
    assert first.result(10) == "a"
    assert seen == [second]


@pytest.mark.slow
def test_many_waiters_and_a_pump_miss_nothing(client: EngineClient, engine: FakeEngine) -> None:
    """Eight callers wait for single results that come in any order, in bursts and one by one."""
    client.attach_thread()
    rng = random.Random(7)
    handles = tasks(client, 800)
    wrong: list[Any] = []

    def take(own: list[TaskHandle[Any]]) -> None:
        wrong.extend(handle.seq for handle in own if handle.result(30) != handle.seq)

    threads = [threading.Thread(target=take, args=(handles[i::8],)) for i in range(8)]
    for thread in threads:
        thread.start()
    order = [handle.seq for handle in handles]
    rng.shuffle(order)
    while order:
        burst, order = order[: rng.randint(1, 5)], order[5:] if rng.random() < 0.5 else order[rng.randint(1, 5) :]
        for seq in burst:
            answer(engine, seq, seq)
    for handle in handles:
        if not handle.done():
            answer(engine, handle.seq, handle.seq)
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert all(handle.done() for handle in handles)


@pytest.mark.slow
def test_callers_that_come_and_go_hand_over_to_the_pump(client: EngineClient, engine: FakeEngine) -> None:
    """One result is waited for, the next one is left to the pump, two thousand times."""
    client.attach_thread()
    for seq in range(1, 2001, 2):
        waited, left = tasks(client, 2)
        done = threading.Event()
        left.add_done_callback(lambda _, done=done: done.set())  # type: ignore[misc]
        answer(engine, seq, "w")
        assert waited.result(10) == "w"
        answer(engine, seq + 1, "p")
        assert done.wait(10)


def test_an_event_loop_reads_without_a_thread(client: EngineClient, engine: FakeEngine) -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        client.attach_loop(loop)
        (handle,) = tasks(client, 1)
        future: asyncio.Future[Any] = loop.create_future()
        client.reader.add_hook(handle, lambda h: future.set_result((h.result(0), threading.current_thread())))
        loop.call_soon(answer, engine, 1, "x")
        found = await asyncio.wait_for(future, 10)
        client.reader.unwatch()
        return found

    assert asyncio.run(main()) == ("x", threading.main_thread())


def test_hooks_can_be_taken_back(client: EngineClient, engine: FakeEngine) -> None:
    client.attach_thread()
    cell = Pending()
    seen: list[Any] = []
    assert client.reader.add_hook(cell, seen.append)
    client.reader.drop_hook(cell, seen.append)
    client.settle(cell, VALUE, 1)
    assert seen == []
    assert not client.reader.add_hook(cell, seen.append)

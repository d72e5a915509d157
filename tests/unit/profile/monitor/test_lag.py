"""A loop that is held up: how late it is, and who does it, seen from a thread while it goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from runtime.profile.monitor.lag import BEAT_NS, Block, Lag
from runtime.profile.sampling.labels import labels
from runtime.profile.sampling.pressure import LAGS_MAX, LoopLag
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


@pytest.fixture
def lag() -> Iterator[Lag]:
    """Of a loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(loop.run_forever)
        made = Lag(loop)
        yield made
        loop.call_soon_threadsafe(loop.stop)
        running.result(PATIENCE_S)
        loop.close()
        made.keep(0.0)
        until(lambda: not any(one.name == "mainspring-lag" for one in threading.enumerate()), "the loop or its thread")


async def hold_up(gate: threading.Event) -> None:
    with labels(customer="acme"):
        await asyncio.sleep(0)
        in_the_way(gate)


def in_the_way(gate: threading.Event) -> None:
    """A blocking call in a coroutine."""
    assert gate.wait(PATIENCE_S)


def test_who_holds_up_the_loop_is_named_while_it_does(lag: Lag) -> None:
    """Acceptance test 11: the event carries the stack."""
    lag.keep()
    until(lambda: lag._due_ns, "the loop or its thread")
    gate = threading.Event()
    task = asyncio.run_coroutine_threadsafe(hold_up(gate), lag.loop)
    found: list[Block] = []

    def seen() -> bool:
        found.extend(lag.taken())
        return bool(found)

    until(seen, "the loop or its thread")
    block = found[-1]
    assert [frame.name for frame in block.stack if frame.file == __file__] == ["hold_up", "in_the_way"]
    assert block.said() == "wait" or block.stack[-1].file.endswith("threading.py")
    assert block.labels == (("customer", "acme"),)
    assert block.task
    assert block.late_ns >= BEAT_NS
    gate.set()
    task.result(PATIENCE_S)
    until(lambda: lag.lags.quantile_ns(1.0) >= BEAT_NS, "the loop or its thread")
    found.clear()
    until(seen, "the loop or its thread")
    assert found[0].late_ns >= block.late_ns, "and how long it was, when it is over"
    assert Block.of_json(orjson.loads(orjson.dumps(found[0].as_json()))) == found[0]


def test_a_loop_that_goes_on_has_no_blocks(lag: Lag) -> None:
    lag.keep()
    until(lambda: len(lag.lags._lags) > 3, "the loop or its thread")
    assert all(block.late_ns >= BEAT_NS for block in lag.taken()), "of a machine that is busy"


def test_it_ends_when_nobody_asks_any_more(lag: Lag) -> None:
    lag.keep(0.0)
    until(lambda: lag._thread is None, "the loop or its thread")
    lag.keep()
    until(lambda: lag._due_ns, "the loop or its thread")


def test_beats_that_were_left_out_count() -> None:
    """A loop that stands still for five seconds is late by more than a moment at the 99th percentile."""
    lag = LoopLag()
    for _ in range(200):
        lag.add(0, BEAT_NS)
    lag.add(5_000_000_000, BEAT_NS)
    assert lag.quantile_ns(0.99) > 4_000_000_000
    assert lag.quantile_ns(0.5) == 0
    lag.add(3600 * 1_000_000_000, BEAT_NS)
    assert len(lag._lags) == LAGS_MAX

"""Events with real processes: live, from the log, over a killed engine, to several subscribers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import AsyncRuntime, Event, Flow, NodeType, Runtime
from runtime.errors import ConfigurationError, CursorBeyondEnd, SubscriberTooSlow
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_gone, until

pytestmark = pytest.mark.slow

PATIENCE_S: Final = 60.0


def opened(state_dir: Path, **options: Any) -> Runtime:
    return Runtime(state_dir, node_types=[NodeType("default", workers=2)], **options)


def kinds_of(events: list[Event]) -> list[str]:
    return [event.kind for event in events if event.run is not None]


@pytest.mark.parametrize("durability", ["fsync", "os", "none"])
def test_what_happens_is_told_live_and_what_happened_from_the_log(state_dir: Path, durability: Any) -> None:
    with opened(state_dir, durability=durability) as rt:
        with rt.events(since="now") as events:
            rt.submit(abs, -3).result(PATIENCE_S)
            live = [events.get(PATIENCE_S) for _ in range(3)]
        assert [event and event.kind for event in live] == ["run.submitted", "node.succeeded", "run.succeeded"]
        until(
            lambda: [event for event in rt.events(since="begin", follow=False) if event.run is not None] == live,
            "the same from the log",
        )
    with opened(state_dir) as rt:
        assert [event for event in rt.events(since="begin", follow=False) if event.run is not None] == live
        assert len(list(rt.events("engine.opened", since="begin", follow=False))) == 2
        assert live[2] is not None
        assert next(rt.events(since=live[2].lsn, follow=False)).lsn == live[2].lsn


def test_ends_of_graphs_with_what_followed(state_dir: Path) -> None:
    flow = Flow("etl")
    first = flow.add(int, "no number", id="first")
    flow.add(abs, first, id="second")
    with opened(state_dir) as rt:
        handle = rt.submit(flow)
        handle.exception(PATIENCE_S)
        found = list(rt.events(run=handle, since="begin", follow=False))
        assert [(event.kind, event.node_id) for event in found] == [
            ("run.submitted", ""),
            ("node.failed", "first"),
            ("node.skipped", "second"),
            ("run.failed", ""),
        ]
        assert found[1].cause.startswith("ValueError: invalid literal")
        assert found[3].name == "etl"
        assert [event.kind for event in rt.events("*.failed", name="et?", since="begin", follow=False)] == [
            "run.failed"
        ]


def test_schedules_and_policy_are_told(state_dir: Path) -> None:
    """Live and from the log, also after a restart, which may write again what stands."""
    about = ["schedule.*", "policy.*", "*.reprioritised", "run.joined"]
    with opened(state_dir) as rt, rt.events(about) as events:
        rt.schedule("nightly", abs, -1, cron="0 3 * * *")
        rt.schedule("hourly", abs, -1, every=3600.0)
        rt.pause("tenant:acme")
        waiting = rt.options(tenant="acme").submit(abs, -1)
        assert waiting.set_priority("high")
        rt.submit(abs, -5, idempotency_key="five").result(PATIENCE_S)
        rt.submit(abs, -5, idempotency_key="five").result(PATIENCE_S)
        rt.set_weight("acme", 3)
        assert rt.unschedule("hourly")
        rt.resume("tenant:acme")
        waiting.result(PATIENCE_S)
        live = [events.get(PATIENCE_S) for _ in range(8)]
        assert events.get(0) is None
        told = [(event.kind, event.name) for event in live if event is not None]
        assert told == [
            ("schedule.set", "nightly"),
            ("schedule.set", "hourly"),
            ("policy.changed", ""),
            ("run.reprioritised", "abs"),
            ("run.joined", ""),
            ("policy.changed", ""),
            ("schedule.removed", "hourly"),
            ("policy.changed", ""),
        ]
    with opened(state_dir) as rt:
        found = list(rt.events(about, since="begin", follow=False))
        assert found[:8] == live
        assert {event.kind for event in found[8:]} <= {"schedule.set", "policy.changed"}, "written again by the start"


def test_events_go_on_when_the_engine_was_killed(state_dir: Path) -> None:
    """Nothing is told twice, nothing is left out, and ends of runs that were open are told by who knew them before."""
    with opened(state_dir) as rt, rt.events("run.*", since="now") as events:
        first = [rt.submit(abs, -n) for n in range(50)]
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        second = [rt.submit(abs, -n) for n in range(50)]
        for handle in [*first, *second]:
            handle.result(PATIENCE_S)
        counted: Counter[tuple[str | None, str]] = Counter()
        while len(counted) < 200:
            event = events.get(PATIENCE_S)
            assert event is not None
            counted[event.run, event.kind] += 1
        assert set(counted.values()) == {1}
        assert {run for run, _ in counted} == {handle.run_id for handle in [*first, *second]}


def test_a_moment_and_an_lsn_to_begin_at(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        rt.submit(abs, -1).result(PATIENCE_S)
        (end,) = rt.events("run.succeeded", since="begin", follow=False)
        moment = datetime.now(UTC)
        later = rt.submit(abs, -2)
        later.result(PATIENCE_S)
        assert {event.run for event in rt.events("run.*", since=moment, follow=False)} == {later.run_id}
        assert {event.run for event in rt.events("run.*", since=end.lsn + 1, follow=False)} == {later.run_id}
        with pytest.raises(CursorBeyondEnd):
            rt.events(since=10**9)
        with pytest.raises(ConfigurationError, match="no kind of event"):
            rt.events("node.exploded")


def test_the_latency_of_a_live_event_is_about_that_of_its_result(state_dir: Path) -> None:
    with opened(state_dir) as rt, rt.events("node.succeeded") as events:
        gaps = []
        for _ in range(100):
            rt.submit(abs, -1).result(PATIENCE_S)
            begun = time.perf_counter()
            assert events.get(PATIENCE_S) is not None
            gaps.append(time.perf_counter() - begun)
        assert sorted(gaps)[50] < 0.02, "it is not looked for now and then: it is told"


def test_a_slow_and_a_raising_subscriber_harm_nobody(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        slow, cut = (
            rt.events("node.succeeded", when_full="drop_oldest", holds=10),
            rt.events("node.succeeded", when_full="disconnect", holds=10),
        )
        latest = rt.events("node.succeeded", when_full="latest", key="kind")
        with slow, cut, latest, rt.events("node.succeeded") as good:
            seen: list[Event | None] = []
            reader = threading.Thread(target=lambda: seen.extend(good.get(PATIENCE_S) for _ in range(500)))
            reader.start()
            assert list(rt.map(abs, range(500))) == list(range(500))
            reader.join(PATIENCE_S)
            assert len({(event.run, event.node) for event in seen if event is not None}) == 500
            assert [slow.get(0), latest.get(0)] == [seen[490], seen[499]]
            assert (slow.statistics().dropped, latest.statistics().dropped) == (490, 499)
            with pytest.raises(SubscriberTooSlow):
                cut.get(PATIENCE_S)
            assert cut.get(0) is None


def test_batches_by_key_and_only_the_latest(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        handles = [rt.submit(abs, -n) for n in range(20)]
        for handle in handles:
            handle.result(PATIENCE_S)
        ends = {"run.succeeded"}
        whole = list(rt.events(["run.*", "node.succeeded"], since="begin", follow=False))
        groups = list(rt.events(["run.*", "node.succeeded"], since="begin", follow=False).batches(by="run"))
        assert sorted(map(len, groups)) == [3] * 20
        assert sorted(event for group in groups for event in group) == sorted(whole)
        (last,) = rt.events(["run.*", "node.succeeded"], since="begin", follow=False).batches(latest=True, by=None)
        assert {event.kind for event in last if event.node is None} == ends
        assert [len(b) for b in rt.events("run.submitted", since="begin", follow=False).batches(7)] == [7, 7, 6]
        with pytest.raises(ConfigurationError):
            rt.events().batches(0)


def test_who_waits_is_woken_by_the_end(state_dir: Path) -> None:
    ended = threading.Event()
    with opened(state_dir) as rt:
        stream = rt.events("run.failed")
        other = rt.events("run.failed")
        thread = threading.Thread(target=lambda: [*stream, ended.set()])
        closer = threading.Thread(target=other.get)
        thread.start()
        closer.start()
        other.close()
        closer.join(PATIENCE_S)
        assert not closer.is_alive()
        assert not ended.is_set()
    assert ended.wait(PATIENCE_S)
    thread.join(PATIENCE_S)


def test_a_stream_that_nobody_holds_any_more_is_not_watched_for(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        rt.events("run.failed")
        until(lambda: not rt._client.horizon._watchers, "the end of the watching")


def test_events_for_asyncio(state_dir: Path) -> None:
    asyncio.run(events_for_asyncio(state_dir))


async def events_for_asyncio(state_dir: Path) -> None:
    async with AsyncRuntime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        async with rt.events("run.*") as events, rt.events("run.*") as never:
            handles = [await rt.submit(abs, -n) for n in range(20)]
            waiting = asyncio.ensure_future(events.get())
            await asyncio.sleep(0)
            waiting.cancel()
            ended: set[str | None] = set()
            async for event in events:
                if event.kind == "run.succeeded":
                    ended.add(event.run)
                if len(ended) == 20:
                    break
            assert ended == {handle.run_id for handle in handles}
            assert events.statistics().delivered == 40, "a wait that was cancelled takes nothing with it"
            assert never.statistics().delivered == 0
        rt.events("run.*")
        for _ in range(3):
            await asyncio.sleep(0)
        assert not rt._client.horizon._watchers, "nobody holds it"
        for handle in handles:
            await handle
        whole = [event async for event in rt.events("run.*", since="begin", follow=False)]
        assert len(whole) == 40
        sizes = [len(b) async for b in rt.events("run.*", since="begin", follow=False).batches(30, window=0.01)]
        assert sizes == [30, 10]
        last = rt.events("run.failed")
        assert await last.get(0.0) is None
        waiting = asyncio.ensure_future(last.get())
    assert await waiting is None, "the runtime is closed"

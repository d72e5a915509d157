"""Durable subscriptions: at least once, over kills of the program, with callbacks that fail."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import AsyncRuntime, Event, NodeType, Retention, Runtime
from runtime.errors import CallerError, ConfigurationError, SubscriberTooSlow, SubscriptionInUse
from tests.scenarios.processes import host_program
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow

PATIENCE_S: Final = 60.0


def opened(state_dir: Path) -> Runtime:
    return Runtime(state_dir, node_types=[NodeType("default", workers=2)])


def submit(rt: Runtime, count: int) -> list[str]:
    handles = [rt.submit(abs, -n) for n in range(count)]
    for handle in handles:
        handle.result(PATIENCE_S)
    return [handle.run_id for handle in handles]


def test_what_was_not_acknowledged_comes_again_after_a_kill(state_dir: Path) -> None:
    seen: list[str] = []
    with host_program("subscribing", state_dir, 6) as host:
        assert host.read_line() == "submitted"
        for _ in range(4):
            seen.append(host.read_line())
            host.tell("ack")
        again = host.read_line()
        host.kill_all()
    with host_program("subscribing", state_dir, 1) as host:
        assert host.read_line() == "submitted"
        rest = [host.read_line()]
        for _ in range(2):
            host.tell("ack")
            rest.append(host.read_line())
    assert rest[0] == again, "it was given out, and not acknowledged"
    assert len({*seen, *rest}) == 7
    assert [*seen, *rest] == sorted([*seen, *rest], key=lambda line: [int(word) for word in line.split()[:2]])


def test_a_program_that_was_away_misses_nothing(state_dir: Path) -> None:
    with opened(state_dir) as rt:
        rt.subscribe("audit", "run.succeeded").close()
        ids = submit(rt, 30)
    with opened(state_dir) as rt:
        with rt.subscribe("audit", "run.succeeded", follow=False) as events:
            found = list(events)
            assert sorted(event.run or "" for event in found) == sorted(ids)
            events.ack(found[9])
            assert events.statistics().unacknowledged == 20
        with rt.subscribe("audit", "run.succeeded", follow=False) as events:
            assert list(events) == found[10:]
            events.ack(found[-1])
        with rt.subscribe("audit", "run.succeeded", follow=False) as events:
            assert list(events) == []
        assert rt.subscriptions() == ["audit"]
        assert rt.unsubscribe("audit")
        assert not rt.unsubscribe("audit")


def test_a_callback_that_fails_is_called_again_and_then_given_up(state_dir: Path) -> None:
    calls: list[str | None] = []
    bad: list[str] = []

    def callback(event: Event) -> None:
        calls.append(event.run)
        if event.run == bad[0] or calls.count(event.run) == 1:
            raise ValueError("no")

    with opened(state_dir) as rt:
        mail = rt.subscribe("mail", "run.succeeded")
        ids = submit(rt, 3)
        bad.append(ids[1])
        thread = threading.Thread(target=lambda: mail.run(callback, attempts=3, pause=0.0))
        thread.start()
        until(lambda: len(calls) >= 7 and mail.statistics().unacknowledged == 0, "the calls", PATIENCE_S)
        letters = list(mail.dead())
        assert mail.statistics().dead == 1
        mail.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert sorted(map(calls.count, ids)) == [2, 2, 3]
        assert [(letter["run"], letter["error"], letter["attempts"]) for letter in letters] == [
            (ids[1], "ValueError('no')", 3)
        ]
        with rt.subscribe("mail", "run.succeeded", follow=False) as events:
            assert list(events) == []


def test_a_window_of_what_is_not_acknowledged(state_dir: Path) -> None:
    with opened(state_dir) as rt, rt.subscribe("narrow", "run.succeeded", window=2) as events:
        submit(rt, 4)
        first, second = events.get(PATIENCE_S), events.get(PATIENCE_S)
        assert first is not None
        assert second is not None
        with pytest.raises(SubscriberTooSlow, match="2 events are not acknowledged"):
            events.get(0)
        events.ack(first)
        third = events.get(PATIENCE_S)
        assert third is not None
        with pytest.raises(CallerError, match="was not given out"):
            events.ack(third._replace(lsn=third.lsn + 1))
        events.ack(third.lsn)
        assert events.statistics().unacknowledged == 0
        with pytest.raises(SubscriptionInUse):
            rt.subscribe("narrow")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "a/b"}, "a name is"),
        ({"kinds": "nothing"}, "no kind"),
        ({"window": 0, "keep_bytes": -1}, r"window .*; keep_bytes"),
        ({"when_full": "drop"}, "when_full"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(state_dir: Path, options: dict[str, Any], words: str) -> None:
    with opened(state_dir) as rt:
        with pytest.raises(ConfigurationError, match=words):
            rt.subscribe(**{"name": "x", **options})
        assert rt.subscriptions() == []
        with pytest.raises(ConfigurationError, match=r"callback .*; attempts .*; pause"):
            rt.subscribe("y").run(None, attempts=0, pause=-1.0)  # type: ignore[arg-type]


def test_subscriptions_for_asyncio(state_dir: Path) -> None:
    asyncio.run(subscribe_with_asyncio(state_dir))


async def subscribe_with_asyncio(state_dir: Path) -> None:
    async with AsyncRuntime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        mail = rt.subscribe("mail", "run.succeeded")
        handles = [await rt.submit(abs, -n) for n in range(5)]
        calls: list[str | None] = []

        async def callback(event: Event) -> None:
            calls.append(event.run)
            if len(calls) == 6:
                mail.close()
            if event.run == handles[0].run_id:
                raise ValueError("no")

        await asyncio.wait_for(mail.run(callback, attempts=2, pause=0.0), PATIENCE_S)
        assert {handle.run_id for handle in handles} == set(calls)
        assert [letter["run"] for letter in mail.dead()] == [handles[0].run_id]
        with pytest.raises(SubscriberTooSlow):
            async with rt.subscribe("narrow", "run.succeeded", since="begin", window=3) as events:
                async for event in events:
                    assert event.run in calls
        async with rt.subscribe("narrow", "run.succeeded", follow=False) as events:
            found = [event async for event in events]
            assert len(found) == 5
            await events.ack(found[-1])
            assert events.statistics().unacknowledged == 0
        assert rt.subscriptions() == ["mail", "narrow"]
        assert rt.unsubscribe("narrow")


def test_the_log_is_kept_for_a_subscription_within_its_bound_and_what_it_lost_is_told(state_dir: Path) -> None:
    """Three subscriptions that do not read, while three segments are filled."""
    kept = Retention(runs=1, nodes=100, archive=0)
    with Runtime(
        state_dir, node_types=[NodeType("default", workers=1)], durability="os", retention=kept, checkpoint_bytes=None
    ) as rt:
        rt.subscribe("patient", "run.*").close()
        rt.subscribe("hasty", "run.*", keep_bytes=0).close()
        segments = state_dir / "log"
        text = "x" * 60_000
        for _ in range(16):
            assert list(rt.map(len, [text] * 220)) == [60_000] * 220
        assert (segments / "00000001.seg").exists(), "it was not read"
        assert len(list(segments.glob("*.seg"))) >= 3
        with rt.subscribe("patient", "run.*", follow=False) as events:
            submitted = [event for event in events if event.kind == "run.submitted"]
            assert len(submitted) >= 16
            events.ack(submitted[-1])
            assert events.lost == []
        for _ in range(6):
            list(rt.map(len, [text] * 220))
        until(lambda: not (segments / "00000001.seg").exists(), "the first segment to go")
        with rt.subscribe("hasty", "run.*", follow=False) as events:
            assert next(events).kind.startswith("run.")
            ((first, last),) = events.lost
            assert first < last

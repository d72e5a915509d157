"""Schedules as a program asks for them: what is refused, what is an option, and what one is told; in either face."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime import AsyncRuntime, Flow, NodeType, RunState, Runtime, ScheduleStatus
from runtime.errors import ConfigurationError, HandlerRefused
from runtime.schedules import due_in
from runtime.testing import InlineStarter, inline_runtime
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one, fail, gather, total


def ended(rt: Runtime, name: str, count: int = 1) -> ScheduleStatus:
    """The schedule, once so many of its runs ended."""
    while True:
        found = next(schedule for schedule in rt.schedules() if schedule.name == name)
        if found.started >= count and found.last_state not in (None, RunState.RUNNING):
            return found


@pytest.mark.slow
def test_a_task_runs_at_its_interval_and_its_run_is_found_by_its_name() -> None:
    with inline_runtime(handlers.tasks) as rt:
        made = rt.schedule("sum", total, 1, 2, every=0.05, more=4)
        assert (made.every, made.cron, made.started, made.last_run_id) == (0.05, None, 0, None)
        found = ended(rt, "sum", 2)
        assert found.last_state is RunState.SUCCEEDED
        assert found.last_due is not None
        assert found.last_run_id is not None
        assert found.last_run_id.startswith(f"sum@{found.last_due:%Y%m%dT%H%M%S}")
        assert rt.handle(found.last_run_id).result() == 7
        assert "by 'sum', due at" in str(rt.handle(found.last_run_id).story())
        assert rt.unschedule("sum")
        assert not rt.unschedule("sum")
        assert rt.schedules() == []


@pytest.mark.slow
def test_flows_partials_and_failures() -> None:
    flow = Flow("report")
    flow.add(add_one, flow.add(add_one, 1))
    with inline_runtime() as rt:
        assert rt.schedule("flow", flow, every=0.05).handler == "flow report"
        rt.schedule("partial", functools.partial(gather, 1, a=2), 3, every=0.05, b=4)
        rt.schedule("fails", fail, "no", every=0.05)
        flow_run = ended(rt, "flow").last_run_id
        assert flow_run is not None
        assert rt.handle(flow_run).results() == {"0": 2, "1": 3}
        partial_run = ended(rt, "partial").last_run_id
        assert partial_run is not None
        assert rt.handle(partial_run).result() == [[1, 3], {"a": 2, "b": 4}]
        assert ended(rt, "fails").last_state is RunState.FAILED


def test_next_times_are_told_in_the_zone() -> None:
    with inline_runtime() as rt:
        made = rt.schedule("nightly", add_one, 1, cron="30 2 * * *", zone="Europe/Berlin", jitter=600)
        again = rt.schedule("nightly", add_one, 1, cron="30 2 * * *", zone="Europe/Berlin", jitter=600)
        assert again == made
        assert made.next_due is not None
        assert made.next_start is not None
        assert (made.next_due.hour, made.next_due.minute, str(made.next_due.tzinfo)) == (2, 30, "Europe/Berlin")
        assert timedelta(0) <= made.next_start - made.next_due < timedelta(seconds=600)
        times = made.upcoming(400)
        assert times[0] == made.next_due
        assert {time.astimezone(UTC).hour for time in times} == {0, 1}
        other = rt.schedule("nightly", add_one, 2, cron="@daily")
        assert (other.cron, other.zone, len(rt.schedules())) == ("@daily", "UTC", 1)
        assert other.upcoming(2)[1] - other.upcoming(2)[0] == timedelta(days=1)
        each = rt.schedule("each", add_one, 2, every=90)
        assert each.upcoming(2)[1] - each.upcoming(2)[0] == timedelta(seconds=90)


def test_all_problems_are_named_at_once() -> None:
    with inline_runtime() as rt:
        with pytest.raises(ConfigurationError) as refused:
            wrong: dict[str, Any] = {"zone": "Europe/Nowhere", "catch_up": "some", "overlap": 5, "jitter": "much"}
            rt.schedule("a/b", add_one, 1, cron="99 * * * *", every=-5, priority="urgent", **wrong)
        for word in (
            "priority must be one of",
            "a schedule's name",
            "either cron or every",
            "every must be",
            "catch_up must be",
            "overlap must be",
            "jitter must be",
            "no time zone 'Europe/Nowhere'",
            "cron '99 * * * *' cannot be read",
        ):
            assert word in refused.value.message
        assert rt.schedules() == []


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda rt: rt.schedule("a", add_one, 1), "either cron or every"),
        (lambda rt: rt.schedule("a", add_one, "x" * 40_000, every=1), "pass the path or key"),
        (lambda rt: rt.schedule("a", add_one, "x" * 200_000, every=1), "pass the path or key"),
        (lambda rt: rt.schedule("a", add_one, 1, every=float("nan")), "every must be"),
        (lambda rt: rt.schedule("a", add_one, 1, every=True), "every must be"),
        (lambda rt: rt.schedule("a", add_one, 1, every=1e300), "every must be"),
        (lambda rt: rt.schedule("a", add_one, 1, every=10**400), "every must be"),
        (lambda rt: rt.schedule("a", add_one, 1, every=2 * 10**12), "every must be"),
        (lambda rt: rt.schedule("a", add_one, 1, every=1, unique=True, delay=2), "delay, unique: for submit only"),
        (lambda rt: rt.schedule("a", add_one, 1, every=1, jitter=2), "jitter must not be longer"),
        (lambda rt: rt.schedule("a", add_one, 1, cron="0 * * * *", jitter=4000), "jitter is longer than"),
        (lambda rt: rt.schedule("a", Flow("f"), 1, every=1), "a flow takes no arguments"),
        (lambda rt: rt.schedule("a", add_one, 1, every=1, zone="Europe/Berlin"), "zone is for cron"),
        (lambda rt: rt.schedule("a", add_one, 1, every=1, zone=""), "zone must be"),
        (lambda rt: rt.schedule(5, add_one, 1, every=1), "a schedule's name"),
        (lambda rt: rt.schedule("ä" * 41, add_one, 1, every=1), "a schedule's name"),
        (lambda rt: rt.schedule(".a", add_one, 1, every=1), "a schedule's name"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[Any], Any], why: str) -> None:
    with inline_runtime() as rt, pytest.raises(ConfigurationError, match=why):
        call(rt)


@pytest.mark.slow
def test_options_are_the_tasks_and_other_keywords_the_handlers() -> None:
    with inline_runtime(handlers.tasks) as rt:
        rt.schedule("own", handlers.wait_for, every=0.05, timeout=5.0, priority="x")
        assert rt.handle(ended(rt, "own").last_run_id or "").result() == (5.0, "x")
        rt.schedule("task", add_one, 1, every=0.05, priority="low", tenant="acme", expires=60.0)
        run_id = ended(rt, "task").last_run_id or ""
        engine = rt._client._starter._engine  # type: ignore[attr-defined]
        (kind,) = engine._scheduler.book.get(run_id).kinds
        assert (kind.priority, kind.tenant) == (3, "acme")
        assert engine._scheduler.book.get(run_id).rare.expires


@pytest.mark.parametrize(
    ("run_id", "due"),
    [
        ("job@20261025T003000Z", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("a@b@20261025T003000.5Z", datetime(2026, 10, 25, 0, 30, 0, 500_000, tzinfo=UTC)),
        ("job@20261025T003000.123456789Z~12", datetime(2026, 10, 25, 0, 30, 0, 123_456, tzinfo=UTC)),
        ("job@20269925T003000Z", None),
        ("@20261025T003000Z", None),
        ("65f0-17", None),
    ],
)
def test_the_due_time_is_in_the_name_of_the_run(run_id: str, due: datetime | None) -> None:
    assert due_in(run_id) == due


@pytest.mark.slow
def test_a_handler_can_ask_for_which_time_it_runs() -> None:
    with inline_runtime() as rt:
        rt.schedule("asks", handlers.due_of_attempt, every=0.05)
        found = ended(rt, "asks")
        assert rt.handle(found.last_run_id or "").result() == found.last_due
        assert rt.submit(handlers.due_of_attempt).result(10) is None


def test_what_cannot_be_run_is_refused() -> None:
    with inline_runtime(node_types=(NodeType("cpu"),)) as rt, pytest.raises(HandlerRefused):
        rt.schedule("a", lambda: 1, every=1)


@pytest.mark.slow
def test_the_asyncio_face_has_the_same(state_dir: Path) -> None:
    async def program() -> None:
        starter = InlineStarter(state_dir, ["default"])
        async with AsyncRuntime(state_dir, durability="none", starter=starter) as rt:
            made = await rt.schedule("job", add_one, 1, every=0.05, overlap="queue")
            (found,) = await rt.schedules()
            while found.last_state is not RunState.SUCCEEDED:
                (found,) = await rt.schedules()
            assert found.last_run_id is not None
            assert await (await rt.handle(found.last_run_id)) == 2
            await rt.pause("schedule:job")
            assert (await rt.schedules())[0].paused
            assert (made.name, made.overlap, made.paused) == ("job", "queue", False)
            with pytest.raises(ConfigurationError):
                await rt.schedule("job", add_one, 1)
            assert await rt.unschedule("job")
            assert await rt.schedules() == []

    asyncio.run(program())


@pytest.mark.slow
def test_many_are_told_in_pages() -> None:
    with inline_runtime() as rt:
        due = datetime.now(UTC) + timedelta(days=30)
        for number in range(600):
            rt.schedule(f"job {number:03}", add_one, number, cron=f"{due.minute} {due.hour} {due.day} {due.month} *")
        assert [found.name for found in rt.schedules()] == [f"job {number:03}" for number in range(600)]

"""Delay, due and expires: what is refused, and what travels."""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest

from runtime import Flow, Retry, Runtime
from runtime.errors import CallerError, ConfigurationError, TaskCancelled, TaskFailed
from runtime.registry import TaskOptions
from runtime.times import NO_TIMES, tail_of, times_of
from tests.unit.runtime.handlers import add_one, any_keyword, echo

S = 1_000_000_000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """A wall clock that stands still, where no engine reads it too."""
    if "rt" not in request.fixturenames:
        monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000 * S)
    return 1_700_000_000 * S


def test_columns_are_times_of_the_wall_clock(clock: int) -> None:
    assert NO_TIMES.columns(None) == []
    assert NO_TIMES.columns(5 * S) == [None, clock + 5 * S]
    assert times_of({"delay": 1.5}).columns(None) == [clock + 1_500_000_000]
    assert times_of({"delay": 1, "expires": 2}).columns(9 * S) == [clock + S, clock + 2 * S]
    assert times_of({"delay": 0}).columns(None) == [clock]
    assert NO_TIMES.columns(None, 5 * S) == [None, None, None, clock + 5 * S]
    assert times_of({"deadline": 2}).columns(9 * S, 5 * S) == [None, clock + 9 * S, None, clock + 2 * S]
    at = datetime.fromtimestamp(clock // S + 3, UTC)
    assert times_of({"deadline": at}).columns(None, 5 * S) == [None, None, None, clock + 3 * S, 1]


def test_a_time_of_day_says_so_and_is_exact_in_any_zone(clock: int) -> None:
    due = datetime(2026, 11, 29, 22, 0, 0, 123_457, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    (found, expires, appointed) = times_of({"due": due}).columns(None)
    assert (expires, appointed) == (None, 1)
    assert found == 1_795_969_800_123_457_000
    assert times_of({"due": due.astimezone(UTC)}).columns(None)[0] == found


def test_a_row_with_its_times_is_json() -> None:
    row = orjson.loads(b'[1,2,"x"%b]' % tail_of([None, 5, 1]))
    assert row == [1, 2, "x", None, 5, 1]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"delay": -1}, "delay must be"),
        ({"delay": math.nan}, "delay must be"),
        ({"delay": math.inf}, "delay must be"),
        ({"delay": True}, "delay must be"),
        ({"delay": "5"}, "delay must be"),
        ({"delay": 1e12}, "delay must be"),
        ({"delay": 10**400}, "delay must be"),
        ({"due": datetime(2026, 1, 1)}, "must have a time zone"),
        ({"due": 1_700_000_000}, "must be a datetime"),
        ({"due": datetime(9000, 1, 1, tzinfo=UTC)}, "within a century"),
        ({"delay": 1, "due": datetime(2026, 1, 1, tzinfo=UTC)}, "exclude each other"),
        ({"expires": 0}, "expires must be"),
        ({"expires": math.nan}, "expires must be"),
        ({"delay": -1, "expires": -1}, "delay must be .*; expires must be"),
        ({"deadline": 0}, "deadline must be"),
        ({"deadline": True}, "deadline must be"),
        ({"deadline": "tomorrow"}, "deadline must be"),
        ({"deadline": datetime(2026, 1, 1)}, "deadline must have a time zone"),
        ({"deadline": datetime(9000, 1, 1, tzinfo=UTC)}, "within a century"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        times_of(options)


def test_what_would_expire_before_it_is_due_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="before it is due"):
        times_of({"delay": 2, "expires": 1}).columns(None)
    with pytest.raises(ConfigurationError, match="before it is due"):
        times_of({"delay": 2}).columns(S)
    with pytest.raises(ConfigurationError, match="have to end before it is due"):
        times_of({"delay": 2, "deadline": 1}).columns()


def test_an_expiry_that_makes_no_sense_is_no_option() -> None:
    with pytest.raises(ConfigurationError, match=r"expires must be .*; deadline must be"):
        TaskOptions(expires=-1.0, deadline=0.0)


# --- through the face ---------------------------------------------------------------------------------------------


def test_times_are_options_of_a_submission(rt: Runtime) -> None:
    began = time.monotonic()
    soon = datetime.now(UTC) + timedelta(seconds=0.1)
    handles = [
        rt.submit(add_one, 1, delay=0.1),
        rt.submit(add_one, 1, due=soon),
        rt.submit(add_one, 1, delay=0.1, run_id="named"),
        rt.submit(add_one, 1, delay=0.1, priority="high"),
        rt.options(priority="low").submit(echo, "x" * 300_000, delay=0.1, expires=60),
    ]
    assert rt.submit(add_one, 1, due=soon - timedelta(days=1)).result(10) == 2
    assert handles[0].why().startswith("it waits for its time: ")
    for handle in handles[:3]:
        assert [event.event for event in handle.story()][:2] == ["submitted", "delayed"]
    assert [handle.result(10) for handle in handles] == [2, 2, 2, 2, "x" * 300_000]
    assert time.monotonic() - began >= 0.09


def test_a_delayed_task_is_cancelled_like_any_other(rt: Runtime) -> None:
    handles = [rt.submit(add_one, 1, delay=3600), rt.submit(add_one, 1, delay=3600, run_id="named")]
    for handle in handles:
        assert handle.cancel()
        with pytest.raises(TaskCancelled):
            handle.result(10)


def test_what_expires_before_it_starts_fails(rt: Runtime) -> None:
    later = datetime.now(UTC) + timedelta(seconds=0.01)
    with pytest.raises(ConfigurationError, match="before it is due"):
        rt.options(expires=0.005).submit(add_one, 1, due=later)
    handle = rt.options(retry=Retry(base=60.0, jitter=False)).submit(no_such_service, expires=0.2)
    with pytest.raises(TaskFailed, match="no attempt had started by") as failed:
        handle.result(10)
    assert failed.value.kind == "expired"


def test_what_has_not_ended_by_its_deadline_fails(rt: Runtime) -> None:
    retry = Retry(base=60.0, jitter=False)
    cut = rt.options(retry=retry).submit(no_such_service, deadline=0.2)
    with pytest.raises(TaskFailed, match=r"nobody is there.*, and the next would start after") as failed:
        cut.result(10)
    assert failed.value.kind == "deadline"
    assert isinstance(failed.value.__cause__, ConnectionError)
    rt.pause("class:low")
    waiting = rt.options(priority="low", deadline=0.1).submit(add_one, 1)
    named = rt.options(priority="low").submit(add_one, 1, run_id="named", deadline=0.1)
    for handle in (waiting, named):
        with pytest.raises(TaskFailed, match="it had not ended by") as failed:
            handle.result(10)
        assert failed.value.kind == "deadline"


def test_what_its_worker_has_not_started_by_its_deadline_never_starts(rt: Runtime) -> None:
    rt.pause("type:default")
    handles = [rt.submit(slow, 0.3, deadline=30.0), *(rt.submit(slow, 0.0, deadline=0.2) for _ in range(3))]
    rt.resume("type:default")
    assert handles[0].result(10) == 0.3
    for handle in handles[1:]:
        with pytest.raises(TaskFailed, match="deadline") as failed:
            handle.result(10)
        assert failed.value.kind == "deadline"


def slow(seconds: float) -> float:
    """Takes its time."""
    threading.Event().wait(seconds)
    return seconds


def no_such_service() -> None:
    """Fails each time."""
    raise ConnectionError("nobody is there")


def test_a_handler_keeps_its_own_parameters(rt: Runtime) -> None:
    assert rt.submit(any_keyword, delay=5, expires=6).result(10) == {"delay": 5, "expires": 6}


def test_an_expiry_is_not_passed_over_in_silence(rt: Runtime) -> None:
    singly = rt.options(expires=5.0)
    flow = Flow("flow")
    flow.add(add_one, 1)
    with pytest.raises(ConfigurationError, match="not for flows"):
        singly.submit(flow)
    with pytest.raises(ConfigurationError, match="not for map"):
        singly.map(add_one, [1])
    with pytest.raises(ConfigurationError, match="not for nodes of a flow"):
        Flow("flow", expires=5.0).add(add_one, 1)
    with pytest.raises(ConfigurationError, match=r"deadline is .*not for map"):
        rt.options(deadline=5.0).map(add_one, [1])
    with pytest.raises(CallerError, match="no arguments but run_id"):
        rt.submit(flow, delay=5)  # type: ignore[call-overload]

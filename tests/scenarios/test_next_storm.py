"""S43: a service is down, and everything that calls it fails and is tried again.

What is shown without a rate: the retries spread out instead of coming in waves, and others are not held up. With a rate
on the service's key, no attempt is begun that the rate does not allow, first or later ones alike. With a retry budget
of its node type, no retry is begun that the budget does not allow. With a breaker too, most calls are not even tried
while the service is down, and all succeed when it is up.
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from runtime import Breaker, NodeType, Rate, Retry, RetryBudget, Runtime, Scheduling
from tests.scenarios import handlers, handlers_next
from tests.scenarios.waiting import Line, await_lines, lines, until, words

pytestmark = pytest.mark.slow

CALLS: Final = 300
OTHERS: Final = 50
PERSISTENT: Final = Retry(max_attempts=1_000, base=0.5, cap=0.5, factor=1.0)
"""Tries as long as the service may be down; full jitter, so each wait is drawn from 0 to half a second."""
IMPATIENT: Final = Retry(max_attempts=100_000, base=0.01, cap=0.01, factor=1.0)
"""Tries again nearly at once."""
BUDGET: Final = RetryBudget(ratio=0.2, per_s=60.0)
STORM_CALLS: Final = 5_000
WASTED_MAX: Final = 400
"""Tries of them while the service is down: what opens the breaker, what workers hold by then, and probes once a second
for a minute and a half."""
RATE_PER_S: Final = 200
BURST: Final = 20


def tries(found: list[Line]) -> dict[int, list[str]]:
    """Who made its first try, its second, and so on, in order."""
    count: dict[str, int] = defaultdict(int)
    by_number: dict[int, list[str]] = defaultdict(list)
    for line in found:
        count[line.word] += 1
        by_number[count[line.word]].append(line.word)
    return by_number


def overtaken(found: list[Line]) -> int:
    """How many made their second try after somebody else's third: none where retries come in waves."""
    count: dict[str, int] = defaultdict(int)
    third, late = False, 0
    for line in found:
        count[line.word] += 1
        late += third and count[line.word] == 2
        third = third or count[line.word] == 3
    return late


def assert_within_budget(found: list[Line], opened_ns: int) -> int:
    """By any moment no more retries have begun than the budget allows until then; returns how many there were.

    Beginning late is never above the budget, so a slow machine cannot make this fail.
    """
    seen: set[str] = set()
    retries = 0
    calls = len({line.word for line in found})
    for line in found:
        retries += line.word in seen
        seen.add(line.word)
        allowed = BUDGET.ratio * calls + BUDGET.per_s * ((line.at_ns - opened_ns) / 1e9 + 1)
        assert retries <= allowed + 1, f"{retries} retries had begun when {allowed:.0f} were allowed"
    return retries


def test_s43_retries_spread_out_and_hold_nobody_up(state_dir: Path, tmp_path: Path) -> None:
    runs, up = tmp_path / "runs", tmp_path / "up"
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        caller = rt.options(retry=PERSISTENT)
        calls = [caller.submit_nowait(handlers_next.call_service, str(runs), f"{i}", str(up)) for i in range(CALLS)]
        await_lines(runs, CALLS)
        others = [rt.submit(handlers.mark, str(tmp_path / "others"), f"{i}") for i in range(OTHERS)]
        assert [handle.result(timeout=30) for handle in others] == [f"{i}" for i in range(OTHERS)]
        await_lines(runs, 4 * CALLS)
        assert not any(handle.done() for handle in calls)
        found = lines(runs)
        up.touch()
        assert [handle.result(timeout=30) for handle in calls] == [f"{i}" for i in range(CALLS)]
    by_number = tries(found)
    assert by_number[2] != by_number[1][: len(by_number[2])], "the second tries came in the order of the first"
    assert overtaken(found) > 0, "all second tries came before any third: a wave"


def test_s43_without_jitter_they_come_in_waves(state_dir: Path, tmp_path: Path) -> None:
    """That the test above would see them."""
    runs, up = tmp_path / "runs", tmp_path / "up"
    waves = Retry(max_attempts=1_000, base=2.0, cap=2.0, factor=1.0, jitter=False)
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        caller = rt.options(retry=waves)
        few = CALLS // 10
        calls = [caller.submit_nowait(handlers_next.call_service, str(runs), f"{i}", str(up)) for i in range(few)]
        await_lines(runs, 2 * few + 1)
        up.touch()
        assert [handle.result(timeout=30) for handle in calls] == [f"{i}" for i in range(few)]
    assert overtaken(lines(runs)) == 0


def test_s43_no_attempt_is_begun_above_the_rate(state_dir: Path, tmp_path: Path) -> None:
    """Counted from before the first submission: by any moment no more have begun than the rate allows until then.

    Beginning late is never above the rate, so a slow machine cannot make this fail.
    """
    runs, up = tmp_path / "runs", tmp_path / "up"
    scheduling = Scheduling(rates={"api": Rate(RATE_PER_S, per=1.0, burst=BURST)})
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)], scheduling=scheduling) as rt:
        opened_ns = time.monotonic_ns()
        caller = rt.options(retry=PERSISTENT, rate_key="api")
        calls = [caller.submit_nowait(handlers_next.call_service, str(runs), f"{i}", str(up)) for i in range(CALLS)]
        await_lines(runs, CALLS + CALLS // 2)
        up.touch()
        assert [handle.result(timeout=60) for handle in calls] == [f"{i}" for i in range(CALLS)]
    for number, line in enumerate(lines(runs), start=1):
        allowed = BURST + (line.at_ns - opened_ns) / 1e9 * RATE_PER_S
        assert number <= allowed + 1, f"{number} had begun when {allowed:.0f} were allowed"


def test_s43_what_a_rate_holds_back_holds_nobody_up(state_dir: Path, tmp_path: Path) -> None:
    runs, up = tmp_path / "runs", tmp_path / "up"
    scheduling = Scheduling(rates={"api": Rate(1, per=3600.0, burst=1)})
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)], scheduling=scheduling) as rt:
        caller = rt.options(retry=PERSISTENT, rate_key="api")
        calls = [caller.submit(handlers_next.call_service, str(runs), f"{i}", str(up)) for i in range(OTHERS)]
        await_lines(runs, 1)
        others = [rt.submit(handlers.mark, str(tmp_path / "others"), f"{i}") for i in range(OTHERS)]
        assert [handle.result(timeout=30) for handle in others] == [f"{i}" for i in range(OTHERS)]
        assert words(runs) == {"0": 1}
        assert "rate:api" in calls[1].why()
        until(lambda: "rate:api" in calls[0].why(), "its second try to be held back too")
        assert words(runs) == {"0": 1}


def test_s43_no_retry_is_begun_above_the_budget(state_dir: Path, tmp_path: Path) -> None:
    runs, up = tmp_path / "runs", tmp_path / "up"
    opened_ns = time.monotonic_ns()
    with Runtime(state_dir, node_types=[NodeType("default", workers=2, retry_budget=BUDGET)]) as rt:
        caller = rt.options(retry=IMPATIENT)
        calls = [caller.submit_nowait(handlers_next.call_service, str(runs), f"{i}", str(up)) for i in range(CALLS)]
        await_lines(runs, CALLS + CALLS // 2)
        up.touch()
        assert [handle.result(timeout=60) for handle in calls] == [f"{i}" for i in range(CALLS)]
    assert assert_within_budget(lines(runs), opened_ns) >= CALLS


def test_s43_a_service_that_is_down_is_left_alone_and_all_succeed_in_the_end(
    state_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs, up = tmp_path / "runs", tmp_path / "up"
    breaker = Breaker(cooldown=0.5, cooldown_cap=1.0)
    pools = [
        NodeType("default", workers=1),
        NodeType("api", workers=2, prefetch=8, retry_budget=BUDGET, breaker=breaker),
    ]
    opened_ns = time.monotonic_ns()
    with caplog.at_level("INFO", "mainspring"), Runtime(state_dir, node_types=pools) as rt:
        caller = rt.options(retry=IMPATIENT, node_type="api")
        calls = [caller.submit(handlers_next.call_service, str(runs), f"{i}", str(up)) for i in range(STORM_CALLS)]
        until(lambda: "the breaker of node type api is open" in calls[-1].why(), "the breaker to open")
        others = [rt.submit(handlers.mark, str(tmp_path / "others"), f"{i}") for i in range(OTHERS)]
        assert [handle.result(timeout=30) for handle in others] == [f"{i}" for i in range(OTHERS)]
        before = len(lines(runs))
        await_lines(runs, before + 2 * breaker.probes)
        assert not any(handle.done() for handle in calls)
        assert len(lines(runs)) <= WASTED_MAX
        up.touch()
        assert [handle.result(timeout=60) for handle in calls] == [f"{i}" for i in range(STORM_CALLS)]
    assert assert_within_budget(lines(runs), opened_ns) > 0
    said = [record.getMessage() for record in caplog.records if "breaker of node type api" in record.getMessage()]
    assert ["opened" in text for text in said] == [True, False], said

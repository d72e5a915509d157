"""Batches in the core: who goes together, what their end means for each, and what is left of it after a restart."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.errors import ProtocolError
from actors.protocol.kinds import KindTable
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, folded, kind, node_type

WAIT_NS = 1_000_000
RETRY = {"max_attempts": 3, "base_ns": 1_000, "cap_ns": 1_000}


def rig_with(policy: dict[str, Any] | None = None, **options: Any) -> Rig:
    return Rig(node_type(**options), scheduler=Scheduler(["default"], policy=policy))


def submit(rig: Rig, count: int, first: int = 1, size: int = 3, **options: Any) -> None:
    rows = [[seq, 1, seq] for seq in range(first, first + count)]
    batching = kind(batch=[size, WAIT_NS], **{"retry": RETRY, **options})
    rig.say(msg.KindDefined("s", 1, batching), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


def given(rig: Rig) -> list[list[tuple[int, int]]]:
    """Run number and node of the calls of each batch that was given since the last call."""
    leases = rig.taken(fx.LeaseWork)
    assert all(lease.batch for lease in leases)
    return [[(e.run.no, n) for e in m for n in e.nodes] for _, m in groupby(leases, key=attrgetter("batch"))]


def states(rig: Rig) -> list[str]:
    return [rig.ask("status", run=f"s-{seq}")["state"] for seq in (1, 2, 3)]


def test_calls_wait_for_their_batch_or_their_time() -> None:
    rig = rig_with()
    submit(rig, 2)
    assert given(rig) == []
    assert rig.ask("why", run="s-1")["text"].startswith(
        "it waits for its batch: 2 of 3, until 1970-01-01 00:00:00.00 UTC"
    )
    submit(rig, 1, first=3)
    assert given(rig) == [[(1, 0), (1, 1), (2, 0)]]
    submit(rig, 1, first=4)
    rig.later(WAIT_NS - 10)
    assert given(rig) == []
    rig.later(20)
    rig.later(0)
    assert len(rig.core.pools["default"].workers[1].book.open_serials()) == 4


def test_a_batch_counts_as_one_task_for_what_a_worker_may_hold() -> None:
    rig = rig_with(prefetch=1)
    submit(rig, 12)
    assert [len(batch) for batch in given(rig)] == [3, 3]
    book = rig.core.pools["default"].workers[1].book
    assert (book.held, book.surplus) == (6, 4)


def test_what_is_urgent_overtakes_a_batch_that_is_held_ahead() -> None:
    rig = rig_with(prefetch=1)
    submit(rig, 12)
    assert [len(batch) for batch in given(rig)] == [3, 3]
    rows = [[13, 2, 13]]
    urgent = kind(priority="realtime")
    rig.say(msg.KindDefined("s", 2, urgent), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    assert [(e.kind.priority, e.batch) for e in rig.taken(fx.LeaseWork)] == [(0, 0)]


def test_a_batch_is_one_place_of_its_class() -> None:
    rig = rig_with({"shares": {"normal": [0, 0.5]}}, prefetch=1, slots=4, mode="asyncio")
    submit(rig, 12)
    assert [len(batch) for batch in given(rig)] == [3, 3]


def test_quotas_count_calls() -> None:
    rig = rig_with({"quotas": {"key:k": 2}}, prefetch=1)
    submit(rig, 6, concurrency_key="k")
    assert [len(batch) for batch in given(rig)] == [2]


def test_another_tenant_or_class_is_another_batch() -> None:
    rig = rig_with()
    rows = [[seq, seq, seq] for seq in (1, 2, 3)]
    kinds = [
        kind(batch=[3, WAIT_NS], **{"priority": "normal", **more})
        for more in ({}, {"tenant": "a"}, {"priority": "low"})
    ]
    defined = [msg.KindDefined("s", no, one) for no, one in enumerate(kinds, 1)]
    rig.say(*defined, msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    assert given(rig) == []
    rig.ask("priority", run="s-3", priority="normal")
    rig.later(WAIT_NS)
    rig.later(0)
    assert sorted(len(batch) for batch in given(rig)) == [1, 2]


def crash(rig: Rig, *cancelled: int) -> None:
    """The worker dies in a batch of three, of which some were cancelled meanwhile; its successor starts."""
    submit(rig, 3)
    assert len(given(rig)[0]) == 3
    for seq in cancelled:
        cancel_running(rig, seq, seq)
    rig.die(1, 1, (1, 2, 3))
    for worker in [e.worker for e in rig.taken(fx.StartWorker) if e.worker > 1]:
        rig.say(msg.WorkerHello(worker, 100 + worker))
    rig.later(10_000)


def test_who_was_in_company_when_the_worker_died_runs_alone() -> None:
    rig = rig_with()
    crash(rig)
    rig.later(WAIT_NS)
    rig.later(0)
    assert [len(batch) for batch in given(rig)] == [1, 1, 1]


def test_who_was_cancelled_in_that_company_runs_alone_when_it_goes_again() -> None:
    rig = rig_with()
    crash(rig, 2, 3)
    assert states(rig)[1:] == ["cancelled"] * 2
    for seq in (2, 3):
        assert rig.ask("rerun", run=f"s-{seq}") == {"count": 1}
    rig.later(WAIT_NS)
    rig.later(0)
    assert sorted(given(rig)) == [[(1, 0)], [(1, 1)], [(1, 2)]]


def test_a_crash_in_company_is_not_the_one_after_which_a_task_is_given_up() -> None:
    rig = rig_with()
    submit(rig, 3, poison=1)
    rig.die(1, 1, (1, 2, 3))
    assert states(rig) == ["running"] * 3
    (worker,) = (e.worker for e in rig.taken(fx.StartWorker) if e.worker > 1)
    given(rig)
    rig.say(msg.WorkerHello(worker, 100 + worker))
    rig.later(WAIT_NS + 10_000)
    rig.later(0)
    rig.die(worker, 1, (1,))
    assert sorted(states(rig)) == ["failed", "running", "running"]


@pytest.mark.parametrize(("what", "goes_on"), [("memory", True), ("timeout", False), ("error", False)])
def test_what_is_excused_in_company_is_not_when_alone(what: str, goes_on: bool) -> None:
    rig = rig_with()
    submit(rig, 3, poison=1, retry={"max_attempts": 1})
    failure = {"kind": what, "type": "builtins.MemoryError", "message": "no", "traceback": "", "batch": 3}
    rig.say(msg.WorkerFailed(1, [[serial, 1, serial - 1, 1, 2, failure] for serial in (1, 2, 3)]))
    assert states(rig) == ["running" if goes_on else "failed"] * 3


def test_who_runs_alone_is_known_after_a_restart() -> None:
    rig = rig_with()
    crash(rig)
    scheduler = Scheduler(["default"])
    folded(rig.records, scheduler)
    assert next(iter(scheduler.book.live.values())).rare.alone == {0, 1, 2}
    assert not next(iter(scheduler.book.live.values())).rare.crashes


def test_a_timeout_is_that_of_the_batch() -> None:
    rig = rig_with()
    submit(rig, 3, timeout_ns=1_000)
    rig.observe(1, 1, rig.now_ns, running=((1, rig.now_ns), (2, rig.now_ns), (3, rig.now_ns)))
    rig.now_ns += 2_000
    rig.observe(1, 1, 1_000_000)
    assert [effect.serial for effect in rig.taken(fx.AskCancel)] == [1]
    rig.later(150)
    rig.die(1, 1, (1, 2, 3), signal=15)
    assert [rig.core.scheduler.book.live[1].rare.attempts[node] for node in range(3)] == [1, 1, 1]
    assert rig.core.scheduler.book.live[1].rare.alone == {0, 1, 2}


def cancel_running(rig: Rig, query: int, seq: int) -> None:
    """Cancel a call whose worker has claimed it."""
    rig.say(msg.CancelAsked("s", query, f"s-{seq}", None))
    rig.say(msg.LeasesRevoked(1, (), (seq,)))


def test_a_running_batch_is_stopped_when_all_of_it_is_cancelled() -> None:
    rig = rig_with()
    submit(rig, 3)
    rig.observe(1, 1, rig.now_ns)
    for query, seq in enumerate((1, 3), 2):
        cancel_running(rig, query, seq)
    assert rig.taken(fx.AskCancel) == []
    assert "ends with the batch" in rig.ask("why", run="s-1")["text"]
    assert "in a batch of 3" in rig.ask("why", run="s-2")["text"]
    cancel_running(rig, 9, 2)
    assert [effect.serial for effect in rig.taken(fx.AskCancel)] == [1]


def test_a_running_batch_is_stopped_when_nobody_waits_for_it() -> None:
    """One call is cancelled, the deadlines of the others pass."""
    rig = rig_with()
    rows = [
        [seq, 1, seq, None, None, None, rig.wall_ns + at_ns] for seq, at_ns in ((1, 10_000), (2, 90_000), (3, 20_000))
    ]
    rig.say(msg.KindDefined("s", 1, kind(batch=[3, WAIT_NS])), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    rig.observe(1, 1, rig.now_ns)
    rig.later(30_000)
    rig.say(msg.LeasesRevoked(1, (), (1, 3)))
    assert rig.taken(fx.AskCancel) == []
    cancel_running(rig, 2, 2)
    assert [effect.serial for effect in rig.taken(fx.AskCancel)] == [1]


@pytest.mark.parametrize("batch", [[0, 0], [1_025, 0], [2, -1], [2.0, 1], [True, 1], [2], "x"])
def test_a_rule_that_is_none_is_refused(batch: object) -> None:
    with pytest.raises(ProtocolError):
        KindTable().intern(kind(batch=batch))


def test_what_a_handler_says_meanwhile_is_said_of_all_its_calls() -> None:
    rig = rig_with()
    submit(rig, 3)
    rig.say(msg.WorkerProgress(1, 1, 1.0, 4.0, "a quarter"), msg.WorkerLogged(1, 1, "log", "so far so good"))
    for seq in (1, 2, 3):
        assert "so far so good" in str(rig.ask("story", run=f"s-{seq}"))
    assert rig.core.scheduler.book.live[1].rare.progress == dict.fromkeys(range(3), (1.0, 4.0, "a quarter"))

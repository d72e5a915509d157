"""Callers that have deadlines, go again or are written again, and the class of what they called; restarts, too."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors import kept
from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES
from actors.protocol.records import RecordType
from actors.protocol.states import NodeState
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, kind, node_type, recovered
from tests.unit.actors.test_calls import calls, run_of

S = 1_000_000_000
LOWERS: dict[str, Any] = {"max_attempts": 9, "base_ns": 1000, "jitter": False, "lower_after": 1}


def names(run: Any) -> list[str]:
    return [NodeState(state).name.lower() for state in run.state]


def caller_with_deadline(after_ns: int) -> tuple[Rig, int, int]:
    """A task that must have ended so long from now on, at the only worker."""
    rig = Rig(node_type(prefetch=1))
    row = [1, 1, 10, None, None, None, rig.wall_ns + after_ns, 0]
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", [row], orjson.dumps([row])))
    ((worker, serial, _),) = rig.leases()
    return rig, worker, serial


def test_a_deadline_ends_a_waiting_caller_and_what_it_called() -> None:
    rig, worker, serial = caller_with_deadline(S)
    calls(rig, worker, serial, 0, "a", "b", "c")
    (first, *_) = rig.leases()
    assert rig.ask("why", run="s-1")["text"].endswith("; it must have ended in 1.0 s")
    rig.later(2 * S)
    run = run_of(rig)
    assert run.failure(0)["kind"] == "deadline"
    assert names(run)[0] == "failed"
    assert "ready" not in names(run)
    for asked in rig.taken(fx.Revoke):
        rig.say(msg.LeasesRevoked(asked.worker, tuple(s for s in asked.serials if s != first[1]), asked.serials))
    rig.fail(*first, failure_kind="cancelled")
    assert names(run) == ["failed", "cancelled", "cancelled", "cancelled"]
    assert [(row[0], row[3]["kind"]) for body in rig.told("F") for row in body] == [(1, "deadline")]
    assert names(recovered(rig.records).book.finished[1]) == names(run)


def test_a_deadline_that_passes_while_the_caller_runs_is_not_lost_in_a_call() -> None:
    rig, worker, serial = caller_with_deadline(S)
    rig.later(2 * S)
    calls(rig, worker, serial, 0, "a")
    run = run_of(rig)
    assert (names(run), run.failure(0)["kind"]) == (["failed"], "deadline")
    assert names(recovered(rig.records).book.finished[1]) == ["failed"]


def test_what_a_crash_left_behind_of_a_deadline_ends_at_the_next_start() -> None:
    """The caller's end reached the log; that what it called was cancelled did not."""
    rig, worker, serial = caller_with_deadline(S)
    calls(rig, worker, serial, 0, "a")
    rig.later(2 * S)
    upto = next(n for n, record in enumerate(rig.records) if record.type == RecordType.CANCEL)
    assert names(recovered(rig.records[:upto]).book.finished[1]) == ["failed", "cancelled"]


def failed_caller(**options: Any) -> Rig:
    """It called a, which succeeded, and b, which failed, and failed itself."""
    rig = Rig(node_type(prefetch=1))
    rig.submit(1, **options)
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 0, "a", "b")
    (first, second) = rig.leases()
    rig.succeed(*first, value=5)
    rig.fail(*second)
    ((worker, serial, _),) = rig.leases()
    rig.fail(worker, serial, 0)
    assert names(run_of(rig)) == ["failed", "succeeded", "failed"]
    return rig


def test_what_was_called_is_no_letter_its_caller_is() -> None:
    rig = failed_caller()
    assert [row[0] for row in rig.ask("dead")["rows"]] == ["s-1"]
    assert rig.ask("engine")["dead_letters"] == 1
    assert rig.ask("letter", letter="s-1/2")["code"] == "MS113"
    assert rig.ask("replay", letters=["s-1/2"]) == {"count": 0, "next": None}
    assert [row[0] for row in rig.ask("dead", filter={"run": "s-1"})["rows"]] == ["s-1"]


@pytest.mark.parametrize("how", ["replay", "rerun"])
def test_a_caller_that_goes_again_asks_anew_for_what_failed_and_keeps_what_succeeded(how: str) -> None:
    rig = failed_caller()
    asked = rig.ask("rerun", run="s-1") if how == "rerun" else rig.ask("replay", letters=["s-1"])
    assert asked["count"] == 1
    (lease,) = rig.taken(fx.LeaseWork)
    assert (lease.nodes[0], lease.attempts) == (0, [[1, [["a", 3, 5]]]])
    assert recovered(rig.records).book.live[1].rare.calls[0].digests == ["a"]
    calls(rig, lease.worker, lease.serial, 0, "b")
    ((worker, serial, node),) = rig.leases()
    assert node == 3
    rig.succeed(worker, serial, node, value=6)
    (lease,) = rig.taken(fx.LeaseWork)
    assert lease.attempts == [[1, [["a", 3, 5], ["b", 3, 6]]]]
    rig.succeed(worker, lease.serial, 0, value=11)
    assert rig.told("R")[-1] == [[1, [0], [11]]]
    assert rig.ask("status", run="s-1")["state"] == "succeeded"
    assert rig.ask("dead")["rows"] == []
    assert names(recovered(rig.records).book.finished[1]) == ["succeeded", "succeeded", "failed", "succeeded"]


def test_a_rerun_leaves_what_a_caller_coped_with() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph([[]])
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 0, "a")
    rig.fail(*rig.leases()[0])
    rig.succeed(worker, rig.taken(fx.LeaseWork)[0].serial, 0)
    assert names(run_of(rig)) == ["succeeded", "failed"]
    assert rig.ask("rerun", run="s-1") == {"count": 0}


def test_nobody_goes_again_while_what_it_called_is_being_stopped() -> None:
    rig, worker, serial = caller_with_deadline(S)
    calls(rig, worker, serial, 0, "a")
    (first,) = rig.leases()
    rig.later(2 * S)
    assert names(run_of(rig)) == ["failed", "cancelling"]
    assert rig.ask("rerun", run="s-1")["code"] == "MS129"
    assert rig.ask("replay", letters=["s-1"])["code"] == "MS129"
    assert rig.ask("replay", filter={}) == {"count": 0, "next": None}
    rig.fail(*first, failure_kind="cancelled")
    assert rig.ask("rerun", run="s-1") == {"count": 1}


def test_a_caller_that_goes_again_waits_for_its_parents_and_its_rule_holds_anew() -> None:
    """It had begun because its parent was skipped; this time its parent fails."""
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph([[], [0]], trigger="none_failed")
    ((worker, serial, _),) = rig.leases()
    rig.fail(worker, serial, 0, "skipped")
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 1, "a")
    rig.succeed(*rig.leases()[0])
    ((worker, serial, _),) = rig.leases()
    rig.fail(worker, serial, 1)
    assert rig.ask("rerun", run="s-1") == {"count": 2}
    assert names(run_of(rig)) == ["leased", "pending", "succeeded"]
    ((worker, serial, _),) = rig.leases()
    rig.fail(worker, serial, 0)
    assert names(run_of(rig)) == ["failed", "skipped", "succeeded"]
    assert names(recovered(rig.records).book.finished[1]) == names(run_of(rig))


def test_a_waiting_caller_goes_on_waiting_when_a_parent_goes_again() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph([[], [0]], trigger="all_done")
    rig.fail(*rig.leases()[0])
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 1, "a")
    (called,) = rig.leases()
    assert rig.ask("replay", letters=["s-1/0"])["count"] == 1
    (parent,) = rig.leases()
    rig.succeed(*parent)
    assert names(run_of(rig)) == ["succeeded", "pending", "leased"]
    rig.succeed(*called)
    assert names(run_of(rig))[1] == "leased"


def test_a_run_that_was_written_again_knows_who_called_whom() -> None:
    rig = failed_caller()
    scheduler = rig.core.scheduler
    payload = kept.snapshot(run_of(rig), None)
    again = Scheduler(["default"])
    kept.restore(again, payload, scheduler.lsn, lambda kinds: None)
    run, before = again.book.finished[1], run_of(rig)
    assert run.rare.callers == before.rare.callers == {1: 0, 2: 0}
    assert (run.rare.calls[0].nodes, run.rare.calls[0].digests) == ([1, 2], ["a", "b"])
    assert (run.run_state(), run.first_failure()) == (before.run_state(), before.first_failure())


def test_what_was_called_goes_down_no_further_than_its_caller() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit(1, priority="high")
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 0, "a", priority="realtime", retry=LOWERS)
    classes = []
    for _ in range(3):
        (lease,) = rig.taken(fx.LeaseWork)
        classes.append(PRIORITIES[lease.kind.priority])
        rig.fail(worker, lease.serial, 1)
        rig.later(1_000_000)
    assert classes == ["realtime", "high", "high"]
    assert recovered(rig.records).book.live[1].kind(1).priority == PRIORITIES.index("high")


def test_what_a_lowered_caller_calls_is_of_the_class_that_it_has_by_then() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit(1, priority="high", retry=LOWERS)
    ((worker, serial, _),) = rig.leases()
    rig.fail(worker, serial, 0)
    rig.later(1_000_000)
    ((worker, serial, _),) = rig.leases()
    calls(rig, worker, serial, 0, "a", priority="low")
    (lease,) = rig.taken(fx.LeaseWork)
    assert PRIORITIES[lease.kind.priority] == "normal"
    assert PRIORITIES[recovered(rig.records).book.live[1].kind(1).priority] == "normal"

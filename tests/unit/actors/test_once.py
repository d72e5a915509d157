"""Unique tasks and debounced calls: what a further submission joins, until when, and what a restart knows of it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.errors import ProtocolError
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import RecordType
from actors.protocol.states import NodeState
from tests.unit.actors.rig import WALL, Rig, S, kind, recovered, rig_with_clock


def submit(
    rig: Rig, seq: int, item: int = 7, session: str = "s", options: dict[str, Any] | None = None, **more: Any
) -> None:
    builder = GraphBuilder()
    builder.add(0, item=b"%d" % item)
    raw = encode(builder.finish(), {"kinds": [kind(**(options or {}))], "name": "f", **more})
    header, columns = decode(raw)
    rig.say(msg.GraphSubmitted(session, seq, header, columns, raw))


def call(rig: Rig, seq: int, wait_s: float = 5, longest_s: float = 1000, key: str = "k", **more: Any) -> None:
    """A debounced call whose item is its number."""
    submit(rig, seq, seq, debounce=[key, int(wait_s * S), int(longest_s * S)], **more)


def given(rig: Rig) -> list[Any]:
    """Items that workers got since the last call."""
    return [item for effect in rig.effects if isinstance(effect, fx.LeaseWork) for item in effect.items]


def runs(rig: Rig) -> list[str]:
    book = rig.core.scheduler.book
    return [run.key for run in (*book.finished.values(), *book.live.values())]


# --- unique -------------------------------------------------------------------------------------------------------


def test_while_one_is_open_a_further_submission_stands_for_it() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1, unique="a")
    submit(rig, 2, unique="a")
    submit(rig, 3, unique="b")
    submit(rig, 4)
    assert rig.told("D") == [[2, "s-1", None]]
    ((worker, serial, node), *_) = rig.leases()
    submit(rig, 5, unique="a", session="other")
    assert rig.told("D") == [[5, "s-1", None]]
    rig.succeed(worker, serial, node)
    assert [body[0][1:3] for body in rig.told("N")] == [["s-1", "succeeded"]] * 2
    submit(rig, 6, unique="a")
    assert rig.told("D") == []
    assert runs(rig) == ["s-1", "s-3", "s-4", "s-6"]


def test_it_is_open_while_it_waits_for_a_retry_or_is_being_stopped_and_not_after_any_end() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1, unique="a", options={"retry": {"max_attempts": 2, "base_ns": 10 * S, "jitter": False}})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    submit(rig, 2, unique="a")
    rig.later(10 * S)
    ((worker, serial, node),) = rig.leases()
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    submit(rig, 3, unique="a")
    assert [body[:2] for body in rig.told("D")] == [[2, "s-1"], [3, "s-1"]]
    rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    submit(rig, 4, unique="a")
    assert rig.told("D") == []
    assert runs(rig) == ["s-1", "s-4"]


def test_a_restart_knows_what_is_open_and_tells_again_what_was_joined() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1, unique="a")
    submit(rig, 2, unique="a")
    submit(rig, 3, unique="gone")
    rig.say(msg.CancelAsked("s", 1, "s-3", None))
    (*_, (worker, serial, _)) = rig.leases()
    rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    again = rig_with_clock(recovered(rig.records, wall_ns=rig.wall_ns), slots=5)
    submit(again, 4, unique="a")
    submit(again, 5, unique="gone")
    assert again.told("D") == [[2, "s-1", None], [4, "s-1", None]]
    assert set(again.core.scheduler.book.known) == {"unique:a", "unique:gone"}


# --- debounce -----------------------------------------------------------------------------------------------------


def test_one_that_goes_again_is_joined_and_does_not_stand_beside_another() -> None:
    rig = rig_with_clock(slots=5)
    for seq in (1, 2):
        submit(rig, seq, unique="call a")
        ((worker, serial, node),) = rig.leases()
        if seq == 1:
            rig.fail(worker, serial, node)
    assert rig.ask("rerun", run="s-1")["code"] == "MS134"
    assert rig.ask("replay", letters=["s-1/0"])["code"] == "MS134"
    assert rig.ask("replay", filter={})["count"] == 0
    rig.succeed(worker, serial, node, run=2)
    assert rig.ask("rerun", run="s-1") == {"count": 1}
    submit(rig, 3, unique="call a")
    assert runs(rig) == ["s-2", "s-1"]
    scheduler = recovered(rig.records, wall_ns=rig.wall_ns)
    assert [run.key for run in scheduler.book.known.values()] == ["s-1"]


def test_of_two_letters_of_one_unique_task_one_goes_again_and_what_is_behind_them_too() -> None:
    rig = rig_with_clock(slots=5)
    failure = {"kind": "error", "type": "builtins.ValueError", "message": "no", "traceback": ""}
    for seq, name in ((1, "b"), (2, "a"), (3, "a")):
        submit(rig, seq, unique=name)
        ((worker, serial, node),) = rig.leases()
        rig.say(msg.WorkerFailed(worker, [[serial, seq, node, rig.now_ns, rig.now_ns + 5, failure]]))
    assert rig.ask("replay", letters=["s-1/0", "s-2/0", "s-3/0"])["code"] == "MS134"
    assert not rig.core.scheduler.book.live
    assert rig.ask("replay", filter={}) == {"count": 2, "next": None}
    assert {run.key for run in rig.core.scheduler.book.live.values()} == {"s-1", "s-3"}


def test_calls_within_the_wait_become_one_task_with_the_arguments_of_the_last() -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1)
    rig.later(4 * S)
    call(rig, 2)
    rig.later(4 * S)
    call(rig, 3, options={"handler": "m:other", "priority": "high"}, session="other")
    assert rig.told("D") == [[2, "s-1", None], [3, "s-1", None]]
    assert "it waits until nobody has called for 5.000 s, 3 calls so far" in rig.ask("why", run="s-1")["text"]
    rig.later(5 * S - 1000)
    assert given(rig) == []
    rig.later(1000)
    (lease,) = rig.taken(fx.LeaseWork)
    assert (lease.items, lease.kind.handler, lease.kind.priority) == ([3], "m:other", 1)
    rig.succeed(lease.worker, lease.serial, 0)
    assert [body[0][1:3] for body in rig.told("N")] == [["s-1", "succeeded"]] * 2
    assert "called again" in [event[2] for event in rig.ask("story", run="s-1")["events"]]


def test_a_call_after_the_time_has_come_starts_the_next_one() -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1)
    rig.later(5 * S)
    assert given(rig) == [1]
    call(rig, 2)
    rig.now_ns += 5 * S
    call(rig, 3)
    assert rig.told("D") == []
    assert runs(rig) == ["s-1", "s-2", "s-3"]
    rig.later(5 * S)
    assert given(rig) == [1, 2, 3]


def test_at_the_latest_it_starts_so_long_after_the_first_call() -> None:
    rig = rig_with_clock(slots=5)
    for seq in range(1, 5):
        call(rig, seq, wait_s=5, longest_s=12)
        rig.later(3 * S)
    assert given(rig) == [4]
    call(rig, 5, wait_s=5, longest_s=12)
    assert runs(rig) == ["s-1", "s-5"]


def test_keys_do_not_mix_and_a_retry_is_not_joined() -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1, options={"retry": {"max_attempts": 2, "base_ns": 10 * S, "jitter": False}})
    call(rig, 2, key="other")
    rig.later(5 * S)
    (lease, _) = rig.taken(fx.LeaseWork)
    rig.fail(lease.worker, lease.serial, 0)
    assert NodeState(rig.core.scheduler.book.live[1].state[0]) is NodeState.BACKOFF
    call(rig, 3)
    assert runs(rig) == ["s-1", "s-2", "s-3"]


def test_a_cancelled_one_is_not_joined() -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1)
    call(rig, 2)
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    call(rig, 3)
    assert [body[0] for body in rig.told("D")] == [2]
    assert runs(rig) == ["s-1", "s-3"]


def test_the_class_that_somebody_set_stays() -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1)
    assert rig.ask("priority", run="s-1", priority="realtime") == {"changed": True}
    call(rig, 2, options={"priority": "low"})
    rig.later(5 * S)
    assert [lease.kind.priority for lease in rig.taken(fx.LeaseWork)] == [0]


def test_the_latest_calls_expiry_and_deadline_count() -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1, times=[None, rig.wall_ns + 6 * S, None, rig.wall_ns + 7 * S])
    rig.later(4 * S)
    call(rig, 2, times=[None, None, None, rig.wall_ns + 6 * S])
    rig.later(4 * S)
    assert rig.told("N") == []
    rig.later(S)
    assert given(rig) == [2]
    assert "it must have ended in 1.0 s" in rig.ask("why", run="s-1")["text"]


def test_the_wall_clock_may_be_set() -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1, longest_s=8)
    rig.wall_offset_ns += 3600 * S
    rig.later(4 * S)
    call(rig, 2, longest_s=8)
    rig.wall_offset_ns -= 7200 * S
    rig.later(4 * S - 1000)
    assert given(rig) == []
    rig.later(1000)
    assert given(rig) == [2]


@pytest.mark.parametrize("down_s", [1, 100])
def test_a_restart_goes_on_with_the_latest_call(down_s: int) -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1, longest_s=9)
    rig.later(2 * S)
    call(rig, 2, longest_s=9, options={"handler": "m:other"})
    assert [record.type for record in rig.records].count(RecordType.DEBOUNCE) == 1
    scheduler = recovered(rig.records, wall_ns=rig.wall_ns + down_s * S)
    run = scheduler.book.live[1]
    assert (run.items, run.kinds[0].handler) == ([2], "m:other")
    assert [event[2] for event in run.rare.events] == ["called again"]
    again = rig_with_clock(scheduler, slots=5)
    again.wall_offset_ns = rig.wall_ns + down_s * S - again.now_ns
    call(again, 3, longest_s=9)
    assert [body[:2] for body in again.told("D")] == [[2, "s-1"], [3, "s-1"]][: 2 if down_s == 1 else 1]
    again.later(5 * S)
    assert given(again) == ([3] if down_s == 1 else [2, 3])
    assert runs(again) == (["s-1"] if down_s == 1 else ["s-1", "s-3"])


def test_the_bound_survives_a_restart() -> None:
    rig = rig_with_clock(slots=5)
    call(rig, 1, longest_s=9)
    rig.later(4 * S)
    call(rig, 2, longest_s=9)
    again = rig_with_clock(recovered(rig.records, 1_000_000, rig.wall_ns + 3 * S), slots=5)
    again.wall_offset_ns = rig.wall_ns + 3 * S - again.now_ns
    call(again, 3, longest_s=9)
    again.later(S)
    assert given(again) == []
    again.later(S)
    assert given(again) == [3]


def test_what_is_malformed_is_refused() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1, debounce=["k", 5, 4])
    submit(rig, 2, debounce="k")
    submit(rig, 3, unique="")
    submit(rig, 4, unique=5)
    assert [(body[0], body[1]["code"]) for body in rig.told("J")] == [(seq, ProtocolError.code) for seq in (1, 2, 3, 4)]
    assert runs(rig) == []


# --- the table of the README --------------------------------------------------------------------------------------

HEADERS: dict[str, dict[str, Any]] = {
    "idempotency_key": {"key": ["k", 10**15, "digest"]},
    "unique": {"unique": "k"},
    "debounce": {"debounce": ["k", 2 * S, 100 * S]},
}


def bring_to(rig: Rig, state: str) -> None:
    """The first task, which has been submitted with a delay or debounce of two seconds, comes to this state."""
    if state == "delayed":
        return
    rig.ask("policy", change={"pause": ["type:default"]})
    rig.later(2 * S)
    if state == "expired":
        rig.later(10 * S)
    if state in ("queued", "expired"):
        return
    rig.ask("policy", change={"resume": ["type:default"]})
    ((worker, serial, node),) = rig.leases()
    if state == "waiting for a retry":
        rig.fail(worker, serial, node)
    elif state == "being cancelled":
        rig.say(msg.CancelAsked("s", 1, "s-1", None))
    elif state == "cancelled":
        rig.say(msg.CancelAsked("s", 1, "s-1", None), msg.LeasesRevoked(worker, (serial,), (serial,)))
    elif state == "failed":
        rig.fail(worker, serial, node, "payload")
    elif state == "past its deadline":
        rig.later(50 * S, msg.LeasesRevoked(worker, (serial,), (serial,)))
        rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    elif state == "succeeded":
        rig.succeed(worker, serial, node)


OPEN = ("delayed", "queued", "running", "waiting for a retry", "being cancelled")
ENDED = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "past its deadline": "failed",
    "expired": "failed",
}


@pytest.mark.parametrize("way", HEADERS)
@pytest.mark.parametrize("state", [*OPEN, *ENDED])
def test_what_a_further_call_finds(way: str, state: str) -> None:
    rig = rig_with_clock(slots=5)
    due = None if way == "debounce" else rig.wall_ns + 2 * S
    times = [due, rig.wall_ns + 10 * S, None, rig.wall_ns + 40 * S]
    retry = {"max_attempts": 2, "base_ns": 10**15, "jitter": False}
    submit(rig, 1, times=times, options={"retry": {**retry, "base_ns": 20 * S}}, **HEADERS[way])
    bring_to(rig, state)
    was_open = bool(rig.core.scheduler.book.live)
    assert was_open == (state in OPEN)
    submit(rig, 2, 8, **HEADERS[way])
    told = rig.told("D")
    joins = {"idempotency_key": True, "unique": was_open, "debounce": state == "delayed"}[way]
    assert [body[:2] for body in told] == ([[2, "s-1"]] if joins else [])
    assert runs(rig)[-1] == ("s-1" if joins else "s-2")
    if joins:
        ((_, _, ending),) = told
        assert (None if ending is None else ending[2]) == ENDED.get(state)
    if state == "delayed":
        rig.later(2 * S)
        assert given(rig) == ([8] if way == "debounce" else [7])


def test_a_unique_task_does_not_go_again_beside_another_of_its_key() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1, unique="k")
    rig.fail(*rig.leases()[0])
    submit(rig, 2, unique="k")
    assert rig.ask("rerun", run="s-1")["code"] == "MS134"
    ((worker, serial, _),) = rig.leases()
    rig.succeed(worker, serial, 0, run=2)
    assert rig.ask("rerun", run="s-1") == {"count": 1}


def test_a_unique_task_that_goes_again_is_joined() -> None:
    rig = rig_with_clock(slots=5)
    submit(rig, 1, unique="k")
    rig.fail(*rig.leases()[0])
    assert rig.ask("rerun", run="s-1") == {"count": 1}
    submit(rig, 2, unique="k")
    assert len(rig.leases()) == 1
    assert rig.told("D")[-1][:2] == [2, "s-1"]
    assert [*recovered(rig.records, wall_ns=WALL).book.known] == ["unique:k"]

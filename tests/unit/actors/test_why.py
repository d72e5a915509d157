"""The reasons why something does not run."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import messages as msg
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, kind, node_type


def why(rig: Rig, node: int | None = None) -> str:
    """Of run s-1, or of a node of it."""
    text: str = rig.ask("why", run="s-1", node=node)["text"]
    return text


def test_a_node_names_its_parents() -> None:
    rig = Rig()
    rig.submit_graph([[], [], [0], [0, 1]])
    assert why(rig, 2) == "it waits for 1 parent: 0 (with a worker)"
    assert why(rig, 3) == "it waits for 2 parents: 0 (with a worker), 1 (with a worker)"


def test_of_many_parents_some_are_named() -> None:
    rig = Rig(boot=False)
    rig.submit_graph([*([[]] * 6), list(range(6))])
    assert why(rig, 6).endswith("4 (ready), ...")


def test_a_retry_has_a_time() -> None:
    rig = Rig()
    rig.submit(1, retry={"max_attempts": 2, "base_ns": 10**9, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    assert why(rig).startswith("attempt 1 failed; the next starts in 1.000 s")


def test_a_pool_that_cannot_start_says_what_is_wrong() -> None:
    rig = Rig(boot=False)
    rig.submit(1)
    assert why(rig) == "it is ready: 1 task waits for node type 'default'; busy workers: 0 of 1; 1 worker starts"
    rig.say(msg.WorkerCannotBoot(rig.workers[0], "ModuleNotFoundError: x"))
    assert "ModuleNotFoundError: x" in why(rig)


def test_what_ended_says_how() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    assert why(rig) == "it ended: failed: no"


def test_what_a_worker_holds_runs_or_is_next_or_waits_behind_others() -> None:
    rig = Rig()
    rig.submit_graph([[], [], []])
    (worker, serial, node), *_ = rig.leases()
    at = f"worker {worker} (pid {100 + worker})"
    assert why(rig, 0) == f"it is next at {at}"
    rig.observe(worker, serial, rig.now_ns)
    rig.now_ns += 2_500_000_000
    assert why(rig, 0) == f"it runs at {at}, for 2.500 s"
    assert why(rig, 1) == f"it waits at {at} behind 1 task"
    assert why(rig, 2) == f"it waits at {at} behind 2 tasks"
    rig.say(msg.CancelAsked("s", 9, "s-1", node))
    assert why(rig, 0) == f"it is being stopped at {at}"


def test_a_run_counts_what_runs_and_what_waits() -> None:
    rig = Rig()
    rig.submit_graph([[], [], [0]])
    (worker, serial, _), *_ = rig.leases()
    rig.observe(worker, serial, rig.now_ns)
    assert why(rig) == "it is under way: 1 node runs, 1 waits for a worker, a retry or their time, 1 waits for parents"


def rig_with(policy: dict[str, Any]) -> Rig:
    """One worker that has no room: one task runs there and another is next."""
    rig = Rig(node_type(prefetch=1), scheduler=Scheduler(["default"], policy=policy))
    submit(rig, 1)
    submit(rig, 2, priority="high", rate_key="api")
    assert len(rig.leases()) == 2
    return rig


def submit(rig: Rig, seq: int, **options: Any) -> None:
    rows = [[seq, seq, seq]]
    rig.say(msg.KindDefined("s", seq, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


@pytest.mark.parametrize(
    ("policy", "options", "reason"),
    [
        ({"paused": ["tenant:acme"]}, {"tenant": "acme"}, "tenant:acme is paused"),
        ({"paused": ["tenant:"]}, {}, "tenant: (the default tenant) is paused"),
        ({"paused": ["rate:api"]}, {"rate_key": "api"}, "rate:api is paused"),
        ({"paused": ["tenant:acme"], "quotas": {"class:normal": 1}}, {"tenant": "acme"}, "tenant:acme is paused"),
        (
            {"quotas": {"class:normal": 1}},
            {"tenant": "acme"},
            "1 of 1 places of class:normal are taken, by node 0 of run s-1 (normal)",
        ),
    ],
)
def test_what_would_not_start_is_told_while_no_worker_has_room(
    policy: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    rig = rig_with({**policy, "paused": []})
    rig.ask("policy", change={"pause": policy.get("paused", [])})
    submit(rig, 3, **options)
    assert rig.ask("why", run="s-3")["text"] == f"it is held back: {reason}"


def test_who_paused_it_is_told() -> None:
    rig = rig_with({})
    rig.ask("policy", change={"pause": ["tenant:acme"], "by": "ann@shop", "reason": "stock-taking"})
    submit(rig, 3, tenant="acme")
    said = "it is held back: tenant:acme is paused by ann@shop since 1970-01-01 00:00:00 UTC (stock-taking)"
    assert rig.ask("why", run="s-3")["text"] == said


def test_a_used_up_rate_is_told_while_no_worker_has_room() -> None:
    rig = rig_with({"rates": {"api": [0.5, 1]}})
    submit(rig, 3, rate_key="api")
    assert rig.ask("why", run="s-3")["text"].startswith("it is held back: rate:api is used up; it has room in 2.000 s")


def test_what_a_rate_lets_go_at_this_moment_is_not_said_to_be_ready() -> None:
    """The question comes with the time at which the next may start."""
    rig = Rig(scheduler=Scheduler(["default"], policy={"rates": {"api": [1.0, 1]}}))
    for seq in range(1, 4):
        submit(rig, seq, rate_key="api")
    rig.now_ns += 1_000_000_000
    rig.say(msg.TimePassed(), msg.Queried("s", 1, "why", {"run": "s-3"}))
    ((_, answer, _),) = rig.told("Q")
    assert answer["text"].startswith("it is held back: rate:api is used up")


def test_a_place_among_others_is_told() -> None:
    rig = rig_with({})
    for seq in (3, 4):
        submit(rig, seq, tenant="acme", priority="low")
    assert rig.ask("why", run="s-4")["text"] == (
        "it is ready: 2 tasks wait for node type 'default'; it is of class low of tenant 'acme', "
        "1 of its own run or session before it; busy workers: 1 of 1"
    )


def test_a_run_of_one_node_is_that_node() -> None:
    rig = Rig(boot=False)
    rig.submit_graph([[]])
    assert why(rig) == "it is ready: 1 task waits for node type 'default'; busy workers: 0 of 1; 1 worker starts"


def test_where_nothing_runs_the_first_that_waits_is_named() -> None:
    rig = Rig(boot=False)
    rig.submit_graph([[], [0]])
    rig.ask("policy", change={"pause": ["class:normal"]})
    assert why(rig).endswith("1 waits for parents; node 0: it is held back: class:normal is paused")


def test_a_class_that_was_set_is_told_whatever_it_waits_for() -> None:
    rig = rig_with({})
    rows = [[3, 1, 3, rig.wall_ns + 10**12]]
    rig.say(msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    assert rig.ask("priority", run="s-3", priority="high") == {"changed": True}
    assert rig.ask("why", run="s-3")["text"].endswith("; its priority was set to high")


@pytest.mark.parametrize(("number", "when"), [(5, "within a second"), (2_000, "in 50 s"), (4_000, "in 100 s")])
def test_the_likely_start_follows_from_what_is_before_and_how_long_it_takes(number: int, when: str) -> None:
    """Two workers and tasks of 50 ms: forty a second."""
    rig = Rig(node_type(workers_min=2, workers_max=2, prefetch=1))
    rig.submit(4_001)
    assert "likely" not in rig.ask("why", run="s-4000")["text"], "nothing was measured yet"
    rig.core.pools["default"].average_ns = 50e6
    assert rig.ask("why", run=f"s-{number}")["text"].endswith(f"; it is likely to start {when}")


@pytest.mark.parametrize("held_by", [{"batch": [3, 10**9]}, {"concurrency_key": "printer"}], ids=["a batch", "a quota"])
def test_a_pause_comes_before_what_else_holds_back(held_by: dict[str, Any]) -> None:
    """What else does will end, and the pause will not."""
    rig = Rig(scheduler=Scheduler(["default"], policy={"quotas": {"key:printer": 1}}))
    rig.submit(2, **held_by)
    assert "paused" not in rig.ask("why", run="s-2")["text"]
    rig.ask("policy", change={"pause": ["class:normal"]})
    assert rig.ask("why", run="s-2")["text"] == "it is held back: class:normal is paused"


def test_what_waits_for_its_batch_says_by_when_it_must_have_ended() -> None:
    rig = Rig()
    rows = [[1, 1, 1, None, None, None, rig.wall_ns + 5 * 10**9]]
    rig.say(msg.KindDefined("s", 1, kind(batch=[3, 10**9])), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    assert why(rig).startswith("it waits for its batch: 1 of 3, ")
    assert why(rig).endswith("; it must have ended in 5.0 s")

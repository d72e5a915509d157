"""The reasons why something does not run."""

from __future__ import annotations

from actors.protocol import messages as msg
from tests.unit.actors.rig import Rig


def why(rig: Rig, node: int | None = None) -> str:
    """Of run s-1, or of a node of it."""
    text: str = rig.ask("why", run="s-1", node=node)["text"]
    return text


def test_a_node_names_its_parents() -> None:
    rig = Rig()
    rig.submit_graph([[], [], [0], [0, 1]])
    assert why(rig, 2) == "it waits for 1 parent: 0 (leased)"
    assert why(rig, 3) == "it waits for 2 parents: 0 (leased), 1 (leased)"


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

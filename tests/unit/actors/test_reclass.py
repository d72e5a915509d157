"""Another class for what was submitted: what waits moves, what comes later follows, places and the log agree."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES
from actors.protocol.records import RecordType
from actors.scheduler import Scheduler
from tests.unit.actors.rig import Rig, kind, node_type, recovered


def submit(rig: Rig, count: int, first: int, **options: Any) -> None:
    """One bundle of tasks with the numbers from `first` on."""
    rows = [[seq, first, seq] for seq in range(first, first + count)]
    rig.say(msg.KindDefined("s", first, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


def start_workers(rig: Rig) -> None:
    for worker in rig.workers:
        rig.say(msg.WorkerHello(worker, 100 + worker))


def started(rig: Rig) -> list[tuple[int, str]]:
    """Run, node and class of what was given since the last call, as (number of the task, class)."""
    return [(e.run.seq + n, PRIORITIES[e.kind.priority]) for e in rig.taken(fx.LeaseWork) for n in e.nodes]


def waiting(rig: Rig) -> dict[str, int]:
    found: dict[str, int] = rig.ask("policy")["waiting"]
    return {name: count for name, count in found.items() if count}


def test_what_waits_of_a_run_overtakes() -> None:
    rig = Rig(boot=False)
    rig.let_hold(5)
    submit(rig, 2, 1)
    rig.say(msg.MapSubmitted("s", 3, 1, [7, 8, 9], b"[3,1,[7,8,9]]"))
    assert rig.ask("priority", run="s-3", priority="high") == {"changed": True}
    assert waiting(rig) == {"high": 3, "normal": 2}
    start_workers(rig)
    assert started(rig) == [(3, "high"), (4, "high"), (5, "high"), (1, "normal"), (2, "normal")]


def test_one_task_of_a_bundle_goes_alone_and_may_come_back() -> None:
    rig = Rig(boot=False)
    rig.let_hold(5)
    submit(rig, 5, 1)
    assert rig.ask("priority", run="s-3", priority="realtime") == {"changed": True}
    assert waiting(rig) == {"realtime": 1, "normal": 4}
    assert rig.ask("priority", run="s-5", priority="low") == {"changed": True}
    assert rig.ask("priority", run="s-2", priority="low") == {"changed": True}
    assert rig.ask("priority", run="s-2", priority="normal") == {"changed": True}
    assert waiting(rig) == {"realtime": 1, "normal": 3, "low": 1}
    start_workers(rig)
    assert [seq for seq, _ in started(rig)] == [3, 1, 2, 4, 5]


def test_what_becomes_ready_later_is_of_the_class() -> None:
    rig = Rig(node_type(prefetch=1))
    rig.submit_graph([[], [0], [0]], retry={"max_attempts": 2, "base_ns": 10, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.ask("priority", run="s-1", priority="high")
    rig.fail(worker, serial, node)
    rig.later(1000)
    ((seq, class_),) = started(rig)
    assert (seq, class_) == (1, "high")
    rig.succeed(worker, serial + 1, node)
    assert {class_ for _, class_ in started(rig)} == {"high"}


def test_what_comes_back_untouched_is_of_the_class() -> None:
    rig = Rig(node_type(workers_min=2, workers_max=2))
    submit(rig, 1, 1)
    ((worker, _, _),) = rig.leases()
    rig.ask("priority", run="s-1", priority="low")
    rig.die(worker)
    assert started(rig) == [(1, "low")]


BLOCK = {"n": 1, "kind_of": [0], "kinds": [kind(priority="normal")], "items": [5]}


@pytest.mark.parametrize("spawned_first", [True, False])
def test_nodes_that_a_task_adds_are_of_the_class(spawned_first: bool) -> None:
    rig = Rig(node_type(prefetch=1))
    submit(rig, 1, 1)
    ((worker, serial, _),) = rig.leases()

    def spawn() -> None:
        rig.say(msg.WorkerSpawned(worker, serial, BLOCK, orjson.dumps([serial, 1, 0, BLOCK])))

    if spawned_first:
        spawn()
    rig.ask("priority", run="s-1", priority="high")
    if not spawned_first:
        spawn()
    rig.succeed(worker, serial, 0)
    assert [class_ for _, class_ in started(rig)] == ["high"]
    run = recovered(rig.records).book.live[1]
    assert PRIORITIES[run.kind(1).priority] == "high"


def test_places_of_a_class_go_along_and_come_back() -> None:
    limits = {"quotas": {"class:low": 2, "class:high": 1}}
    rig = Rig(node_type(workers_min=4, workers_max=4, prefetch=1), scheduler=Scheduler(["default"], policy=limits))
    submit(rig, 2, 1, priority="low")
    submit(rig, 2, 3, priority="low")
    running = rig.leases()
    assert len(running) == 2
    rig.ask("priority", run="s-1", priority="high")
    rig.ask("priority", run="s-2", priority="high")
    assert started(rig) == [(3, "low"), (4, "low")], "their places in class low are free"
    submit(rig, 1, 5, priority="high")
    quotas = rig.core.scheduler.giving.quotas
    assert (quotas.held("class:high"), quotas.held("class:low")) == (2, 2)
    rig.succeed(*running[0])
    assert started(rig) == [], "one of the two that class high has too many"
    rig.succeed(*running[1])
    assert started(rig) == [(5, "high")]


def test_what_its_class_holds_back_is_free_in_another() -> None:
    rig = Rig(scheduler=Scheduler(["default"]))
    rig.ask("policy", change={"pause": ["class:low"]})
    submit(rig, 2, 1, priority="low")
    assert started(rig) == []
    rig.ask("priority", run="s-2", priority="normal")
    assert started(rig) == [(2, "normal")]


def test_the_answer_waits_for_the_disk() -> None:
    rig = Rig(boot=False)
    submit(rig, 2, 1)
    rig.disk_held = True
    rig.say(msg.Queried("s", 1, "priority", {"run": "s-1", "priority": "high"}))
    assert rig.told("Q") == []
    rig.disk_held = False
    rig.write()
    assert rig.told("Q") == [[1, {"changed": True}, None]]
    assert rig.records[-1].type == RecordType.PRIORITY


def test_it_holds_over_restarts_and_is_told() -> None:
    rig = Rig(boot=False)
    submit(rig, 3, 1)
    rig.say(msg.MapSubmitted("s", 4, 1, [7, 8], b"[4,1,[7,8]]"))
    rig.ask("priority", run="s-2", priority="high")
    rig.ask("priority", run="s-4", priority="low")
    for policy in (None, {"quotas": {"class:high": 1}}):
        scheduler = recovered(rig.records, policy=policy)
        assert scheduler.ready["default"].counts() == [0, 1, 2, 2]
    stories = [
        [event[:4] for event in found.book.live[1].rare.events]
        for found in (rig.core.scheduler, recovered(rig.records))
    ]
    assert stories[0] == stories[1]
    assert [event[1:4] for event in rig.ask("story", run="s-2")["events"]][1:] == [[1, "priority set", "high, by s"]]
    start_workers(rig)
    rig.ask("policy", change={"pause": ["class:low"]})
    assert "its priority was set to low" in rig.ask("why", run="s-4")["text"]


def test_why_says_the_class_of_a_task_that_waits() -> None:
    rig = Rig(node_type(prefetch=1))
    submit(rig, 9, 1)
    rig.ask("priority", run="s-9", priority="low")
    assert rig.ask("why", run="s-9")["text"].endswith("; its priority was set to low")
    assert "priority" not in rig.ask("why", run="s-8")["text"]


def records_of(rig: Rig) -> int:
    return sum(record.type == RecordType.PRIORITY for record in rig.records)


def test_what_changes_nothing_is_not_logged() -> None:
    rig = Rig()
    submit(rig, 1, 1)
    assert rig.ask("priority", run="s-1", priority="high") == {"changed": True}
    assert rig.ask("priority", run="s-1", priority="high") == {"changed": True}
    assert records_of(rig) == 1
    rig.succeed(*rig.leases()[0])
    assert rig.ask("priority", run="s-1", priority="low") == {"changed": False}
    assert records_of(rig) == 1


@pytest.mark.parametrize(
    ("args", "code"), [(("s-1", "urgent"), "MS101"), (("s-1", None), "MS101"), (("x", "low"), "MS121")]
)
def test_what_cannot_be_is_refused(args: tuple[str, Any], code: str) -> None:
    rig = Rig()
    submit(rig, 1, 1)
    assert rig.ask("priority", run=args[0], priority=args[1])["code"] == code
    assert records_of(rig) == 0


def test_a_task_that_has_ended_leaves_the_others_of_its_bundle_alone() -> None:
    rig = Rig(node_type(prefetch=1))
    submit(rig, 2, 1)
    (first, _) = rig.leases()
    rig.succeed(*first)
    assert rig.ask("priority", run="s-1", priority="low") == {"changed": False}
    assert rig.ask("priority", run="s-2", priority="low") == {"changed": True}


# --- retries that lower it ----------------------------------------------------------------------------------------

LOWERS: dict[str, Any] = {"max_attempts": 9, "base_ns": 1000, "jitter": False, "lower_after": 1}


def fail_first(rig: Rig, failure_kind: str = "error") -> str:
    """The one leased task fails; the class in which it is leased again."""
    (lease,) = rig.taken(fx.LeaseWork)
    rig.fail(lease.worker, lease.serial, lease.nodes[0], failure_kind)
    rig.later(1_000_000)
    (again,) = (effect for effect in rig.effects if isinstance(effect, fx.LeaseWork))
    return PRIORITIES[again.kind.priority]


def test_a_retry_goes_one_class_down_and_not_below_the_lowest() -> None:
    rig = Rig()
    submit(rig, 1, 1, priority="high", retry=LOWERS)
    assert [fail_first(rig, kind) for kind in ("error", "timeout", "error")] == ["normal", "low", "low"]
    (lease,) = rig.taken(fx.LeaseWork)
    rig.fail(lease.worker, lease.serial, 0)
    assert "; its retries lowered it to low" in rig.ask("why", run="s-1")["text"]
    story = [event[3] for event in rig.ask("story", run="s-1")["events"]]
    assert [text.rpartition(", ")[2] for text in story if "starts in" in text][:2] == [
        "in class normal",
        "in class low",
    ]


def test_the_others_of_its_run_keep_their_class_and_a_restart_knows_it() -> None:
    rig = Rig(node_type(slots=8))
    rig.ask("policy", change={"quotas": {"class:normal": 9, "class:low": 1}})
    submit(rig, 3, 1, retry={**LOWERS, "base_ns": 10**12})
    leases = rig.leases()
    rig.fail(*leases[1])
    (run,) = rig.core.scheduler.book.live.values()
    assert [PRIORITIES[run.kind(node).priority] for node in range(3)] == ["normal", "low", "normal"]
    (again,) = recovered(rig.records).book.live.values()
    assert [PRIORITIES[again.kind(node).priority] for node in range(3)] == ["normal", "low", "normal"]
    assert again.rare.lowered == {1: 3}
    rig.later(10**12)
    assert started(rig) == [(2, "low")]


def test_who_sets_the_class_afterwards_has_the_last_word_and_retries_go_down_from_there() -> None:
    rig = Rig()
    submit(rig, 1, 1, priority="normal", retry=LOWERS)
    assert fail_first(rig) == "low"
    assert rig.ask("priority", run="s-1", priority="realtime") == {"changed": True}
    assert fail_first(rig) == "high"
    assert "its priority was set to realtime; its retries lowered it to high" in why_waiting(rig)


def why_waiting(rig: Rig) -> str:
    (lease,) = rig.taken(fx.LeaseWork)
    rig.say(msg.Queried("s", 1, "policy", {"change": {"pause": ["type:default"]}}))
    rig.die(lease.worker)
    return str(rig.ask("why", run="s-1")["text"])

"""The actors together: durable before visible, order of effects, refusal, pressure."""

from __future__ import annotations

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.log_messages import LogBroken, NoSpace
from tests.unit.actors.rig import Rig, kind, node_type


def test_nothing_is_told_before_it_is_durable_but_work_goes_on() -> None:
    rig = Rig()
    rig.disk_held = True
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    assert rig.told("A") == []
    rig.succeed(worker, serial, node)
    assert rig.told("R") == []
    rig.write()
    assert rig.told("A") == [[1]]
    assert rig.told("R") == []
    rig.write()
    assert rig.told("R") == [[[1, 0, [1]]]]


def test_a_full_disk_closes_the_intake_and_opens_it_again() -> None:
    rig = Rig()
    rig.disk_held = True
    rig.submit(1)
    rig.held.clear()
    rig.say(NoSpace("no space"))
    assert not rig.core.intake_open
    assert [e.code for e in rig.taken(fx.Announce)] == ["MS206"]
    rig.later(10_000_000_000)
    rig.write()
    assert rig.core.intake_open
    assert [e.code for e in rig.taken(fx.Announce)] == [""]
    assert rig.told("A") == [[1]]


def test_an_answer_tells_nothing_that_could_still_be_lost() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.disk_held = True
    rig.succeed(worker, serial, node)
    rig.say(msg.Queried("s", 1, "status", {"run": "s-1"}))
    assert rig.told("Q") == []
    rig.write()
    assert rig.told("Q")[0][1]["state"] == "succeeded"


def test_s12_nobody_who_asks_waits_for_room_on_the_disk() -> None:
    rig = Rig(boot=False)
    rig.disk_held = True
    rig.submit(1)
    rig.say(msg.Queried("s", 1, "status", {"run": "s-1"}), msg.CancelAsked("s", 2, "s-1", None))
    assert rig.told("Q") == []
    rig.held.clear()
    rig.say(NoSpace("no space"))
    assert sorted((body[0], body[2]["code"]) for body in rig.told("Q")) == [(1, "MS206"), (2, "MS206")]
    rig.say(msg.Queried("s", 3, "status", {"run": "s-1"}), msg.Queried("s", 4, "engine", {}))
    assert [body[2] and body[2]["code"] for body in rig.told("Q")] == ["MS206", None]
    rig.later(limits.DISK_FULL_RETRY_NS)
    rig.write()
    rig.say(msg.Queried("s", 5, "status", {"run": "s-1"}))
    while rig.held:
        rig.write()
    assert rig.told("Q")[0][1]["state"] == "cancelled", "what was answered with an error was kept all the same"


def test_a_question_is_answered_with_what_was_seen_together_with_it() -> None:
    rig = Rig()
    rig.submit(3)
    (worker, serial, _), *_ = rig.leases()
    rig.say(
        msg.Queried("s", 1, "nodes", {"run": "s-1"}),
        msg.WorkerObserved(worker, serial, rig.now_ns, 0, 0),
        msg.Queried("s", 2, "status", {"run": "s-1"}),
    )
    nodes, status = (body[1] for body in rig.told("Q"))
    assert nodes["rows"][0][5] is not None, "it has started"
    assert status["counts"][:3] == [0, 0, 1]


def test_a_failed_log_answers_with_its_error() -> None:
    rig = Rig()
    rig.disk_held = True
    rig.submit(1)
    rig.say(msg.Queried("s", 1, "status", {"run": "s-1"}))
    rig.say(LogBroken("fsync failed"))
    rig.say(msg.Queried("s", 2, "status", {"run": "s-1"}))
    assert [(body[0], body[2]["code"]) for body in rig.told("Q")] == [(1, "MS207"), (2, "MS207")]


def test_a_failed_log_acknowledges_nothing_any_more() -> None:
    rig = Rig()
    rig.disk_held = True
    rig.submit(1)
    rig.say(LogBroken("fsync failed"))
    assert [e.code for e in rig.taken(fx.Refuse)] == ["MS207"]
    rig.submit(2)
    assert rig.told("A") == []


def test_a_submission_that_was_admitted_is_only_acknowledged_again() -> None:
    rig = Rig()
    rig.submit(2)
    rig.submit(3)
    assert rig.told("A") == [[2], [3]]
    assert rig.ask("engine")["nodes_live"] == 3


def test_an_unknown_node_type_is_refused_for_each_task() -> None:
    rig = Rig()
    rig.submit(2, node_type="gpu")
    assert [body[1]["code"] for body in rig.told("J")] == ["MS103", "MS103"]
    assert rig.ask("engine")["nodes_live"] == 0


def test_a_kind_that_was_not_defined_is_refused() -> None:
    rig = Rig()
    rows = [[1, 5, 0]]
    rig.say(msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    assert rig.told("J")[0][1]["code"] == "MS903"


def test_a_missing_handler_parks_the_task_visibly() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node, "no-handler")
    assert "no handler" in rig.ask("why", run="s-1")["text"]
    assert rig.told("F") == []


def test_a_missing_handler_is_announced_once_for_each_node_type() -> None:
    rig = Rig(node_type(), node_type("gpu"))
    rows = [[seq, seq % 3, seq] for seq in range(1, 10)]
    kinds = [kind(), kind(timeout_ns=10**12), kind(node_type="gpu")]
    rig.say(*(msg.KindDefined("s", number, data) for number, data in enumerate(kinds)))
    rig.say(msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    for _ in range(3):
        while leases := rig.leases():
            for worker, serial, node in leases:
                rig.fail(worker, serial, node, "no-handler")
        rig.later(limits.PARKED_LOOK_MAX_NS)
    said = rig.taken(fx.Announce)
    assert [effect.code for effect in said] == ["MS209", "MS209"]
    assert [effect.text for effect in sorted(said)] == [
        f"workers of '{name}' cannot import the handler m:f: ValueError: no; its tasks wait"
        for name in ("default", "gpu")
    ]


def test_what_was_announced_of_handlers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 4)
    rig = Rig()
    rig.core.scheduler.book.runs_max = 1
    for seq in range(1, 20):
        row = [seq, 1, 1]
        data = kind(handler=f"m:f{seq}")
        rig.say(msg.KindDefined("s", 1, data), msg.TasksSubmitted("s", [row], orjson.dumps([row])))
        ((worker, serial, node),) = rig.leases()
        failure = {"kind": "no-handler", "type": "ImportError", "message": "no", "traceback": ""}
        rig.say(msg.WorkerFailed(worker, [[serial, seq, node, rig.now_ns, rig.now_ns + 5, failure]]))
        rig.say(msg.CancelAsked("s", seq, f"s-{seq}", None), msg.Told(rig.core.scheduler.lsn))
        for replacement in rig.taken(fx.StartWorker):
            rig.say(msg.WorkerHello(replacement.worker, 1))
        assert len(rig.core.scheduler.handlers_announced) <= limits.KINDS_MAX
    assert len(rig.taken(fx.Announce)) == 19


def test_s10_parked_work_is_found_when_its_handler_appears() -> None:
    rig = Rig()
    rig.submit(3)
    for worker, serial, node in rig.leases():
        rig.fail(worker, serial, node, "no-handler")
    rig.later(limits.PARKED_LOOK_MIN_NS)
    ((worker, serial, probe),) = rig.leases()
    rig.fail(worker, serial, probe, "no-handler")
    rig.later(limits.PARKED_LOOK_MIN_NS)
    assert rig.leases() == [], "the next look is later than the first"
    rig.later(limits.PARKED_LOOK_MIN_NS)
    ((worker, serial, probe),) = rig.leases()
    rig.succeed(worker, serial, probe)
    rig.later(limits.PARKED_LOOK_MIN_NS)
    others = rig.leases()
    assert sorted(node for *_, node in others) == sorted({0, 1, 2} - {probe})
    for worker, serial, node in others:
        rig.succeed(worker, serial, node)
    assert rig.ask("engine")["nodes_live"] == 0


def test_s10_parked_work_that_was_cancelled_is_not_tried_again() -> None:
    rig = Rig()
    rig.submit(1)
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node, "no-handler")
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    rig.later(10 * limits.PARKED_LOOK_MAX_NS)
    assert rig.leases() == []
    assert not rig.core.scheduler.parking


def test_empty_graph_ends_at_once() -> None:
    rig = Rig()
    rig.submit_graph([])
    assert rig.told("N")[0][0][2] == "succeeded"


def test_priority_classes_are_served_in_order() -> None:
    rig = Rig(boot=False)
    for number, priority in enumerate(("low", "normal", "realtime"), 1):
        rows = [[number, number, number]]
        rig.say(
            msg.KindDefined("s", number, kind(priority=priority)), msg.TasksSubmitted("s", rows, orjson.dumps(rows))
        )
    rig.say(msg.WorkerHello(rig.workers[0], 1))
    items = [e.items[0] for e in rig.taken(fx.LeaseWork)]
    assert items == [3, 2, 1]


def test_s09_a_bad_task_in_a_pile_is_refused_alone() -> None:
    rig = Rig()
    rows = [[1, 1, 0], [2, 7, 0], [3, 1, 0], [4, 7, 0], [5, 7, 0]]
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    assert [seq for seq, _ in rig.told("J")] == [2, 4, 5]
    assert rig.told("A") == [[1], [3]]
    assert len(rig.leases()) == 2
    assert rig.ask("status", run="s-3")["state"] == "running"


def test_a_cancelled_run_leaves_the_queue_as_a_whole() -> None:
    rig = Rig()
    rig.submit_graph([[] for _ in range(5000)])
    queue = rig.core.scheduler.ready["default"]
    assert queue.size > 4000
    rig.say(msg.CancelAsked("s", 1, "s-1", None))
    assert rig.core.scheduler.receive([msg.Offer("default", ((1, 1),))], rig.now_ns, rig.now_ns) == []
    assert queue.size == 0, "one look at it was enough"

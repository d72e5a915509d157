"""How far runs have come is told now and then, together, and not for each node."""

from __future__ import annotations

from actors.news import PROGRESS_EVERY_NS
from actors.protocol import effects as fx
from tests.unit.actors.rig import Rig, node_type


def test_what_stirred_is_told_together_and_then_not_before_its_time() -> None:
    rig = Rig(node_type(prefetch=9))
    rig.submit_graph([[] for _ in range(4)])
    rig.later(PROGRESS_EVERY_NS)
    rig.told("P")
    (worker, first, _), (_, second, _), (_, third, _), _ = rig.leases()
    rig.succeed(worker, first, 0)
    rig.taken(fx.WakeAt)
    rig.succeed(worker, second, 1)
    rig.succeed(worker, third, 2)
    told = rig.told("P")
    due = rig.core.scheduler.progress_due_ns
    assert len(told) <= 1
    assert due in {wake.due_ns for wake in rig.taken(fx.WakeAt)}
    rig.later(due - rig.now_ns)
    assert rig.told("P")[-1] == [[1, [0, 0, 1, 3, 0, 0, 0]]]
    rig.later(2 * PROGRESS_EVERY_NS)
    assert rig.told("P") == [], "nothing stirred since"

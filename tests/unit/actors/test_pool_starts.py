"""Workers that do not start: what is said of them, and that the pool goes on to want one."""

from __future__ import annotations

from actors.pool_starts import cannot_boot, delayed
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from tests.unit.actors.rig import Rig, node_type


def test_what_a_worker_or_the_supervisor_says_is_the_trouble_until_one_is_up() -> None:
    rig = Rig(node_type(), boot=False)
    pool = rig.core.pools["default"]
    cannot_boot(pool, msg.WorkerCannotBoot(rig.workers[0], "no module x"))
    assert pool.trouble == pool.workers[rig.workers[0]].boot_error == "no module x"
    cannot_boot(pool, msg.WorkerCannotBoot(99, "who is that"))
    assert pool.trouble == "no module x"
    delayed(pool, msg.PoolDelayed("default", rig.now_ns + 5, "it ended too often"))
    assert pool.trouble == "it ended too often"
    rig.say(msg.WorkerHello(rig.workers[0], 7))
    assert pool.trouble == ""


def test_who_hangs_is_killed_once_its_time_is_over_and_another_takes_its_place() -> None:
    rig = Rig(node_type(workers_min=2, workers_max=2), boot=False)
    hangs, starts = rig.workers
    rig.say(msg.WorkerHello(starts, 7))
    pool = rig.core.pools["default"]
    rig.later(limits.WORKER_START_NS // 2)
    assert rig.taken(fx.SignalWorker) == []
    rig.later(limits.WORKER_START_NS)
    assert [(effect.worker, effect.signal) for effect in rig.taken(fx.SignalWorker)] == [(hangs, "KILL")]
    assert (pool.wanted, pool.trouble) == (0, "it said nothing for 30 s")
    rig.later(limits.WORKER_START_NS)
    assert rig.taken(fx.SignalWorker) == []
    rig.taken(fx.StartWorker)
    rig.die(hangs)
    rig.later(limits.WORKER_START_NS)
    assert len(rig.taken(fx.StartWorker)) == 1

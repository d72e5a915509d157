"""Supervision: restart intensity and draining."""

from __future__ import annotations

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.supervisor import EngineState, Supervisor
from tests.unit.actors.rig import Rig


def starts(out: list[object]) -> int:
    return sum(isinstance(e, fx.StartWorker) for e in out)


def test_workers_that_cannot_boot_are_started_ever_more_slowly() -> None:
    supervisor = Supervisor(["default"])
    now = 0
    for _ in range(limits.RESTARTS_MAX):
        assert starts(supervisor.receive([msg.WorkerWanted("default", "")], now)) == 1
        supervisor.receive([msg.WorkerGone(1, "default", False, "no module")], now)
    out = supervisor.receive([msg.WorkerGone(1, "default", False, "no module")], now)
    delayed = next(e for e in out if isinstance(e, msg.PoolDelayed))
    assert delayed.reason == "no module"
    assert starts(supervisor.receive([msg.WorkerWanted("default", "")], now)) == 0
    assert starts(supervisor.receive([msg.TimePassed()], delayed.until_ns - 1)) == 0
    assert starts(supervisor.receive([msg.TimePassed()], delayed.until_ns)) == 1
    out = supervisor.receive([msg.WorkerGone(2, "default", False, "no module")], delayed.until_ns)
    again = next(e for e in out if isinstance(e, msg.PoolDelayed))
    assert again.until_ns - delayed.until_ns == 2 * delayed.until_ns


def test_deaths_under_work_do_not_slow_it() -> None:
    supervisor = Supervisor(["default"])
    for _ in range(100):
        supervisor.receive([msg.WorkerGone(1, "default", True, "crash")], 0)
        assert starts(supervisor.receive([msg.WorkerWanted("default", "")], 0)) == 1


def test_draining_waits_for_what_runs_and_takes_back_the_rest() -> None:
    rig = Rig()
    rig.submit(3)
    (worker, first, node), *rest = rig.leases()
    rig.say(msg.CloseAsked("s", True, 1_000_000))
    (revoke,) = rig.taken(fx.Revoke)
    waiting = tuple(serial for _, serial, _ in rest)
    rig.say(msg.LeasesRevoked(worker, waiting, revoke.serials))
    assert rig.taken(fx.StopEngine) == []
    rig.succeed(worker, first, node)
    assert [e.reason for e in rig.taken(fx.StopEngine)] == ["drained"]
    assert rig.leases() == []


def test_draining_ends_with_its_time() -> None:
    rig = Rig()
    rig.submit(1)
    rig.leases()
    rig.say(msg.CloseAsked("s", True, 1_000))
    rig.later(2_000)
    assert rig.core.supervisor.state is EngineState.STOPPED
    assert len(rig.taken(fx.StopEngine)) == 1

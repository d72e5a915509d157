"""Priority inversion: who has not started gives its place to better work, once; the best that waits gets it."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.policy.scopes import scopes_of
from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES
from actors.scheduler import Scheduler
from actors.state_column import READY
from tests.unit.actors.rig import Rig, kind, node_type

KEY = "key:printer"
PRINTER = {"concurrency_key": "printer"}


def rig_with(limit: int = 1, **options: Any) -> Rig:
    return Rig(node_type(**options), scheduler=Scheduler(["default", "io"], policy={"quotas": {KEY: limit}}))


def submit(rig: Rig, seq: int, **options: Any) -> None:
    rows = [[seq, seq, seq]]
    rig.say(msg.KindDefined("s", seq, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


def behind_another(rig: Rig) -> tuple[int, int]:
    """A low task has the printer, and waits at the worker behind one that runs. Returns its worker and serial."""
    submit(rig, 1)
    submit(rig, 2, priority="low", **PRINTER)
    (worker, first, _), (_, serial, _) = rig.leases()
    rig.observe(worker, first, rig.now_ns)
    return worker, serial


def story(rig: Rig, seq: int) -> list[str]:
    return [f"{row[2]}: {row[3]}" for row in rig.ask("story", run=f"s-{seq}", node=None)["events"]]


def test_who_has_not_started_gives_its_place_to_better_work() -> None:
    rig = rig_with(prefetch=2)
    worker, serial = behind_another(rig)
    submit(rig, 3, priority="high", **PRINTER)
    assert rig.taken(fx.Revoke) == [fx.Revoke(worker, (serial,))]
    assert rig.leases() == []
    rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    ((_, _, _),) = rig.leases()
    assert [g.kind.priority for w in rig.core.pools["default"].workers.values() for g in w.book.groups()] == [2, 1]
    assert any("gives way to class high, which waits for key:printer" in line for line in story(rig, 2))


def test_what_runs_keeps_its_place_and_who_waits_is_told_who_has_it() -> None:
    rig = rig_with(prefetch=2)
    submit(rig, 1, priority="low", **PRINTER)
    ((worker, serial, _),) = rig.leases()
    rig.observe(worker, serial, rig.now_ns)
    submit(rig, 2, priority="high", **PRINTER)
    submit(rig, 3, **PRINTER)
    assert rig.taken(fx.Revoke) == []
    assert rig.ask("why", run="s-2")["text"].startswith(
        "it is held back: 1 of 1 places of key:printer are taken, by node 0 of run s-1 (low)"
    )
    rig.succeed(worker, serial, 0)
    rig.leases()
    assert [g.kind.priority for w in rig.core.pools["default"].workers.values() for g in w.book.groups()] == [1]


def test_a_try_that_failed_is_made_again_and_ever_less_often() -> None:
    rig = rig_with(prefetch=2)
    worker, serial = behind_another(rig)
    submit(rig, 3, priority="high", **PRINTER)
    assert len(rig.taken(fx.Revoke)) == 1
    rig.say(msg.LeasesRevoked(worker, (), (serial,)))
    tries = 0
    for _ in range(100):
        rig.later(10_000_000)
        if rig.taken(fx.Revoke):
            tries += 1
            rig.say(msg.LeasesRevoked(worker, (), (serial,)))
    assert 4 <= tries <= 7


def test_equals_and_better_ones_are_left_where_they_are() -> None:
    rig = rig_with(prefetch=2)
    submit(rig, 1)
    submit(rig, 2, priority="high", **PRINTER)
    rig.leases()
    submit(rig, 3, priority="high", **PRINTER)
    submit(rig, 4, **PRINTER)
    assert rig.taken(fx.Revoke) == []


def test_what_a_drain_takes_back_meanwhile_has_not_given_way() -> None:
    rig = rig_with(prefetch=3)
    worker, serial = behind_another(rig)
    submit(rig, 3, priority="high", **PRINTER)
    assert len(rig.taken(fx.Revoke)) == 1
    rig.ask("held", scopes=["key:printer"], take_back=True)
    submit(rig, 4)
    ((_, other, _),) = rig.leases()
    rig.say(msg.LeasesRevoked(worker, (other,), (other,)))
    rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    runs = rig.core.scheduler.book.live
    assert [no for no, run in runs.items() if run.rare.gave_way] == [2]


def test_a_node_gives_way_once() -> None:
    rig = rig_with(prefetch=2)
    worker, serial = behind_another(rig)
    submit(rig, 3, priority="high", **PRINTER)
    rig.say(msg.LeasesRevoked(worker, (serial,), (serial,)))
    ((_, high, _),) = rig.leases()
    rig.succeed(worker, high, 0, run=3)
    ((_, again, _),) = rig.leases()
    rig.taken(fx.Revoke)
    submit(rig, 4, priority="high", **PRINTER)
    assert rig.taken(fx.Revoke) == []
    rig.succeed(worker, again, 0, run=2)
    assert len(rig.leases()) == 1


def test_who_waits_for_its_retry_holds_nothing() -> None:
    rig = rig_with(prefetch=2)
    submit(rig, 1, priority="low", retry={"max_attempts": 3, "base_ns": 10**9}, **PRINTER)
    ((worker, serial, _),) = rig.leases()
    submit(rig, 2, priority="high", **PRINTER)
    rig.fail(worker, serial, 0)
    assert len(rig.leases()) == 1
    assert "the next starts in" in rig.ask("why", run="s-1")["text"]


def test_a_place_that_node_types_share_goes_to_the_best_class_of_any_of_them() -> None:
    scheduler = Scheduler(["default", "io"], policy={"quotas": {KEY: 1}})
    rig = Rig(node_type(), node_type("io"), scheduler=scheduler)
    submit(rig, 1, **PRINTER)
    ((worker, serial, _),) = rig.leases()
    submit(rig, 2, priority="low", **PRINTER)
    submit(rig, 3, priority="high", node_type="io", **PRINTER)
    rig.succeed(worker, serial, 0)
    ((other, _, _),) = rig.leases()
    assert other != worker, "the worker of io has it"


CLASSES = st.sampled_from(PRIORITIES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), CLASSES, st.sampled_from([True, True, False])),
        st.tuples(st.just("submit"), CLASSES, st.sampled_from([True, False])),
        st.tuples(st.just("end"), st.integers(0, 9), st.just(False)),
        st.tuples(st.just("observe"), st.just(0), st.just(False)),
    ),
    min_size=6,
    max_size=40,
)


@settings(deadline=None, max_examples=200)
@given(STEPS, st.integers(1, 3), st.integers(1, 2), st.sampled_from([1, 3]))
def test_nobody_keeps_a_place_without_using_it_while_better_work_waits(
    steps: list[Any], limit: int, workers: int, prefetch: int
) -> None:
    """Each worker runs what it was given first and has not ended, and gives back all else that it is asked for."""
    rig = rig_with(limit, prefetch=prefetch, workers_min=workers, workers_max=workers)
    runs: dict[int, int] = {}
    seq = 0
    for what, which, keyed in steps:
        if what == "submit":
            seq += 1
            submit(rig, seq, priority=which, **(PRINTER if keyed else {}))
        elif what == "end" and runs:
            worker = sorted(runs)[which % len(runs)]
            _end(rig, worker, runs.pop(worker))
        elif what == "observe":
            for worker, serial in runs.items():
                rig.observe(worker, serial, rig.now_ns)
        _work(rig, runs)
        _check(rig, runs)


def _end(rig: Rig, worker: int, serial: int) -> None:
    group = rig.core.pools["default"].workers[worker].book.find(serial)
    assert group is not None
    rig.succeed(worker, serial, group.nodes[serial - group.base], run=group.run.no)


def _work(rig: Rig, runs: dict[int, int]) -> None:
    """Workers claim, and answer revocations, until there is nothing more to do."""
    while True:
        for worker in rig.core.pools["default"].workers.values():
            if worker.id not in runs and worker.book.held:
                lanes = sorted((g.lane, g.base + i) for g in worker.book.groups() for i, f in enumerate(g.open) if f)
                runs[worker.id] = lanes[0][1]
        asked = rig.taken(fx.Revoke)
        if not asked:
            return
        for revoke in asked:
            won = tuple(s for s in revoke.serials if runs.get(revoke.worker) != s)
            rig.say(msg.LeasesRevoked(revoke.worker, won, revoke.serials))


def _check(rig: Rig, runs: dict[int, int]) -> None:
    scheduler = rig.core.scheduler
    held_back = [
        run.kind(node).priority
        for run in scheduler.book.live.values()
        for node in range(run.size)
        if run.state[node] == READY
        and (place := scheduler.giving.position(run, node)) is not None
        and place.blocked_by == KEY
    ]
    best = min(held_back, default=9)
    for worker in rig.core.pools["default"].workers.values():
        for group in worker.book.groups():
            for at, node in enumerate(group.nodes):
                idle = group.open[at] and runs.get(worker.id) != group.base + at
                if idle and KEY in scopes_of(group.kind) and node not in group.run.rare.gave_way:
                    assert group.lane <= best, f"class {group.lane} keeps a place that class {best} waits for"

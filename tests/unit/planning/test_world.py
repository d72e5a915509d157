"""Histories lived again: what was recorded comes out where nothing is changed, and rules hold where something is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.records import RecordType
from runtime.planning.recording import Recording
from runtime.planning.setting import EVERY, Setting
from runtime.planning.world import Simulation
from tests.unit.planning.histories import MS, WALL_NS, History, node_type


def spans(simulation: Simulation) -> dict[tuple[int, int], tuple[int, int]]:
    """Start and end of every node that ran."""
    return {
        (no, node): (start, end)
        for no, run in simulation.runs.items()
        for node, (start, end) in enumerate(zip(run.starts, run.ends, strict=True))
        if start
    }


def most_at_once(found: dict[Any, tuple[int, int]]) -> int:
    moments = sorted([(start, 1) for start, _ in found.values()] + [(end, -1) for _, end in found.values()])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def makespan_ms(simulation: Simulation) -> float:
    return (max(end for _, end in spans(simulation).values()) - WALL_NS) / MS


def chains(workers: int = 2, **options: Any) -> History:
    """Two chains of three tasks of 100 ms, and a map of four."""
    history = History(node_type(workers=workers))
    for _ in range(2):
        no = history.graph(0, [[], [0], [1]])
        for node in range(3):
            history.ran(no, node, 100 * node, 100)
    no = history.tasks(0, 4, **options)
    for node in range(4):
        history.ran(no, node, 300 + 100 * (node // 2), 100)
    return history


@pytest.mark.parametrize(("workers", "least_ms"), [(1, 1000), (2, 500), (5, 300), (100, 300)])
def test_makespans_are_those_of_theory(workers: int, least_ms: int) -> None:
    simulation = Simulation(chains().recording(), Setting(workers={EVERY: workers})).run()
    assert len(spans(simulation)) == 10
    assert simulation.lost == 0
    assert least_ms <= makespan_ms(simulation) <= 1.1 * least_ms + 105, "one task may come in between, at most"
    assert most_at_once(spans(simulation)) <= workers


def test_the_same_history_is_lived_the_same_way_twice() -> None:
    recording = chains().recording()
    assert spans(Simulation(recording, Setting()).run()) == spans(Simulation(recording, Setting()).run())


def test_attempts_fail_as_they_failed_and_are_tried_again() -> None:
    history = History()
    retry = {"max_attempts": 2, "base_ns": 10 * MS, "jitter": False}
    no = history.tasks(0, 2, retry=retry)
    history.failed(no, 0, 0, 50, outcome="retry")
    history.ran(no, 0, 100, 30)
    history.failed(no, 1, 50, 20, outcome="retry")
    history.failed(no, 1, 120, 20, attempt=2)
    simulation = Simulation(history.recording(), Setting()).run()
    run = simulation.runs[no].run
    assert (str(run.run_state()), run.counts()[3:5]) == ("failed", [1, 1])
    assert simulation.busy_ns["default"] == 120 * MS


def test_what_has_no_duration_is_guessed_and_counted() -> None:
    history = History()
    no = history.tasks(0, 3)
    history.ran(no, 0, 0, 40)
    simulation = Simulation(history.recording(), Setting()).run()
    assert simulation.guessed == {(no, 1), (no, 2)}
    assert simulation.busy_ns["default"] == 120 * MS


def test_what_waits_for_ever_is_said() -> None:
    history = History(policy={"paused": ["tenant:a"]})
    no = history.tasks(0, 3, tenant="a")
    history.ran(no, 0, 0, 40)
    other = history.tasks(0, 1)
    history.ran(other, 0, 0, 40)
    simulation = Simulation(history.recording(), Setting()).run()
    assert simulation.lost == 3
    assert spans(simulation).keys() == {(other, 0)}


def test_policy_and_cancels_come_when_they_came() -> None:
    history = History(node_type(workers=4, prefetch=0))
    no = history.tasks(0, 8, priority="low")
    for node in range(4):
        history.ran(no, node, 0, 100)
    history.add(RecordType.POLICY, orjson.dumps({"policy": {"quotas": {"class:low": 1}}, "given": {}}))
    for node in range(4, 8):
        history.ran(no, node, 100 * (node - 3), 100)
    late = history.tasks(600, 2)
    history.ran(late, 0, 600, 100)
    history.add(RecordType.CANCEL, orjson.dumps([late, 1, []]))
    found = spans(Simulation(history.recording(), Setting()).run())
    first = [end for (run, node), (_, end) in found.items() if run == no and node < 4]
    assert max(first) < WALL_NS + 130 * MS, "four at once before"
    later = {place: times for place, times in found.items() if place[0] == no and times[0] > WALL_NS + 150 * MS}
    assert most_at_once(later) == 1
    free = spans(Simulation(history.recording(), Setting(policy={"quotas": {"class:low": None}})).run())
    assert most_at_once({p: t for p, t in free.items() if p[0] == no}) == 4, "the setting holds over the recording"


def test_what_was_stopped_runs_until_it_is_stopped_again() -> None:
    history = History()
    no = history.tasks(0, 1)
    history.add(RecordType.CANCEL, orjson.dumps([no, 0, [0]]))
    history.failed(no, 0, 50, 100, outcome="cancelled", kind="cancelled")
    simulation = Simulation(history.recording(), Setting()).run()
    assert str(simulation.runs[no].run.run_state()) == "cancelled"
    ((start, end),) = spans(simulation).values()
    assert start < WALL_NS + 60 * MS
    assert abs(end - WALL_NS - 150 * MS) < 5 * MS


def test_asyncio_workers_run_many_at_once() -> None:
    history = History(node_type(mode="asyncio", slots=10))
    no = history.tasks(0, 20)
    for node in range(20):
        history.ran(no, node, 100 * (node // 10), 100)
    for slots, least_ms in ((10, 200), (20, 100), (1, 2000)):
        simulation = Simulation(history.recording(), Setting(slots={EVERY: slots})).run()
        assert least_ms <= makespan_ms(simulation) <= 1.1 * least_ms + 10
        assert most_at_once(spans(simulation)) <= slots


def test_a_worker_that_is_added_starts_as_slowly_as_the_first_of_its_like() -> None:
    history = History(node_type(workers=2, workers_min=0))
    no = history.tasks(100, 1)
    history.ran(no, 0, 800, 10)
    ((start, _),) = spans(Simulation(history.recording(), Setting()).run()).values()
    assert abs(start - WALL_NS - 800 * MS) < 10 * MS


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Some graphs and maps with durations of 0 to 50 ms, some of them unknown, some failed."""
    history = History(node_type(workers=2), node_type("io", mode="asyncio", slots=3))
    for _ in range(draw(st.integers(1, 4))):
        at_ms = draw(st.integers(0, 60))
        options = {
            "priority": draw(st.sampled_from(["realtime", "normal", "low"])),
            "tenant": draw(st.sampled_from(["", "a"])),
            "node_type": draw(st.sampled_from(["default", "default", "io"])),
        }
        size = draw(st.integers(1, 8))
        if draw(st.booleans()):
            edges = [draw(st.lists(st.integers(0, node - 1), max_size=2)) if node else [] for node in range(size)]
            no = history.graph(at_ms, edges, **options)
        else:
            edges, no = [[]] * size, history.tasks(at_ms, size, **options)
        gone: set[int] = set()
        for node in range(size):
            if gone.intersection(edges[node]):
                gone.add(node)
                continue
            took = draw(st.integers(-1, 50))
            if took == 0:
                history.failed(no, node, at_ms + 60 * node, 5)
                gone.add(node)
            elif took > 0:
                history.ran(no, node, at_ms + 60 * node, took)
            else:
                gone.add(node)
    return history.recording()


@pytest.mark.slow
@given(recordings(), st.integers(1, 4), st.none() | st.integers(1, 2), st.none() | st.integers(0, 2))
def test_rules_hold_whatever_is_changed(
    recording: Recording, workers: int, quota: int | None, prefetch: int | None
) -> None:
    setting = Setting(
        workers={"default": workers},
        policy={} if quota is None else {"quotas": {"tenant:a": quota}},
        prefetch={} if prefetch is None else {EVERY: prefetch},
    )
    simulation = Simulation(recording, setting).run()
    simulation.core.check_invariants()
    assert simulation.lost == 0
    found = spans(simulation)
    by_type: dict[str, dict[Any, tuple[int, int]]] = {"default": {}, "io": {}}
    of_tenant = {}
    for (no, node), times in found.items():
        recorded = recording.runs[no]
        assert times[0] >= recorded.arrival_ns
        for parent in recorded.run.parents(node):
            assert found[no, parent][1] <= times[0], "a parent had not ended"
        kind = recorded.run.kind(node)
        if times[1] > times[0]:
            by_type[kind.node_type][no, node] = times
            if kind.tenant == "a":
                of_tenant[no, node] = times
    assert most_at_once(by_type["default"]) <= workers
    assert most_at_once(by_type["io"]) <= 3
    assert quota is None or most_at_once(of_tenant) <= quota
    for no, lived in simulation.runs.items():
        assert lived.run.size == recording.runs[no].run.size
        assert not lived.run.open

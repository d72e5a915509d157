"""Workflows as flows: edges, order, runtimes, and how many tasks may run at once."""

from __future__ import annotations

import pytest

from actors.protocol import limits
from runtime.cli.replay_flow import replay_flow, workflow_groups
from tests.unit.cli.test_wfformat import document, parse


def test_nodes_have_the_ids_and_parents_of_the_file() -> None:
    replay = replay_flow(parse(document()), "small", scale=0.5)
    assert len(replay.flow) == 4
    assert [replay.flow.id_of(index) for index in range(4)] == ["a", "b", "c", "d"]
    assert replay.parents["d"] == ("b", "c")
    assert set(replay.groups.values()) == {"run"}
    assert replay.mode.endswith("recorded runtimes × 0.5")


def test_sleeping_has_room_for_every_task() -> None:
    (pool,) = replay_flow(parse(document()), "small", workers=2).node_types
    assert (pool.mode, pool.workers_range, pool.slots) == ("asyncio", (2, 2), 2)
    found = document()
    found["workflow"]["specification"]["tasks"] += [
        {"name": f"n{i}", "id": f"n{i}", "parents": [], "children": []} for i in range(3 * limits.PREFETCH_MAX)
    ]
    found["workflow"]["execution"]["tasks"] += [
        {"id": f"n{i}", "runtimeInSeconds": 1} for i in range(3 * limits.PREFETCH_MAX)
    ]
    (pool,) = replay_flow(parse(found), "wide", workers=2).node_types
    assert pool.slots == limits.PREFETCH_MAX


@pytest.mark.parametrize(("workers", "text"), [(1, "1 process, one task"), (3, "3 processes, one task")])
def test_burning_runs_one_task_at_a_time(workers: int, text: str) -> None:
    replay = replay_flow(parse(document()), "small", burning=True, workers=workers)
    (pool,) = replay.node_types
    assert (pool.mode, pool.workers_range, pool.slots) == ("process", (workers, workers), 1)
    assert replay.mode.startswith(text)


def test_groups_are_programs_where_every_task_has_its_own_name() -> None:
    names = [("1", "mProject_ID0000001", "/opt/bin/mProject"), ("2", "cat_ID0000002", "")]
    assert workflow_groups(names) == {"1": "mProject", "2": "cat"}


def test_groups_are_names_where_names_repeat() -> None:
    names = [("1", "FASTQC", "fastqc --quiet\nmore"), ("2", "FASTQC", "x"), ("3", "MULTIQC", "multiqc .")]
    assert workflow_groups(names) == {"1": "FASTQC", "2": "FASTQC", "3": "MULTIQC"}


def test_a_name_of_digits_stays() -> None:
    assert workflow_groups([("1", "0001", ""), ("2", "_7", "a b")]) == {"1": "0001", "2": "_"}

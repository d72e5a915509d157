"""Traces from rows of nodes, the JSON object, and what stands for the node type of a recorded task."""

from __future__ import annotations

from runtime.cli.trace import Trace, workflow_groups
from tests.unit.cli.traces import diamond


def row(node: str, parents: list[str], **more: object) -> dict[str, object]:
    return {
        "id": node,
        "parents": parents,
        "state": "succeeded",
        "attempts": 1,
        "started_ns": 10,
        "ended_ns": 30,
        "worker_pid": 7,
        **more,
    }


def test_rows_become_columns_with_the_parents_of_the_file() -> None:
    trace = Trace("t", "r", "succeeded", "fsync", 2, 2)
    rows = [row("b", ["a"]), row("a", [], started_ns=None, ended_ns=None, worker_pid=None, state="skipped")]
    trace.fill(rows, {"b": "step"}, {"b": ["a"]})
    assert trace.parents == [[1], []]
    assert trace.groups == ["step", "spawned"]
    assert [trace.duration(0), trace.duration(1)] == [20, 0]
    assert [trace.ran(0), trace.ran(1)] == [True, False]
    assert trace.origin() == 10


def test_json_has_exactly_the_agreed_keys() -> None:
    found = diamond().as_json(35_000_000)
    assert list(found) == ["run_id", "state", "makespan_s", "workers", "nodes"]
    assert found["makespan_s"] == 0.035
    assert found["workers"] == 2
    node = found["nodes"][3]
    assert list(node) == ["id", "parents", "state", "attempts", "started_ns", "ended_ns", "worker_pid"]
    assert node["parents"] == ["b", "c"]


def test_groups_are_programs_where_every_task_has_its_own_name() -> None:
    names = [("1", "mProject_ID0000001", "/opt/bin/mProject"), ("2", "cat_ID0000002", "")]
    assert workflow_groups(names) == {"1": "mProject", "2": "cat"}


def test_groups_are_names_where_names_repeat() -> None:
    names = [("1", "FASTQC", "fastqc --quiet\nmore"), ("2", "FASTQC", "x"), ("3", "MULTIQC", "multiqc .")]
    assert workflow_groups(names) == {"1": "FASTQC", "2": "FASTQC", "3": "MULTIQC"}


def test_a_name_of_digits_stays() -> None:
    assert workflow_groups([("1", "0001", ""), ("2", "_7", "a b")]) == {"1": "0001", "2": "_"}

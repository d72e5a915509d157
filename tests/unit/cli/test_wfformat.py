"""Workflow files: what is read, and that every mistake is named with its place in the JSON."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol import limits
from actors.protocol.errors import WorkflowFileError
from runtime.cli import wfformat
from runtime.cli.wfformat import Workflow, parse_workflow, read_workflow

TASKS = "$.workflow.specification.tasks"


def document() -> dict[str, Any]:
    """a, then b and c, then d; d stands before its parents."""
    edges = {"a": ("", "b c"), "d": ("b c", ""), "b": ("a", "d"), "c": ("a", "d")}
    tasks = [{"name": f"task {i}", "id": i, "parents": p.split(), "children": c.split()} for i, (p, c) in edges.items()]
    ran = [{"id": i, "runtimeInSeconds": 1.5, "command": {"program": "run", "arguments": []}} for i in edges]
    execution = {"makespanInSeconds": 4.5, "executedAt": "today", "tasks": ran}
    return {
        "name": "small",
        "schemaVersion": "1.5",
        "workflow": {"specification": {"tasks": tasks, "files": []}, "execution": execution},
    }


def parse(value: Any) -> Workflow:
    return parse_workflow(json.dumps(value).encode(), "w.json")


def refusal(value: Any) -> str:
    """The message for a document that must be refused."""
    with pytest.raises(WorkflowFileError) as caught:
        parse(value)
    return caught.value.message


def changed(path: str, value: Any) -> Any:
    """The document with one place changed; `...` removes it."""
    found = document()
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    at: Any = found
    for step in steps:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return found


def test_reads_graph_names_programs_and_runtimes() -> None:
    workflow = parse(document())
    assert workflow.name == "small"
    assert workflow.makespan_s == 4.5
    assert [task.id for task in workflow.tasks] == ["a", "d", "b", "c"]
    assert workflow.tasks[1].parents == ("b", "c")
    assert (workflow.tasks[0].name, workflow.tasks[0].program, workflow.tasks[0].runtime_s) == ("task a", "run", 1.5)


def test_order_puts_parents_first() -> None:
    assert [task.id for task in parse(document()).in_order()] == ["a", "b", "c", "d"]


def test_odd_names_are_kept_as_they_are() -> None:
    odd = ["\x00", "\ud800", "a b\nc", "é\u202e", "<script>", "$.x"]
    found = document()
    text = json.dumps(found)
    for plain, name in zip(["a", "b", "c", "d"], odd, strict=False):
        text = text.replace(f'"{plain}"', json.dumps(name))
    assert [task.id for task in parse_workflow(text.encode(), "x").tasks] == [odd[0], odd[3], odd[1], odd[2]]


def test_byte_order_mark_is_allowed() -> None:
    assert parse_workflow(b"\xef\xbb\xbf" + json.dumps(document()).encode(), "x").name == "small"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("name", ..., "w.json: $.name: missing"),
        ("schemaVersion", ..., "$.schemaVersion: missing"),
        ("schemaVersion", "1.4", '$.schemaVersion: is "1.4"; this program reads 1.5'),
        ("schemaVersion", 1.5, "$.schemaVersion: must be a string, not a number"),
        ("workflow", [], "$.workflow: must be an object, not an array"),
        ("workflow.specification", ..., "$.workflow.specification: missing"),
        ("workflow.specification.tasks", {}, f"{TASKS}: must be an array, not an object"),
        ("workflow.specification.tasks", [], f"{TASKS}: has no tasks"),
        ("workflow.specification.tasks.2", None, f"{TASKS}[2]: must be an object, not null"),
        ("workflow.specification.tasks.2.id", ..., f"{TASKS}[2].id: missing"),
        ("workflow.specification.tasks.2.id", 7, f"{TASKS}[2].id: must be a non-empty string, not 7"),
        ("workflow.specification.tasks.2.id", "a", f'{TASKS}[2].id: "a" is used twice, first at {TASKS}[0]'),
        ("workflow.specification.tasks.2.name", ..., f"{TASKS}[2].name: missing"),
        ("workflow.specification.tasks.2.name", True, f"{TASKS}[2].name: must be a string, not a boolean"),
        ("workflow.specification.tasks.2.parents", ..., f"{TASKS}[2].parents: missing"),
        ("workflow.specification.tasks.2.children", "d", f"{TASKS}[2].children: must be an array, not a string"),
        ("workflow.specification.tasks.1.parents.0", 3, f"{TASKS}[1].parents[0]: must be a string, not a number"),
        ("workflow.specification.tasks.1.parents", ["b", "b"], f'{TASKS}[1].parents: names "b" twice'),
        ("workflow.specification.tasks.1.parents.1", "zz", f'{TASKS}[1].parents[1]: task "zz" does not exist'),
        ("workflow.specification.tasks.1.parents.1", "d", f'{TASKS}[1].parents[1]: task "d" names itself'),
        (
            "workflow.specification.tasks.1.parents.1",
            ...,
            f'{TASKS}[3].children[0]: names "d", but "d" does not have "c"',
        ),
        ("workflow.execution", ..., "$.workflow.execution: missing"),
        ("workflow.execution.tasks", ..., "$.workflow.execution.tasks: missing"),
        ("workflow.execution.tasks.3", ..., f'$.workflow.execution.tasks: no entry for task "c" of {TASKS}[3]'),
        ("workflow.execution.tasks.3.id", "zz", '$.workflow.execution.tasks[3].id: task "zz" is not in the spec'),
        ("workflow.execution.tasks.3.id", "a", '$.workflow.execution.tasks[3].id: "a" is used twice, first at'),
        ("workflow.execution.tasks.3.runtimeInSeconds", ..., "tasks[3].runtimeInSeconds: missing"),
        ("workflow.execution.tasks.3.runtimeInSeconds", "1", "runtimeInSeconds: must be a number, not a string"),
        ("workflow.execution.tasks.3.runtimeInSeconds", False, "runtimeInSeconds: must be a number, not a boolean"),
        ("workflow.execution.tasks.3.runtimeInSeconds", -0.5, "runtimeInSeconds: is negative: -0.5"),
        ("workflow.execution.tasks.3.runtimeInSeconds", 1e300, "runtimeInSeconds: is 1e+300, more than the limit"),
        ("workflow.execution.tasks.3.runtimeInSeconds", 10**400, "more than the limit of 1e+09 seconds"),
    ],
)
def test_a_mistake_is_named_with_its_place(path: str, value: Any, message: str) -> None:
    assert message in refusal(changed(path, value))


def test_a_cycle_is_shown_in_order() -> None:
    found = document()
    tasks = {task["id"]: task for task in found["workflow"]["specification"]["tasks"]}
    tasks["d"]["children"], tasks["a"]["parents"] = ["a"], ["d"]
    message = refusal(found)
    assert "the graph has a cycle: " in message
    walk = message.rpartition(": ")[2].split(" -> ")
    assert walk[0] == walk[-1]
    assert all(child in tasks[parent]["children"] for parent, child in zip(walk, walk[1:], strict=False))


def test_a_long_cycle_is_cut_in_the_middle() -> None:
    size = 10_000
    names = [f"t{i}" for i in range(size)]
    found = document()
    found["workflow"]["specification"]["tasks"] = [
        {"name": n, "id": n, "parents": [names[i - 1]], "children": [names[(i + 1) % size]]}
        for i, n in enumerate(names)
    ]
    message = refusal(found)
    assert " -> ... -> " in message
    assert len(message) < 300


def test_problems_are_counted() -> None:
    found = document()
    for task in found["workflow"]["execution"]["tasks"]:
        task["runtimeInSeconds"] = None
    assert "tasks[0].runtimeInSeconds: must be a number, not null (and 3 further problems)" in refusal(found)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "$: the file is empty"),
        (b" \n", "$: the file is empty"),
        (b"\xff\xfe{", "byte 0: not UTF-8 text"),
        (b'{"a":\n  1,}', "line 2 column"),
        (b"[]", "$: must be an object, not an array"),
        (b"null", "$: must be an object, not null"),
        (b'{"name": NaN}', "NaN is not a JSON number"),
        (b'{"name": "a", "name": "b"}', 'the key "name" occurs twice'),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "$: "),
    ],
)
def test_what_is_not_json_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(WorkflowFileError) as caught:
        parse_workflow(data, "w.json")
    assert message in caught.value.message


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, message in [(tmp_path / "none.json", "no such file"), (tmp_path, "not a regular file")]:
        with pytest.raises(WorkflowFileError, match=message):
            read_workflow(path)
    file = tmp_path / "w.json"
    file.write_text(json.dumps(document()))
    assert len(read_workflow(file).tasks) == 4
    monkeypatch.setattr(limits, "WORKFLOW_FILE_BYTES_MAX", 10)
    with pytest.raises(WorkflowFileError, match="more than the limit of 10"):
        read_workflow(file)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["a", "b", "zz", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "tasks", "parents"]), inner),
    max_leaves=6,
)


@given(st.data())
def test_any_change_is_read_or_refused(data: st.DataObject) -> None:
    """No change of one place makes the reader fail in any other way."""
    found = copy.deepcopy(document())
    at: Any = found
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.integers(0, 4)) == 0:
            break
        at = at[key]
    at[key] = data.draw(values)
    try:
        parse(found)
    except WorkflowFileError as refused:
        message = refused.message
    else:
        return
    assert message.startswith("w.json: $")
    assert len(message.encode()) < 600


def test_problems_stop_at_a_limit() -> None:
    found = document()
    found["workflow"]["specification"]["tasks"] = [None] * 5000
    assert f"and {wfformat.PROBLEMS_MAX - 1} or more further problems" in refusal(found)

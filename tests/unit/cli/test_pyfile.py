"""Python files: what they may define, and errors shown as the user's own traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.protocol.errors import EnvironmentFault, HandlerRefused, WorkflowFileError
from runtime.cli.exits import error_lines
from runtime.cli.pyfile import MODULE_NAME, FlowFile, load_flow_file

HEAD = "from runtime.flow import Flow\nfrom runtime.registry import TaskRegistry\nfrom runtime.config import NodeType\n"


@pytest.fixture(autouse=True)
def modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loading changes what a program has one of: its import path, arguments and main module."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    yield
    sys.modules.pop(MODULE_NAME, None)


def load(folder: Path, text: str) -> FlowFile:
    path = folder / "my flow.py"
    path.write_text(HEAD + text)
    return load_flow_file(path)


def refusal(folder: Path, text: str) -> list[str]:
    with pytest.raises(WorkflowFileError) as caught:
        load(folder, text)
    return error_lines(caught.value)


def test_a_flow_with_registry_and_node_types(tmp_path: Path) -> None:
    found = load(tmp_path, "flow = Flow('mine')\ntasks = TaskRegistry()\nnode_types = [NodeType('cpu', 2)]\n")
    assert found.flow.name == "mine"
    assert found.tasks is not None
    assert found.node_types is not None
    assert found.node_types[0].name == "cpu"


def test_a_function_that_builds_one_and_uses_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'built'\n")
    build = "def build():\n    flow = Flow(neighbour.NAME)\n    flow.add(step)\n    return flow\n"
    found = load(tmp_path, f"import neighbour\ndef step(): pass\n{build}")
    assert found.flow.name == "built"
    assert len(found.flow) == 1
    assert found.tasks is None
    assert found.node_types is None
    sys.modules.pop("neighbour")


def test_code_under_the_main_guard_does_not_run(tmp_path: Path) -> None:
    assert load(tmp_path, "flow = Flow()\nif __name__ == '__main__':\n    raise SystemExit(5)\n").flow.name == "flow"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines neither `flow` (a Flow) nor `build()`"),
        ("flow = 3\n", "`flow` is a int, not a Flow"),
        ("build = 3\n", "`build` is a int, not a function"),
        ("def build(): return 'x'\n", "`build()` returned a str, not a Flow"),
        ("flow = Flow()\ntasks = []\n", "`tasks` is a list, not a TaskRegistry"),
        ("flow = Flow()\nnode_types = ['cpu']\n", "`node_types` must be a list of NodeType"),
        ("import sys\nsys.exit('no')\n", "called sys.exit('no')"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    lines = refusal(tmp_path, text)
    assert message in lines[-2]
    assert "my flow.py" in lines[-2]


def test_an_error_in_the_file_is_the_users_traceback(tmp_path: Path) -> None:
    lines = refusal(tmp_path, "def build():\n    return helper()\n\n\ndef helper():\n    return 1 / 0\n")
    text = "\n".join(lines)
    assert lines[0] == "Traceback (most recent call last):"
    assert text.count("my flow.py") == 3
    assert "ZeroDivisionError: division by zero" in lines[-2]
    assert "pyfile.py" not in text


def test_a_syntax_error_shows_its_line(tmp_path: Path) -> None:
    lines = refusal(tmp_path, "flow = = 3\n")
    assert any("flow = = 3" in line for line in lines)
    assert "SyntaxError" in lines[-2]
    assert not any("pyfile.py" in line for line in lines)


def test_an_error_of_ours_keeps_its_code_and_gets_the_users_traceback(tmp_path: Path) -> None:
    with pytest.raises(HandlerRefused) as caught:
        load(tmp_path, "flow = Flow()\nflow.add(lambda: 3)\n")
    lines = error_lines(caught.value)
    assert any("flow.add(lambda: 3)" in line for line in lines)
    assert "[MS102]" in lines[-2]
    assert not any("runtime/flow.py" in line for line in lines)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WorkflowFileError, match="no such file"):
        load_flow_file(tmp_path / "none.py")
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        load_flow_file(tmp_path)

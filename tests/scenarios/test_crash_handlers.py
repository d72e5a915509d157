"""S09, S10: handlers that cannot be imported: broken, gone, or not there yet. The tests write the modules."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime import Flow, NodeState, NodeType, RunState, Runtime
from runtime.errors import HandlerMissing, TaskFailed
from tests.scenarios import handlers
from tests.scenarios.record import log_of
from tests.scenarios.waiting import await_lines, until, words

pytestmark = pytest.mark.slow

WHOLE = """
from tests.scenarios.handlers import mark

def mark_here(path: str, word: str) -> str:
    return mark(path, word)
"""
BROKEN = {
    "gone": None,
    "without-the-function": "def another(): ...\n",
    "raises": "raise RuntimeError('the service that this module asks at import is down')\n",
    "needs-a-package": "import no_such_package_anywhere\n" + WHOLE,
    "no-python": "def mark_here(:\n",
    "exits": "raise SystemExit(3)\n",
}


class Code:
    """A module that workers import, as a file that can be changed under them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / f"{name}.py"
        self.name = name

    def write(self, text: str | None) -> None:
        """Put this text in place, or take the module away."""
        if text is None:
            self.file.unlink(missing_ok=True)
        else:
            aside = self.file.with_suffix(".aside")
            aside.write_text(text)
            aside.replace(self.file)

    def load(self) -> Any:
        """The module's function, as this process sees it now."""
        importlib.invalidate_caches()
        return importlib.import_module(self.name).mark_here


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Code]:
    """A module of a name of its own, importable here and in workers."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"mainspring_scenario_{abs(hash(request.node.nodeid))}"
    yield Code(folder, name)
    sys.modules.pop(name, None)


def until_parked(task: Any) -> None:
    """Wait until a task, or a node, is parked."""
    until(lambda: task.status().state == NodeState.PARKED, f"{task} to be parked")


# --- S09 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "broken"), [*(("park", broken) for broken in BROKEN), ("fail", "gone"), ("fail", "raises")]
)
def test_s09_one_that_cannot_be_started_holds_nobody_up(
    state_dir: Path, tmp_path: Path, code: Code, broken: str, missing: Any
) -> None:
    runs = tmp_path / "runs"
    code.write(WHOLE)
    third = code.load()
    code.write(BROKEN[broken])
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)], missing_handler=missing) as rt:
        first = [rt.submit_nowait(handlers.mark, str(runs), str(i)) for i in range(2)]
        bad = rt.submit_nowait(third, str(runs), "bad")
        others = [rt.submit_nowait(handlers.mark, str(runs), str(i)) for i in range(2, 9)]
        assert [h.result(timeout=30) for h in (*first, *others)] == [str(i) for i in range(9)]
        if missing == "fail":
            with pytest.raises(TaskFailed) as failed:
                bad.result(timeout=30)
            assert failed.value.kind == "no-handler"
        else:
            until_parked(bad)
            assert "no handler" in bad.why()
            assert bad.cancel()
    assert words(runs) == {str(i): 1 for i in range(9)}


@pytest.mark.parametrize(
    ("text", "timeout", "kind"), [("import os; os._exit(1)\n", None, "crash"), ("while True: pass\n", 0.3, "timeout")]
)
def test_s09_a_module_that_ends_or_hangs_at_import_is_the_fault_of_its_task(
    state_dir: Path, tmp_path: Path, code: Code, text: str, timeout: float | None, kind: str
) -> None:
    runs = tmp_path / "runs"
    code.write(WHOLE)
    third = code.load()
    code.write(text)
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, grace=0.1)]) as rt:
        bad = rt.options(timeout=timeout).submit_nowait(third, str(runs), "bad")
        others = [rt.submit_nowait(handlers.mark, str(runs), str(i)) for i in range(9)]
        assert [h.result(timeout=30) for h in others] == [str(i) for i in range(9)]
        with pytest.raises(TaskFailed) as failed:
            bad.result(timeout=30)
        assert failed.value.kind == kind
    assert words(runs) == {str(i): 1 for i in range(9)}


# --- S10 ----------------------------------------------------------------------------------------------------------


def test_s10_work_of_a_handler_that_is_gone_waits_visibly_until_the_handler_is_back(
    state_dir: Path, tmp_path: Path, code: Code
) -> None:
    runs = tmp_path / "runs"
    code.write(WHOLE)
    flow = Flow("old")
    gate = tmp_path / "gate"
    held = flow.add(handlers.hold, str(runs), "held", str(gate))
    flow.add(code.load(), str(runs), "old", after=[held])
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        rt.submit(flow, run_id="old")
        await_lines(runs, 1)
        rt.close(drain=False)
    gate.touch()
    code.write(None)
    for _ in range(2):  # a restart without the handler changes nothing
        with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
            run = rt.handle("old")
            until_parked(run.node(1))
            assert "no handler" in run.why()
            assert "no handler" in run.node(1).why()
            assert run.status().state == RunState.RUNNING
    code.write(WHOLE)
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        assert rt.handle("old").wait(timeout=30) == RunState.SUCCEEDED
    assert words(runs)["old"] == 1
    assert log_of(state_dir).attempts == []


def test_s10_a_handler_that_appears_while_the_engine_runs_is_found(state_dir: Path, tmp_path: Path, code: Code) -> None:
    runs = tmp_path / "runs"
    code.write(WHOLE)
    task = code.load()
    code.write(None)
    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        parked = [rt.submit(task, str(runs), str(i)) for i in range(100)]
        until(lambda: all(h.status().state == NodeState.PARKED for h in parked), "all to be parked")
        code.write(WHOLE)
        assert [h.result(timeout=30) for h in parked] == [str(i) for i in range(100)]
    assert words(runs) == {str(i): 1 for i in range(100)}
    assert log_of(state_dir).attempts == []


def test_s10_who_waits_for_a_handler_that_is_gone_is_told_once(
    state_dir: Path, tmp_path: Path, code: Code, caplog: pytest.LogCaptureFixture
) -> None:
    runs = tmp_path / "runs"
    code.write(WHOLE)
    task = code.load()
    code.write(None)
    results: list[str] = []

    def told() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name == "mainspring" and r.levelname == "WARNING"]

    with Runtime(state_dir, node_types=[NodeType("default", workers=2)]) as rt:
        parked = rt.submit(task, str(runs), "first")
        waiting = threading.Thread(target=lambda: results.append(parked.result(timeout=60)))
        waiting.start()
        (warning,) = until(told, "a warning")
        assert waiting.is_alive()
        assert f"{code.name}:mark_here" in warning
        assert f"ModuleNotFoundError: No module named '{code.name}'" in warning
        assert HandlerMissing.hint in warning
        others = [rt.submit(task, str(runs), str(i)) for i in range(10)]
        others.append(rt.options(timeout=60.0).submit(task, str(runs), "other options"))
        until(lambda: all(h.status().state == NodeState.PARKED for h in others), "all to be parked")
        code.write(WHOLE)
        waiting.join(30)
        assert results == ["first"]
        assert others[-1].result(timeout=30) == "other options"
    assert told() == [warning]


def test_s10_work_of_a_node_type_that_is_gone_waits_visibly_until_it_is_back(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    old = [NodeType("default", workers=1), NodeType("gpu", workers=1)]
    with Runtime(state_dir, node_types=old) as rt:
        handle = rt.options(node_type="gpu").submit(handlers.hold, str(runs), "task", str(gate))
        await_lines(runs, 1)
        rt.close(drain=False)
    gate.touch()
    with Runtime(state_dir, node_types=old[:1]) as rt:
        assert "'gpu'" in rt.handle(handle.run_id).node(0).why()
        assert rt.submit(handlers.mark, str(runs), "other").result(timeout=30) == "other"
    with Runtime(state_dir, node_types=old) as rt:
        assert rt.handle(handle.run_id).result(timeout=30) == "task"
    assert words(runs) == {"task": 2, "other": 1}

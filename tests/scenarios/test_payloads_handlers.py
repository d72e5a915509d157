"""S27, S28: what cannot be a handler is refused where it is given, with the reason; never later, in a worker."""

from __future__ import annotations

import functools
import multiprocessing
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Flow, NodeType, Runtime, TaskRegistry, errors
from tests.scenarios import handlers_payloads as handlers
from tests.tidy.tree import ROOT

POOLS: Final = [NodeType("cpu", workers=1), NodeType("io", workers=1, mode="asyncio", concurrency=10)]


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(tmp_path_factory.mktemp("handlers") / "state", node_types=POOLS, durability="os") as opened:
        for pool in POOLS:
            opened.options(node_type=pool.name).submit(handlers.pid).result(timeout=60)
        yield opened


def ways(rt: Runtime, fn: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """All ways to give a handler to the engine."""
    return {
        "registration": lambda: TaskRegistry().task(fn),
        "registration with options": lambda: TaskRegistry().task(timeout=1.0)(fn),
        "submit": lambda: rt.submit(fn, "x"),
        "submit_nowait": lambda: rt.submit_nowait(fn, "x"),
        "submit with a run id": lambda: rt.submit(fn, "x", run_id="never"),
        "options": lambda: rt.options(priority="high").submit(fn, "x"),
        "map": lambda: rt.map(fn, ["x"]),
        "flow": lambda: Flow("refused").add(fn, "x"),
        "partial": lambda: rt.submit(functools.partial(fn), "x"),
    }


@pytest.mark.parametrize(
    "fn", [handlers.generator_handler, handlers.async_generator_handler, handlers.CallableGenerator()]
)
def test_s27_a_generator_is_refused_wherever_it_is_given(rt: Runtime, fn: Any) -> None:
    before = sum(1 for _ in rt.runs())
    for name, way in ways(rt, fn).items():
        with pytest.raises(errors.HandlerRefused) as refused:
            way()
        assert "generator" in str(refused.value) or "instance" in str(refused.value), name
    assert sum(1 for _ in rt.runs()) == before


@pytest.mark.slow
@pytest.mark.parametrize("node_type", ["cpu", "io"])
def test_s27_a_generator_that_shows_only_as_result_fails_with_the_reason(rt: Runtime, node_type: str) -> None:
    """It hangs nobody and is not consumed; the worker goes on."""
    pool = rt.options(node_type=node_type)
    for fn in (handlers.returns_generator, handlers.returns_async_generator, handlers.awaits_generator):
        failed = pool.submit(fn, 3).exception(timeout=30)
        assert failed is not None
        assert failed.kind == "error"
        assert "generator, which has no value; return a list" in failed.message
    failed = pool.submit(handlers.returns_iterator, 3).exception(timeout=30)
    assert failed is not None
    assert failed.kind == "payload"
    assert pool.submit(handlers.echo, 1).result(timeout=30) == 1


NAMELESS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "lambda": (lambda name: name, "lambda"),
    "named lambda": (handlers.as_lambda, "lambda"),
    "local function": (handlers.local_function(), "defined inside"),
    "closure": (handlers.closure("x"), "defined inside"),
    "method of a local class": (handlers.local_class_method(), "defined inside"),
    "bound method": (handlers.Greeter().greet, "bound to an instance"),
    "hidden by a later definition": (handlers.original, "another object"),
    "wrapped": (functools.wraps(handlers.echo)(lambda value: value), "another object"),
    "cached": (functools.lru_cache(maxsize=None)(handlers.pid), "another object"),
}


@pytest.mark.parametrize("kind", NAMELESS)
def test_s28_what_has_no_name_is_refused_wherever_it_is_given(rt: Runtime, kind: str) -> None:
    fn, reason = NAMELESS[kind]
    for name, way in ways(rt, fn).items():
        if name.startswith("registration") and reason == "another object":
            continue  # while a decorator runs its name does not lead anywhere yet
        with pytest.raises(errors.HandlerRefused) as refused:
            way()
        assert reason in str(refused.value), name
        assert "importable module" in str(refused.value), "the hint"


@pytest.mark.slow
def test_s28_what_has_a_name_works(rt: Runtime) -> None:
    """Class methods, static methods, builtins, classes, unbound methods, methods of builtin types."""
    assert rt.submit(handlers.Greeter.of_class, "a").result(timeout=30) == "Greeter a"
    assert rt.submit(handlers.Greeter.of_nobody, "a").result(timeout=30) == "static a"
    assert rt.submit(handlers.replaced, "a").result(timeout=30) == "second a"
    assert rt.submit(sum, [1, 2]).result(timeout=30) == 3
    assert rt.submit(str.upper, "abc").result(timeout=30) == "ABC"
    assert rt.submit(dict.fromkeys, ["a"], 1).result(timeout=30) == {"a": 1}
    assert rt.submit(complex, 1, 2).result(timeout=30) == 1 + 2j
    assert rt.submit(functools.partial(handlers.echo_all, 1, named=2), 3).result(timeout=30) == [(1, 3), {"named": 2}]


# --- the main program ------------------------------------------------------------------------------------------------

SCRIPT: Final = """
import sys
from dataclasses import dataclass
from runtime import Flow, NodeType, Runtime

@dataclass
class Row:
    name: str

def greet(row):
    return Row("hello " + row.name)

def both(left, right):
    return [left, right]

def program(state):
    with Runtime(state, node_types=[NodeType("cpu", workers=1)]) as rt:
        flow = Flow("main")
        one = flow.add(greet, Row("one"))
        flow.add(both, one, Row("two"))
        found = rt.run(flow, timeout=60).result()
        assert found == [Row("hello one"), Row("two")], found
        assert type(found[0]) is Row
        assert list(rt.map(greet, [Row("three")])) == [Row("hello three")]
    print("done")
"""
GUARD: Final = """
if __name__ == "__main__":
    program(sys.argv[1])
"""


def run_python(*arguments: str, cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """A Python program of its own, without the test run's environment."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", *arguments],
        input=stdin,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_s28_functions_and_classes_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT + GUARD)
    done = run_python("script.py", "state", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.slow
def test_s28_functions_and_classes_of_a_module_run_as_program(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "program.py").write_text(SCRIPT + GUARD)
    done = run_python("-m", "package.program", "state", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_s28_the_same_in_a_program_that_was_forked_or_spawned(tmp_path: Path, way: str) -> None:
    """The host program may itself be a child of multiprocessing."""
    assert way in multiprocessing.get_all_start_methods()
    parent = f"""
        if __name__ == "__main__":
            import multiprocessing
            child = multiprocessing.get_context("{way}").Process(target=program, args=("state",))
            child.start()
            child.join()
            sys.exit(child.exitcode)
    """
    (tmp_path / "script.py").write_text(SCRIPT + textwrap.dedent(parent))
    done = run_python("script.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


NOTEBOOK: Final = """
from runtime import NodeType, Runtime, errors
def typed(value):
    return value
with Runtime("state", node_types=[NodeType("cpu", workers=1)]) as rt:
    try:
        rt.submit(typed, 1)
    except errors.HandlerRefused as refused:
        print(refused)
    import math
    print(rt.submit(math.sqrt, 4.0).result(timeout=60))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["-c", "stdin", "cell"])
def test_s28_what_was_typed_into_a_session_is_refused_with_the_reason(tmp_path: Path, way: str) -> None:
    """As in a notebook; importable functions work there."""
    if way == "-c":
        done = run_python("-c", NOTEBOOK, cwd=tmp_path)
    elif way == "stdin":
        done = run_python("-", cwd=tmp_path, stdin=NOTEBOOK)
    else:  # a kernel is a module that executes cells in the namespace of __main__
        cells = (
            f"import sys\nexec(compile({NOTEBOOK!r}, '<ipython-input-1>', 'exec'), sys.modules['__main__'].__dict__)\n"
        )
        (tmp_path / "kernel.py").write_text(cells)
        done = run_python("-m", "kernel", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said, found = done.stdout.splitlines()
    assert "typed was defined in an interactive session or notebook" in said
    assert "move it into a module file" in said
    assert found == "2.0"


@pytest.mark.slow
def test_s28_a_script_without_a_guard_is_told_to_add_one(tmp_path: Path) -> None:
    """Workers run the script too, up to its Runtime: what is defined before works, what is defined after does not."""
    program = """
        from runtime import NodeType, Runtime
        def before(value):
            return value + 1
        rt = Runtime("state", node_types=[NodeType("cpu", workers=1)], missing_handler="fail")
        def after(value):
            return value
        print(rt.submit(before, 1).result(timeout=60))
        print(rt.submit(after, 1).exception(timeout=60))
        rt.close()
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(program))
    done = run_python("script.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == "2"
    assert "NestedRuntime" in second
    assert "'after' is defined after that" in second

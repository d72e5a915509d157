"""Finding handlers by name. Scripts are run in workers of their own, because they change `sys.modules`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

from actors.protocol.errors import HandlerRefused
from runtime.context import TaskContext
from runtime.host.handlers import Handler, _no_loop_running, inside_worker, load, resolve
from runtime.mail.codec import Codec
from tests.unit.host import worker_handlers
from tests.unit.host.rig import HANDLERS, Rig

SCRIPT = """
import os, sys
from dataclasses import dataclass
from runtime import Runtime, TaskRegistry

tasks = TaskRegistry()
COUNT = [0]

@dataclass
class Point:
    x: int

@tasks.task
def move(point):
    COUNT[0] += 1
    return [Point(point.x + 1), __name__, COUNT[0]]

def plain(x):
    return x + 1
{rest}
"""
UNGUARDED = """
with Runtime({folder!r}, tasks) as rt:
    rt.submit(move, Point(1)).result()

def after(x):
    return x
"""
ASYNC_UNGUARDED = """
import asyncio
from runtime import AsyncRuntime

async def double(x):
    await asyncio.sleep(0)
    return 2 * x

async def main():
    async with AsyncRuntime({folder!r}) as rt:
        await rt.submit(double, 1)

asyncio.run(main())

async def after(x):
    return x
"""


@pytest.fixture
def worker() -> Iterator[Rig]:
    with Rig() as rig:
        yield rig


@dataclass
class Point:
    """As the script has it."""

    x: int


def point(x: int) -> Any:
    """The wire value of the script's Point, as the program that was started with it would send it."""
    text = Codec().encode(Point(x)).decode()
    return orjson.loads(text.replace(f"{__name__}:Point", "__main__:Point"))


def test_functions_builtins_methods_and_tasks_are_found() -> None:
    assert resolve("math:sqrt") is math.sqrt
    assert resolve("builtins:str.upper") is str.upper
    assert resolve(f"{HANDLERS}:add_one") is worker_handlers.add_one
    assert resolve(f"{HANDLERS}:registered") is worker_handlers.registered.fn


@pytest.mark.parametrize("name", ["generate", "generate_async", "KEPT"])
def test_what_cannot_be_a_handler_is_refused(name: str) -> None:
    with pytest.raises(HandlerRefused):
        resolve(f"{HANDLERS}:{name}")


@pytest.mark.parametrize(("name", "error"), [("absent", AttributeError), ("a.b", AttributeError)])
def test_what_is_not_there_raises_what_the_import_raises(name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve(f"{HANDLERS}:{name}")
    with pytest.raises(ModuleNotFoundError):
        resolve(f"tests.unit.host.no_such_module:{name}")


def handler(name: str, shape: str = "one", **options: object) -> Handler:
    return load({"handler": f"{HANDLERS}:{name}", "shape": shape, **options})


def test_a_handler_knows_how_it_is_called() -> None:
    assert handler("add_one").simple
    assert not handler("add_one", "template").simple
    assert not handler("add_one_async").simple
    assert handler("add_one_async").coroutine
    assert handler("echo", payloads="pickle").pickle


@pytest.mark.parametrize(("name", "place"), [("describe_first", 0), ("describe", 1), ("describe_async", -1)])
def test_the_place_of_the_context_is_found(name: str, place: int) -> None:
    found = handler(name, context=True, context_arg="ctx")
    assert (found.context_arg, found.context_place, found.simple) == ("ctx", place, False)
    assert TaskContext.__module__ == "runtime.context"


def test_this_process_is_no_worker() -> None:
    assert not inside_worker()


def test_a_script_is_run_once_and_not_as_the_main_program(worker: Rig, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(rest='if __name__ == "__main__":\n    sys.exit("ran as main")'))
    found = worker.run(f"file:{script}:move", point(1), point(2), shape="one")
    assert all("__main__:Point" in str(value) for value in found), "its classes keep the name that the program knows"
    assert all("'__mp_main__'" in str(value) for value in found)
    assert [str(value).rpartition(", ")[2][0] for value in found] == ["1", "2"], "the module was made once"
    assert worker.run(f"file:{script}:plain", 1, shape="one") == [2]


def test_a_script_without_a_guard_is_left_where_it_starts_a_runtime(worker: Rig, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(rest=UNGUARDED.format(folder=str(tmp_path / "state"))))
    assert worker.run(f"file:{script}:plain", 1, shape="one") == [2]
    failure = worker.run(f"file:{script}:after", 1, shape="one")[0]
    assert failure["kind"] == "error"
    assert failure["type"].endswith("NestedRuntime")
    assert "if __name__" in failure["message"]
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
def test_an_asyncio_script_without_a_guard_is_left_there_too(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(ASYNC_UNGUARDED.format(folder=str(tmp_path / "state")))
    with Rig("asyncio", slots=2) as worker:
        assert worker.run(f"file:{script}:double", 1, 2, shape="one") == [2, 4]
        assert worker.run(f"file:{script}:after", 1, shape="one")[0]["type"].endswith("NestedRuntime")
    assert not (tmp_path / "state").exists()


def test_a_script_that_fails_is_reported_and_tried_again(worker: Rig, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("def f(x):\n    return x\n\n1 / 0\n")
    failure = worker.run(f"file:{script}:f", 1, shape="one")[0]
    assert (failure["kind"], failure["type"]) == ("no-handler", "ZeroDivisionError")
    assert "program.py" in failure["traceback"]
    script.write_text("def f(x):\n    return x\n")
    assert worker.run(f"file:{script}:f", 1, shape="one") == [1]


def test_two_scripts_do_not_mix(worker: Rig, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(f"def f(x):\n    return {name!r}\n")
    for name in ("one", "two", "one"):
        assert worker.run(f"file:{tmp_path / name}.py:f", 1, shape="one") == [name]


def test_a_class_of_the_main_script_is_found_for_handlers_elsewhere(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT.format(rest=""))
    with Rig(main=str(script)) as rig:
        assert rig.run("echo", point(5), shape="one") == [point(5)]


def test_a_crash_while_importing_counts_for_the_task(worker: Rig, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import os\nos._exit(5)\n")
    first = worker.lease(worker.kind(f"file:{script}:f", "one"), [1, 2])
    worker.exited()
    assert worker.table.current()[0] == first


def test_a_script_may_load_while_another_thread_imports_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that answers a question of the profiler; then the modules are there, and have nothing in them yet."""
    for name in ("asyncio", "asyncio.events"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with _no_loop_running():
        pass

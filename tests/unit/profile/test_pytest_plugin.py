"""The fixture fails tests that leave something behind, and no others; tests are run by a pytest of their own.

Acceptance test 4: a planted leak fails the build.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
TESTS = """
import asyncio
import socket
import threading

import pytest

kept = []

async def waits(future):
    await future

async def starts():
    future = asyncio.get_running_loop().create_future()
    kept.append((future, asyncio.create_task(waits(future), name="orders")))
    await asyncio.sleep(0)

@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    kept.append(loop)

@pytest.mark.no_leaks(settle=0.0)
def test_leaves_a_task(loop):
    loop.run_until_complete(starts())

@pytest.mark.no_leaks(settle=0.0, ignore=["waits", "descriptor"])
def test_may_leave_it(loop):
    loop.run_until_complete(starts())

def test_leaves_a_thread(no_leaks):
    event = threading.Event()
    kept.append(event)
    threading.Thread(target=event.wait, daemon=True, name="orders").start()
    no_leaks.since_ns  # what it gives

@pytest.mark.no_leaks(settle=0.0)
@pytest.mark.filterwarnings("ignore")
def test_forgets_an_await():
    waits(None)

@pytest.mark.no_leaks(settle=0.0)
def test_forgets_an_exception(loop):
    async def fails():
        raise ValueError("nobody will know")
    async def starts():
        asyncio.create_task(fails())
        await asyncio.sleep(0.01)
    loop.run_until_complete(starts())
    loop.close()

@pytest.mark.no_leaks(settle=0.0)
def test_fails_with_a_socket_that_its_traceback_keeps():
    kept_by_the_frame = socket.socket()
    raise ValueError

@pytest.mark.no_leaks
def test_is_clean():
    asyncio.run(asyncio.sleep(0))
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()

@pytest.mark.no_leaks(ignored=["waits"])
def test_says_it_wrongly(loop):
    pass


def test_is_labelled(no_leaks, loop):
    from runtime.profile.sampling.contexts import labels_of
    async def looks():
        return dict(labels_of(asyncio.current_task()))
    assert loop.run_until_complete(looks())["test"].endswith("test_orders.py::test_is_labelled")
    loop.close()

def test_is_not_asked(loop):
    loop.run_until_complete(starts())
"""


PLUGIN = """
import asyncio
import inspect
import pytest

@pytest.fixture(scope="module")
def loop_of_module():
    loop = asyncio.new_event_loop()
    loop.create_task(asyncio.sleep(60))
    yield loop
    for task in asyncio.all_tasks(loop):
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
    loop.close()

def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    if pyfuncitem.get_closest_marker("of_module"):
        pyfuncitem._request.getfixturevalue("loop_of_module").run_until_complete(pyfuncitem.obj())
    else:
        asyncio.run(pyfuncitem.obj())
    return True
"""
COROUTINES = """
import asyncio
import pytest

kept = []

async def starts():
    kept.append(asyncio.create_task(asyncio.Event().wait(), name="orders"))

@pytest.mark.of_module
@pytest.mark.no_leaks(settle=0.0)
async def test_of_module_is_clean():
    await asyncio.sleep(0)

@pytest.mark.of_module
@pytest.mark.no_leaks(settle=0.0)
async def test_of_module_leaves_a_task():
    await starts()

@pytest.mark.no_leaks(settle=0.0)
async def test_leaves_a_task():
    await starts()

@pytest.mark.no_leaks
async def test_is_clean():
    await asyncio.create_task(asyncio.sleep(0))
"""


def test_a_coroutine_ends_its_tasks_and_a_loop_of_its_module_may_stay(tmp_path: Path) -> None:
    """As pytest-asyncio and anyio run them: what is left of a loop is cancelled before a fixture could look."""
    tmp_path.joinpath("conftest.py").write_text(PLUGIN)
    tmp_path.joinpath("test_orders.py").write_text(COROUTINES)
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\nmarkers = of_module: its loop is that of its module\n")
    ended, said = ran(tmp_path)
    assert ended == {
        "test_of_module_is_clean": "PASSED",
        "test_of_module_leaves_a_task": "FAILED",
        "test_leaves_a_task": "FAILED",
        "test_is_clean": "PASSED",
    }, said
    for name in ("test_of_module_leaves_a_task", "test_leaves_a_task"):
        report = said.partition(f"_ {name} _")[2].partition("\n_")[0]
        assert report.count("1 x task (orders)") == 1
        assert f"created at starts ({tmp_path}/test_orders.py:8)" in report


def ran(folder: Path) -> tuple[dict[str, str], str]:
    """How the tests of a folder end, and what is said."""
    command = [sys.executable, "-m", "pytest", "-p", "runtime.profile.pytest_plugin", "-p", "no:cacheprovider"]
    more = ["-q", "-rA", "--strict-markers", "--tb=short", f"--rootdir={folder}", str(folder)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # it may be installed, too, and is named here
    done = subprocess.run([*command, *more], cwd=ROOT, env=alone, capture_output=True, text=True)
    rows = [line.split() for line in done.stdout.splitlines() if "::" in line]
    ended = {row[1].rpartition("::")[2]: row[0] for row in rows if row[0] in ("PASSED", "FAILED", "ERROR")}
    return ended, done.stdout


def test_what_leaves_something_behind_fails(tmp_path: Path) -> None:
    tmp_path.joinpath("test_orders.py").write_text(TESTS)
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\n")
    ended, said = ran(tmp_path)
    assert ended == {
        "test_leaves_a_task": "ERROR",
        "test_may_leave_it": "PASSED",
        "test_leaves_a_thread": "ERROR",
        "test_forgets_an_await": "ERROR",
        "test_forgets_an_exception": "ERROR",
        "test_is_clean": "PASSED",
        "test_says_it_wrongly": "ERROR",
        "test_is_labelled": "PASSED",
        "test_is_not_asked": "PASSED",
        "test_fails_with_a_socket_that_its_traceback_keeps": "FAILED",
    }, said
    for text in (
        "1 x task (orders)", "waits at waits (", "1 x thread (orders)", "1 x unawaited (waits)", "1 x unread (Task-",
        "takes settle= and ignore= only", "created at test_leaves_a_thread (",
    ):  # fmt: skip
        assert text in said

"""Executor keeps the promises of `concurrent.futures`, with an engine in a thread and, slowly, with processes."""

from __future__ import annotations

import gc
import operator
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from runtime import invoke, opening
from runtime.errors import ConfigurationError, QueueFull
from runtime.executor import Executor
from runtime.testing import InlineStarter
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one, echo, fail, gather, through_gate


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors whose engine is a thread."""

    def starter(config: dict[str, Any]) -> InlineStarter:
        return InlineStarter(config["state_dir"], [n["name"] for n in config["node_types"]])

    monkeypatch.setattr(opening, "ProcessStarter", starter)
    monkeypatch.setattr(invoke, "INITIALIZED", invoke._Once())


@pytest.fixture
def pool(inline: None) -> Iterator[Executor]:
    with Executor(2) as found:
        yield found
        handlers.GATE.set()


# --- calls ------------------------------------------------------------------------------------------------------------


def test_calls_of_all_kinds(pool: Executor) -> None:
    assert pool.submit(pow, 2, 10).result(10) == 1024
    assert pool.submit(gather, 1, key=(2, 3)).result(10) == [[1], {"key": (2, 3)}]
    assert pool.submit(handlers.Tool().method).result(10) == 1
    assert pool.submit(handlers.Callee()).result(10) == 1
    assert pool.submit(echo, b"x" * 300_000).result(10) == b"x" * 300_000
    assert pool.submit(operator.methodcaller("upper"), "a").result(10) == "A"


def test_map(pool: Executor) -> None:
    assert list(pool.map(pow, range(20), range(20))) == list(map(pow, range(20), range(20)))
    for chunksize in (3, 20, 50):
        assert list(pool.map(pow, range(20), range(20), chunksize=chunksize)) == list(map(pow, range(20), range(20)))
    with pytest.raises(ValueError, match="chunksize"):
        pool.map(abs, [1], chunksize=0)
    results = pool.map(divmod, [1, 1, 1], [2, 0, 5])
    assert next(results) == (0, 1)
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_map_has_a_time_limit(pool: Executor) -> None:
    with pytest.raises(TimeoutError):
        list(pool.map(through_gate, [1], timeout=0.01))
    handlers.GATE.set()
    results = pool.map(through_gate, range(10), chunksize=4)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]


def test_futures_are_settled_as_they_end(pool: Executor) -> None:
    futures = [pool.submit(add_one, i) for i in range(50)]
    assert {future.result(10) for future in as_completed(futures, 10)} == set(range(1, 51))
    assert not wait(futures).not_done


def test_callbacks(pool: Executor) -> None:
    seen, done = [], threading.Event()
    future = pool.submit(add_one, 1)
    future.add_done_callback(lambda f: (seen.append(f.result()), done.set()))
    assert done.wait(10)
    assert seen == [2]


# --- failures ---------------------------------------------------------------------------------------------------------


def test_the_exception_is_the_handlers_with_its_traceback(pool: Executor) -> None:
    error = pool.submit(fail, "bad").exception(10)
    assert type(error) is ValueError
    assert error.args == ("bad",)
    assert "raise ValueError(text)" in str(error.__cause__)


def test_what_cannot_be_pickled_fails_its_own_call(pool: Executor) -> None:
    assert isinstance(pool.submit(lambda: 1).exception(10), pickle.PicklingError)
    assert isinstance(pool.submit(echo, threading.Lock()).exception(10), (pickle.PicklingError, TypeError))
    assert pool.submit(add_one, 1).result(10) == 2


def make_lock() -> Any:
    return threading.Lock()


class Stubborn:
    """Pickles, and exits when it is unpickled."""

    def __reduce__(self) -> Any:
        return sys.exit, (3,)


def make_stubborn() -> Stubborn:
    return Stubborn()


def test_a_result_that_cannot_travel(pool: Executor) -> None:
    assert isinstance(pool.submit(make_lock).exception(10), pickle.PicklingError)
    assert isinstance(pool.submit(make_stubborn).exception(10), BrokenProcessPool)


# --- cancelling -------------------------------------------------------------------------------------------------------


def test_calls_that_wait_can_be_cancelled_and_never_run(pool: Executor) -> None:
    futures = [pool.submit(through_gate, i) for i in range(30)]
    assert futures[0].running()
    assert not futures[0].cancel()
    assert futures[-1].cancel()
    handlers.GATE.set()
    with pytest.raises(CancelledError):
        futures[-1].result(10)
    assert [f.result(10) for f in futures[:-1]] == list(range(29))


def test_little_is_handed_over_ahead_of_slow_calls(pool: Executor) -> None:
    futures = [pool.submit(through_gate, i) for i in range(100)]
    assert sum(f.running() for f in futures) <= 2 + 1
    handlers.GATE.set()
    assert [f.result(10) for f in futures] == list(range(100))


def test_a_full_engine_is_waited_for(pool: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch = pool._core.runtime._dispatch
    send, refusals = dispatch.send, [QueueFull("full")] * 3

    def refuse(*args: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return send(*args)

    monkeypatch.setattr(dispatch, "send", refuse)
    futures = [pool.submit(add_one, i) for i in range(5)]
    assert [f.result(10) for f in futures] == [1, 2, 3, 4, 5]


# --- the end ----------------------------------------------------------------------------------------------------------


def test_shutdown_waits_and_refuses_more(inline: None) -> None:
    pool = Executor(1)
    futures = [pool.submit(add_one, i) for i in range(20)]
    pool.shutdown()
    assert all(f.done() for f in futures)
    assert not Path(pool._core._folder or "").exists()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(add_one, 1)
    pool.shutdown()


def test_shutdown_can_cancel(inline: None) -> None:
    pool = Executor(1)
    futures = [pool.submit(through_gate, i) for i in range(50)]
    threading.Timer(0.05, handlers.GATE.set).start()
    pool.shutdown(cancel_futures=True)
    cancelled = [f for f in futures if f.cancelled()]
    assert len(cancelled) > 40
    assert all(f.done() for f in futures)
    assert wait(futures, 0).not_done == set()


def test_shutdown_without_waiting_finishes_the_calls(inline: None) -> None:
    pool = Executor(1)
    futures = [pool.submit(through_gate, i) for i in range(10)]
    pool.shutdown(wait=False)
    handlers.GATE.set()
    assert [f.result(10) for f in futures] == list(range(10))
    pool._core.end(wait=True)


def test_a_dropped_executor_finishes_its_calls(inline: None) -> None:
    pool = Executor(1)
    core, results = pool._core, pool.map(add_one, range(5))
    del pool
    gc.collect()
    assert list(results) == [1, 2, 3, 4, 5]
    core.end(wait=True)
    assert core.runtime._client.closed


# --- settings ---------------------------------------------------------------------------------------------------------


def test_settings_are_checked(inline: None) -> None:
    for settings, error in (
        ({"max_workers": 0}, ValueError),
        ({"max_workers": 1, "initializer": 3}, TypeError),
        ({"max_workers": 1, "max_tasks_per_child": 0}, ValueError),
        ({"max_workers": 1, "max_tasks_per_child": "x"}, TypeError),
        ({"max_workers": 1, "initializer": lambda: None}, ConfigurationError),
    ):
        with pytest.raises(error):
            Executor(**settings)  # type: ignore[arg-type]
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("mainspring-executor-")]


SEEN: list[Any] = []


def initialise(value: Any) -> None:
    SEEN.append(value)


def initialise_badly() -> None:
    raise OSError("no database")


def seen() -> list[Any]:
    return list(SEEN)


@pytest.mark.parametrize("own_folder", [True, False])
def test_the_initializer_runs_once(inline: None, own_folder: bool, tmp_path: Path) -> None:
    SEEN.clear()
    with Executor(1, initializer=initialise, initargs=((7,),), state_dir=tmp_path if own_folder else None) as pool:
        assert pool.submit(seen).result(10) == [(7,)]
        assert pool.submit(seen).result(10) == [(7,)]
    assert own_folder == (tmp_path / "mainspring.json").exists()


def test_an_initializer_that_fails_breaks_the_executor(inline: None) -> None:
    with Executor(1, initializer=initialise_badly) as pool:
        first = pool.submit(add_one, 1)
        assert isinstance(first.exception(10), BrokenProcessPool)
        assert "no database" in str(first.exception())
        assert pool._broken
        with pytest.raises(BrokenProcessPool):
            pool.submit(add_one, 1)


# --- with processes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_crash_fails_its_own_call() -> None:
    with Executor(1, max_tasks_per_child=100) as pool:
        assert pool.submit(os.getpid).result(30) != os.getpid()
        assert isinstance(pool.submit(os.abort).exception(30), BrokenProcessPool)
        assert pool.submit(pow, 2, 8).result(30) == 256
        assert list(pool.map(pow, range(50), range(50), chunksize=7)) == list(map(pow, range(50), range(50)))


FORGOTTEN = """
import time
from runtime import Executor
if __name__ == "__main__":
    pool = Executor(2)
    for _ in range(4):
        pool.submit(print, "ran", flush=True)
    last = pool.submit(time.sleep, 0.01)
    last.add_done_callback(lambda f: print("ended", flush=True))
"""


@pytest.mark.slow
def test_a_program_that_forgets_it_ends_when_the_calls_have(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(FORGOTTEN)
    env = {**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
    assert os.listdir(tmp_path) == ["script.py"]

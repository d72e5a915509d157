"""A submission that is repeated under its key starts nothing: in one program, in several, and whatever is killed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import NodeType, Retention, Runtime
from runtime.errors import TaskFailed, UnknownRun
from tests.scenarios import handlers
from tests.scenarios.processes import OwnFamily, host_program, kill
from tests.scenarios.waiting import await_gone, await_lines, words

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1)]
KEY: Final = "invoice-17"


def test_two_programs_at_once_run_it_once(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    gate.touch()
    args = (state_dir, runs, gate)
    with host_program("keyed", *args) as one, host_program("keyed", *args) as two:
        told = [[host.read_line(), host.read_line()] for host in (one, two)]
        for host in (one, two):
            host.end()
    assert told[0] == told[1]
    assert told[0][1] == "charged"
    assert words(runs) == {"charged": 1}


def test_after_everything_was_killed_the_first_one_goes_on(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with Runtime(state_dir, node_types=ONE) as rt:  # it waits: nothing has run when all is killed
        rt.pause("class:normal")
    with host_program("keyed", state_dir, runs, gate) as host:
        first = host.read_line()
        everybody = [host.pid, *host.family.all]
        kill(*everybody)
        host.end()
        await_gone(everybody)
    with Runtime(state_dir, node_types=ONE) as rt:
        again = rt.submit(handlers.hold, str(runs), "charged", str(gate), idempotency_key=KEY)
        rt.resume("class:normal")
        await_lines(runs, 1)
        running = rt.submit(handlers.hold, str(runs), "charged", str(gate), idempotency_key=KEY)
        assert [again.run_id, running.run_id] == [first, first]
        gate.touch()
        assert [again.result(timeout=30), running.result(timeout=30)] == ["charged", "charged"]
    assert words(runs) == {"charged": 1}
    with host_program("keyed", state_dir, runs, gate) as host:
        assert [host.read_line(), host.read_line()] == [first, "charged"]
        host.end()
    assert words(runs) == {"charged": 1}


def test_a_handle_that_stands_for_another_programs_run_outlives_the_engine(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"

    def submit(rt: Runtime) -> Any:
        return rt.submit(handlers.mark, str(runs), "charged", idempotency_key=KEY)

    with Runtime(state_dir, node_types=ONE) as rt:
        rt.pause("class:normal")
        first = submit(rt).run_id
        rt.close(drain=False)
    with Runtime(state_dir, node_types=ONE) as rt:
        handle, more = submit(rt), submit(rt)
        heard = threading.Event()
        handle.add_done_callback(lambda _: heard.set())
        for _ in range(2):
            engine = OwnFamily(rt).engine
            kill(engine)
            await_gone([engine])
        rt.resume("class:normal")
        assert heard.wait(30)
        assert {handle.run_id, more.run_id} == {first}
        assert [handle.result(timeout=30), more.result(timeout=30)] == ["charged", "charged"]
    assert words(runs) == {"charged": 1}


def test_many_threads_and_a_dying_engine(state_dir: Path, tmp_path: Path) -> None:
    runs, keys, threads_count = tmp_path / "runs", 40, 4
    told: list[dict[int, tuple[str, str]]] = [{} for _ in range(threads_count)]

    def submit_all(rt: Runtime, into: dict[int, tuple[str, str]]) -> None:
        sent = {i: rt.submit(handlers.mark, str(runs), str(i), idempotency_key=f"key {i}") for i in range(keys)}
        into.update({i: (handle.run_id, handle.result(timeout=60)) for i, handle in sent.items()})

    with Runtime(state_dir, node_types=ONE) as rt:
        rt.pause("class:normal")  # no attempt is killed, so each runs once
        threads = [threading.Thread(target=submit_all, args=(rt, into)) for into in told]
        for thread in threads:
            thread.start()
        for _ in range(3):
            engine = OwnFamily(rt).engine
            kill(engine)
            await_gone([engine])
        rt.resume("class:normal")
        for thread in threads:
            thread.join()
    assert all(len(into) == keys for into in told)
    assert all(into == told[0] for into in told)
    assert words(runs) == {str(i): 1 for i in range(keys)}


def test_a_failure_is_kept_and_a_key_outlives_its_run(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Runtime(state_dir, node_types=ONE, retention=Retention(runs=20)) as rt:
        first = rt.submit(handlers.fail, str(runs), "charged", idempotency_key=KEY)
        with pytest.raises(TaskFailed, match="charged failed"):
            first.result(timeout=30)
    with Runtime(state_dir, node_types=ONE, retention=Retention(runs=20)) as rt:
        with pytest.raises(TaskFailed, match="charged failed"):
            rt.submit(handlers.fail, str(runs), "charged", idempotency_key=KEY).result(timeout=30)
        for i in range(100):
            rt.submit(handlers.mark, str(tmp_path / "others"), str(i)).result(timeout=30)
        with pytest.raises(TaskFailed, match="charged failed"):
            rt.submit(handlers.fail, str(runs), "charged", idempotency_key=KEY).result(timeout=30)
        assert rt.discard(everything=True) == 1
        for i in range(100):
            rt.submit(handlers.mark, str(tmp_path / "others"), str(i)).result(timeout=30)
        for _ in range(2):
            with pytest.raises(UnknownRun, match="no longer kept"):
                rt.submit(handlers.fail, str(runs), "charged", idempotency_key=KEY)
            kill(OwnFamily(rt).engine)
    again = Runtime(state_dir, node_types=ONE, retention=Retention(runs=20))
    with again as rt, pytest.raises(UnknownRun, match="no longer kept"):
        rt.submit(handlers.fail, str(runs), "charged", idempotency_key=KEY)
    assert words(runs) == {"charged": 1}

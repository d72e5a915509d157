"""Waiting for several handles."""

from __future__ import annotations

import pytest

from runtime import Flow, Runtime
from runtime.errors import WaitTimeout
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one, through_gate


def test_all_of_them(rt: Runtime) -> None:
    handles = [rt.submit_nowait(add_one, i) for i in range(50)]
    done, left = rt.wait(handles, 10)
    assert (done, left) == (set(handles), set())
    assert rt.wait([]) == (set(), set())


def test_until_the_time_is_over(rt: Runtime) -> None:
    fast, slow = rt.submit(add_one, 1), rt.submit(through_gate, 1)
    fast.result(10)
    done, left = rt.wait([fast, slow], 0.01)
    assert (done, left) == ({fast}, {slow})


def test_the_first_of_them(rt: Runtime) -> None:
    fast = rt.submit(add_one, 1)
    slow = rt.submit(through_gate, 1)
    done, left = rt.wait([slow, fast], 10, first=True)
    assert (done, left) == ({fast}, {slow})
    assert rt.wait([slow], 0.01, first=True) == (set(), {slow})
    handlers.GATE.set()
    assert rt.wait([slow], 10, first=True) == ({slow}, set())
    assert rt.wait([slow, fast], first=True)[0] == {slow, fast}


def test_as_they_end(rt: Runtime) -> None:
    fast = [rt.submit_nowait(add_one, i) for i in range(20)]
    slow = rt.submit_nowait(through_gate, 99)
    seen = []
    for handle in rt.as_completed([slow, *fast], 10):
        seen.append(handle.result())
        if len(seen) == 20:
            handlers.GATE.set()
    assert sorted(seen[:20]) == list(range(1, 21))
    assert seen[20] == 99
    assert list(rt.as_completed([])) == []


def test_as_they_end_has_a_time_limit(rt: Runtime) -> None:
    fast, slow = rt.submit(add_one, 1), rt.submit(through_gate, 1)
    ended = rt.as_completed([fast, slow], 0.2)
    assert next(ended) is fast
    with pytest.raises(WaitTimeout, match="1 of 2"):
        next(ended)
    assert not slow._hooks


def test_runs_and_tasks_together(rt: Runtime) -> None:
    flow = Flow()
    flow.add(add_one, 1)
    run, task = rt.submit(flow), rt.submit(add_one, 2)
    done, _ = rt.wait([run, task], 10)
    assert done == {run, task}

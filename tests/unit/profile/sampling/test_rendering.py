"""Rows as stacks: machinery is folded, the node type comes first."""

from __future__ import annotations

from types import CodeType

import pytest

from runtime.profile.model import Frame, Process
from runtime.profile.sampling.buckets import Buckets
from runtime.profile.sampling.rendering import LOOP, Names, frame_of, profile_of, stack_of

PLAIN = (lambda: None).__code__


def code(name: str, file: str = "user.py") -> CodeType:
    return PLAIN.replace(co_name=name, co_qualname=name, co_filename=file)


def shown(*root_first: CodeType | str, labels: tuple[tuple[str, str], ...] = ()) -> list[str]:
    places = root_first[::-1]
    return [frame.name for frame in stack_of(Names(), places, (0,) * len(places), labels)]


BOOT = [
    code("<module>", "<string>"),
    code("_enter", "/x/runtime/host/spawner.py"),
    code("run", "/x/runtime/host/worker_main.py"),
]
WORKER = code("ProcessWorker.run", "/x/runtime/host/worker_process.py")
NODE = code("node:http", "/x/runtime/host/worker_process.py")
ATTEMPT = code("AttemptRunner.run", "/x/runtime/host/attempts.py")
THREAD, POOL = code("_bootstrap", "/lib/threading.py"), code("_worker", "/lib/concurrent/futures/thread.py")
WALK, TICK = code("walk", "/x/runtime/profile/sampling/ticks.py"), code("_tick", "/x/runtime/profile/sampling/ticks.py")
ONCE = code("_run_once", "/lib/asyncio/base_events.py")
RUN = code("_run", "/lib/asyncio/events.py")


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ([*BOOT, WORKER, NODE, ATTEMPT, code("pay"), code("tax")], ["node:http", "pay", "tax"]),
        ([*BOOT, WORKER, code("take_mail", "/x/runtime/host/station.py")], ["ProcessWorker.run", "take_mail"]),
        ([code("main"), ONCE, RUN, code("called")], ["main", "<loop>", "called"]),
        ([THREAD, POOL, code("pack")], ["pack"]),
        ([THREAD], ["_bootstrap"]),
        ([NODE, code("pay"), "<task>", code("part")], ["node:http", "pay", "<task>", "part"]),
        ([code("pay"), TICK, WALK], ["pay"]),
        (["<profiler>"], ["<profiler>"]),
    ],
)  # fmt: skip
def test_stacks_as_they_are_shown(stack: list[CodeType | str], expected: list[str]) -> None:
    assert shown(*stack) == expected


def test_code_of_an_attempt_without_its_frame_is_put_under_it() -> None:
    assert shown(code("part"), labels=(("node_type", "http"),)) == ["node:http", "part"]
    assert shown(ONCE, RUN, code("part"), labels=(("node_type", "http"),)) == ["node:http", "part"]


def test_lines_are_those_of_the_instruction() -> None:
    def two_lines() -> int:
        first = 1
        return first

    found = two_lines.__code__
    last = [start for start, _, line in found.co_lines() if line][-1]
    assert frame_of(found, last).line == found.co_firstlineno + 2
    assert frame_of(found, -1).line == found.co_firstlineno
    assert frame_of(NODE, 0) == Frame("node:http")
    assert LOOP.name == "<loop>"


def test_a_profile_has_all_the_weight() -> None:
    made, process = Buckets(), Process(1, 2, "worker", 3, "http")
    made.add((code("pay"), NODE), (0, 0), (("workflow", "checkout"),), "MainThread", 5)
    made.add((code("pay"), NODE), (0, 0), (("workflow", "refund"),), "MainThread", 7)
    made.close(1)
    profile = profile_of(made.closed(0), process, 19.0)
    assert profile.total().value == 12
    assert profile.by("workflow")[("refund",)].value == 7
    assert {sample.process for sample, _ in profile} == {process}

"""Mode "asyncio" with a real worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.states import LeaseState
from tests.unit.host.rig import NOTHING, Rig

CANCEL, TIMEOUT = 1, 2
SLOTS = 40
CONTEXT: dict[str, Any] = {"context": True, "context_arg": "ctx"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Rig]:
    """One worker for tests that leave it as they found it."""
    with Rig("asyncio", slots=SLOTS) as rig:
        yield rig
        rig.drain()
        assert rig.exited() == 0


@pytest.mark.parametrize(
    ("handler", "shape", "item", "value"),
    [
        ("add_one_async", "one", 1, 2),
        ("add_one", "one", 1, 2),
        ("add", "call", [[1], {"y": 5}], 6),
        ("total", "parents", [1, 2, 3], 6),
        ("total", "mixed", [[[1, None], [1]], [41]], 42),
        ("total", "template", [[[1, {"!": ["ref", 0]}], {}], [41]], 42),
        ("make_coroutine", "one", 1, 2),
        ("is_worker", "one", None, True),
        ("keep", "one", 1, [1]),
    ],
)
def test_a_task_of_each_shape(shared: Rig, handler: str, shape: str, item: Any, value: Any) -> None:
    assert shared.run(handler, item, shape=shape) == [value]


@pytest.mark.parametrize(
    ("handler", "kind", "type_name"),
    [
        ("refuse", "error", "ValueError"),
        ("raise_liar", "error", "tests.unit.host.worker_handlers.Liar"),
        ("leave", "error", "SystemExit"),
        ("leave_async", "error", "SystemExit"),
        ("interrupt", "crash", "KeyboardInterrupt"),
        ("exhaust", "memory", "MemoryError"),
        ("skip", "skipped", "actors.protocol.control_signals.SkipNode"),
        ("unstorable", "payload", "actors.protocol.errors.PayloadError"),
        ("return_generator", "error", "actors.protocol.errors.HandlerRefused"),
        ("raise_stop_iteration", "error", "StopIteration"),
        ("stop_iteration", "error", "StopAsyncIteration"),
        ("absent", "no-handler", "AttributeError"),
    ],
)
def test_failures_by_kind(shared: Rig, handler: str, kind: str, type_name: str) -> None:
    failure = shared.run(handler, 1, shape="one")[0]
    assert (failure["kind"], failure["type"]) == (kind, type_name)
    assert shared.run("add_one_async", 1, shape="one") == [2], "the worker goes on"


def test_what_escapes_from_a_forgotten_task_does_not_end_the_worker(shared: Rig) -> None:
    assert shared.run("forget_a_task", 1, shape="one") == ["done"]
    assert shared.run("add_one_async", 1, shape="one") == [2]


def test_thousands_of_tasks_come_back_once(shared: Rig) -> None:
    kind = shared.kind("add_one_async", "one")
    for _ in range(4):
        first = shared.lease(kind, list(range(1000)))
        assert [shared.outcome(first + i) for i in range(1000)] == list(range(1, 1001))


def test_as_many_run_at_once_as_there_are_slots(shared: Rig) -> None:
    kind = shared.kind("sleep_async", "one")
    first = shared.lease(kind, [f"slot {i}" for i in range(SLOTS + 5)])
    shared.printed(f"slot {SLOTS - 1}")
    states = shared.table.states(first, SLOTS + 5)
    assert states == bytes([LeaseState.RUNNING]) * SLOTS + bytes([LeaseState.LEASED]) * 5
    assert all(shared.table.words[(first + i) & 4095] for i in range(SLOTS))
    won = shared.table.revoke(range(first + SLOTS, first + SLOTS + 5))
    assert len(won) == 5
    for serial in range(first, first + SLOTS):
        shared.stop(serial, CANCEL)
    assert {shared.outcome(serial)["kind"] for serial in range(first, first + SLOTS)} == {"cancelled"}
    assert shared.run("add_one_async", 1, shape="one") == [2]


@pytest.mark.parametrize("handler", ["sleep_async", "cleanup_async", "say_and_wait"])
@pytest.mark.parametrize(("reason", "kind"), [(CANCEL, "cancelled"), (TIMEOUT, "timeout")])
def test_a_running_attempt_is_stopped(shared: Rig, handler: str, reason: int, kind: str) -> None:
    text = f"{handler} {kind} runs"
    first = shared.lease(shared.kind(handler, "one"), [text])
    shared.printed(text)
    shared.stop(first, reason)
    failure = shared.outcome(first)
    assert failure["kind"] == kind
    assert failure["type"].rpartition(".")[2] in ("AttemptCancelled", "AttemptTimeout")
    assert shared.run("add_one", 1, shape="one") == [2]


def test_a_timeout_is_kept_without_being_told(shared: Rig) -> None:
    kind = shared.kind("sleep_async", "one", timeout_ns=30_000_000)
    first = shared.lease(kind, ["a", "b"])
    assert [shared.outcome(first + i)["kind"] for i in (0, 1)] == ["timeout", "timeout"]


def test_drain_finishes_what_runs(tmp_path: Path) -> None:
    with Rig("asyncio", slots=2) as rig:
        go = tmp_path / "go"
        first = rig.lease(rig.kind("wait_for_file", "one"), [str(go)] * 5)
        rig.until(lambda: rig.table.states(first, 2) == bytes([LeaseState.RUNNING] * 2) or NOTHING)
        rig.drain()
        go.touch()
        assert rig.exited() == 0
        assert sorted(rig.outcomes) == [first, first + 1]
        assert ("B", []) in rig.frames


def test_a_crash_leaves_its_last_words(shared: Rig) -> None:
    with Rig("asyncio", slots=2) as rig:
        first = rig.lease(rig.kind("exit_hard", "one"), [9])
        assert os.waitstatus_to_exitcode(rig.exited()) == 9
        rig.pump(0)
        assert rig.output.take(first) == "last words"


def test_sigterm_ends_it() -> None:
    with Rig("asyncio", slots=2) as rig:
        os.kill(rig.pid, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(rig.exited()) == -signal.SIGTERM


def test_output_belongs_to_its_attempt(shared: Rig) -> None:
    first = shared.serial
    shared.run("say_async", "one", "two", "three", shape="one")
    shared.run("say", "four", shape="one")
    shared.printed("four")
    texts = [shared.output.take(first + i) for i in range(4)]
    assert texts == ["one\none\n", "two\ntwo\n", "three\nthree\n", "four\n"]


def test_a_context_knows_its_attempt(shared: Rig) -> None:
    first = shared.serial
    assert shared.run("describe_async", 5, shape="one", **CONTEXT) == [[5, first]]
    assert shared.run("describe", 5, shape="one", **CONTEXT)[0][1:3] == ["run-1", first + 1]


def test_progress_from_a_thread(shared: Rig) -> None:
    first = shared.serial
    assert shared.run("report", 1000, shape="one", **CONTEXT) == [1000]
    shared.until(lambda: ("O", [first, "log", "a line"]) in shared.frames or NOTHING)


def test_spawned_nodes_are_sent_before_the_result(shared: Rig) -> None:
    first = shared.serial
    assert shared.run("spawn_two", 1, shape="one", **CONTEXT) == ["spawned"]
    at = next(i for i, (letter, body) in enumerate(shared.frames) if letter == "S" and body[0] == first)
    assert any(letter == "D" for letter, _ in shared.frames[at:])


def test_dead_children_are_reaped_when_idle(shared: Rig) -> None:
    for child in shared.run("leave_child", 0, 0.01, 0, shape="one"):
        shared.until(lambda child=child: not Path(f"/proc/{child}").exists() or NOTHING)


def test_a_better_class_overtakes_what_is_held(tmp_path: Path) -> None:
    gates = [tmp_path / "first", tmp_path / "second"]
    with Rig("asyncio", slots=1) as rig:
        wait, add = rig.kind("wait_for_file", "one"), rig.kind("add_one_async", "one")
        first = rig.lease(wait, [str(gates[0])], lane=0)
        low = rig.lease(add, [1, 2], lane=3)
        urgent = rig.lease(wait, [str(gates[1])], lane=0)
        gates[0].touch()
        rig.until(lambda: rig.table.started_ns(urgent) or NOTHING)
        rig.until(lambda: rig.table.passed() == first or NOTHING)
        assert rig.table.states(low, 3) == bytes([LeaseState.LEASED, LeaseState.LEASED, LeaseState.RUNNING])
        gates[1].touch()
        rig.outcome(low + 1)
        assert rig.ended == [first, urgent, low, low + 1]
        assert rig.table.passed() == urgent

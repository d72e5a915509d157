"""Object pools with real workers in both modes: handed in and asked for, reset, bounded, stopped, killed, drained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime import NodeType, Runtime
from runtime.cli import main
from runtime.errors import PoolTimeout, TaskFailed, UnknownPool
from tests.scenarios import handlers_pools as made
from tests.scenarios.waiting import await_lines, until, words

pytestmark = pytest.mark.slow

NODE_TYPES = (
    NodeType("cpu", workers=1),
    NodeType("io", mode="asyncio", workers=1, concurrency=8),
    NodeType("alone", workers=1),
)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which is noted what happens to things."""
    path = tmp_path / "notes"
    path.touch()
    monkeypatch.setenv(made.NOTES, str(path))
    return path


@pytest.fixture
def rt(state_dir: Path, notes: Path) -> Iterator[Runtime]:
    """A runtime with a worker of each kind."""
    with Runtime(state_dir, made.TASKS, node_types=NODE_TYPES, durability="os") as found:
        yield found


def get(rt: Runtime, handler: Any, *args: Any) -> Any:
    return rt.submit(handler, *args).result(timeout=60)


def await_words(notes: Path, word: str) -> None:
    until(lambda: words(notes)[word] == 1, word)


def pool_row(rt: Runtime, node_type: str, name: str) -> dict[str, Any]:
    rows = next(pool["objects"] for pool in rt.statistics()["pools"] if pool["node_type"] == node_type)
    return next((row for row in rows if row["pool"] == name), {})


def test_a_thing_is_made_once_and_goes_from_task_to_task_as_new(rt: Runtime, notes: Path) -> None:
    assert [get(rt, made.by_name, mark)[2:] for mark in "abc"] == [[], [], []]
    assert list(rt.map(made.by_name, range(50))) == [get(rt, made.by_name, 0)] * 50
    assert words(notes) == {"made-plain-1": 1}


def test_by_annotation_as_first_parameter_and_without_reset_as_it_was_left(rt: Runtime) -> None:
    assert [get(rt, made.by_annotation, mark)[2:] for mark in "abc"] == [[], ["a"], ["a", "b"]]


def test_one_that_fails_its_check_is_closed_and_another_takes_its_place(rt: Runtime, notes: Path) -> None:
    assert [get(rt, made.by_annotation, mark)[2:] for mark in ("broken", "b")] == [[], []]
    assert words(notes) == {"made-slow-1": 1, "made-slow-2": 1, "closed-slow-1": 1}


def test_things_around_a_context_in_a_coroutine(rt: Runtime) -> None:
    assert [get(rt, made.both, mark) for mark in "ab"] == [[0, [], []], [0, [], ["a"]]]


def test_a_handler_takes_things_itself(rt: Runtime) -> None:
    assert [get(rt, made.asks, mark) for mark in "ab"] == [[[], [], True]] * 2
    assert [get(rt, made.asks_async, mark) for mark in "ab"] == [[[], []], [["a"], []]]
    assert get(rt, made.by_node_type) == get(rt, made.by_node_type)


def test_what_a_handler_keeps_is_taken_from_it(rt: Runtime, notes: Path) -> None:
    numbers = [get(rt, made.keeps, mark) for mark in range(5)]
    assert numbers == [1] * 5
    assert words(notes) == {"made-plain-1": 1}


def test_a_result_that_is_the_thing_itself_is_as_it_was_returned(rt: Runtime) -> None:
    assert get(rt, made.returns_it, "mark") == ["mark"]


def test_a_task_that_fails_leaves_no_dirt(rt: Runtime, notes: Path) -> None:
    assert isinstance(rt.submit(made.fails, mark="dirt").exception(timeout=60), TaskFailed)
    assert get(rt, made.by_name, "b")[2:] == []
    assert words(notes) == {"made-plain-1": 1}


def test_one_that_cannot_be_reset_is_closed_and_its_task_has_succeeded(rt: Runtime, notes: Path) -> None:
    assert [get(rt, made.by_name, mark)[0] for mark in ("spoilt", "b")] == [1, 2]
    assert words(notes) == {"made-plain-1": 1, "closed-plain-1": 1, "made-plain-2": 1}


def test_one_whose_task_is_stopped_is_closed(rt: Runtime, notes: Path, tmp_path: Path) -> None:
    for handler, pool in ((made.hangs, "plain"), (made.hangs_async, "session")):
        started, release = tmp_path / f"{pool}-started", tmp_path / f"{pool}-release"
        args = ("dirt",) if pool == "plain" else ()
        handle = rt.submit(handler, *args, str(started), str(release))
        await_lines(started, 1)
        handle.cancel()
        handle.exception(timeout=60)
        await_words(notes, f"closed-{pool}-1")
    assert get(rt, made.by_name, "b")[2:] == []


def test_a_worker_that_is_killed_takes_its_things_with_it(rt: Runtime) -> None:
    before = get(rt, made.by_name, "a")
    number, pid = get(rt, made.dies_once)
    assert pid != before[1]
    assert number == 1


def test_what_nobody_uses_goes_while_the_worker_sleeps(rt: Runtime, notes: Path) -> None:
    assert get(rt, made.brief) == 1
    await_words(notes, "closed-shortly-1")
    assert get(rt, made.brief) == 2
    until(lambda: pool_row(rt, "cpu", "shortly").get("closed") == {"idled": 2}, "the report")


def test_one_is_used_so_many_times(rt: Runtime) -> None:
    assert [get(rt, made.by_node_type) for _ in range(7)] == [1, 1, 1, 2, 2, 2, 3]


def test_an_unknown_pool_is_refused_and_says_which_there_are(rt: Runtime) -> None:
    failed = rt.submit(made.unknown).exception(timeout=60)
    assert isinstance(failed, TaskFailed)
    assert isinstance(failed.__cause__, UnknownPool) or "plain" in str(failed)


def test_tasks_of_a_loop_wait_for_their_turn_and_never_share(rt: Runtime, notes: Path, tmp_path: Path) -> None:
    folder = tmp_path / "met"
    folder.mkdir()
    handles = [rt.submit(made.meets, mark, 2, str(folder)) for mark in range(2)]
    assert sorted(handle.result(timeout=60) for handle in handles) == [[1, 1], [2, 1]]
    found = [handle.result(timeout=60) for handle in [rt.submit(made.uses, mark) for mark in range(100)]]
    assert {tuple(row[1:]) for row in found} == {(1,)}
    assert {row[0] for row in found} <= {1, 2}
    until(lambda: pool_row(rt, "io", "session").get("reused", 0) == 100, "the report")
    row = pool_row(rt, "io", "session")
    assert (row["made"], row["size"], row["idle"], row["lent"], row["closed"]) == (2, 2, 2, 0, {})
    assert words(notes) == {"made-session-1": 1, "made-session-2": 1}


def test_a_thread_has_things_of_the_loop(rt: Runtime) -> None:
    assert [get(rt, made.in_thread, mark) for mark in "ab"] == [[[], [], True]] * 2


def test_who_waits_too_long_is_told_so(rt: Runtime) -> None:
    failed = rt.submit(made.holds_two).exception(timeout=60)
    assert isinstance(failed, TaskFailed)
    assert PoolTimeout.code in str(failed) or isinstance(failed.__cause__, PoolTimeout)


def test_all_is_closed_when_the_program_ends(state_dir: Path, notes: Path) -> None:
    with Runtime(state_dir, made.TASKS, node_types=NODE_TYPES, durability="os") as rt:
        get(rt, made.by_name, "a")
        get(rt, made.by_annotation, "a")
        get(rt, made.uses, "a")
    found = words(notes)
    assert {word for word in found if word.startswith("closed")} == {
        "closed-plain-1", "closed-slow-2", "closed-session-1"
    }  # fmt: skip


def test_all_is_closed_before_a_worker_is_replaced(state_dir: Path, notes: Path) -> None:
    node_types = (NodeType("cpu", workers=1, recycle_tasks=2), NODE_TYPES[1], NODE_TYPES[2])
    with Runtime(state_dir, made.TASKS, node_types=node_types, durability="os") as rt:
        pids = {get(rt, made.by_name, mark)[1] for mark in range(4)}
        assert len(pids) == 2
        assert words(notes)["closed-plain-1"] >= 1
        until(lambda: pool_row(rt, "cpu", "plain").get("closed", {}).get("drained", 0) >= 1, "the report")


def test_status_of_a_running_program_shows_its_pools(
    rt: Runtime, state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for mark in range(3):
        get(rt, made.by_name, mark)

    def shown() -> str:
        assert main(["status", str(state_dir)]) == 0
        return capsys.readouterr().out

    until(lambda: "plain of cpu: 0 lent, 1 idle, 0 wait; made 1, used again 2, closed 0" in shown(), "the line")

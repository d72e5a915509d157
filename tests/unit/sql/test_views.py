"""The views say what a plain reading of the same runs says, whatever narrows the reading down."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.protocol import messages as msg
from actors.protocol.records import Record
from actors.scheduler import Scheduler
from runtime.sql import seen
from tests.unit.actors.rig import WALL, Rig, S, kind, node_type
from tests.unit.sql.told import COUNTED, ask, fold, run_rows, task_rows
from tests.unit.storage.worlds import records_midway, records_of

NARROWING = ("run_id", "run_no", "task_id", "node", "node_id", "state")


def bundle(*, ends: bool = False) -> list[Record]:
    """Three single tasks that came together, the second of which adds two tasks; one of them may not have ended."""
    rig = Rig()
    rig.let_hold(100)
    rows = [[seq, 1, {"seq": seq}] for seq in (1, 2, 3)]
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
    for worker, serial, node in rig.leases():
        if node == 1:
            block = {"n": 2, "kinds": [kind()], "kind_of": [0, 0]}
            rig.say(msg.WorkerSpawned(worker, serial, block, orjson.dumps([serial, 1, 1, block])))
        rig.succeed(worker, serial, node, {"node": node})
    added = rig.leases()
    rig.fail(*added[0])
    for worker, serial, node in added[1:] if ends else ():
        rig.succeed(worker, serial, node)
    return rig.records


WORLDS = [records_of(seed) for seed in (1, 2, 8)] + [records_midway(seed, 400) for seed in (4, 10, 18, 24, 29)]
WORLDS.append(tuple(bundle()))


def said(scheduler: Scheduler, view: str, like: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return ask(scheduler, f"SELECT {', '.join(like[0])} FROM {view}").dicts()


@pytest.mark.parametrize("number", range(len(WORLDS)))
def test_every_row_of_a_world_is_what_a_plain_reading_says(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "TIMES_AT_ONCE", 3)
    scheduler = fold(WORLDS[number])
    tasks, runs = task_rows(scheduler), run_rows(scheduler)
    assert said(scheduler, "tasks", tasks) == tasks
    assert said(scheduler, "runs", runs) == runs


def test_the_worlds_have_what_matters() -> None:
    tasks = [row for records in WORLDS for row in task_rows(fold(records))]
    assert {row["state"] for row in tasks} >= {*COUNTED} - {"cancelling"}
    assert all(any(row[name] for row in tasks) for name in ("started_ns", "dead_letter", "failure_message"))
    assert {row["form"] for records in WORLDS for row in run_rows(fold(records))} == {"flow", "map", "task"}


@pytest.mark.parametrize("number", range(len(WORLDS)))
def test_tasks_add_up_to_what_runs_say_in_one_query(number: int) -> None:
    sums = ", ".join(f"sum(state = '{name}') AS {name}" for name in COUNTED)
    differ = " OR ".join(f"r.{name} <> t.{name}" for name in COUNTED)
    sql = f"""
        SELECT count(*), sum({differ} OR r.tasks <> t.tasks) FROM runs r
        JOIN (SELECT run_id, count(*) AS tasks, {sums} FROM tasks GROUP BY run_id) t USING (run_id)
    """
    scheduler = fold(WORLDS[number])
    assert list(ask(scheduler, sql)[0]) == [len(run_rows(scheduler)), 0]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_narrows_the_reading_leaves_out_what_does_not_fit_and_nothing_else(data: st.DataObject) -> None:
    scheduler = fold(data.draw(st.sampled_from(WORLDS)))
    view = data.draw(st.sampled_from(("runs", "tasks")))
    rows = task_rows(scheduler) if view == "tasks" else run_rows(scheduler)
    columns = [column for column in NARROWING if column in rows[0]]
    wanted: dict[str, Any] = {}
    for column in data.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3, unique=True)):
        there = st.sampled_from(sorted({row[column] for row in rows}, key=str))
        wanted[column] = data.draw(
            st.one_of(there, st.sampled_from((0, 1, -1, "1", "0", "s-3", "s-3/1", "nothing", None, 1.0)))
        )
    words = " AND ".join(f"{column} = :{column}" for column in wanted)
    found = ask(scheduler, f"SELECT {', '.join(rows[0])} FROM {view} WHERE {words}", wanted).dicts()
    assert found == [row for row in rows if all(_equal(row[c], value) for c, value in wanted.items())]


def _equal(value: Any, wanted: Any) -> bool:
    """As SQLite compares a column with a parameter: it gives the parameter the column's type, where it can."""
    if wanted is None:
        return False
    if isinstance(value, str):
        return value == str(wanted)
    return bool(value == (float(wanted) if str(wanted).lstrip("-").replace(".", "").isdigit() else wanted))


def test_single_tasks_that_came_together_are_a_run_each_and_the_first_has_what_they_added() -> None:
    scheduler = fold(bundle())
    assert [tuple(row) for row in ask(scheduler, "SELECT run_id, form, state, tasks, failed FROM runs")] == [
        ("s-1", "task", "succeeded", 3, 1),
        ("s-2", "task", "succeeded", 1, 0),
        ("s-3", "task", "succeeded", 1, 0),
    ]
    assert ask(scheduler, "SELECT node FROM tasks WHERE run_id = 's-2'").dicts() == [{"node": 0}]
    assert [row.node for row in ask(scheduler, "SELECT node FROM tasks WHERE run_id = 's-1'")] == [0, 3, 4]
    assert ask(scheduler, "SELECT run_id FROM tasks WHERE task_id = 's-3'").scalar() == "s-3"
    assert ask(scheduler, "SELECT run_id FROM tasks WHERE task_id = 's-1/4'").scalar() == "s-1"


def plan(scheduler: Scheduler, sql: str) -> str:
    return " ".join(row["detail"] for row in ask(scheduler, f"EXPLAIN QUERY PLAN {sql}"))


def test_a_named_run_is_looked_up_also_in_a_join() -> None:
    scheduler = fold(WORLDS[0])
    assert plan(scheduler, "SELECT * FROM tasks WHERE run_id = 'a' AND state = 'failed'").endswith("0:run_id state")
    joined = plan(scheduler, "SELECT * FROM runs JOIN tasks USING (run_id) WHERE runs.name = 'x'")
    assert "SCAN tasks VIRTUAL TABLE INDEX 0:run_id" in joined
    assert plan(scheduler, "SELECT * FROM tasks WHERE run_id = 'a' COLLATE NOCASE").endswith("0:")


def test_rows_come_in_the_order_of_their_numbers_without_sorting() -> None:
    scheduler = fold(WORLDS[0])
    assert "ORDER BY" not in plan(scheduler, "SELECT * FROM tasks ORDER BY run_no, node")
    assert "ORDER BY" in plan(scheduler, "SELECT * FROM tasks ORDER BY run_no DESC")
    places = [(row.run_no, row.node) for row in ask(scheduler, "SELECT run_no, node FROM tasks ORDER BY run_no, node")]
    assert places == sorted(places)


def test_a_name_in_other_letters_is_found_where_that_is_asked_for() -> None:
    scheduler = fold(bundle())
    assert ask(scheduler, "SELECT count(*) FROM tasks WHERE run_id = 'S-2' COLLATE NOCASE").scalar() == 1
    assert ask(scheduler, "SELECT count(*) FROM tasks WHERE run_id = 'S-2'").scalar() == 0


def test_results_are_json_that_sqlite_reads() -> None:
    scheduler = fold(bundle())
    assert ask(scheduler, "SELECT json_extract(result, '$.node') FROM tasks WHERE task_id = 's-2'").scalar() == 1
    sizes = ask(scheduler, "SELECT DISTINCT result_bytes FROM tasks WHERE state = 'succeeded'")
    assert [row.result_bytes for row in sizes] == [len('{"node":0}')]


def test_what_was_cancelled_before_it_started_has_an_end() -> None:
    """One task of several, one item of a run that was cancelled, and one that waited for a retry."""
    rig = Rig(node_type(prefetch=1), wall_ns=WALL)
    rig.submit(4)
    rig.leases()
    rig.later(S, msg.CancelAsked("s", 5, "s-4", None))
    cancelled_ns = rig.wall_ns
    rig.later(S)
    for scheduler in (fold(rig.records), rig.core.scheduler):
        rows = ask(scheduler, "SELECT run_id, state, started_ns, ended_ns FROM tasks ORDER BY run_id")
        assert [tuple(row)[1:3] for row in rows if row[0] == "s-4"] == [("cancelled", None)]
        ended = {row[0]: row[3] for row in rows}
        assert cancelled_ns - 100 <= ended["s-4"] <= cancelled_ns
        assert ended["s-1"] is ended["s-2"] is None
        ((of_run,),) = ask(scheduler, "SELECT ended_ns FROM runs WHERE run_id = 's-4'")
        assert of_run == ended["s-4"]


def test_a_cancelled_run_ends_what_waited_in_it_then() -> None:
    rig = Rig(node_type(prefetch=1), wall_ns=WALL)
    rig.submit_graph([[], [0], [1]], retry={"max_attempts": 2, "base_ns": 10**12, "jitter": False})
    ((worker, serial, node),) = rig.leases()
    rig.fail(worker, serial, node)
    rig.later(S, msg.CancelAsked("s", 5, "s-1", None))
    cancelled_ns = rig.wall_ns
    for scheduler in (fold(rig.records), rig.core.scheduler):
        rows = ask(scheduler, "SELECT started_ns, ended_ns FROM tasks ORDER BY node")
        assert [row[0] is None for row in rows] == [False, True, True]
        assert all(cancelled_ns - 100 <= row[1] <= cancelled_ns for row in rows), "not when its attempt had failed"

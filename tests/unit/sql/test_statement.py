"""One statement, that reads: everything else is refused, with SQLite's words where it has any."""

from __future__ import annotations

import threading

import pytest

from actors.protocol.query_errors import BadQuery, QueryRefused, QueryTooLarge, QueryTooLong
from runtime.sql.budget import Budget
from runtime.sql.snapshot import Snapshot
from runtime.sql.statement import run_statement
from tests.unit.sql.told import ask, fold
from tests.unit.storage.worlds import records_of

ENDLESS = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
WRITING = (
    "DELETE FROM runs",
    "INSERT INTO tasks(run_id) VALUES ('x')",
    "UPDATE tasks SET state = 'ready'",
    "CREATE TABLE x(a)",
    "CREATE TEMP TABLE x(a)",
    "CREATE VIEW x AS SELECT 1",
    "DROP TABLE runs",
    "ALTER TABLE runs RENAME TO walks",
    "ATTACH '/tmp/other.db' AS other",
    "DETACH main",
    "PRAGMA user_version = 3",
    "PRAGMA table_info(runs)",
    "SELECT * FROM pragma_table_info('runs')",
    "SELECT load_extension('/tmp/x')",
    "BEGIN",
    "SAVEPOINT x",
    "VACUUM INTO '/tmp/x'",
    "REINDEX",
    "ANALYZE",
    "SELECT 1; SELECT 2",
    "SELECT 1; DELETE FROM runs",
)


@pytest.mark.parametrize("sql", WRITING)
def test_what_does_not_only_read_is_refused(sql: str) -> None:
    with pytest.raises(QueryRefused):
        ask(fold(records_of(1)), sql)


@pytest.mark.parametrize(
    ("sql", "params", "words"),
    [
        ("SELECT * FROM walks", (), "no such table: walks"),
        ("SELECT wrong FROM runs", (), "no such column: wrong"),
        ("SELEC 1", (), "syntax error"),
        ("SELECT ?", (), "bindings"),
        ("SELECT 1", (2,), "bindings"),
        ("SELECT ?", ({},), "parameter"),
        ("SELECT ?", (1 << 80,), "parameter"),
        ("SELECT ?", ("\ud800",), "parameter"),
        ("SELECT '\ud800'", (), "text"),
        ("SELECT 1\0", (), "."),
        ("SELECT :a", {"b": 1}, "parameter"),
        ("", (), "no statement"),
        ("SELECT json('{')", (), "malformed JSON"),
        ("SELECT abs(-9223372036854775808)", (), "integer overflow"),
    ],
)
def test_what_sqlite_cannot_make_sense_of_is_told_in_its_words(sql: str, params: object, words: str) -> None:
    with pytest.raises(BadQuery, match=words):
        ask(fold(records_of(1)), sql, params)


def test_a_mistake_has_its_place() -> None:
    with pytest.raises(BadQuery) as caught:
        ask(fold(records_of(1)), "SELECT wrong FROM runs")
    assert caught.value.offset == len("SELECT ")


def test_more_rows_than_asked_for_are_an_error_and_not_a_part_of_the_answer() -> None:
    scheduler = fold(records_of(1))
    rows = len(ask(scheduler, "SELECT run_no FROM tasks"))
    assert len(ask(scheduler, "SELECT run_no FROM tasks", rows_max=rows)) == rows
    with pytest.raises(QueryTooLarge, match=f"more than {rows - 1} rows"):
        ask(scheduler, "SELECT run_no FROM tasks", rows_max=rows - 1)


def test_a_value_that_fills_the_memory_is_refused() -> None:
    with pytest.raises(QueryTooLarge):
        ask(fold(records_of(1)), "SELECT zeroblob(900000000)")


def test_an_endless_statement_ends_with_its_time() -> None:
    scheduler = fold(records_of(1))
    with pytest.raises(QueryTooLong, match=r"0\.05 seconds"):
        run_statement(Snapshot(1, 0, scheduler), ENDLESS, (), 1, Budget(0.05))


def test_an_endless_statement_ends_when_nobody_waits_for_it() -> None:
    budget = Budget(None)
    timer = threading.Timer(0.05, budget.stop)
    timer.start()
    with pytest.raises(QueryTooLong, match="given up"):
        run_statement(Snapshot(1, 0, fold(records_of(1))), ENDLESS, (), 1, budget)
    timer.join()


def test_a_scan_without_rows_ends_with_its_time_too() -> None:
    budget = Budget(None)
    budget.stop()
    with pytest.raises(QueryTooLong):
        run_statement(Snapshot(1, 0, fold(records_of(1))), "SELECT * FROM tasks WHERE state = 'x'", (), 1, budget)


def test_an_answer_says_of_when_it_is() -> None:
    scheduler = fold(records_of(1))
    found = ask(scheduler, "SELECT 1 AS one")
    assert (found.lsn, found.at_ns, found.columns, found.scalar()) == (scheduler.lsn, 5, ("one",), 1)
    nothing = ask(scheduler, "SELECT run_id FROM runs WHERE run_id = ''")
    assert (len(nothing), nothing.columns, nothing.scalar()) == (0, ("run_id",), None)


def test_a_mistake_of_ours_is_not_taken_for_one_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("runtime.sql.views.nodes_wanted", broken)
    with pytest.raises(KeyError, match="ours"):
        ask(fold(records_of(1)), "SELECT * FROM tasks")

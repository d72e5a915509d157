"""The command `query`: a table, JSON, CSV, the columns, moments, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.cli.query import CELL_CHARS_MAX, csv_text, json_text, table
from runtime.sql.rows import QueryRows
from tests.unit.storage.states import busy_log, make_folder

STATES = "SELECT state, count(*) AS runs FROM runs GROUP BY state"


@pytest.fixture
def state(tmp_path: Path) -> str:
    make_folder(tmp_path, busy_log())
    return str(tmp_path)


def test_a_table_and_of_when_it_is(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", state, STATES]) == Exit.OK
    out, err = capsys.readouterr()
    assert out == "state      runs\nsucceeded     8\n"
    assert err.startswith("1 row as of LSN ")


def test_parameters_and_moments(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT count(*) AS n FROM runs WHERE state = ? AND run_no >= ?"
    assert main(["query", state, sql, "succeeded", "3", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["rows"] == [{"n": 6}]
    lsn = busy_log()[3].lsn
    assert main(["query", state, sql, "succeeded", "1", "--json", "--at", str(lsn)]) == Exit.OK
    answer = json.loads(capsys.readouterr().out)
    assert answer["lsn"] == lsn
    assert answer["rows"][0]["n"] < 8


def test_csv_has_a_header(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", state, STATES, "--csv"]) == Exit.OK
    assert capsys.readouterr().out == "state,runs\nsucceeded,8\n"


def test_without_a_statement_the_columns_are_listed(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", state]) == Exit.OK
    out = capsys.readouterr().out
    assert "runs   run_id" in out
    assert "tasks  failure_message" in out


def test_the_columns_are_listed_in_the_form_that_is_asked_for(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", state, "--json"]) == Exit.OK
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert {column["view"] for column in columns} == {"runs", "tasks"}
    assert set(columns[0]) == {"view", "column", "type", "meaning"}
    assert main(["query", "--csv", state]) == Exit.OK
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == ["view", "column", "type", "meaning"]
    assert rows == [list(column.values()) for column in columns]


def test_options_stand_anywhere(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT count(*) AS n FROM runs WHERE run_no >= ? AND state = ?"
    words = [state, sql, "3", "succeeded"]
    for place in range(len(words) + 1):
        assert main(["query", *words[:place], "--json", "--rows", "5", *words[place:]]) == Exit.OK
        assert json.loads(capsys.readouterr().out)["rows"] == [{"n": 6}]


def test_behind_two_hyphens_nothing_is_an_option(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", state, "--csv", "--", "--all of them\nSELECT ? AS x", "--json"]) == Exit.OK
    assert capsys.readouterr().out == "x\n--json\n"


def test_a_statement_from_standard_input(
    state: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT count(*)\nFROM tasks"))
    assert main(["query", state, "-", "--csv"]) == Exit.OK
    assert capsys.readouterr().out == "count(*)\n8\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["DELETE FROM runs"], "MS161"),
        (["SELECT wrong FROM runs"], "MS160"),
        (["SELECT 1; SELECT 2"], "MS161"),
        (["SELECT * FROM tasks", "--rows", "2"], "MS163"),
        (["SELECT 1", "--timeout", "0"], "MS101"),
        (["SELECT 1", "--at", "999999"], "MS142"),
    ],
)
def test_what_cannot_be_is_told_in_two_lines(
    state: str, capsys: pytest.CaptureFixture[str], options: list[str], code: str
) -> None:
    assert main(["query", state, *options]) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert f"[{code}]" in err
    assert len(err.splitlines()) == 2


def test_options_that_make_no_sense(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--timeout", "soon"], ["--rows", "0"], ["--at", "someday"], ["--json", "--csv"]):
        assert main(["query", state, "SELECT 1", *options]) == Exit.USAGE
    assert "not a number of seconds" in capsys.readouterr().err


def test_values_of_all_types_are_shown() -> None:
    found = QueryRows(["a", "b", "c"], [(1, None, b"\x01\xff"), (2.5, "x\ny", "z" * 200)])
    assert table(found)[1].split() == ["1", "–", "01ff"]
    assert table(found)[2].split() == ["2.5", "x↵y", "z" * (CELL_CHARS_MAX - 1) + "…"]
    assert csv_text(found).splitlines()[1] == "1,,01ff"
    assert json.loads(json_text(found))["rows"][0] == {"a": 1, "b": None, "c": "01ff"}
    assert table(QueryRows(["a"], [])) == ["a"]

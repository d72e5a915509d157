"""Queries of a folder: what is asked for wrongly, and who waits for whom."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.errors import ConfigurationError, NotAStateFolder
from actors.protocol.query_errors import BadQuery, QueryTooLong
from runtime.sql.folder import FolderQueries, SqlQuery, query
from tests.unit.storage.states import busy_log, make_folder


def asked(sql: Any = "SELECT count(*) FROM runs", params: Any = (), **more: Any) -> SqlQuery:
    return SqlQuery(sql, params, more.get("at"), more.get("timeout", 60.0), more.get("rows_max", 10))


@pytest.mark.parametrize(
    "more", [{"timeout": 0}, {"timeout": -1.0}, {"timeout": "1"}, {"rows_max": 0}, {"rows_max": 1.5}, {"at": "then"}]
)
def test_what_a_query_may_take_is_checked(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="query: "):
        asked(**more)


@pytest.mark.parametrize(
    ("sql", "params"), [(b"SELECT 1", ()), (None, ()), ("SELECT ?", "x"), ("SELECT ?", 5), ("SELECT ?", {5})]
)
def test_a_statement_is_text_and_parameters_are_several(sql: Any, params: Any) -> None:
    with pytest.raises(BadQuery):
        asked(sql, params)


def test_what_is_no_state_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("text")
    with pytest.raises(NotAStateFolder):
        query(tmp_path, "SELECT 1")


def test_one_query_at_a_time_and_the_next_waits_no_longer_than_its_time(tmp_path: Path) -> None:
    make_folder(tmp_path, busy_log())
    queries, inside, go = FolderQueries(tmp_path), threading.Event(), threading.Event()
    found: list[Any] = []

    def readable() -> None:
        inside.set()
        go.wait(60)

    first = threading.Thread(target=lambda: found.append(queries.answer(asked(), readable).scalar()))
    first.start()
    assert inside.wait(60)
    with pytest.raises(QueryTooLong):
        queries.answer(asked(timeout=0.01))
    go.set()
    first.join(60)
    assert found == [8]
    assert queries.answer(asked()).scalar() == 8


def test_parameters_have_places_or_names(tmp_path: Path) -> None:
    make_folder(tmp_path, busy_log())
    assert query(tmp_path, "SELECT ? || ?", ["x", "y"]).scalar() == "xy"
    assert query(tmp_path, "SELECT :a || :b", {"a": "x", "b": "y"}).scalar() == "xy"


@pytest.mark.slow
def test_a_program_that_asks_nothing_loads_nothing_of_it() -> None:
    code = """
import sys
from runtime import AsyncRuntime, Runtime
from runtime.cli.app import parser
parser()
print([name for name in sys.modules if name == "apsw" or name.startswith("runtime.sql.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['runtime.sql.budget']"]


def test_without_apsw_it_is_said_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder(tmp_path, busy_log())
    for name in ("apsw", "runtime.sql.views", "runtime.sql.statement"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "apsw", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="the package apsw"):
        query(tmp_path, "SELECT 1")

"""Rows are tuples whose values have names."""

from __future__ import annotations

import copy
import pickle

import pytest

from runtime.sql.rows import QueryRows, unique


def rows() -> QueryRows:
    return QueryRows(["run_id", "count(*)", "run_id"], [("a", 1, "b"), ("c", 2, "d")], 7, 9)


def test_a_row_is_a_tuple_with_names() -> None:
    row = rows()[0]
    assert row == ("a", 1, "b")
    assert (row[1], row["count(*)"], row.run_id, row["run_id:1"], row[-1]) == (1, 1, "a", "b", "b")
    assert row.as_dict() == {"run_id": "a", "count(*)": 1, "run_id:1": "b"}
    assert row[:2] == ("a", 1)
    assert repr(row) == "<run_id='a' count(*)=1 run_id:1='b'>"
    with pytest.raises(KeyError):
        row["other"]
    with pytest.raises(AttributeError, match="no column 'other'"):
        _ = row.other


def test_rows_are_a_sequence_of_a_moment() -> None:
    found = rows()
    assert (len(found), found.lsn, found.at_ns, found.scalar()) == (2, 7, 9, "a")
    assert [row.run_id for row in found] == ["a", "c"]
    assert found[1:] == [("c", 2, "d")]
    assert found.dicts()[1]["run_id"] == "c"
    assert found == rows()
    assert found != QueryRows(["run_id", "count(*)", "run_id"], [], 7)


def test_rows_pass_through_pickle_and_copy() -> None:
    found = rows()
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again == found
        assert again[0].run_id == "a"


def test_a_name_that_comes_again_gets_a_number() -> None:
    assert unique(["a", "a", "a:1", "a"]) == ("a", "a:1", "a:1:1", "a:2")

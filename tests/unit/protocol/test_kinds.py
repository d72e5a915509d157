"""The table of task kinds: interning, its bound, and numbers that are never given twice."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from actors.protocol import limits
from actors.protocol.errors import CallerError, ProtocolError
from actors.protocol.kinds import KindTable


def data(name: str) -> dict[str, str]:
    return {"handler": f"m:{name}", "node_type": "default", "shape": "one"}


def test_equal_dictionaries_are_one_kind_whatever_their_order() -> None:
    table = KindTable()
    kind = table.intern(data("f"))
    assert table.intern(dict(reversed(data("f").items()))) is kind
    assert len(table) == 1


def test_a_kind_that_shares_nothing_has_no_word_of_it() -> None:
    kind = KindTable().intern(data("f"))
    assert (kind.tenant, kind.concurrency_key, kind.rate_key, kind.rate_cost) == ("", None, None, 1.0)


def test_with_whom_a_task_shares_is_part_of_its_kind() -> None:
    table = KindTable()
    shared = {"tenant": "acme", "concurrency_key": "printer", "rate_key": "api", "rate_cost": 2}
    kind = table.intern({**data("f"), **shared})
    assert (kind.tenant, kind.concurrency_key, kind.rate_key, kind.rate_cost) == ("acme", "printer", "api", 2.0)
    assert table.intern(data("f")) is not kind


@pytest.mark.parametrize(
    "wrong", [{"tenant": 5}, {"concurrency_key": []}, {"rate_key": 1}, {"rate_cost": 0}, {"rate_cost": True}]
)
def test_a_share_that_cannot_be_is_malformed(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        KindTable().intern({**data("f"), **wrong})


def test_what_is_malformed_takes_no_room() -> None:
    table = KindTable()
    with pytest.raises(ProtocolError):
        table.intern({"handler": "m:f"})
    assert len(table) == 0


def test_a_kind_holds_its_text_once_and_no_more_than_that() -> None:
    table = KindTable()
    kind = table.intern(data("f"))
    assert sys.getsizeof(kind.text) < 200
    assert next(iter(table._by_text)) is kind.text


def test_a_full_table_forgets_what_is_not_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 2)
    table = KindTable()
    first, second = table.intern(data("f")), table.intern(data("g"))
    third = table.intern(data("h"), lambda: [second])
    assert [kind.no for kind in (first, second, third)] == [1, 2, 3]
    assert table.intern(data("g")) is second
    again = table.intern(data("f"), lambda: [third])
    assert again.no == 4, "workers know kind 1 as it was"


def test_a_table_full_of_kinds_in_use_refuses_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 1)
    table = KindTable()
    kind = table.intern(data("f"))
    with pytest.raises(CallerError, match="more than 1 different"):
        table.intern(data("g"), lambda: [kind])
    assert table.intern(data("f")) is kind

"""The table of task kinds: interning, its bound, and numbers that are never given twice."""

from __future__ import annotations

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


def test_what_is_malformed_takes_no_room() -> None:
    table = KindTable()
    with pytest.raises(ProtocolError):
        table.intern({"handler": "m:f"})
    assert len(table) == 0


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

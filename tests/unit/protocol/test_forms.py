"""Older forms of records are brought up to date, or refused with the reason."""

from __future__ import annotations

import orjson
import pytest

from actors.protocol import forms
from actors.protocol.errors import OlderFormat
from actors.protocol.forms import ADAPTED, CHANGES, MINOR, FormChange, brought_up, form_of
from actors.protocol.records import RECORD_VERSION, RecordType

T = RecordType.CANCEL


def renamed(payload: bytes) -> bytes:
    data = orjson.loads(payload)
    data["run"] = data.pop("no")
    return orjson.dumps(data)


def split(payload: bytes) -> bytes:
    data = orjson.loads(payload)
    first, second = data.pop("name").split(" ")
    return orjson.dumps({**data, "first": first, "second": second})


STEPS = (
    FormChange(2, T, "renamed", "no is run", renamed),
    FormChange(2, RecordType.KEYS, "replaced", "keys had no end"),
    FormChange(3, T, "widened", "run may be a list"),
    FormChange(4, T, "split", "name is first and second", split),
    FormChange(5, T, "added", "there may be an asker"),
)


def test_each_change_counts() -> None:
    assert [form_of(T, version, STEPS) for version in range(1, 6)] == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1)]
    assert form_of(RecordType.DEAD, 5, STEPS) == (1, 0)


def test_an_older_payload_passes_through_every_change_since() -> None:
    new = {"run": 1, "first": "a", "second": "b"}
    assert orjson.loads(brought_up(9, T, 1, b'{"no":1,"name":"a b"}', STEPS)) == new
    assert orjson.loads(brought_up(9, T, 2, b'{"run":1,"name":"a b"}', STEPS)) == new
    assert orjson.loads(brought_up(9, T, 4, orjson.dumps(new), STEPS)) == new
    untouched = b"not even JSON"
    assert brought_up(9, T, 4, untouched, STEPS) is untouched
    assert brought_up(9, RecordType.DEAD, 1, untouched, STEPS) is untouched


def test_a_form_that_is_not_read_any_more_is_refused_with_the_reason() -> None:
    message = r"record 9 \(KEYS\) has form 1.0, this version reads 2.0: keys had no end"
    with pytest.raises(OlderFormat, match=message):
        brought_up(9, RecordType.KEYS, 1, b"", STEPS)
    assert brought_up(9, RecordType.KEYS, 2, b"", STEPS) == b""


@pytest.mark.parametrize("payload", [b"{}", b'{"no":1,"name":"ab"}', b"[", b"3"])
def test_a_payload_that_does_not_have_its_form_is_refused(payload: bytes) -> None:
    with pytest.raises(OlderFormat, match=r"record 9 \(CANCEL\) has form 1.0, this version reads 3.1: "):
        brought_up(9, T, 1, payload, STEPS)


def test_the_changes_are_in_order_and_whole() -> None:
    assert [change.since for change in CHANGES] == sorted(change.since for change in CHANGES)
    assert all(1 < change.since <= RECORD_VERSION for change in CHANGES)
    assert CHANGES[-1].since == RECORD_VERSION
    for change in (*CHANGES, *STEPS):
        assert (change.adapter is not None) == (change.what in ADAPTED)
    assert not MINOR & ADAPTED
    assert forms.form_of(RecordType.COMPLETED, 2) == (1, 1)

"""The persisted numbers, pinned: whoever changes one has to change this file too, and should not."""

from __future__ import annotations

import pytest

from actors.protocol.records import LSN_FIRST, RECORD_VERSION, Record, RecordType

NUMBERS = {
    "KIND": 1,
    "SUBMITTED": 2,
    "COMPLETED": 3,
    "ATTEMPT": 4,
    "CANCEL": 5,
    "SPAWNED": 6,
    "RELEASED": 7,
    "OPENED": 8,
    "MARK": 9,
    "POLICY": 10,
    "RATES": 11,
    "KEYS": 12,
    "PRIORITY": 13,
    "DEBOUNCE": 15,
    "SCHEDULE": 14,
    "DEAD": 17,
    "LENT": 18,
    "CHECKPOINT": 20,
    "IMPORTED": 22,
}


def test_record_types_keep_their_numbers() -> None:
    assert {type_.name: int(type_) for type_ in RecordType} == NUMBERS


def test_numbers_fit_a_byte() -> None:
    assert all(0 < type_ < 256 for type_ in RecordType)
    assert 0 < RECORD_VERSION < 16


def test_a_record_cannot_be_changed() -> None:
    record = Record(LSN_FIRST, RecordType.KIND, b"x")
    with pytest.raises(AttributeError):
        record.lsn = 2  # type: ignore[misc]
    assert record == (1, 1, b"x")

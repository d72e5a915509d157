"""The byte layout: what is packed is recognised, and nothing else is."""

from __future__ import annotations

import struct

import pytest

from actors.protocol import limits
from actors.protocol.errors import LogCorrupt, NewerFormat, ProtocolError
from actors.protocol.records import RECORD_VERSION, Record
from runtime.storage import segment
from runtime.storage.segment import (
    BARRIER,
    LSN_LEAP_MAX,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    never_written,
    pack_records,
    pack_segment_header,
    read_segment_header,
    search_records,
    segment_name,
    segment_no,
    valid_record,
)
from tests.unit.storage.logs import OTHER, PLACE, records_from

SEED = PLACE.seed


def packed(records: list[Record], first_flags: int = 0) -> bytes:
    pieces, size = pack_records(records, SEED, records[0].lsn, first_flags)
    data = b"".join(pieces)
    assert len(data) == size
    return data


def test_sizes_are_as_drawn() -> None:
    assert SEGMENT_HEADER_BYTES == 48
    assert RECORD_HEADER_BYTES == 24


def test_bytes_are_as_drawn() -> None:
    data = packed([Record(0x0102030405, 3, b"payload")], first_flags=BARRIER)
    assert data[8:] == b"\x07\0\0\0\x03%c\x01\0\x05\x04\x03\x02\x01\0\0\0payload" % RECORD_VERSION
    assert data[:8] == segment.digest(data[8:], SEED)


def test_names_and_numbers() -> None:
    assert segment_name(1) == "00000001.seg"
    assert segment_no("00000001.seg") == 1
    assert segment_no(segment_name(123_456_789)) == 123_456_789
    for name in ("1", "x.seg", "00000001.seg.aside", "00000000.seg", "-0000001.seg", ".seg", "٣.seg"):
        assert segment_no(name) is None


def test_header_round_trip() -> None:
    data = pack_segment_header(7, 123, PLACE)
    assert len(data) == SEGMENT_HEADER_BYTES
    assert read_segment_header(data + b"more", 7, PLACE) == 123


@pytest.mark.parametrize("offset", range(SEGMENT_HEADER_BYTES))
def test_any_changed_byte_of_a_header_is_seen(offset: int) -> None:
    data = bytearray(pack_segment_header(7, 123, PLACE))
    data[offset] ^= 0x10
    with pytest.raises(LogCorrupt):  # also of the version: damage is no newer format
        read_segment_header(bytes(data), 7, PLACE)


@pytest.mark.parametrize("size", [0, 1, 47])
def test_a_cut_header_is_seen(size: int) -> None:
    with pytest.raises(LogCorrupt):
        read_segment_header(pack_segment_header(7, 123, PLACE)[:size], 7, PLACE)


def test_a_renamed_segment_and_one_of_another_log_are_refused() -> None:
    with pytest.raises(LogCorrupt):
        read_segment_header(pack_segment_header(7, 123, PLACE), 8, PLACE)
    with pytest.raises(LogCorrupt, match="another state folder"):
        read_segment_header(pack_segment_header(7, 123, OTHER), 7, PLACE)


def test_a_newer_format_is_told_from_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "FORMAT_VERSION", 2)
    data = pack_segment_header(7, 123, PLACE)
    monkeypatch.undo()
    with pytest.raises(NewerFormat):
        read_segment_header(data, 7, PLACE)


def test_flags_mark_the_first_record_of_a_batch() -> None:
    data = packed(records_from(5, 3), BARRIER)
    found = list(search_records(data, 0, SEED, 1))
    assert [(one.lsn, one.flags) for one in found] == [(5, BARRIER), (6, 0), (7, 0)]
    assert found[-1].stop == len(data)


@pytest.mark.parametrize("size", [limits.LOG_COPY_BYTES_MAX, limits.LOG_COPY_BYTES_MAX + 1])
def test_large_payloads_look_the_same_as_small_ones(size: int) -> None:
    records = [Record(1, 2, b"a"), Record(2, 2, b"b" * size), Record(3, 2, b"c")]
    assert [one.lsn for one in search_records(packed(records), 0, SEED, 1)] == [1, 2, 3]


def test_a_large_payload_is_not_copied() -> None:
    payload = b"b" * (limits.LOG_COPY_BYTES_MAX + 1)
    pieces, _ = pack_records([Record(1, 2, b"a"), Record(2, 2, payload)], SEED, 1, 0)
    assert pieces[-1] is payload


@pytest.mark.parametrize("records", [[Record(2, 1, b"")], [Record(1, 0, b"")], [Record(1, 256, b"")]])
def test_what_cannot_be_framed_is_refused(records: list[Record]) -> None:
    with pytest.raises(ProtocolError):
        pack_records(records, SEED, 1, 0)


def test_lsns_must_follow_each_other() -> None:
    with pytest.raises(ProtocolError):
        pack_records([Record(1, 1, b""), Record(3, 1, b"")], SEED, 1, 0)


def test_any_changed_byte_of_a_record_is_seen() -> None:
    data = packed([Record(9, 3, b"payload")])
    assert valid_record(data, 0, SEED) is not None
    for offset in range(len(data)):
        for mask in (1, 0x80, 0xFF):
            changed = bytearray(data)
            changed[offset] ^= mask
            assert valid_record(bytes(changed), 0, SEED) is None


def test_a_record_of_another_log_is_not_accepted() -> None:
    assert valid_record(packed([Record(9, 3, b"payload")]), 0, OTHER.seed) is None


def test_zeros_are_no_record() -> None:
    assert valid_record(bytes(100), 0, SEED) is None
    assert list(search_records(bytes(10_000), 0, SEED, 0)) == []


@pytest.mark.parametrize("junk", range(30))
def test_search_finds_records_at_any_offset(junk: int) -> None:
    data = b"\x01" * junk + packed(records_from(3, 2)) + b"\x01" * 40 + packed(records_from(8, 1))
    assert [one.lsn for one in search_records(data, 0, SEED, 1)] == [3, 4, 8]


def test_a_lost_sector_is_told_from_changed_bytes() -> None:
    data = b"x" * 2000
    assert not never_written(data, 100, 1900)
    for start, stop in ((100, 512), (512, 1024), (500, 512), (1008, 1024)):
        lost = data[:start] + bytes(stop - start) + data[stop:]
        assert never_written(lost, max(100, start), 1900)
        assert not never_written(lost[: stop - 1] + b"x" + lost[stop:], max(100, start), 1900)
    assert not never_written(data[:600] + bytes(300) + data[900:], 100, 1900)
    assert not never_written(data[:1536] + bytes(464), 100, 1900)


@pytest.mark.slow
def test_search_is_quick_among_payloads_full_of_small_numbers() -> None:
    numbers = struct.pack("<60000I", *(257 for _ in range(60_000)))
    data = b"\xff" * 30 + numbers * 4 + packed(records_from(7, 1))
    assert [one.lsn for one in search_records(data, 0, SEED, 5)] == [7]


def test_search_leaps_over_lost_segments_but_not_to_the_moon() -> None:
    for lsn in (6, 5 + (1 << 20)):
        assert [one.lsn for one in search_records(b"?" + packed(records_from(lsn, 1)), 0, SEED, 5)] == [lsn]
    assert list(search_records(packed(records_from(5 + LSN_LEAP_MAX, 1)), 0, SEED, 5)) == []


def test_search_ignores_a_copy_of_an_older_record_inside_a_payload() -> None:
    older = packed([Record(3, 1, b"older")])
    holder = packed([Record(9, 1, b"[" + older + b"]")])
    damaged = b"\xff" + holder[1:]
    assert list(search_records(damaged, 0, SEED, 9)) == []

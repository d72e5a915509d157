"""When engines opened a folder, without looking through its log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.storage import openings
from runtime.storage.openings import OPENINGS_NAME, Opening, note_opening, read_openings


def noted(folder: Path, *lsns: int) -> openings.Openings | None:
    for lsn in lsns:
        note_opening(str(folder), Opening(lsn, lsn, 10 * lsn))
    return read_openings(str(folder))


def test_the_last_one_before_a_record(tmp_path: Path) -> None:
    found = noted(tmp_path, 5, 90, 200)
    assert found is not None
    asked = {lsn: found.before(lsn) for lsn in (4, 5, 89, 90, 199, 1000)}
    assert {lsn: one and one.lsn for lsn, one in asked.items()} == {4: None, 5: 5, 89: 5, 90: 90, 199: 90, 1000: 200}
    assert asked[1000] == Opening(200, 200, 2000)


def test_an_engine_that_wrote_no_record_has_its_place_taken(tmp_path: Path) -> None:
    found = noted(tmp_path, 5, 90, 90)
    assert found is not None
    assert [one.lsn for one in found.entries] == [5, 90]
    found = noted(tmp_path, 40)
    assert found is not None
    assert [one.lsn for one in found.entries] == [5, 40], "the log was cut back: what was behind is another's"


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_whatever_engines_do_the_last_one_is_known(tmp_path_factory: pytest.TempPathFactory, lsns: list[int]) -> None:
    folder = tmp_path_factory.mktemp("state")
    log: list[int] = []
    for lsn in lsns:
        log = [one for one in log if one < lsn] + [lsn]
        found = noted(folder, lsn)
        assert found is not None
        for at in range(1, 52):
            before = found.before(at)
            if before is not None:
                assert before.lsn == max(one for one in log if one <= at)
            else:
                assert at < found.since_lsn


def test_only_the_latest_are_kept_and_what_is_before_is_not_claimed_to_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openings, "OPENINGS_MAX", 3)
    found = noted(tmp_path, 1, 2, 3, 4, 5)
    assert found is not None
    assert (found.since_lsn, found.before(2), found.before(3)) == (3, None, Opening(3, 3, 30))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 9}', b'{"version": 1, "since_lsn": 1}', b"\xff\x00"])
def test_what_cannot_be_read_is_as_good_as_missing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / OPENINGS_NAME).write_bytes(content)
    assert read_openings(str(tmp_path)) is None
    found = noted(tmp_path, 7)
    assert found is not None
    assert found.since_lsn == 7


def test_a_digit_that_changed_is_not_taken_for_a_time(tmp_path: Path) -> None:
    noted(tmp_path, 5, 90)
    path = tmp_path / OPENINGS_NAME
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            assert read_openings(str(tmp_path)) is None, damaged


def test_an_old_file_does_not_stay_where_the_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted(tmp_path, 1)

    def refuse(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(openings, "write_whole", refuse)
    assert noted(tmp_path, 9) is None
    assert not (tmp_path / OPENINGS_NAME).exists()

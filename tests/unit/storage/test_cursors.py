"""Cursors of subscriptions: their files, and what is kept of the log for them."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, NewerFormat, StateFolderError
from actors.protocol.event_errors import SubscriptionInUse
from runtime.storage.cursors import FOLDER, Cursor, CursorFile, damaged_letters, kept_for_readers, names_of
from runtime.storage.segment import SegmentInfo

SEGMENTS = [SegmentInfo(no, no * 100, no * 100 + 99, 1000) for no in range(1, 9)]


def put(folder: Path, name: str, cursor: Cursor) -> None:
    with closing(CursorFile(str(folder), name)) as file:
        file.save(cursor)


def test_a_cursor_comes_back(tmp_path: Path) -> None:
    with closing(CursorFile(str(tmp_path), "mail")) as file:
        assert file.load() is None
        file.save(Cursor(7, 2, 99, 3))
    assert names_of(str(tmp_path)) == ["mail"]
    with closing(CursorFile(str(tmp_path), "mail")) as file:
        assert file.load() == Cursor(7, 2, 99, 3)
        file.remove()
    assert names_of(str(tmp_path)) == []
    assert names_of(str(tmp_path / "none")) == []


def test_it_has_one_reader(tmp_path: Path) -> None:
    with closing(CursorFile(str(tmp_path), "mail")), pytest.raises(SubscriptionInUse):
        CursorFile(str(tmp_path), "mail")
    CursorFile(str(tmp_path), "mail").close()


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a b", "x" * 101, "ä", ".."])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="a name is"):
        CursorFile(str(tmp_path), name)


def test_there_are_not_more_than_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTIONS_MAX", 1)
    put(tmp_path, "one", Cursor(1))
    put(tmp_path, "one", Cursor(2))
    with pytest.raises(ConfigurationError, match="1 subscriptions already"):
        CursorFile(str(tmp_path), "two")


def test_a_file_that_is_none_of_ours_is_named_and_keeps_nothing(tmp_path: Path) -> None:
    put(tmp_path, "mail", Cursor(1))
    for content in ('{"version": 3}', '{"version": 2, "lsn": 5}', "{", '{"version": 1, "strange": 2}', "[]"):
        (tmp_path / FOLDER / "mail.json").write_text(content)
        with closing(CursorFile(str(tmp_path), "mail")) as file, pytest.raises(StateFolderError, match=r"mail\.json"):
            file.load()
        assert kept_for_readers(str(tmp_path), SEGMENTS, 5) == 5


def test_dead_letters_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBSCRIPTION_DEAD_BYTES", 300)
    with closing(CursorFile(str(tmp_path), "mail")) as file:
        for number in range(50):
            file.bury({"number": number})
        kept = [letter["number"] for letter in file.dead()]
    assert kept == list(range(50 - len(kept), 50))
    assert 5 <= len(kept) <= 14


def test_what_a_subscription_has_not_read_is_kept(tmp_path: Path) -> None:
    put(tmp_path, "slow", Cursor(350))
    put(tmp_path, "fast", Cursor(799))
    assert kept_for_readers(str(tmp_path), SEGMENTS, 6) == 3
    assert kept_for_readers(str(tmp_path), SEGMENTS, 2) == 2
    put(tmp_path, "slow", Cursor(600))
    assert kept_for_readers(str(tmp_path), SEGMENTS, 6) == 6


@pytest.mark.slow
@given(lsn=st.integers(1, 1000), keep=st.integers(0, 9000), below=st.integers(1, 8))
def test_no_more_than_its_bound_is_kept(
    tmp_path_factory: pytest.TempPathFactory, lsn: int, keep: int, below: int
) -> None:
    folder = tmp_path_factory.mktemp("state")
    put(folder, "slow", Cursor(lsn, -1, keep))
    kept = kept_for_readers(str(folder), SEGMENTS, below)
    extra = [info for info in SEGMENTS if kept <= info.no < below]
    assert kept <= below
    assert sum(info.bytes for info in extra) <= keep
    assert all(info.last_lsn >= lsn for info in extra)
    wanted = [info for info in SEGMENTS if info.no < below and info.last_lsn >= lsn]
    assert len(extra) == min(len(wanted), keep // 1000)


def test_a_digit_that_changed_is_seen(tmp_path: Path) -> None:
    """Or events would be left out without a word."""
    put(tmp_path, "mail", Cursor(120))
    path = tmp_path / FOLDER / "mail.json"
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with closing(CursorFile(str(tmp_path), "mail")) as file, suppress(StateFolderError):
            assert file.load() == Cursor(120)


def test_what_an_older_version_wrote_is_read(tmp_path: Path) -> None:
    put(tmp_path, "mail", Cursor(1))
    folder = tmp_path / FOLDER
    (folder / "mail.json").write_text('{"version": 1, "lsn": 7, "place": 2, "keep_bytes": 99, "dead": 3}')
    (folder / "mail.dead.jsonl").write_text('{"lsn": 3}\n')
    with closing(CursorFile(str(tmp_path), "mail")) as file:
        assert file.load() == Cursor(7, 2, 99, 3)
        file.bury({"lsn": 4})
        assert [letter["lsn"] for letter in file.dead()] == [3, 4]


def test_a_newer_format_is_told_from_damage(tmp_path: Path) -> None:
    put(tmp_path, "mail", Cursor(1))
    (tmp_path / FOLDER / "mail.json").write_text('{"version": 3, "shards": [1]}')
    with closing(CursorFile(str(tmp_path), "mail")) as file, pytest.raises(NewerFormat):
        file.load()


def test_letters_behind_one_that_was_cut_off_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(CursorFile(str(tmp_path), "mail")) as file:
        file.bury({"lsn": 1})
        path = tmp_path / FOLDER / "mail.dead.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole + whole[:20])
        file.bury({"lsn": 2})
        assert [letter["lsn"] for letter in file.dead()] == [1, 2]
        assert "line 2" in caplog.text
        assert damaged_letters(str(tmp_path / FOLDER), "mail") == 1
        path.write_bytes(path.read_bytes().replace(b'"lsn": 2', b'"lsn": 3'))
        assert [letter["lsn"] for letter in file.dead()] == [1]

"""Runs that memory let go of: in the archive, behind it, or nowhere; and what is read to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.archived import ArchiveRule
from actors.protocol.archive_errors import ArchiveUnusable
from actors.protocol.errors import MissingNode
from actors.protocol.records import Record
from runtime.storage import past_runs as module
from runtime.storage.past_runs import PastRuns, core_of, stands_for
from runtime.storage.segment import SegmentInfo
from runtime.storage.transfer_archived import ArchivedRuns
from tests.unit.storage.states import cut, make_folder
from tests.unit.storage.test_archive import row
from tests.unit.storage.test_archiving import FOR_EVER, KEPT, RUNS, forgetful_log, take

GONE = RUNS - KEPT


@pytest.fixture
def records() -> list[Record]:
    return forgetful_log()


@pytest.fixture
def segments(records: list[Record], tmp_path: Path) -> tuple[SegmentInfo, ...]:
    return make_folder(tmp_path, records)


def state(past: PastRuns, key: str) -> Any:
    found = past.answer("status", {"run": key})
    return None if found is None else found[0]["state"]


def test_each_run_is_found_wherever_the_archive_ends(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    for active in (None, segments[1], segments[len(segments) // 2], segments[-1]):
        if active is not None:
            take(tmp_path, active)
            cut(tmp_path, active.no)
        past = PastRuns(str(tmp_path), FOR_EVER)
        assert [run.no for run in past.rows()] == [*range(GONE, 0, -1)]
        for number in range(1, GONE + 1):
            assert state(past, f"s-{number}") == "succeeded"
            reply, error = past.answer("result", {"run": f"s-{number}"}) or (None, None)
            assert error is None
            assert reply["rows"][0][3] == "v" * 40
        assert state(past, f"s-{GONE + 1}") is None, "the engine has it"
        assert state(past, "t-1") is None


def test_only_questions_that_read_one_run(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[-1])
    past = PastRuns(str(tmp_path), FOR_EVER)
    for what in ("runs", "forget"):
        assert past.answer(what, {"run": "s-1"}) is None
    assert past.answer("status", {"run": None}) is None
    for what in ("nodes", "output", "story", "why"):
        assert past.answer(what, {"run": "s-1"})
    reply, error = past.answer("result", {"run": "s-1", "node": 7}) or (None, None)
    assert reply is None
    assert error["code"] == "MS113"


def test_nothing_goes_again_and_what_has_ended_is_said(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[2])
    past = PastRuns(str(tmp_path), FOR_EVER)
    for key in ("s-1", f"s-{GONE}"):
        letter, wanted = {"letters": [f"{key}/0"]}, {"filter": {"run": key}}
        for what, args in (("rerun", {"run": key}), ("replay", letter), ("discard", letter), ("replay", wanted)):
            reply, error = past.answer(what, args) or (None, None)
            assert (reply, error and error["code"]) == (None, "MS135"), what
            assert error["message"] == f"run {key!r} is in the archive only"
        assert past.answer("cancel", {"run": key}) == [False, None]
        assert past.answer("priority", {"run": key, "priority": "low"}) == [{"changed": False}, None]
        assert past.answer("dead", wanted) == [{"rows": [], "next": None}, None]
        _, error = past.answer("letter", {"letter": key}) or (None, None)
        assert error["code"] == "MS113", "it did not fail"
    for what, args in (
        ("rerun", {"run": "t"}),
        ("cancel", {"run": "t"}),
        ("dead", {}),
        ("replay", {"letters": ["t/0"]}),
    ):
        assert past.answer(what, args) is None


def test_a_log_without_news_is_folded_once(
    tmp_path: Path, segments: tuple[SegmentInfo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    take(tmp_path, segments[2])
    folds: list[int] = []
    real = module.resume_live
    monkeypatch.setattr(module, "resume_live", lambda *args: folds.append(1) or real(*args))
    past = PastRuns(str(tmp_path), FOR_EVER)
    for _ in range(3):
        assert state(past, "nobody") is None
    assert len(folds) == 1
    assert state(past, f"s-{GONE}") == "succeeded"
    assert state(past, f"s-{GONE}") == "succeeded"
    assert len(folds) == 1, "its columns are held"


def test_without_a_rule_what_is_left_of_an_archive_is_read(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    assert list(PastRuns(str(tmp_path), None).rows()) == []
    take(tmp_path, segments[2])
    assert 0 < len(list(PastRuns(str(tmp_path), None).rows())) < GONE


def test_what_would_not_stay_is_not_shown(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    assert list(PastRuns(str(tmp_path), ArchiveRule(10**9)).rows()) == []


def test_forgetting(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[2])
    past = PastRuns(str(tmp_path), FOR_EVER)
    assert past.forget("s-1", None)
    assert past.forget(f"s-{GONE}", None), "it has not come to the archive yet"
    assert not past.forget("s-1", None)
    assert not past.forget("nobody", None)
    assert past.forget("s-5", 5), "the engine has just let go of it"
    assert [run.no for run in past.rows()] == [no for no in range(GONE, 0, -1) if no not in (1, 5, GONE)]
    take(tmp_path, segments[-1])
    assert [run.no for run in past.rows()] == [no for no in range(GONE, 0, -1) if no not in (1, 5, GONE)]


def test_one_task_of_several_is_not_forgotten(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    past = PastRuns(str(tmp_path), FOR_EVER)
    (first, *_) = past.rows()
    past._let_go[first.no] = (1 << 40, first._replace(covers=3))
    with pytest.raises(MissingNode):
        past.forget(f"s-{first.seq + 1}", None)


def test_which_keys_are_of_a_run() -> None:
    bundle = row(1, seq=4, covers=3)
    assert [number for number in range(10) if stands_for(bundle, f"s-{number}")] == [1, 4, 5, 6]
    assert not stands_for(bundle, "s-x")


def test_parts_that_do_not_fit_are_damage() -> None:
    with pytest.raises(ArchiveUnusable, match="does not fit together"):
        core_of(row(1), [])


@pytest.mark.parametrize("held", [0, 3, 1000])
def test_runs_that_are_asked_for_one_by_one_need_few_folds(
    tmp_path: Path, segments: tuple[SegmentInfo, ...], monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """Upwards, as an export does; whatever is held, the answers are right."""
    monkeypatch.setattr(module, "HELD_NODES_MAX", held)
    folds: list[int] = []
    resume = module.resume_live
    monkeypatch.setattr(module, "resume_live", lambda *asked: (folds.append(1), resume(*asked))[1])
    past = PastRuns(str(tmp_path), FOR_EVER)
    for row_ in sorted(past.rows(), key=lambda row: row.no):
        run = core_of(row_, past.parts(row_)).scheduler.book.finished[row_.no]
        assert (run.no, run.results) == (row_.no, ["v" * 40])
    assert len(folds) <= 2 + GONE / max(1, held)
    assert len(past._held) <= max(1, held)


def test_an_export_has_what_is_on_its_way_to_the_archive(tmp_path: Path, segments: tuple[SegmentInfo, ...]) -> None:
    take(tmp_path, segments[len(segments) // 2])
    assert len(ArchivedRuns(tmp_path, (), (), everything=True)) == GONE
    assert len(list(ArchivedRuns(tmp_path, (), (), everything=True).runs())) == GONE


def first_behind_the_archive(path: Path, segments: tuple[SegmentInfo, ...]) -> int:
    """Take the archive of the first segments; the number of the run that comes there next."""
    take(path, segments[2])
    return 1 + max(row.no for row in PastRuns(str(path), None).rows())


def test_a_run_that_comes_to_the_archive_while_it_is_looked_for(
    tmp_path: Path, segments: tuple[SegmentInfo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = first_behind_the_archive(tmp_path, segments)
    look = PastRuns._let_go_since

    def late(self: PastRuns, *asked: Any) -> Any:  # it was not in the archive
        take(tmp_path, segments[-1])
        cut(tmp_path, segments[-1].no)
        return look(self, *asked)

    monkeypatch.setattr(PastRuns, "_let_go_since", late)
    past = PastRuns(str(tmp_path), FOR_EVER)
    assert state(past, f"s-{number}") == "succeeded"
    assert state(past, "nobody") is None


def test_a_run_that_comes_to_the_archive_while_it_is_read(
    tmp_path: Path, segments: tuple[SegmentInfo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = first_behind_the_archive(tmp_path, segments)
    fold = PastRuns._fold
    past = PastRuns(str(tmp_path), FOR_EVER)
    wanted = next(row for row in past.rows() if row.no == number)
    past._held.clear()

    def late(self: PastRuns, *asked: Any) -> Any:
        take(tmp_path, segments[-1])
        cut(tmp_path, segments[-1].no)
        return fold(self, *asked)

    monkeypatch.setattr(PastRuns, "_fold", late)
    assert core_of(wanted, past.parts(wanted)).scheduler.book.finished[number].results == ["v" * 40]

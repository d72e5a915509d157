"""The book of runs: retention, and what the log must keep."""

from __future__ import annotations

import pytest

from actors.books import RunBook
from actors.protocol import limits
from actors.run import Run


def enter(book: RunBook, lsn: int, size: int = 1, session: str = "s") -> Run:
    no = book.next_no()
    run = Run.of_tasks(no, f"{session}-{no}", session, no, 0, [], None, [None] * size)
    run.lsn = lsn
    book.add(run, no)
    return run


def end(book: RunBook, run: Run, lsn: int) -> None:
    run.open = 0
    assert book.finish(run, lsn)


def test_the_log_keeps_what_the_oldest_run_by_submission_needs_whichever_ended_first() -> None:
    book = RunBook()
    slow, quick, live = (enter(book, lsn) for lsn in (10, 20, 30))
    end(book, quick, 40)
    end(book, slow, 50)
    assert book.floor(60) == 10, "the run that ended last was submitted first"
    book.forget([slow.no])
    assert book.floor(60) == 20
    book.forget([quick.no])
    assert book.floor(60) == 30
    end(book, live, 61)
    book.forget([live.no])
    assert book.floor(62) == 62, "nothing is kept"
    book.check_invariants()


def test_finished_runs_go_in_the_order_of_their_ends_and_never_the_latest() -> None:
    book = RunBook(runs=2, nodes=100)
    runs = [enter(book, lsn) for lsn in (1, 2, 3)]
    for lsn, run in enumerate(reversed(runs), 10):
        end(book, run, lsn)
    book.told_lsn = 12
    assert [run.no for run in book.retire()] == [runs[2].no]
    large = enter(book, 13, size=1000)
    end(book, large, 14)
    book.told_lsn = 14
    assert large not in book.retire()
    assert list(book.finished.values()) == [large]
    book.check_invariants()


def test_a_run_whose_end_was_not_handed_over_stays() -> None:
    book = RunBook(runs=1, nodes=100)
    for lsn in (1, 2, 3):
        end(book, enter(book, lsn), lsn + 10)
    assert book.retire() == []
    book.told_lsn = 11
    assert [run.lsn for run in book.retire()] == [1]


@pytest.mark.parametrize("seq", [0, 4])
def test_a_number_that_no_run_covers_finds_nothing(seq: int) -> None:
    book = RunBook()
    enter(book, 1, size=3)
    assert book.find(f"s-{seq}") is None
    assert book.find("s-3") is not None


def test_what_is_remembered_of_runs_that_are_gone_is_bounded_by_those_that_are_kept() -> None:
    book = RunBook()
    oldest = enter(book, 1)
    for lsn in range(2, 1000):
        run = enter(book, lsn)
        end(book, run, lsn)
        book.forget([run.no])
        assert book.floor(lsn + 1) == oldest.lsn
    assert len(book._by_age) <= 4
    book.check_invariants()


def test_large_finished_runs_go_before_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BYTES_FINISHED_MAX", 160)
    book = RunBook()
    runs = [enter(book, lsn) for lsn in range(1, 5)]
    for run in runs:
        book.weigh(run, 30)
        run.results_bytes = 20
    assert book.bytes_live == 120
    for run in runs[:3]:
        end(book, run, 10)
    book.told_lsn = 10
    assert (book.bytes_live, book.bytes_finished) == (30, 150)
    assert book.retire() == []
    end(book, runs[3], 11)
    book.told_lsn = 11
    assert book.retire() == [runs[0]], "some room is made, not only enough"
    book.check_invariants()


def test_sessions_without_runs_are_forgotten_when_another_opens() -> None:
    book = RunBook()
    kept = enter(book, 1, session="kept")
    book.session("gone")
    book.session("new").seq_last = 7
    book.forget_sessions("new")
    assert sorted(book.sessions) == ["kept", "new"]
    assert book.session("new").seq_last == 7
    end(book, kept, 2)
    book.forget([kept.no])
    book.forget_sessions("new")
    assert sorted(book.sessions) == ["new"]

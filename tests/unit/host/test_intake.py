"""What the engine says reaches the cell it is meant for, once."""

from __future__ import annotations

from typing import Any

import orjson

from actors.protocol import limits
from runtime.errors import RuntimeClosed, UnknownRun
from runtime.host.intake import Intake
from runtime.host.outbox import Outbox
from runtime.host.pending import ENDED, ERROR, FAILED, OPEN, VALUE, WIRE, AckWait, MapChunk, Numbered, Pending, Query


class Cell(Numbered):
    """Stands for a handle."""

    run_id = ""


def intake_with(**cells: Pending) -> Intake:
    """An intake in which the cell named s5 is open under number 5."""
    intake = Intake(Outbox())
    intake.open.update({int(name[1:]): cell for name, cell in cells.items()})
    return intake


def say(intake: Intake, letter: str, body: Any) -> list[Pending]:
    woken: list[Pending] = []
    intake.work([letter.encode() + orjson.dumps(body)], woken)
    return woken


def state(cell: Pending) -> tuple[int, Any]:
    return cell._state, cell._value


def test_results_of_single_tasks() -> None:
    cells = [Cell() for _ in range(3)]
    intake = intake_with(s5=cells[0], s6=cells[1], s9=cells[2])
    say(intake, "R", [[5, [0, 1], ["a", None]], [9, 0, [3]]])
    assert [state(c) for c in cells] == [(VALUE, "a"), (VALUE, None), (VALUE, 3)]
    assert intake.open == {}
    say(intake, "R", [[5, [0, 1], ["again", "again"]]])
    assert state(cells[0]) == (VALUE, "a")


def test_a_frame_with_extensions_is_decoded_by_whoever_asks() -> None:
    cell = Cell()
    say(intake_with(s1=cell), "R", [[1, [0], [{"!": ["tree", 1]}]]])
    assert state(cell) == (WIRE, {"!": ["tree", 1]})


def test_hooks_are_collected() -> None:
    cell = Cell()
    cell._hooks = [lambda _: None]
    assert say(intake_with(s1=cell), "R", [[1, [0], [1]]]) == [cell]


def test_batches_take_their_own_rows() -> None:
    batch, single = MapChunk(2), Cell()
    intake = intake_with(s5=batch, s6=single)
    say(intake, "R", [[5, [1], ["b"]]])
    say(intake, "F", [[5, 0, "failed", {"kind": "error"}]])
    assert batch._state == VALUE
    assert single._state == OPEN


def test_a_batch_that_ended_is_not_taken_for_single_tasks() -> None:
    batch, single = MapChunk(2), Cell()
    intake = intake_with(s5=batch, s6=single)
    say(intake, "R", [[5, 0, ["a", "b"]]])
    say(intake, "R", [[5, [0, 1], ["a", "b"]]])
    say(intake, "F", [[5, 1, "failed", {}]])
    assert single._state == OPEN


def test_ended_batches_are_remembered_within_a_bound() -> None:
    intake = Intake(Outbox())
    for seq in range(limits.FINISHED_BATCHES_MAX + 10):
        intake.open[seq] = MapChunk(1)
        say(intake, "R", [[seq, 0, [0]]])
    assert len(intake._batches_ended) == len(intake._batches_order) == limits.FINISHED_BATCHES_MAX


def test_failures_of_single_tasks() -> None:
    one, two = Cell(), Cell()
    intake = intake_with(s3=one, s4=two)
    say(intake, "F", [[3, None, "failed", {"kind": "error"}], [3, 1, "cancelled", {"kind": "cancelled"}]])
    assert state(one) == (FAILED, ["failed", {"kind": "error"}])
    assert state(two) == (FAILED, ["cancelled", {"kind": "cancelled"}])


def test_the_end_of_a_graph_by_number_and_key() -> None:
    mine, other, watcher = Cell(), Cell(), Cell()
    mine.run_id, other.run_id = "s-3", "mine"
    intake = intake_with(s3=mine, s4=other)
    intake.watched["theirs"] = [watcher]
    intake.counts[3] = [1] * 7
    rows = [[3, "s-3", "succeeded", [0] * 7, None], [4, "theirs", "failed", [0] * 7, None]]
    say(intake, "N", rows)
    assert state(mine) == (ENDED, rows[0])
    assert other._state == OPEN  # number 4 belongs to another session there
    assert state(watcher) == (ENDED, rows[1])
    assert intake.counts == {}


def test_progress_is_kept_for_open_runs_only() -> None:
    intake = intake_with(s3=Cell())
    say(intake, "P", [[3, [1, 0, 0, 0, 0, 0, 0]], [4, [2, 0, 0, 0, 0, 0, 0]]])
    assert list(intake.counts) == [3]


def test_acknowledgements_settle_who_waits() -> None:
    intake = Intake(Outbox())
    intake._outbox.seq = 9
    waits = [AckWait(2), AckWait(3), AckWait(5)]
    intake.ack_waits.extend(waits)
    say(intake, "A", [3])
    assert [w._state for w in waits] == [VALUE, VALUE, OPEN]
    assert intake._outbox.acked == 3


def test_a_rejection_settles_and_acknowledges() -> None:
    cell, wait = Cell(), AckWait(2)
    intake = intake_with(s2=cell)
    intake.ack_waits.append(wait)
    say(intake, "J", [2, {"code": "MS121", "message": "no"}])
    assert isinstance(cell._value, UnknownRun)
    assert (cell._state, wait._state) == (ERROR, VALUE)


def test_answers_find_their_question() -> None:
    intake = Intake(Outbox())
    good, bad = Query(b""), Query(b"")
    intake.queries.update({1: good, 2: bad})
    say(intake, "Q", [1, {"text": "x"}, None])
    intake.answer([2, None, {"code": "MS121", "message": "no"}], [])
    say(intake, "Q", [2, {}, None])
    assert state(good) == (VALUE, {"text": "x"})
    assert isinstance(bad._value, UnknownRun)


def test_unknown_frames_of_a_newer_engine_are_passed_over() -> None:
    assert say(Intake(Outbox()), "~", {"what": "ever"}) == []


def test_which_outcomes_are_still_wanted() -> None:
    intake = intake_with(s7=Cell(), s9=Cell())
    assert intake.open_seq() == 7
    intake.open.clear()
    intake._outbox.acked = 9
    assert intake.open_seq() == 10


def test_the_end_settles_everything() -> None:
    cells = [Cell(), Query(b""), AckWait(4), Cell()]
    intake = intake_with(s1=cells[0])
    intake.queries[1] = cells[1]  # type: ignore[assignment]
    intake.ack_waits.append(cells[2])  # type: ignore[arg-type]
    intake.watched["r"] = [cells[3]]
    intake.fail_all(RuntimeClosed("over"), [])
    assert [c._state for c in cells] == [ERROR] * 4
    assert [len(c) for c in (intake.open, intake.queries, intake.watched, intake.ack_waits)] == [0] * 4


class Named(Cell):
    """Stands for a handle that has a run id."""

    def stand_for(self, run_id: str) -> None:
        self.run_id = run_id


def test_a_submission_that_stands_for_an_earlier_run_ends_with_it() -> None:
    cell, ack = Named(), AckWait(5)
    cell.seq = 5
    intake = intake_with(s5=cell)
    intake.ack_waits.append(ack)
    say(intake, "D", [5, "other-3", None])
    say(intake, "D", [5, "other-3", None])
    assert (cell.run_id, cell._state, ack._state) == ("other-3", OPEN, VALUE)
    assert intake.open_seq() == 5
    ending = [3, "other-3", "succeeded", [0, 0, 0, 1, 0, 0, 0], None]
    say(intake, "N", [ending])
    assert state(cell) == (ENDED, ending)
    assert (intake.open, intake.watched) == ({}, {})


def test_a_submission_that_stands_for_a_run_that_is_over_ends_at_once() -> None:
    cell = Named()
    intake = intake_with(s5=cell)
    ending = [5, "other-5", "failed", [0, 0, 0, 0, 1, 0, 0], [0, None, {"kind": "error"}]]
    say(intake, "D", [5, "other-5", ending])
    assert state(cell) == (ENDED, ending)
    assert (intake.open, intake.watched) == ({}, {})
    say(intake, "D", [5, "other-5", ending])
    assert intake.watched == {}

"""What an engine shows: what the log holds, of live runs and those that have just ended, as far as there is room."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from runtime.host import progress_publisher
from runtime.host.progress_publisher import EVERY_NS, ProgressPublisher
from runtime.mail.board import BoardReader, BoardRow, BoardWriter, create_board
from tests.unit.actors.rig import Rig, kind


class Table(Rig):
    """Work is submitted under ascending numbers, and finished by the serials 1, 2, ... of the one worker."""

    def __init__(self) -> None:
        super().__init__()
        self.seq = 0
        self.leased: dict[int, tuple[int, int]] = {}

    def graph(self, edges: list[list[int]], ids: Sequence[str | None] = ()) -> None:
        self.seq += 1
        builder = GraphBuilder()
        for parents, name in zip(edges, [*ids, *[None] * (len(edges) - len(ids))], strict=True):
            builder.add(0, parents, node_id=name)
        raw = encode(builder.finish(), {"kinds": [kind("parents")], "name": "graph"})
        header, columns = decode(raw)
        self.say(msg.GraphSubmitted("s", self.seq, header, columns, raw))

    def tasks(self, count: int) -> None:
        rows = [[self.seq + 1 + i, 1, i] for i in range(count)]
        self.seq += count
        self.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))

    def place(self, serial: int) -> tuple[int, int]:
        """Run and node of a lease."""
        for effect in self.taken(fx.LeaseWork):
            for at, node in enumerate(effect.nodes):
                self.leased[effect.serial + at] = (effect.run.no, node)
        return self.leased[serial]

    def finish(self, *serials: int) -> None:
        for serial in serials:
            run, node = self.place(serial)
            self.succeed(self.workers[0], serial, node, run=run)


class Shown:
    """A core on a table, what is shown of it, and a reader of that."""

    def __init__(self, table: Table | None = None) -> None:
        self.table = table or Table()
        self.fd = create_board("uuid")
        self.reader = BoardReader(self.fd)
        self.woken: list[int] = []
        self.progress = ProgressPublisher(self.table.core, self.woken.append, lambda: 77)
        self.progress.begin(os.dup(self.fd))

    def idle(self) -> bool:
        """The engine is about to sleep, and some time has passed."""
        self.table.now_ns += EVERY_NS
        return self.progress.turn(self.table.now_ns, idle=True)

    def run(self, run_id: str = "s-1") -> BoardRow:
        found = self.reader.run(run_id)
        assert found is not None
        return found

    def close(self) -> None:
        self.progress.close()
        self.reader.close()
        os.close(self.fd)


@pytest.fixture
def shown() -> Iterator[Shown]:
    found = Shown()
    yield found
    found.close()


def test_a_run_is_shown_from_its_submission_to_its_end(shown: Shown) -> None:
    table = shown.table
    table.let_hold(1)
    table.graph([[], [0], [0]])
    assert shown.reader.run("s-1") is None
    assert not shown.idle()
    assert shown.run().counts == (2, 0, 1, 0, 0, 0, 0)
    assert (shown.run().at_ns, shown.run().lsn) == (77, table.core.scheduler.lsn)
    table.finish(1)
    shown.idle()
    assert shown.run().counts == (0, 0, 2, 1, 0, 0, 0)
    table.fail(table.workers[0], 2, table.place(2)[1])
    table.finish(3)
    shown.idle()
    assert shown.run().counts == (0, 0, 0, 2, 1, 0, 0)


def test_a_node_that_is_parked_waits_again(shown: Shown) -> None:
    shown.table.graph([[], []])
    shown.idle()
    assert shown.run().counts == (0, 0, 2, 0, 0, 0, 0)
    shown.table.fail(shown.table.workers[0], 1, shown.table.place(1)[1], "no-handler")
    shown.idle()
    assert shown.run().counts == (0, 1, 1, 0, 0, 0, 0)


def test_what_is_shown_is_durable(shown: Shown) -> None:
    table = shown.table
    table.let_hold(1)
    table.graph([[], [0]])
    shown.idle()
    table.disk_held = True
    table.finish(1)
    assert not shown.idle()
    assert shown.run().counts[3] == 0
    assert not shown.idle()
    table.disk_held = False
    table.write()
    assert shown.run().counts[3] == 0
    shown.progress.flush()
    assert shown.run().counts[3] == 1


def test_the_end_of_a_run_is_shown_as_soon_as_it_is_durable(shown: Shown) -> None:
    """Before anybody is told of it, and however lately something was written."""
    table = shown.table
    table.graph([[], []])
    table.graph([[], []])
    shown.idle()
    table.disk_held = True
    table.finish(1, 2, 3)
    effects = [object()]
    assert shown.progress.before(effects) is effects
    table.disk_held = False
    while table.held:
        table.write()
    shown.progress.flush()
    ends = [row.counts for row in shown.reader.rows()]
    assert (0, 0, 0, 2, 0, 0, 0) in ends
    assert (0, 0, 1, 1, 0, 0, 0) not in ends, "of the other one more is taken when it is time"


def test_it_is_looked_at_what_moved_now_and_then_and_an_engine_that_sleeps_is_woken_for_it(shown: Shown) -> None:
    table = shown.table
    table.graph([[]] * 3)
    assert not shown.progress.turn(table.now_ns)
    before, due = shown.run(), table.now_ns + EVERY_NS
    table.finish(1)
    assert not shown.progress.turn(due - 1)
    assert (shown.run(), shown.woken) == (before, [])
    assert not shown.progress.turn(due - 1, idle=True)
    assert (shown.run(), shown.woken) == (before, [due])
    assert not shown.progress.turn(due)
    assert shown.run().counts[3] == 1


def test_a_run_that_ends_at_once_is_never_shown(shown: Shown) -> None:
    shown.table.graph([[]])
    shown.table.finish(1)
    shown.idle()
    assert list(shown.reader.rows()) == []


def test_an_idle_engine_takes_a_part_of_what_moved_and_asks_for_another_turn(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_publisher, "RUNS_PER_TURN", 2)
    for _ in range(5):
        shown.table.graph([[]] * 2)
    assert [shown.idle() for _ in range(4)] == [True, True, False, False]
    assert len(list(shown.reader.rows())) == 5


def test_bundles_do_not_take_all_slots(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_publisher, "OTHERS_MAX", 1)
    shown.table.tasks(2)
    shown.table.tasks(2)
    shown.table.graph([[]])
    shown.idle()
    assert [row.run_no for row in shown.reader.rows()] == [1, 3]
    assert shown.reader.bundle("s-1") is not None
    assert shown.reader.run("s-1") is None, "that is the first task of the bundle, and not the bundle"


def test_who_found_no_room_is_shown_when_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoardWriter, "slots", 2)
    monkeypatch.setattr(progress_publisher, "ENDED_MAX", 0)
    shown = Shown()
    try:
        shown.table.let_hold(1)
        for size in (1, 2, 2):
            shown.table.graph([[]] * size)
        shown.idle()
        assert [row.run_no for row in shown.reader.rows()] == [1, 2]
        shown.table.finish(1)
        shown.idle()
        shown.idle()
        assert sorted(row.run_no for row in shown.reader.rows()) == [2, 3]
    finally:
        shown.close()


def test_a_run_that_ended_makes_room_for_one_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoardWriter, "slots", 1)
    shown = Shown()
    try:
        shown.table.graph([[]] * 2)
        shown.idle()
        shown.table.finish(1, 2)
        shown.idle()
        assert shown.run().counts[3] == 2
        shown.table.graph([[]] * 2)
        shown.idle()
        assert (shown.reader.run("s-1"), shown.run("s-2").run_no) == (None, 2)
    finally:
        shown.close()


def test_live_runs_are_shown_when_an_engine_begins() -> None:
    table = Table()
    table.graph([[], [0]])
    shown = Shown(table)
    try:
        assert shown.run().counts == (1, 0, 1, 0, 0, 0, 0)
    finally:
        shown.close()


def reports(shown: Shown, serial: int, *said: Any) -> None:
    shown.table.say(msg.WorkerProgress(shown.table.workers[0], serial, *said))
    shown.idle()


def test_what_handlers_report_is_shown_of_the_run_and_of_single_tasks(shown: Shown) -> None:
    shown.table.graph([[], []], ids=["load", None])
    shown.table.tasks(2)
    shown.idle()
    reports(shown, 1, 1.0, 4.0, "reading")
    assert shown.run().text == "load: reading, 1 of 4"
    reports(shown, 2, 3.0, 4.0, "")
    assert shown.run().text == "1: 3 of 4"
    assert shown.reader.task("s-2") is None
    reports(shown, 4, 2.0, 8.0, "now")
    found = shown.reader.task("s-3")
    assert found is not None
    assert (found.done, found.total, found.text) == (2.0, 8.0, "now")
    shown.table.finish(2)
    shown.idle()
    assert shown.run().text == "load: reading, 1 of 4", "who reported last has ended, and another one still runs"
    shown.table.finish(1)
    shown.idle()
    assert shown.run().text == "", "all who reported have ended"


def test_a_report_without_a_number_is_one_of_nothing_done(shown: Shown) -> None:
    shown.table.tasks(1)
    reports(shown, 1, None, None, "")
    found = shown.reader.task("s-1")
    assert found is not None
    assert (found.done, found.total, found.text) == (0.0, 0.0, "")


def test_reports_of_a_run_that_was_never_shown_go_with_it(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_publisher, "OTHERS_MAX", 0)
    shown.table.tasks(1)
    reports(shown, 1, 1.0, 2.0, "")
    assert shown.reader.task("s-1") is not None
    shown.table.finish(1)
    shown.idle()
    assert list(shown.reader.rows()) == []
    kept = (shown.progress._outside, shown.progress._nodes, shown.progress._reports, shown.progress._latest)
    assert not any(kept)


def test_the_oldest_report_makes_room_and_that_is_said(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_publisher, "REPORTS_MAX", 1)
    shown.table.tasks(2)
    reports(shown, 1, 1.0, 2.0, "")
    assert shown.reader.lost() == 0
    reports(shown, 2, 1.0, 2.0, "")
    assert (shown.reader.task("s-1"), shown.reader.lost()) == (None, 1)
    assert shown.reader.task("s-2") is not None
    reports(shown, 2, 2.0, 2.0, "")
    assert shown.reader.lost() == 1
    shown.table.finish(1, 2)
    shown.idle()
    assert shown.reader.task("s-2") is None


def test_without_a_board_nothing_is_noted() -> None:
    table = Table()
    found = ProgressPublisher(table.core, lambda due_ns: None)
    table.graph([[]])
    assert table.core.scheduler.book.moved is None
    assert not found.turn(table.now_ns, idle=True)
    found.close()

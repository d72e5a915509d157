"""The board: what is shown is found by its key, whole, by anybody, whatever the writer is at."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.mail import board as layout
from runtime.mail.blocks import map_block
from runtime.mail.board import SLOTS, BoardReader, BoardRow, BoardWriter, create_board, run_key, task_key
from tests.unit.mail.forks import forked

RACE_S = 0.2


def row(no: int, count: int = 0, text: str = "") -> BoardRow:
    return BoardRow(no, (count,) * 7, count, count, -1, float(count), float(count), text)


class Sides:
    """A writer and a reader of one block."""

    def __init__(self) -> None:
        self.fd = create_board("uuid")
        self.writer = BoardWriter(os.dup(self.fd))
        self.reader = BoardReader(self.fd)
        self.writer.sweep()

    def close(self) -> None:
        self.writer.close()
        self.reader.close()
        os.close(self.fd)


@pytest.fixture
def sides() -> Iterator[Sides]:
    found = Sides()
    found.writer.begin()
    yield found
    found.close()


def test_what_is_shown_is_found_until_it_is_released(sides: Sides) -> None:
    slot = sides.writer.place(run_key("a"), row(1, 5, "half"))
    sides.writer.place(task_key("a"), row(2, 6))
    assert sides.reader.run("a") == row(1, 5, "half")
    assert sides.reader.task("a") == row(2, 6)
    assert (sides.reader.run("b"), sides.reader.bundle("a")) == (None, None)
    sides.writer.write(slot, run_key("a"), row(1, 6))
    assert sides.reader.run("a") == row(1, 6)
    assert [found.run_no for found in sides.reader.rows()] == [1, 2]
    sides.writer.release(slot)
    assert sides.reader.run("a") is None
    assert sides.writer.place(run_key("b"), row(3, 7)) == slot
    assert (sides.reader.run("a"), sides.reader.run("b")) == (None, row(3, 7))


def test_all_slots_can_be_used(sides: Sides) -> None:
    for no in range(SLOTS):
        assert sides.writer.room == SLOTS - no
        sides.writer.place(run_key(str(no)), row(no, no))
    assert not sides.writer.room
    for no in (0, 1, SLOTS // 2, SLOTS - 1):
        assert sides.reader.run(str(no)) == row(no, no)


def test_an_engine_that_begins_sweeps_what_another_one_showed(sides: Sides) -> None:
    sides.writer.place(run_key("a"), row(1, 5))
    sides.writer.lost()
    assert (sides.reader.incarnation(), sides.reader.lost()) == (1, 1)
    after = BoardWriter(os.dup(sides.fd))
    after.sweep()
    assert not sides.reader.shows()
    assert (sides.reader.run("a"), list(sides.reader.rows()), sides.reader.incarnation()) == (None, [], 0)
    after.place(run_key("b"), row(2, 6))
    assert sides.reader.run("b") is None
    after.begin()
    assert (sides.reader.run("a"), sides.reader.run("b")) == (None, row(2, 6))
    assert (sides.reader.incarnation(), sides.reader.lost()) == (2, 0)
    after.close()


def test_a_writer_that_stops_in_the_middle_leaves_what_was_shown(sides: Sides) -> None:
    """It fills the copy that is not shown; whatever is in it, nobody looks there."""
    slot = sides.writer.place(run_key("a"), row(1, 5))
    start = layout._SLOTS_BYTE + slot * layout._SLOT_BYTES
    memory = map_block(sides.fd)
    for copy in (0, 1):
        place = start + layout._FIRST_COPY + copy * layout._COPY_BYTES
        if copy != memory[start] & 1:
            memory[place : place + layout._COPY_BYTES] = b"\xa5" * layout._COPY_BYTES
    assert sides.reader.run("a") == row(1, 5)
    place = start + layout._FIRST_COPY + (memory[start] & 1) * layout._COPY_BYTES
    for at in range(layout._COPY_BYTES):
        memory[place + at] ^= 1
        assert sides.reader.run("a") is None, "a damaged row was believed"
        memory[place + at] ^= 1
    assert sides.reader.run("a") == row(1, 5)
    memory.close()


def test_a_long_text_ends_with_a_whole_character(sides: Sides) -> None:
    sides.writer.place(run_key("a"), row(1, 1, "ö" * 100))
    found = sides.reader.run("a")
    assert found is not None
    assert found.text == "ö" * 47


def test_who_has_closed_finds_nothing(sides: Sides) -> None:
    reader = BoardReader(sides.fd)
    sides.writer.place(run_key("a"), row(1, 5))
    assert reader.run("a") == row(1, 5)
    reader.close()
    reader.close()
    assert (reader.run("a"), reader.shows(), list(reader.rows()), reader.incarnation()) == (None, False, [], 0)


def test_what_is_no_board_shows_nothing() -> None:
    fd = create_board("uuid")
    reader = BoardReader(fd)
    assert not reader.shows()
    assert reader.run("a") is None
    reader.close()
    os.close(fd)
    too_small = layout.create_block(4096)
    with pytest.raises(ValueError, match="length"):
        BoardReader(too_small)
    os.close(too_small)


STEP = st.tuples(st.sampled_from(["place", "write", "release", "sweep"]), st.integers(0, 9), st.integers(0, 1 << 40))


@given(st.lists(STEP, max_size=60))
def test_the_board_is_a_table_of_rows_by_key(steps: list[tuple[str, int, int]]) -> None:
    sides = Sides()
    sides.writer.begin()
    slots: dict[int, int] = {}
    rows: dict[int, BoardRow] = {}
    try:
        for what, no, count in steps:
            key = run_key(str(no))
            if what == "sweep":
                sides.writer.sweep()
                sides.writer.begin()
                slots.clear()
                rows.clear()
            elif what == "release" and no in slots:
                sides.writer.release(slots.pop(no))
                del rows[no]
            elif what in ("place", "write"):
                rows[no] = row(no, count, str(count))
                if no in slots:
                    sides.writer.write(slots[no], key, rows[no])
                else:
                    slots[no] = sides.writer.place(key, rows[no])
            assert [sides.reader.run(str(n)) for n in range(10)] == [rows.get(n) for n in range(10)]
            assert sorted(sides.reader.rows()) == sorted(rows.values())
    finally:
        sides.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_reader_never_sees_parts_of_two_writes(seed: int, sides: Sides) -> None:
    """Another process writes as fast as it can, and gives slots to others; all numbers of a row are one number."""
    ids = [str(no) for no in range(8)]
    done_read, done_write = os.pipe()
    done_ns = time.monotonic_ns() + int(RACE_S * 1e9)

    def write() -> None:
        random, writer, count = Random(seed), sides.writer, 0
        slots: dict[int, int] = {}
        while time.monotonic_ns() < done_ns:
            no, count = random.randrange(len(ids)), count + 1
            if no not in slots:
                slots[no] = writer.place(run_key(ids[no]), row(no, count, f"{count}"))
            elif random.random() < 0.1:
                writer.release(slots.pop(no))
            else:
                writer.write(slots[no], run_key(ids[no]), row(no, count, f"{count}"))
        os.write(done_write, b"%d" % count)

    seen = [0] * len(ids)
    looks = found_some = 0
    with forked(write):
        while time.monotonic_ns() < done_ns:
            no = looks % len(ids)
            looks += 1
            found = sides.reader.run(ids[no])
            if found is None:
                continue
            found_some += 1
            number = found.lsn
            assert found == row(no, number, f"{number}")
            assert number >= seen[no], "it went back"
            seen[no] = number
    written = int(os.read(done_read, 20))
    os.close(done_read)
    os.close(done_write)
    assert written > 100
    assert found_some > 100

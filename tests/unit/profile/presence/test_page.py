"""The page: slots of processes that live, books without halves, requests that end with who asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.host import kernel
from runtime.host.kernel import is_alive
from runtime.profile.ledger.books import LEDGER
from runtime.profile.model import Process
from runtime.profile.presence import page as pages
from runtime.profile.presence.page import DONE, OPTIONS_BYTES_MAX, REQUESTS, Page, create_page


@pytest.fixture
def page() -> Iterator[Page]:
    found = Page(create_page("uuid", "/tmp/state"))
    yield found
    found.close()


def me(role: str = "worker", number: int = 0, node_type: str = "") -> Process:
    return Process(os.getpid(), kernel.start_time(os.getpid()), role, number, node_type)


def gone() -> Process:
    """A process that was, and is no more. Skips where one that was not reaped yet cannot be told from it."""
    if not kernel.LINUX:
        pytest.skip("needs /proc: elsewhere a zombie counts as alive")
    pid = os.fork()
    if not pid:
        os._exit(0)
    process = Process(pid, kernel.start_time(pid), "worker", 9, "cpu")
    assert not is_alive(pid, process.start_time) or os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(*process[:2])  # a zombie
    os.waitpid(pid, 0)
    return process


def test_a_slot_shows_who_and_what(page: Page) -> None:
    assert page.state_dir == "/tmp/state"
    slot = page.take_slot(me("worker", 3, "http"), 3, 17)
    assert slot is not None
    (row,) = page.processes()
    assert row.process == me("worker", 3, "http")
    assert (row.counts, row.beat_ns, row.hang_fd) == ({}, 0, 17)
    token = LEDGER.track("checkout")
    try:
        slot.publish(5)
        slot.publish(6)
        (row,) = page.processes()
        assert row.counts["checkout"] == LEDGER.counts()["checkout"]
        assert row.beat_ns == 6
    finally:
        LEDGER.release(token)
    slot.ack(2, 99, DONE)
    slot.show_cost(1000)
    (row,) = page.processes()
    assert (row.hears, row.hang_fd, row.acks[2], row.self_cpu_ns) == (3, 17, (99, DONE), 1000)
    slot.release()
    assert not page.processes()


def test_slots_of_the_dead_are_swept_and_used_again(page: Page) -> None:
    dead = gone()
    assert page.take_slot(dead) is not None
    assert page.row(0) is not None
    assert not page.processes()
    assert page.row(0) is None
    slot = page.take_slot(me())
    assert slot is not None
    assert slot.slot == 0


def test_a_full_page_gives_the_slot_of_a_dead_process_or_none(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SLOTS", 2)
    assert page.take_slot(gone()) is not None
    assert page.take_slot(me()) is not None
    taken = page.take_slot(me())
    assert taken is not None
    assert taken.slot == 0
    assert page.take_slot(me()) is None


def test_books_that_were_damaged_are_not_shown(page: Page) -> None:
    slot = page.take_slot(me())
    assert slot is not None
    slot.publish(5)
    start = pages._SLOTS_BYTE + pages._COPIES_BYTE + pages._COPY_BYTES
    page._memory[start + 20] ^= 1
    (row,) = page.processes()
    assert row.counts == {}


def test_another_process_may_write_its_slot(page: Page) -> None:
    pid = os.fork()
    if not pid:
        with suppress(BaseException):
            slot = page.take_slot(me("engine"))
            os._exit(0 if slot is not None else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    row = page.row(0)
    assert row is not None
    assert (row.process.pid, row.process.role) == (pid, "engine")


def test_requests_have_numbers_and_end_with_who_asked(page: Page) -> None:
    by = [os.getpid(), kernel.start_time(os.getpid())]
    rows = [page.put_request({"what": "dump", "by": by}) for _ in range(REQUESTS)]
    assert [row.number for row in rows if row] == list(range(1, REQUESTS + 1))
    assert page.put_request({"what": "dump", "by": by}) is None
    assert rows[3] is not None
    page.end_request(rows[3])
    again = page.put_request({"what": "dump", "by": gone()[:2]})
    assert again is not None
    assert (again.block, again.number) == (3, REQUESTS + 1)
    page.end_request(rows[3])  # the block is another's by now
    assert page.number(3) == REQUESTS + 1
    after = page.put_request({"what": "cpu", "by": by, "options": {"hz": 99}})
    assert after is not None
    assert after.block == 3
    found = page.request(3)
    assert found is not None
    assert found.body["options"] == {"hz": 99}


def test_a_request_that_is_too_long_is_refused(page: Page) -> None:
    with pytest.raises(ValueError, match="there is room for"):
        page.put_request({"what": "x" * OPTIONS_BYTES_MAX})
    assert not any(map(page.number, range(REQUESTS)))


def test_what_is_no_page_is_refused() -> None:
    fd = pages.create_block(pages.BLOCK_BYTES)
    with pytest.raises(ValueError, match="no page"):
        Page(fd)


def test_texts_are_cut_to_fit(page: Page) -> None:
    assert page.take_slot(me("worker", 1, "ü" * 100)) is not None
    (row,) = page.processes()
    assert row.process.node_type == "ü" * 47


@pytest.mark.parametrize("size", [16, pages.BLOCK_BYTES])
def test_what_is_no_page_is_closed_once(size: int, tmp_path: Path) -> None:
    """Of another version, or cut: whoever opened it does not close a number again that may be somebody else's."""
    fd = os.open(tmp_path / "strange", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, size)
    with pytest.raises(ValueError, match="no page"):
        Page(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)

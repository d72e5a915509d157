"""Lease tables: exactly one of claim and revoke wins; what a worker shows is read as it was meant."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from actors.protocol import limits
from actors.protocol.states import LeaseState
from runtime.mail.bell import Bell
from runtime.mail.lease_table import CURRENT, SLOT_MASK, LeaseTable, WorkerPulse
from runtime.mail.ring import ORDERED_MACHINE
from tests.unit.mail.forks import forked

FREE, LEASED, RUNNING, REVOKED = (bytes([state]) for state in LeaseState)
LAST = limits.LEASE_SLOTS - 2
"""A serial two slots before the end of the table."""


@pytest.fixture
def table() -> Iterator[LeaseTable]:
    """An empty table."""
    with closing(LeaseTable(LeaseTable.create())) as made:
        yield made


@pytest.mark.parametrize("serial", [1, LAST, limits.LEASE_SLOTS * 5 - 1])
def test_what_was_granted_is_claimed(table: LeaseTable, serial: int) -> None:
    assert table.states(serial, 6) == FREE * 6
    table.grant(serial, 5)
    assert table.states(serial, 6) == LEASED * 5 + FREE
    assert list(table.claim(serial, 3)) == [serial, serial + 1, serial + 2]
    assert table.states(serial, 6) == RUNNING * 3 + LEASED * 2 + FREE


@pytest.mark.parametrize("serial", [1, LAST])
def test_revoked_leases_are_not_claimed_and_claimed_ones_not_revoked(table: LeaseTable, serial: int) -> None:
    table.grant(serial, 6)
    table.claim(serial, 2)
    assert table.revoke([serial, serial + 1, serial + 3, serial + 5]) == [serial + 3, serial + 5]
    assert table.revoke([serial + 3]) == []
    assert list(table.claim(serial + 2, 4)) == [serial + 2, serial + 4]
    assert table.states(serial, 6) == RUNNING * 3 + REVOKED + RUNNING + REVOKED
    assert list(table.claim(serial + 3, 1)) == []


def test_a_slot_is_used_again_a_lap_later(table: LeaseTable) -> None:
    table.grant(1, 2)
    table.claim(1, 1)
    table.revoke([2])
    table.grant(1 + limits.LEASE_SLOTS, 2)
    assert list(table.claim(1 + limits.LEASE_SLOTS, 2)) == [1 + limits.LEASE_SLOTS, 2 + limits.LEASE_SLOTS]


def test_the_current_attempt_is_shown(table: LeaseTable) -> None:
    assert table.current() == (0, 0)
    table.begin(7, 123_456_789_012_345)
    assert table.current() == (7, 123_456_789_012_345)
    table.words[8 & SLOT_MASK] = 5  # a loop that inlines `begin`, between its two stores
    assert table.current() == (7, 123_456_789_012_345)
    table.words[CURRENT] = 8
    assert table.current() == (8, 5)
    table.end()
    assert table.current() == (0, 0)


def test_a_grant_clears_the_starts_of_an_earlier_lap(table: LeaseTable) -> None:
    table.begin(LAST, 99)
    table.grant(LAST + limits.LEASE_SLOTS, 4)
    table.words[CURRENT] = LAST + limits.LEASE_SLOTS
    assert table.current() == (LAST + limits.LEASE_SLOTS, 0)


def test_a_cancel_is_asked_for_one_attempt(table: LeaseTable) -> None:
    assert table.cancel_asked() == (0, 0)
    table.ask_cancel(123_456, 2)
    assert table.cancel_asked() == (123_456, 2)
    table.ask_cancel(123_457, 255)
    assert table.cancel_asked() == (123_457, 255)


def test_the_pulse_is_shown(table: LeaseTable) -> None:
    assert table.pulse() == WorkerPulse(0, 0, 0)
    table.show_pulse(WorkerPulse(3, 50_000_000, 7_000_000_000))
    assert table.pulse() == WorkerPulse(tasks_done=3, rss_bytes=50_000_000, busy_ns=7_000_000_000)


def test_a_table_closes_once(table: LeaseTable) -> None:
    table.close()
    table.close()


# --- two processes ----------------------------------------------------------------------------------------------------


def hold_lock(table: LeaseTable, held: Bell) -> None:
    """Be a worker that stops in the middle of a claim."""
    fcntl.lockf(table.fileno(), fcntl.LOCK_EX, 1)
    held.ring()
    signal.pause()


def test_a_revoke_never_waits_and_the_lock_dies_with_its_holder(table: LeaseTable) -> None:
    table.grant(1, 3)
    with closing(Bell.create()) as held:
        pid = os.fork()
        if pid == 0:
            hold_lock(table, held)
            os._exit(1)
        try:
            os.set_blocking(held.read_fd, True)
            os.read(held.read_fd, 8)
            with pytest.raises(BlockingIOError):
                table.revoke([1, 2])
            assert table.states(1, 3) == LEASED * 3
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert table.revoke([1, 2]) == [1, 2]


def test_what_was_released_can_be_revoked_or_claimed_again(table: LeaseTable) -> None:
    table.grant(limits.LEASE_SLOTS - 2, 4)
    assert table.claim(limits.LEASE_SLOTS - 2, 4) == range(limits.LEASE_SLOTS - 2, limits.LEASE_SLOTS + 2)
    table.release(limits.LEASE_SLOTS - 1, 3)
    assert table.revoke([limits.LEASE_SLOTS - 2, limits.LEASE_SLOTS]) == [limits.LEASE_SLOTS]
    assert table.claim(limits.LEASE_SLOTS - 1, 3) == [limits.LEASE_SLOTS - 1, limits.LEASE_SLOTS + 1]


@pytest.mark.slow
def test_exactly_one_of_claim_and_revoke_wins(table: LeaseTable) -> None:
    count, rounds = 8, 1500  # almost three laps

    def grant(serial: int) -> None:
        table.grant(serial, count)
        table.ask_cancel(serial, 1)  # stands for the message: slots of an earlier lap do not look FREE

    def work() -> None:
        for serial in range(1, rounds * count, count):
            while table.cancel_asked()[0] < serial:
                pass
            taken = table.claim(serial, count)
            for number in taken:
                table.begin(number, number * 10)
            table.show_pulse(WorkerPulse(serial, len(taken), sum(taken)))

    grant(1)
    with forked(work):
        for serial in range(1, rounds * count, count):
            if serial + count < rounds * count:
                grant(serial + count)
            wanted = list(range(serial, serial + count, 3))
            try:
                won = table.revoke(wanted)
            except BlockingIOError:
                won = []
            while table.pulse().tasks_done < serial:
                number, started_ns = table.current()
                assert started_ns == number * 10 or not ORDERED_MACHINE
            states = table.states(serial, count)
            assert [number for number, state in enumerate(states, serial) if state == LeaseState.REVOKED] == won
            assert states.count(LeaseState.RUNNING) == count - len(won)

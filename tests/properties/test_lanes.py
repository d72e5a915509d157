"""Pool and desk over one small lease table: a slot that is granted again belongs to nobody else, whatever overtakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.pool_worker import PoolWorker
from actors.protocol import limits
from actors.worker import WorkChunk, WorkerDesk, WorkGroup

SLOTS, CLAIM_MAX = 32, 4
LEASED, RUNNING, REVOKED = "leased", "running", "revoked"
RUN: Any = SimpleNamespace(no=1)


class LanesMachine(RuleBasedStateMachine):
    """The engine grants, revokes and hears of results late; the worker claims, puts back, and goes on in several tasks.

    `table` has what each slot says and of which serial: what the real one cannot tell.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bounds = mock.patch.multiple(limits, LEASE_SLOTS=SLOTS, CLAIM_MAX=CLAIM_MAX)
        self._bounds.start()
        self.worker = PoolWorker(1, 0)
        self.desk = WorkerDesk()
        self.table: dict[int, tuple[int, str]] = {}
        self.mail: list[WorkGroup] = []
        self.running: list[int] = []
        self.answers: list[int] = []
        self.ran: set[int] = set()
        self.revoked: set[int] = set()
        self.passed = 0

    def teardown(self) -> None:
        self._bounds.stop()

    @rule(wanted=st.integers(1, 12), lane=st.integers(0, 3))
    def grant(self, wanted: int, lane: int) -> None:
        count = min(wanted, self.worker.window)
        if count < 1:
            return
        group = self.worker.book.grant(RUN, SimpleNamespace(priority=lane), list(range(count)))
        for serial in range(group.base, group.base + count):
            before, state = self.table.get(serial % SLOTS, (0, REVOKED))
            assert before not in self.running, f"{serial} has the slot of {before}, which runs"
            assert before <= self.desk.passed, f"{serial} has the slot of {before}, which is {state} and not passed"
            self.table[serial % SLOTS] = (serial, LEASED)
        self.mail.append(WorkGroup(group.base, 1, "r", 1, group.nodes, None, [None] * count, True, lane))

    @rule(choice=st.integers(0, 1 << 32))
    def revoke(self, choice: int) -> None:
        for i, serial in enumerate(self.worker.book.open_serials()):
            if choice >> i & 1 and self.table[serial % SLOTS] == (serial, LEASED):
                self.table[serial % SLOTS] = (serial, REVOKED)
                self.revoked.add(serial)
                assert self.worker.book.finish(serial, 1) is not None

    @rule()
    def take_mail(self) -> None:
        for group in self.mail:
            self.desk.accept(group)
        self.mail.clear()

    @rule(early=st.integers(0, CLAIM_MAX), at_once=st.booleans())
    def run_chunk(self, early: int, at_once: bool) -> None:
        """Claim; put some back, unless some were revoked; what runs may go on for long, as in mode asyncio."""
        chunk = self.desk.next_chunk(CLAIM_MAX, by_duration=False)
        if chunk is None:
            return
        ran = self._claim(chunk, early)
        self.desk.leave(chunk, ran)
        self.passed = self.desk.passed
        if at_once:
            self.end(len(self.running))

    def _claim(self, chunk: WorkChunk, early: int) -> int:
        serials = range(chunk.serial, chunk.serial + chunk.size)
        for serial in serials:
            assert self.table[serial % SLOTS][0] == serial, "the slot says something of another lease"
        won = [serial for serial in serials if self.table[serial % SLOTS][1] == LEASED]
        assert self.revoked.isdisjoint(won)
        ran = max(1, chunk.size - early) if len(won) == chunk.size else chunk.size
        for serial in won[:ran]:
            assert serial not in self.ran
            self.table[serial % SLOTS] = (serial, RUNNING)
            self.ran.add(serial)
            self.running.append(serial)
        return ran

    @precondition(lambda self: self.running)
    @rule(count=st.integers(1, 8))
    def end(self, count: int) -> None:
        """The latest ones end; the first may go on while the serials come round."""
        for _ in range(min(count, len(self.running))):
            self.answers.append(self.running.pop())

    @rule(times=st.integers(4, 12), lane=st.integers(0, 1))
    def stream(self, times: int, lane: int) -> None:
        """Short tasks come and go beside what runs: the serials lap it."""
        for _ in range(times):
            self.grant(CLAIM_MAX, lane)
            self.take_mail()
            before = len(self.running)
            self.run_chunk(0, at_once=False)
            if len(self.running) > before:
                self.end(len(self.running) - before)
            self.answer()

    @rule()
    def answer(self) -> None:
        self.worker.passed = max(self.worker.passed, self.passed)
        for serial in self.answers:
            assert self.worker.book.finish(serial, 1) is not None
        self.answers.clear()

    @invariant()
    def consistent(self) -> None:
        self.worker.book.check_invariants()
        self.desk.check_invariants()
        assert self.worker.passed <= self.desk.passed


TestLanes = LanesMachine.TestCase

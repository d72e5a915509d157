"""Which calls go together, and when: the scheduler beside a list of what waits, over random arrivals, cancels, room."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import Final

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.scheduler import Scheduler
from tests.unit.actors.rig import kind

SIZES: Final = {1: 3, 2: 1, 3: 5}
WAITS_NS: Final = {1: 1_000, 2: 50, 3: 0}
WINDOW: Final = 12
"""Leases that the worker's table has room for."""


class Batching(RuleBasedStateMachine):
    """Three kinds that batch and one that does not, of one session, so that each is first in, first out."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 1_000_000
        self.scheduler = Scheduler(["default"])
        self.seq = self.query = 0
        self.waiting: dict[int, list[tuple[int, int]]] = {no: [] for no in (*SIZES, 4)}
        """Number of the submission and since when it waits, by kind."""
        defined = [msg.KindDefined("s", no, kind(handler=f"m:{no}", batch=[SIZES[no], WAITS_NS[no]])) for no in SIZES]
        self.say(msg.SessionOpened("s", 1), *defined, msg.KindDefined("s", 4, kind(handler="m:4")))

    def say(self, *events: object) -> list[object]:
        self.now_ns += 1
        return self.scheduler.receive(events, self.now_ns, self.now_ns)

    @rule(numbers=st.lists(st.sampled_from([1, 1, 2, 3, 3, 4]), min_size=1, max_size=6))
    def submit(self, numbers: list[int]) -> None:
        rows = []
        for no in numbers:
            self.seq += 1
            rows.append([self.seq, no, self.seq])
        self.say(msg.TasksSubmitted("s", rows, orjson.dumps(rows)))
        for seq, no, _ in rows:
            self.waiting[no].append((seq, self.now_ns))

    @rule(ns=st.sampled_from([1, 30, 400, 2_000]))
    def time_passes(self, ns: int) -> None:
        self.now_ns += ns
        self.say(msg.TimePassed())

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        waiting = [(no, one) for no, members in self.waiting.items() for one in members]
        if waiting:
            no, one = data.draw(st.sampled_from(waiting))
            self.query += 1
            self.say(msg.CancelAsked("s", self.query, f"s-{one[0]}", None))
            self.waiting[no].remove(one)

    @rule(room=st.integers(1, 4))
    def give(self, room: int) -> None:
        """Offer room until nothing more is taken out of the queue; what was cancelled takes none."""
        queue, units, leases, size = self.scheduler.ready["default"], 0, 0, -1
        while units < room and leases < WINDOW and size != queue.size:
            size = queue.size
            offer = msg.Offer("default", ((7, room - units),), windows=(WINDOW - leases,))
            grants = [effect for effect in self.say(offer) if isinstance(effect, msg.Grant)]
            for batch, members in groupby(grants, key=attrgetter("batch")):
                found = [(g.kind, g.run.seq + node) for g in members for node in g.nodes]
                leases += len(found)
                units += 1 if batch else len(found)
                self.check(batch, {int(one.handler[2:]) for one, _ in found}, [n for _, n in found], leases < WINDOW)
        assert leases <= WINDOW
        if units < room and leases < WINDOW:  # there was room for more: nothing more could go
            assert not self.waiting[4]
            assert not any(self.could_go(no) for no in SIZES)

    def check(self, batch: int, kinds: set[int], numbers: list[int], has_room: bool) -> None:
        """One batch, or tasks that are none, was given out: it is the oldest, as large as can be, and could go."""
        (no,) = kinds
        waiting = self.waiting[no]
        assert [seq for seq, _ in waiting[: len(numbers)]] == numbers
        assert bool(batch) == (no in SIZES)
        if batch:
            assert self.could_go(no)
            assert len(numbers) == min(SIZES[no], len(waiting)) or not has_room
        del waiting[: len(numbers)]

    def could_go(self, no: int) -> bool:
        """Whether a batch of this kind is there by now."""
        waiting = self.waiting[no]
        return bool(waiting) and (len(waiting) >= SIZES[no] or self.now_ns >= waiting[0][1] + WAITS_NS[no])

    @invariant()
    def who_waits_is_woken(self) -> None:
        """What cannot go yet has a time at which it is looked at again."""
        self.scheduler.check_invariants()
        queue, due_ns = self.scheduler.ready["default"], self.scheduler.giving.due.next_ns()
        if not queue.size and any(self.waiting.values()):
            assert due_ns is not None
            assert due_ns <= min(w[0][1] + WAITS_NS[no] for no, w in self.waiting.items() if w and no in SIZES)


Batching.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBatching = Batching.TestCase


def test_an_engine_without_batches_never_looks_for_them() -> None:
    scheduler = Scheduler(["default"])
    rows = [[1, 1, 1]]
    opened = [msg.SessionOpened("s", 1), msg.KindDefined("s", 1, kind())]
    scheduler.receive([*opened, msg.TasksSubmitted("s", rows, orjson.dumps(rows))], 1, 1)
    assert not scheduler.giving.batches.types
    assert not any(isinstance(e, fx.WakeAt) for e in scheduler.receive([msg.Offer("default", ((7, 1),))], 2, 2))

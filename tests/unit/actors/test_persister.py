"""The persister: group commit, full disk, failed log, retention; and a machine that tries all of it in any order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors import persister
from actors.persister import PERSISTER_TABLE, Durability, Persister, PersisterEvent, PersisterState
from actors.protocol import limits
from actors.protocol.errors import IllegalTransition, InvariantBroken, ProtocolError
from actors.protocol.log_messages import (
    Append,
    Durable,
    FloorRaised,
    Halt,
    LogBroken,
    NoSpace,
    Pause,
    PersisterEffect,
    PersisterInput,
    RemoveSegments,
    Resume,
    RetryAt,
    Wanted,
    WriteLog,
    Written,
)
from actors.protocol.records import Record

RETRY_NS = limits.DISK_FULL_RETRY_NS


def records(first: int, last: int, size: int = 10) -> list[Record]:
    return [Record(lsn, 3, b"x" * size) for lsn in range(first, last + 1)]


def written(lsn: int, segment_no: int = 1, segment_first_lsn: int = 1) -> Written:
    return Written(lsn, segment_no, segment_first_lsn)


def give(actor: Persister, *events: PersisterInput, now_ns: int = 0) -> list[PersisterEffect]:
    effects = actor.receive(events, now_ns)
    actor.check_invariants()
    return effects


# --- group commit -------------------------------------------------------------------------------------------------


def test_a_record_is_written_synced_and_then_durable() -> None:
    actor = Persister()
    batch = records(1, 3)
    assert give(actor, Append(batch)) == [WriteLog(batch, sync=True)]
    assert give(actor, written(3)) == [Durable(3)]
    assert actor.settled
    assert actor.durable_lsn == 3


def test_what_arrives_during_a_write_goes_out_as_one() -> None:
    actor = Persister()
    give(actor, Append(records(1, 1)))
    assert give(actor, Append(records(2, 2))) == []
    assert give(actor, Append(records(3, 5))) == []
    assert give(actor, written(1)) == [Durable(1), WriteLog(records(2, 5), sync=True)]
    assert give(actor, written(5)) == [Durable(5)]


def test_one_batch_may_bring_an_answer_and_new_records() -> None:
    actor = Persister()
    give(actor, Append(records(1, 1)))
    assert give(actor, written(1), Append(records(2, 2)), Append(records(3, 3))) == [
        Durable(1),
        WriteLog(records(2, 3), sync=True),
    ]


def test_nothing_to_do_says_nothing() -> None:
    actor = Persister()
    assert give(actor) == []
    assert give(actor, Append([])) == []


def test_it_goes_on_where_the_log_ended() -> None:
    actor = Persister(next_lsn=8, segments=[(2, 5)])
    assert give(actor, Append(records(8, 9))) == [WriteLog(records(8, 9), sync=True)]
    assert actor.durable_lsn == 7


@pytest.mark.parametrize("batch", [records(2, 2), records(0, 1), [*records(1, 2), *records(4, 4)]])
def test_records_out_of_order_are_refused_and_change_nothing(batch: list[Record]) -> None:
    actor = Persister()
    before = actor.statistics()
    with pytest.raises(ProtocolError):
        actor.receive([Append(batch)], 0)
    assert actor.statistics() == before
    actor.check_invariants()


def test_an_answer_to_no_question_is_illegal() -> None:
    with pytest.raises(IllegalTransition):
        Persister().receive([written(1)], 0)
    with pytest.raises(IllegalTransition):
        Persister().receive([NoSpace("")], 0)


def test_a_wrong_answer_is_refused() -> None:
    actor = Persister()
    give(actor, Append(records(1, 3)))
    with pytest.raises(ProtocolError):
        actor.receive([written(2)], 0)


# --- durability modes ---------------------------------------------------------------------------------------------


def test_os_acknowledges_what_is_written_without_sync() -> None:
    actor = Persister("os")
    assert give(actor, Append(records(1, 2))) == [WriteLog(records(1, 2), sync=False)]
    assert give(actor, written(2)) == [Durable(2)]


def test_none_acknowledges_at_once_and_writes_all_the_same() -> None:
    actor = Persister("none")
    assert give(actor, Append(records(1, 2))) == [Durable(2), WriteLog(records(1, 2), sync=False)]
    assert give(actor, Append(records(3, 3))) == [Durable(3)]
    assert give(actor, written(2)) == [WriteLog(records(3, 3), sync=False)]
    assert give(actor, written(3)) == []


def test_none_on_a_full_disk_acknowledges_nothing_more() -> None:
    actor = Persister("none")
    give(actor, Append(records(1, 1)))
    give(actor, NoSpace("full"))
    assert give(actor, Append(records(2, 2))) == []
    assert give(actor, now_ns=RETRY_NS) == [WriteLog(records(1, 2), sync=False)]
    assert give(actor, written(2)) == [Durable(2), Resume()]


# --- full disk (scenario S12) -------------------------------------------------------------------------------------


def test_s12_a_full_disk_pauses_and_resumes_by_itself() -> None:
    actor = Persister()
    give(actor, Append(records(1, 2)))
    assert give(actor, NoSpace("no room"), now_ns=100) == [Pause("no room"), RetryAt(100 + RETRY_NS)]
    assert actor.back_pressure
    assert give(actor, Append(records(3, 3)), now_ns=200) == []
    assert give(actor, now_ns=99 + RETRY_NS) == []
    assert give(actor, now_ns=100 + RETRY_NS) == [WriteLog(records(1, 3), sync=True)]
    assert give(actor, written(3)) == [Durable(3), Resume()]
    assert not actor.back_pressure


def test_a_disk_that_stays_full_is_announced_once_and_tried_for_ever() -> None:
    actor = Persister()
    give(actor, Append(records(1, 1)))
    now_ns, pauses = 0, 0
    for _ in range(50):
        effects = give(actor, NoSpace("full"), now_ns=now_ns)
        pauses += sum(isinstance(effect, Pause) for effect in effects)
        assert effects[-1] == RetryAt(now_ns + RETRY_NS)
        now_ns += RETRY_NS
        assert give(actor, now_ns=now_ns) == [WriteLog(records(1, 1), sync=True)]
    assert pauses == 1
    assert actor.statistics().no_space_count == 50


# --- failed log ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["fsync", "os", "none"])
def test_a_failed_log_halts_and_acknowledges_nothing_ever_again(durability: Durability) -> None:
    actor = Persister(durability)
    give(actor, Append(records(1, 2)))
    give(actor, Append(records(3, 3)))
    durable_lsn = actor.durable_lsn
    assert give(actor, LogBroken("fsync failed")) == [Halt("fsync failed")]
    assert give(actor, Append(records(4, 9)), now_ns=10**12) == []
    assert give(actor, LogBroken("again")) == []
    assert give(actor, FloorRaised(9)) == []
    assert actor.durable_lsn == durable_lsn
    assert actor.pending_bytes == 0
    assert actor.statistics().records_dropped == 9


@pytest.mark.parametrize("before", [[], [Append(records(1, 1)), NoSpace("full")]])
def test_a_log_may_fail_in_any_state(before: list[PersisterInput]) -> None:
    actor = Persister()
    for event in before:
        give(actor, event)
    assert Halt("gone") in give(actor, LogBroken("gone"))
    assert give(actor, now_ns=10**12) == []


# --- back-pressure ------------------------------------------------------------------------------------------------


def test_back_pressure_begins_and_ends_with_the_bytes_that_wait() -> None:
    actor = Persister()
    size = limits.LOG_PENDING_BYTES_MAX // 2
    give(actor, Append(records(1, 2, size)))
    assert not actor.back_pressure
    give(actor, Append(records(3, 3, 1)))
    assert actor.back_pressure
    give(actor, written(2))
    assert not actor.back_pressure
    assert actor.pending_bytes == 1


# --- retention ----------------------------------------------------------------------------------------------------


def test_segments_below_the_floor_go() -> None:
    actor = Persister(next_lsn=31, segments=[(1, 1), (2, 11), (3, 21)])
    assert give(actor, FloorRaised(10)) == []
    assert give(actor, FloorRaised(11)) == [RemoveSegments(2)]
    assert give(actor, FloorRaised(1000)) == [RemoveSegments(3)]
    assert give(actor, FloorRaised(1000)) == []


def test_the_active_segment_stays() -> None:
    actor = Persister(next_lsn=31, segments=[(3, 21)])
    assert give(actor, FloorRaised(1000)) == []


def test_new_segments_are_learned_from_the_answers() -> None:
    actor = Persister()
    give(actor, Append(records(1, 5)))
    give(actor, written(5))
    give(actor, Append(records(6, 9)))
    assert give(actor, written(9, 2, 6), FloorRaised(6)) == [Durable(9), RemoveSegments(2)]


def test_a_floor_waits_until_what_raised_it_is_written() -> None:
    actor = Persister(next_lsn=11, segments=[(1, 1), (2, 6)])
    release = records(11, 11)
    assert give(actor, Append(release), FloorRaised(6)) == [WriteLog(release, sync=True)]
    assert give(actor, written(11, 2, 6)) == [Durable(11), RemoveSegments(2)]


def test_segments_go_between_writes_never_during_one() -> None:
    actor = Persister(next_lsn=11, segments=[(1, 1), (2, 6)])
    give(actor, FloorRaised(1), Append(records(11, 11)))
    assert give(actor, FloorRaised(6)) == []
    give(actor, Append(records(12, 12)))
    assert give(actor, written(11, 2, 6)) == [Durable(11), RemoveSegments(2), WriteLog(records(12, 12), sync=True)]


def test_a_floor_that_rises_all_the_time_is_served_all_the_same() -> None:
    actor = Persister(segments=[(1, 1)])
    removed = 0
    for lsn in range(1, 100):
        give(actor, Append(records(lsn, lsn)), FloorRaised(lsn))
        if lsn % 3 == 0:
            in_flight = actor.written_lsn + 1 if lsn == 3 else lsn - 3
            removed += RemoveSegments in map(type, give(actor, Written(in_flight, lsn, in_flight)))
    assert removed > 20


# --- the table ----------------------------------------------------------------------------------------------------


def test_the_drawing_in_the_header_is_the_table() -> None:
    text = persister.__doc__ or ""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("state "))
    columns = lines[start].split()[1:]
    places = [lines[start].index(name) for name in columns]
    for line in lines[start + 1 : start + 5]:
        cells = [line[a:b].strip() for a, b in pairwise([*places, len(line) + 1])]
        drawn = {name: cell.lower() for name, cell in zip(columns, cells, strict=True) if cell}
        state = PersisterState(line.split()[0].lower())
        assert drawn == {str(event): str(to) for event, to in PERSISTER_TABLE[state].items()}
    assert columns == [str(event) for event in PersisterEvent]


def test_failed_is_for_ever() -> None:
    assert set(PERSISTER_TABLE[PersisterState.FAILED].values()) == {PersisterState.FAILED}


def test_a_broken_invariant_is_found() -> None:
    actor = Persister()
    actor.pending_bytes = 1
    with pytest.raises(InvariantBroken, match="pending bytes"):
        actor.check_invariants()


def test_statistics_tell_the_whole_story() -> None:
    actor = Persister("os")
    give(actor, Append(records(1, 3)))
    give(actor, Append(records(4, 4)))
    statistics = actor.statistics()
    assert (statistics.state, statistics.durability) == ("writing", "os")
    assert (statistics.last_lsn, statistics.written_lsn, statistics.durable_lsn) == (4, 0, 0)
    assert (statistics.pending_records, statistics.pending_bytes, statistics.writes) == (4, 40, 1)


# --- anything in any order ----------------------------------------------------------------------------------------


class PersisterMachine(RuleBasedStateMachine):
    """A host that answers when it likes; the oracle is a list of records on disk and what was promised of them."""

    @initialize(durability=st.sampled_from(["fsync", "os", "none"]), next_lsn=st.integers(1, 100))
    def open(self, durability: Durability, next_lsn: int) -> None:
        self.actor = Persister(durability, next_lsn, [(1, 1)])
        self.durability = durability
        self.now_ns = 0
        self.wake_at_ns = 0
        self.next_lsn = self.first_lsn = next_lsn
        self.on_disk: list[Record] = []
        self.asked: WriteLog | None = None
        self.appended: list[Record] = []
        self.promised = next_lsn - 1
        self.halted = self.paused = False
        self.segment = (1, 1)
        self.segments = [(1, 1)]
        self.floor = 0

    def tell(self, *events: PersisterInput) -> None:
        for effect in self.actor.receive(events, self.now_ns):
            if isinstance(effect, WriteLog):
                assert self.asked is None, "two writes at once"
                assert effect.sync == (self.durability == "fsync")
                self.asked = effect
            elif isinstance(effect, Durable):
                assert effect.lsn > self.promised
                assert not self.halted
                self.promised = effect.lsn
            elif isinstance(effect, Pause):
                assert not self.paused
                self.paused = True
            elif isinstance(effect, Resume):
                assert self.paused
                self.paused = False
            elif isinstance(effect, RetryAt):
                self.wake_at_ns = effect.at_ns
            elif isinstance(effect, Halt):
                assert not self.halted
                self.halted = True
            else:
                self.removed(effect)

    def removed(self, effect: RemoveSegments) -> None:
        assert self.asked is None, "removing while writing"
        kept = [pair for pair in self.segments if pair[0] >= effect.below]
        assert kept
        assert kept[0][1] <= self.floor
        self.segments = kept

    @rule(count=st.integers(0, 5), size=st.integers(0, 30))
    def append(self, count: int, size: int) -> None:
        batch = records(self.next_lsn, self.next_lsn + count - 1, size)
        self.next_lsn += count
        self.appended += batch
        self.tell(Append(batch))

    @precondition(lambda self: self.asked is not None and not self.halted)
    @rule(rotate=st.booleans(), more=st.integers(0, 3))
    def succeed(self, rotate: bool, more: int) -> None:
        assert self.asked is not None
        batch, self.asked = list(self.asked.records), None
        if rotate:
            self.segment = (self.segment[0] + 1, batch[0].lsn)
            self.segments.append(self.segment)
        self.on_disk += batch
        extra = records(self.next_lsn, self.next_lsn + more - 1)
        self.next_lsn += more
        self.appended += extra
        self.tell(Written(batch[-1].lsn, *self.segment), Append(extra))

    @precondition(lambda self: self.asked is not None and not self.halted)
    @rule()
    def no_space(self) -> None:
        self.asked = None
        self.tell(NoSpace("full"))

    @precondition(lambda self: not self.halted)
    @rule(chance=st.integers(0, 9))
    def break_log(self, chance: int) -> None:
        if chance == 0:
            self.asked = None
            self.tell(LogBroken("broken"))

    @rule(step=st.integers(0, 2 * RETRY_NS))
    def wait(self, step: int) -> None:
        self.now_ns += step
        self.tell()

    @rule(back=st.integers(0, 20))
    def raise_floor(self, back: int) -> None:
        self.floor = max(self.floor, self.next_lsn - back)
        self.tell(FloorRaised(self.floor))

    @invariant()
    def holds(self) -> None:
        self.actor.check_invariants()
        assert self.on_disk == self.appended[: len(self.on_disk)]
        if self.durability != "none":
            assert self.promised < self.first_lsn + len(self.on_disk)
        assert self.promised == self.actor.durable_lsn
        waiting = self.next_lsn - self.first_lsn - len(self.on_disk)
        assert self.halted or self.asked is not None or self.paused or not waiting, "asleep with work to do"
        if self.paused and self.asked is None and not self.halted:
            assert self.wake_at_ns > self.now_ns, "paused without a timer"


TestPersisterMachine = pytest.mark.slow(PersisterMachine.TestCase)
TestPersisterMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_records_that_nobody_waits_for_gather() -> None:
    persister = Persister("fsync", delay_ns=100)
    first = persister.receive([Append([Record(1, 2, b"a")])], 10)
    assert first == [RetryAt(110)]
    assert persister.receive([Append([Record(2, 2, b"b")])], 60) == [RetryAt(110)]
    (write,) = persister.receive([], 110)
    assert [record.lsn for record in write.records] == [1, 2]
    persister.check_invariants()


def test_what_somebody_waits_for_is_written_at_once_with_all_before_it() -> None:
    persister = Persister("fsync", delay_ns=100)
    persister.receive([Append([Record(1, 2, b"a")])], 10)
    (write,) = persister.receive([Append([Record(2, 2, b"b")]), Wanted(2)], 11)
    assert [record.lsn for record in write.records] == [1, 2]
    persister.receive([Written(2, 1, 1)], 12)
    assert persister.receive([Append([Record(3, 2, b"c")])], 13) == [RetryAt(113)]


def test_many_bytes_do_not_wait() -> None:
    persister = Persister("fsync", delay_ns=100)
    effects = persister.receive([Append([Record(1, 2, bytes(limits.COMMIT_BYTES))])], 10)
    assert isinstance(effects[-1], WriteLog)

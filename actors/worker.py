"""Worker: what a worker process does next, decided per batch. Running handlers is the host's business.

A worker holds groups of leases (one message of the engine each, consecutive serials of one run and kind), in a lane for
each priority class. It claims the front of the oldest group of the best class in chunks, runs them in order, and sends
what came out. So what is urgent overtakes all that is held ahead at the next chunk, and serials are not claimed in
order: `passed` is where the engine may use slots of the lease table again. A batch, leases of several groups that are
run as one call, is a group here that is claimed whole.

What is overtaken still has its turn: one chunk after each `OVERTAKEN_NS` of that, and at once when it lies
`OVERTAKEN_MAX` serials behind the newest, because the slots from there on cannot be used again before.

Leases that are claimed and not started go back when a task takes long, so that others can have them (`leave`).

States: open -> draining (claims nothing more). A lease: waiting here -> claimed (by the host, by compare-and-set in the
lease table) -> ended; or asked to stop while waiting, then it ends without having run.

Invariants (`check_invariants`): the groups of a lane are in ascending order of serials; no group is empty; stop
requests are kept only for serials that may still start, so they are bounded by the leases held; `passed` never falls.
Concurrency: one thread. Limit: a chunk is of one group, so many groups of one task are claimed one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from actors.policy.claim import ClaimSize
from actors.protocol import limits
from actors.protocol.errors import ProtocolError
from actors.protocol.kinds import PRIORITIES
from actors.protocol.states import FailureKind

OVERTAKEN_NS: Final = 50_000_000
"""A class that better ones have overtaken here for so long has one chunk before them, and again after as long. What is
here had its turn in the engine, by class and age; so this is short beside any bound on ageing, and still six times what
a worker holds ahead, so that a chunk of 0.25 ms in between costs better work nothing to speak of."""
OVERTAKEN_TIMES: Final = 2
"""And at least so often."""
OVERTAKEN_MAX: Final = limits.LEASE_SLOTS // 2
"""Serials from the oldest that waits to the newest; twice PREFETCH_MAX, so that only overtaking makes so many, and far
enough below LEASE_SLOTS for the pool to go on giving work."""
NORMAL: Final = PRIORITIES.index("normal")
STOP_KINDS: Final = {1: FailureKind.CANCELLED, 2: FailureKind.TIMEOUT, 3: FailureKind.DEADLINE}
"""Failure kind by the reason of a stop request, as it is on the wire."""


@dataclass(slots=True, eq=False)
class WorkGroup:
    """Leases as they arrived: `items[i]` is the work of serial `serial + i`. `taken` of them are claimed already.

    `plain` says that nothing in the items needs decoding; `lane` is their priority class, 0 the best. `ends_ns`: the
    deadlines of their tasks, on the monotonic clock, 0 for none. Where `runs` has something,
    the group is a batch, which is claimed and run as one: there each lease has a run (number and key).
    `workflow` names the run; `scope` is the host's: what the code of these attempts is labelled with.
    """

    serial: int
    run_no: int
    run_key: str
    kind_no: int
    nodes: Sequence[int]
    attempts: list[int] | None
    items: list[Any]
    plain: bool
    lane: int = NORMAL
    taken: int = 0
    ends_ns: list[int] | None = None
    runs: Sequence[tuple[int, str]] = ()
    workflow: str = ""
    scope: Any = None


class WorkChunk(NamedTuple):
    """The next leases to claim: `size` of them from place `start` of the group on."""

    group: WorkGroup
    start: int
    size: int

    @property
    def serial(self) -> int:
        """Serial of the first of them."""
        return self.group.serial + self.start


class WorkerDesk:
    """The decisions of one worker. See the head of the file."""

    def __init__(self) -> None:
        self.draining = False
        self._lanes: tuple[deque[WorkGroup], ...] = tuple(deque() for _ in PRIORITIES)
        self._groups = 0  # in all lanes
        self._claimed: WorkChunk | None = None
        self._sizes: dict[int, ClaimSize] = {}
        self._stops: dict[int, int] = {}
        self._newest = 0
        self._overtaken_ns = [0] * len(PRIORITIES)
        self._overtaken = [0] * len(PRIORITIES)
        self._flushed_ns = 0

    # --- told -----------------------------------------------------------------------------------------------------

    def accept(self, group: WorkGroup) -> None:
        """Take in a group.

        Raises:
            ProtocolError: Its columns differ in length, its serials are not new, or there is no such class.
        """
        count = len(group.nodes)
        if not count or len(group.items) != count or (group.attempts and len(group.attempts) != count):
            raise ProtocolError(f"leases from {group.serial}: columns of different length")
        if group.serial <= self._newest:
            raise ProtocolError(f"leases from {group.serial}: serials must ascend, {self._newest} is known")
        if not 0 <= group.lane < len(self._lanes):
            raise ProtocolError(f"leases from {group.serial}: unknown priority class {group.lane}")
        self._newest = group.serial + count - 1
        if not self.draining:
            self._lanes[group.lane].append(group)
            self._groups += 1

    def stop(self, serial: int, reason: int) -> None:
        """A lease shall not run, or stop running. Whoever ended already, or never comes, is forgotten."""
        if self._may_start(serial):
            self._stops[serial] = reason

    def drain(self) -> None:
        """Claim nothing more."""
        self.draining = True
        for lane in self._lanes:
            lane.clear()
        self._groups = 0
        self._stops.clear()

    def ran(self, kind_no: int, count: int, elapsed_ns: int) -> None:
        """A chunk ended; its duration decides the size of the next ones."""
        self._size_of(kind_no).ran(count, elapsed_ns)

    def flushed(self, now_ns: int) -> None:
        """Results were sent."""
        self._flushed_ns = now_ns

    # --- asked ----------------------------------------------------------------------------------------------------

    def next_chunk(
        self, room: int = limits.CLAIM_MAX, *, now_ns: int = 0, by_duration: bool = True
    ) -> WorkChunk | None:
        """What to claim next; it counts as claimed until `leave`. None: nothing, or draining.

        Args:
            room: At most so many leases; a batch counts as one.
            now_ns: On the monotonic clock; decides when what is overtaken has its turn.
            by_duration: Whether they run one after the other, so that their duration decides how many are claimed.
        """
        if not self._groups or room < 1:
            return None
        lane = self._next_lane(now_ns)
        group = lane[0]
        start = group.taken
        if group.runs:
            count = len(group.nodes) - start
        else:
            size = self._size_of(group.kind_no).size() if by_duration else limits.CLAIM_MAX
            count = min(size, len(group.nodes) - start, room)
        group.taken += count
        if group.taken == len(group.nodes):
            lane.popleft()
            self._groups -= 1
        self._claimed = chunk = WorkChunk(group, start, count)
        return chunk

    def leave(self, chunk: WorkChunk, ran: int) -> None:
        """The last chunk is over: its first `ran` leases were started or passed over.

        The others, which are released in the table, come next of their class again.
        """
        group = chunk.group
        if ran < chunk.size and not self.draining:
            if group.taken == len(group.nodes):
                self._lanes[group.lane].appendleft(group)
                self._groups += 1
            group.taken -= chunk.size - ran
        self._claimed = None
        if self._stops:
            begun = range(chunk.serial, chunk.serial + ran)
            self._stops = {s: reason for s, reason in self._stops.items() if s not in begun}

    def must_flush(self, chunk: WorkChunk, now_ns: int, *, asked: bool = False) -> bool:
        """Whether results that wait go out before this chunk: time is up, or the chunk may take long.

        Time is up sooner while results are asked for.
        """
        wait_ns = limits.RESULT_ASKED_NS if asked else limits.RESULT_FLUSH_NS
        return self.may_take_long(chunk) or now_ns - self._flushed_ns >= wait_ns

    def may_take_long(self, chunk: WorkChunk) -> bool:
        """Whether a chunk may take longer than what is claimed at a time."""
        return bool(chunk.group.runs) or self._size_of(chunk.group.kind_no).long_or_unknown()

    def stop_reason(self, serial: int) -> int:
        """Why this lease shall not start; 0 when it may."""
        return self._stops.pop(serial, 0) if self._stops else 0

    @property
    def passed(self) -> int:
        """All serials up to here were claimed and are started, or were passed over; their slots may be used again."""
        lowest = self._newest + 1 if self._claimed is None else self._claimed.serial
        if self._groups:
            for lane in self._lanes:
                if lane:
                    group = lane[0]
                    lowest = min(lowest, group.serial + group.taken)
        return lowest - 1

    @property
    def has_stops(self) -> bool:
        """Whether some lease that is held here shall not start."""
        return bool(self._stops)

    @property
    def waiting(self) -> int:
        """Leases held and not claimed."""
        return sum(len(g.nodes) - g.taken for lane in self._lanes for g in lane)

    def check_invariants(self) -> None:
        """Raise AssertionError when the desk contradicts itself."""
        if self._groups != sum(map(len, self._lanes)):
            raise AssertionError("the number of groups is wrong")
        for number, lane in enumerate(self._lanes):
            serials = [g.serial for g in lane]
            if serials != sorted(set(serials)):
                raise AssertionError("the groups of a lane are not in order")
            if any(g.taken >= len(g.nodes) for g in lane):
                raise AssertionError("an empty group is kept")
            if any(g.lane != number for g in lane):
                raise AssertionError("a group is in the lane of another class")
        if not all(self._may_start(serial) for serial in self._stops):
            raise AssertionError("a stop request is kept for a lease that cannot start")

    def _next_lane(self, now_ns: int) -> deque[WorkGroup]:
        """The lane of the best class that has something; a worse one that was overtaken for long."""
        left = self._groups
        chosen = -1
        for number, lane in enumerate(self._lanes):
            if lane:
                if chosen < 0 or self._has_its_turn(number, lane[0], now_ns):
                    first, chosen = chosen, number
                    if first >= 0:
                        break
                left -= len(lane)
                if not left:
                    break
        self._overtaken_ns[chosen] = self._overtaken[chosen] = 0
        return self._lanes[chosen]

    def _has_its_turn(self, number: int, oldest: WorkGroup, now_ns: int) -> bool:
        """Whether a lane is not overtaken this time. It counts from the first time, not from when its work came, and
        once is not enough: a single long task overtakes nobody for as long as it takes."""
        if self._newest - oldest.serial - oldest.taken >= OVERTAKEN_MAX:
            return True
        times = self._overtaken[number]
        if not times:
            self._overtaken_ns[number] = now_ns
        elif times >= OVERTAKEN_TIMES and now_ns - self._overtaken_ns[number] >= OVERTAKEN_NS:
            return True
        self._overtaken[number] = times + 1
        return False

    def _may_start(self, serial: int) -> bool:
        chunk = self._claimed
        if chunk is not None and chunk.serial <= serial < chunk.serial + chunk.size:
            return True
        return any(g.serial + g.taken <= serial < g.serial + len(g.nodes) for lane in self._lanes for g in lane)

    def _size_of(self, kind_no: int) -> ClaimSize:
        size = self._sizes.get(kind_no)
        if size is None:
            size = self._sizes[kind_no] = ClaimSize()
        return size

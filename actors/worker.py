"""Worker: what a worker process does next, decided per batch. Running handlers is the host's business.

A worker holds groups of leases (one message of the engine each, consecutive serials of one run and kind). It claims the
front of the oldest group in chunks, runs them in order, and sends what came out.

Leases that are claimed and not started go back when a task takes long, so that others can have them (`put_back`).

States: open -> draining (claims nothing more). A lease: waiting here -> claimed (by the host, by compare-and-set in the
lease table) -> ended; or asked to stop while waiting, then it ends without having run.

Invariants (`check_invariants`): groups are in ascending order of serials; no group is empty; stop requests are kept
only for serials that may still start, so they are bounded by the leases held.
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
from actors.protocol.states import FailureKind

STOP_KINDS: Final = {1: FailureKind.CANCELLED, 2: FailureKind.TIMEOUT}
"""Failure kind by the reason of a stop request, as it is on the wire."""


@dataclass(slots=True, eq=False)
class WorkGroup:
    """Leases as they arrived: `items[i]` is the work of serial `serial + i`. `taken` of them are claimed already.

    `plain` says that nothing in the items needs decoding.
    """

    serial: int
    run_no: int
    run_key: str
    kind_no: int
    nodes: Sequence[int]
    attempts: list[int] | None
    items: list[Any]
    plain: bool
    taken: int = 0


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
        self._groups: deque[WorkGroup] = deque()
        self._sizes: dict[int, ClaimSize] = {}
        self._stops: dict[int, int] = {}
        self._started = 0
        self._newest = 0
        self._flushed_ns = 0

    # --- told -----------------------------------------------------------------------------------------------------

    def accept(self, group: WorkGroup) -> None:
        """Take in a group.

        Raises:
            ProtocolError: Its columns differ in length, or its serials are not new.
        """
        count = len(group.nodes)
        if not count or len(group.items) != count or (group.attempts and len(group.attempts) != count):
            raise ProtocolError(f"leases from {group.serial}: columns of different length")
        if group.serial <= self._newest:
            raise ProtocolError(f"leases from {group.serial}: serials must ascend, {self._newest} is known")
        self._newest = group.serial + count - 1
        if not self.draining:
            self._groups.append(group)

    def stop(self, serial: int, reason: int) -> None:
        """A lease shall not run, or stop running. Whoever ended already, or never comes, is forgotten."""
        if self._started < serial <= self._newest:
            self._stops[serial] = reason

    def drain(self) -> None:
        """Claim nothing more."""
        self.draining = True
        self._groups.clear()
        self._stops.clear()

    def started(self, serial: int) -> None:
        """This serial, and all below it, started or were passed over."""
        self._started = max(self._started, serial)
        if self._stops:
            self._stops = {s: reason for s, reason in self._stops.items() if s > self._started}

    def ran(self, kind_no: int, count: int, elapsed_ns: int) -> None:
        """A chunk ended; its duration decides the size of the next ones."""
        self._size_of(kind_no).ran(count, elapsed_ns)

    def flushed(self, now_ns: int) -> None:
        """Results were sent."""
        self._flushed_ns = now_ns

    # --- asked ----------------------------------------------------------------------------------------------------

    def next_chunk(self, room: int = limits.CLAIM_MAX, *, by_duration: bool = True) -> WorkChunk | None:
        """What to claim next; it counts as taken. None: nothing, or draining.

        Args:
            room: At most so many leases.
            by_duration: Whether they run one after the other, so that their duration decides how many are claimed.
        """
        if not self._groups or room < 1:
            return None
        group = self._groups[0]
        start = group.taken
        size = self._size_of(group.kind_no).size() if by_duration else limits.CLAIM_MAX
        count = min(size, len(group.nodes) - start, room)
        group.taken += count
        if group.taken == len(group.nodes):
            self._groups.popleft()
        return WorkChunk(group, start, count)

    def must_flush(self, chunk: WorkChunk, now_ns: int, *, asked: bool = False) -> bool:
        """Whether results that wait go out before this chunk: time is up, or the chunk may take long.

        Time is up sooner while results are asked for.
        """
        wait_ns = limits.RESULT_ASKED_NS if asked else limits.RESULT_FLUSH_NS
        return now_ns - self._flushed_ns >= wait_ns or self._size_of(chunk.group.kind_no).long_or_unknown()

    def stop_reason(self, serial: int) -> int:
        """Why this lease shall not start; 0 when it may."""
        return self._stops.pop(serial, 0) if self._stops else 0

    def put_back(self, chunk: WorkChunk, ran: int) -> None:
        """The last chunk ended early: leases after the first `ran` were not started and are released in the table."""
        group = chunk.group
        if self.draining or ran >= chunk.size:
            return
        if group.taken == len(group.nodes):
            self._groups.appendleft(group)
        group.taken -= chunk.size - ran

    @property
    def has_stops(self) -> bool:
        """Whether some lease that is held here shall not start."""
        return bool(self._stops)

    @property
    def waiting(self) -> int:
        """Leases held and not claimed."""
        return sum(len(g.nodes) - g.taken for g in self._groups)

    def check_invariants(self) -> None:
        """Raise AssertionError when the desk contradicts itself."""
        serials = [g.serial for g in self._groups]
        if serials != sorted(set(serials)):
            raise AssertionError("groups are not in order")
        if any(g.taken >= len(g.nodes) for g in self._groups):
            raise AssertionError("an empty group is kept")
        if any(not self._started < s <= self._newest for s in self._stops):
            raise AssertionError("a stop request is kept for a lease that cannot start")

    def _size_of(self, kind_no: int) -> ClaimSize:
        size = self._sizes.get(kind_no)
        if size is None:
            size = self._sizes[kind_no] = ClaimSize()
        return size

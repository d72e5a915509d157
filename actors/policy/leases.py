"""Leases that one worker holds, in groups of consecutive serials.

A lease's serial is its fencing token (guarantee G3): it is given once per worker incarnation, and what is not in this
book any more (finished, revoked, given up) cannot be finished again. Groups, because work is given and answered in
batches: the cost is per group, not per task.

A serial's slot in the worker's lease table is `serial % slots`. Where an attempt goes on for so long that the serials
lap it, they leave out its slot (`free_run`): two open serials never share one.

A *batch* is groups in a row whose leases are run as one call.

Invariants: `held` is the number of open serials, `held_of` the same by class, `lowest` not above any of them; groups
without an open serial are not kept; bases ascend; no two open serials have one slot.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from actors.protocol import limits
from actors.protocol.kinds import PRIORITIES

R = TypeVar("R")


class LeaseGroup(Generic[R]):
    """Serials base .. base + len(nodes) - 1 of one run and kind; `open[i]` is 1 while serial base + i is held.

    `lane` is the priority class of the kind; `batch` is that which the leases belong to.
    """

    __slots__ = ("base", "batch", "kind", "lane", "left", "nodes", "open", "run")

    def __init__(self, base: int, run: R, kind: Any, nodes: Sequence[int]) -> None:
        self.base = base
        self.run = run
        self.kind = kind
        self.lane: int = kind.priority
        self.nodes = nodes
        self.open = bytearray(b"\1") * len(nodes)
        self.left = len(nodes)
        self.batch: LeasedBatch[R] | None = None


class LeasedBatch(Generic[R]):
    """Groups in a row whose leases are run as one call. `left` of `size` are open."""

    __slots__ = ("groups", "left", "no", "size")

    def __init__(self, no: int) -> None:
        self.no = no
        self.groups: list[LeaseGroup[R]] = []
        self.left = self.size = 0

    def open_serials(self) -> list[int]:
        """Serials held, ascending."""
        return [g.base + i for g in self.groups for i, flag in enumerate(g.open) if flag]


class LeaseBook(Generic[R]):
    """The leases of one worker incarnation, whose lease table has so many slots; 0 stands for `LEASE_SLOTS`."""

    __slots__ = ("_bases", "_batch", "_groups", "_slots", "held", "held_of", "lowest", "next_serial", "surplus")

    def __init__(self, slots: int = 0) -> None:
        self._bases: list[int] = []
        self._groups: dict[int, LeaseGroup[R]] = {}
        self._slots = slots or limits.LEASE_SLOTS
        self.held = 0
        self.held_of = [0] * len(PRIORITIES)
        self.next_serial = self.lowest = 1
        self.surplus = 0
        """Leases beyond the first of each open batch: `held - surplus` is how many calls are ahead."""
        self._batch: LeasedBatch[R] | None = None  # the latest

    def grant(self, run: R, kind: Any, nodes: Sequence[int], batch: int = 0) -> LeaseGroup[R]:
        """Open a lease for each node, with the next serials; not more than `free_run` has just said.

        Those that are given in a row under the same number of a batch belong to it.
        """
        if self.next_serial - self.lowest > self._slots // 2:
            self.next_serial, _ = self.free_run()
        group = LeaseGroup(self.next_serial, run, kind, nodes)
        self._bases.append(group.base)
        self._groups[group.base] = group
        count = len(nodes)
        self.held += count
        self.held_of[group.lane] += count
        self.next_serial += count
        if batch:
            self._add_to_batch(group, batch)
        return group

    def _add_to_batch(self, group: LeaseGroup[R], no: int) -> None:
        batch = self._batch
        if batch is None or batch.no != no:
            batch = self._batch = LeasedBatch(no)
        group.batch = batch
        batch.groups.append(group)
        self.surplus += group.left - (not batch.left)
        batch.size += group.left
        batch.left += group.left

    def free_run(self) -> tuple[int, int]:
        """The next serial whose slot no open one has, and how many such follow in a row; at most half the table."""
        start, slots = self.next_serial, self._slots
        room = slots // 2
        if start - self.lowest <= room:
            return start, room
        bases = self._bases
        lapped = [self._groups[base] for base in bases[: bisect_left(bases, start + room - slots)]]
        ahead = sorted((g.base + i - start) % slots for g in lapped for i, flag in enumerate(g.open) if flag)
        skipped = 0
        for distance in ahead:
            if distance > skipped:
                return start + skipped, min(distance, room) - skipped
            skipped += 1
        return start + skipped, max(0, room - skipped)

    def find(self, serial: int) -> LeaseGroup[R] | None:
        """The group of this serial, if the serial is still held."""
        at = bisect_right(self._bases, serial) - 1
        if at < 0:
            return None
        group = self._groups[self._bases[at]]
        index = serial - group.base
        return group if index < len(group.nodes) and group.open[index] else None

    def finish(self, serial: int, count: int) -> LeaseGroup[R] | None:
        """Close `count` consecutive serials of one group. None, and nothing changes, unless all of them are held."""
        group = self.find(serial)
        if group is None:
            return None
        start = serial - group.base
        if group.open.count(1, start, start + count) != count:
            return None
        self._close(group, start, count)
        return group

    def finish_span(self, serial: int, count: int) -> list[tuple[LeaseGroup[R], int, int]]:
        """As `finish`, for serials that may belong to several groups, which a worker answers together.

        Returns:
            Each group with the first place in it and how many of them; empty unless all were held.
        """
        bases, groups = self._bases, self._groups
        at = bisect_right(bases, serial) - 1
        found: list[tuple[LeaseGroup[R], int, int]] = []
        while count:
            group = groups[bases[at]] if 0 <= at < len(bases) else None
            start = serial - group.base if group is not None else -1
            if group is None or not 0 <= start < len(group.nodes):
                return []
            part = min(count, len(group.nodes) - start)
            if group.open.count(1, start, start + part) != part:
                return []
            found.append((group, start, part))
            serial, count, at = serial + part, count - part, at + 1
        for group, start, part in found:
            self._close(group, start, part)
        return found

    def _close(self, group: LeaseGroup[R], start: int, count: int) -> None:
        """Close leases of a group, all of which are held."""
        group.open[start : start + count] = bytes(count)
        group.left -= count
        self.held -= count
        self.held_of[group.lane] -= count
        if group.batch is not None:
            group.batch.left -= count
            self.surplus -= count - (not group.batch.left)
        if group.left == 0:
            self._drop(group)

    def units_of(self) -> list[int]:
        """What is held by class, a batch as one."""
        if not self.surplus:
            return self.held_of
        batches = {group.batch for group in self._groups.values() if group.batch is not None}
        units = list(self.held_of)
        for batch in batches:
            units[batch.groups[0].lane] -= batch.left - 1
        return units

    def groups(self) -> Iterator[LeaseGroup[R]]:
        """Groups in order of their serials."""
        return iter(list(self._groups.values()))

    @property
    def oldest(self) -> LeaseGroup[R] | None:
        """The group with the lowest serials."""
        return self._groups[self._bases[0]] if self._bases else None

    def open_serials(self) -> list[int]:
        """Serials held, ascending."""
        return [g.base + i for g in self._groups.values() for i, flag in enumerate(g.open) if flag]

    def _drop(self, group: LeaseGroup[R]) -> None:
        del self._groups[group.base]
        at = bisect_right(self._bases, group.base) - 1
        del self._bases[at]
        if not at:
            self.lowest = self._bases[0] if self._bases else self.next_serial

    def check_invariants(self) -> None:
        """Raise AssertionError when the book contradicts itself."""
        if self.held != sum(g.left for g in self._groups.values()):
            raise AssertionError("held differs from the sum over groups")
        lanes = [sum(g.left for g in self._groups.values() if g.lane == n) for n in range(len(self.held_of))]
        if self.held_of != lanes:
            raise AssertionError("held by class differs from the sum over groups")
        if any(g.left != g.open.count(1) or g.left == 0 for g in self._groups.values()):
            raise AssertionError("a group's count is wrong")
        if self._bases != sorted(self._groups):
            raise AssertionError("bases are not the groups'")
        if self.lowest != (self._bases[0] if self._bases else self.lowest):
            raise AssertionError("the lowest serial is not the first group's")
        batches = {g.batch for g in self._groups.values() if g.batch is not None}
        if any(b.left != len(b.open_serials()) for b in batches) or self.surplus != sum(b.left - 1 for b in batches):
            raise AssertionError("what is held of batches is wrong")
        if len({serial % self._slots for serial in self.open_serials()}) != self.held:
            raise AssertionError("two open serials have one slot")

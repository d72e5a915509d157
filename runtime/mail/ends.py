"""What a link is made of: the descriptors, and the layout of the block behind the first of them.

A block holds a page of header and flags, then four rings, each from a page boundary on: a to b control, a to b work,
b to a control, b to a work. Magic, layout version and sizes are in the header, so that descriptors are all that must be
passed on to rebuild a link. Words of flags that different processes write are on cache lines of their own.

Concurrency: none; a block is complete before its descriptor is shared. `link` says how it is used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from actors.protocol import limits
from actors.protocol.errors import ProtocolError
from runtime.mail.bell import Bell
from runtime.mail.blocks import PAGE_BYTES, create_block, map_block
from runtime.mail.ring import ORDERED_MACHINE, WORD_BYTES, RingPlan

Side = Literal["a", "b"]

_MAGIC: Final = 0x4B4E494C_474E5053  # "SPNGLINK" in a hex dump
_LAYOUT: Final = 1
_MAGIC_WORD, _LAYOUT_WORD, _WORK_BYTES_WORD, _CONTROL_BYTES_WORD, _CHECKED_WORD = range(5)
_SLEEPING_A, _SLEEPING_B, _WANTS_A, _WANTS_B = 64, 80, 96, 112  # words; each on two cache lines of its own
_RINGS_OFFSET: Final = 4096


class LinkEnds(NamedTuple):
    """The descriptors of a link. Whoever holds them can be either side. Bells as (read, write) descriptors."""

    memory_fd: int
    bell_a: Bell
    bell_a_alternate: Bell
    bell_b: Bell
    bell_b_alternate: Bell

    def fds(self) -> list[int]:
        """All descriptors once, in an order that `from_fds` knows; for inheritance or `SCM_RIGHTS`."""
        return [self.memory_fd, *(fd for bell in self[1:] for fd in dict.fromkeys(bell))]

    @classmethod
    def from_fds(cls, fds: Sequence[int]) -> LinkEnds:
        """Put ends together from the descriptors of `fds()`, whatever their numbers are here."""
        rest = list(fds[1:])
        if len(rest) == 4:
            return cls(fds[0], *(Bell(fd, fd) for fd in rest))
        if len(rest) == 8:
            return cls(fds[0], *map(Bell, rest[::2], rest[1::2]))
        raise ProtocolError(f"a link has 5 or 9 descriptors, not {len(fds)}")

    def bells(self, side: Side) -> tuple[tuple[Bell, Bell], tuple[Bell, Bell]]:
        """Primary and alternate bell of that side, and of its peer."""
        a, b = (self.bell_a, self.bell_a_alternate), (self.bell_b, self.bell_b_alternate)
        return (a, b) if side == "a" else (b, a)

    def dup(self) -> LinkEnds:
        """The same ends under descriptors of their own, for a second `Link` in the same process."""
        return LinkEnds(os.dup(self.memory_fd), *(bell.dup() for bell in self[1:]))

    def close(self) -> None:
        """Close the descriptors of this process; for ends that were not given to a `Link`."""
        os.close(self.memory_fd)
        for bell in self[1:]:
            bell.close()


class SideLayout(NamedTuple):
    """The block as one side sees it: rings as (control, work), and the indices of its own words and of the peer's."""

    outgoing: tuple[RingPlan, RingPlan]
    incoming: tuple[RingPlan, RingPlan]
    sleeping: int
    wants: int
    peer_sleeping: int
    peer_wants: int
    checked: bool


def create_link(
    work_bytes: int = limits.RING_WORK_BYTES,
    control_bytes: int = limits.RING_CONTROL_BYTES,
    *,
    checked: bool = not ORDERED_MACHINE,
) -> LinkEnds:
    """Make the memory and the bells of a link.

    Args:
        work_bytes: data of each work lane, in bytes; a multiple of 8.
        control_bytes: data of each control lane, likewise.
        checked: whether frames carry a hash, which weakly ordered machines need.
    """
    plans = _plans(work_bytes, control_bytes)
    fd = create_block(plans[-1].stop)
    with map_block(fd) as memory, memoryview(memory) as view, view.cast("Q") as words:
        for plan in plans:
            plan.prepare(words)
        words[_LAYOUT_WORD] = _LAYOUT
        words[_WORK_BYTES_WORD] = work_bytes
        words[_CONTROL_BYTES_WORD] = control_bytes
        words[_CHECKED_WORD] = checked
        words[_MAGIC_WORD] = _MAGIC
    return LinkEnds(fd, Bell.create(), Bell.create(), Bell.create(), Bell.create())


def _plans(work_bytes: int, control_bytes: int) -> list[RingPlan]:
    """The rings a to b control, a to b work, b to a control, b to a work."""
    plans: list[RingPlan] = []
    offset = _RINGS_OFFSET
    for data_bytes in (control_bytes, work_bytes, control_bytes, work_bytes):
        plans.append(RingPlan.at(offset, data_bytes))
        offset = -(-plans[-1].stop // PAGE_BYTES) * PAGE_BYTES
    return plans


def layout_of(words: memoryview, side: Side) -> SideLayout:
    """Read the header of a block.

    Raises:
        ProtocolError: the block is not that of a link.
    """
    if len(words) * WORD_BYTES <= _RINGS_OFFSET or words[_MAGIC_WORD] != _MAGIC or words[_LAYOUT_WORD] != _LAYOUT:
        raise ProtocolError("the block is not a link of this version")
    plans = _plans(words[_WORK_BYTES_WORD], words[_CONTROL_BYTES_WORD])
    a_to_b, b_to_a = (plans[0], plans[1]), (plans[2], plans[3])
    checked = bool(words[_CHECKED_WORD])
    if side == "a":
        return SideLayout(a_to_b, b_to_a, _SLEEPING_A, _WANTS_A, _SLEEPING_B, _WANTS_B, checked)
    return SideLayout(b_to_a, a_to_b, _SLEEPING_B, _WANTS_B, _SLEEPING_A, _WANTS_A, checked)

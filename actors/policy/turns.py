"""Turns: deficit round robin among sharers, such as tenants by weight or the flows of a tenant.

A sharer at the head of the ring is given credit, is served while it has some, and goes behind the others; what is left
of a node is kept for its next turn. One that is alone is served without counting. Source: M. Shreedhar and G. Varghese,
"Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995, with a node in the place of a byte. Two differences:

- How much a turn is, its *quantum*, may differ from round to round, because little is asked for at a time when nodes
  take long, but not within a round: sharers that always wait get, by weight, the same within one turn.
- A round in which nobody could earn a whole node is not walked through again and again: the next quantum is raised to
  what gives the heaviest sharer one node.

Invariants: who is in the ring waits; who had a turn in this round is behind those that had none, but for those that
entered after them. Entering, leaving and a turn take constant time. A turn that earns less than one node is a step that
serves nobody: a sharer a thousand times lighter than the others takes a thousand steps a node, one in each round.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

from actors.protocol.limits import QUANTUM

NEW: Final = -1
GOES_ON: Final = -2
"""Values of `Sharer.round` of who had no turn yet, and of who was held back in its turn."""


class Sharer:
    """Who takes turns. `credit`: nodes that it may still start in its turn; `round`: the last one it had a turn in."""

    __slots__ = ("credit", "late", "round", "weight")

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self.credit = 0.0
        self.round = NEW
        self.late = False
        """It was held back when its turn was over, so it comes back behind the others."""


S = TypeVar("S", bound=Sharer)


class Turns(Generic[S]):
    """`ring` holds who waits, in the order of their turns."""

    __slots__ = ("_heaviest", "_quantum", "_round", "ring")

    def __init__(self) -> None:
        self.ring: OrderedDict[S, None] = OrderedDict()
        self._round = 0
        self._quantum = 1.0
        self._heaviest = 1.0

    def enter(self, sharer: S, *, front: bool = False) -> None:
        """A sharer begins to wait, with the credit that it has; `front`: it comes back, and had no turn since."""
        ring = self.ring
        if sharer.round == GOES_ON:
            sharer.round = self._round
        self._heaviest = max(self._heaviest, sharer.weight)
        ring[sharer] = None
        if front:
            ring.move_to_end(sharer, last=False)

    def leave(self, sharer: S, *, held_back: bool = False, took: bool = False) -> None:
        """A sharer waits no more.

        Who is held back in its turn (`took`: after it started something) goes on with it when it comes back, but with
        no more credit than a quantum of one node gives: with a long turn it would be the first each time that a single
        node is let through.
        """
        del self.ring[sharer]
        sharer.late = False
        if not held_back:
            return
        if not self.ring and took:
            sharer.late, sharer.credit = True, 0.0
        elif sharer.round == self._round:
            sharer.credit = max(0.0, min(sharer.credit, max(1.0, sharer.weight) - took))
            sharer.late = took and sharer.credit < 1
        sharer.round = GOES_ON if sharer.round == self._round and sharer.credit >= 1 else NEW

    def defer(self, sharer: S) -> None:
        """Put it behind the others."""
        self.ring.move_to_end(sharer)

    def prefer(self, sharer: S) -> None:
        """Put one that waits, and could not start what others could, before them, for a node at least."""
        sharer.credit, sharer.round = max(sharer.credit, 1.0), self._round
        self.ring.move_to_end(sharer, last=False)

    def next(self, quantum: int) -> S:
        """Whose turn it is. A round that begins here has this quantum."""
        ring = self.ring
        head = next(iter(ring))
        if len(ring) == 1:  # not counted: it had a turn when another comes
            head.credit, head.round = 0.0, self._round
            self._heaviest = head.weight
            self._quantum = max(float(quantum), 1 / head.weight)
            return head
        this = self._round
        while head.round != this or head.credit < 1:
            if head.round != this:
                head.round, weight = this, head.weight
                head.credit += min(self._quantum * weight, QUANTUM * max(1.0, weight))
                if weight > self._heaviest:
                    self._heaviest = weight
                continue
            ring.move_to_end(head)
            head = next(iter(ring))
            if head.round == this and head.credit < 1:
                self._round = this = this + 1
                self._quantum = max(float(quantum), 1 / self._heaviest)
                self._heaviest = head.weight
        return head


def turn_of(count: int) -> int:
    """The quantum where so many nodes are asked for."""
    return min(QUANTUM, max(1, count >> 3))

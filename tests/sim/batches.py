"""Calls of batching handlers in the simulation: what the user submits, what a worker does with them, what must hold.

Every other world has them, behind everything else, with draws of their own: single calls and maps of two kinds, some of
which fail, are dragged down by others, expire or are cancelled one by one while their batch waits or runs.

Checked by `BatchOracle`, beside what holds for every task: a batch is of one kind and no larger than its rule, no call
is twice in it, and who was in one that was ended by force runs alone for as long as this engine lives (what the next
one knows of that is what had reached the disk).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors.protocol import limits
from actors.protocol import messages as msg

if TYPE_CHECKING:
    from tests.sim.user import Submission, User
    from tests.sim.workers import Lease

FIRST_KIND: Final = 11
AFTER_NS: Final = 60_000_000
"""Behind the submissions with keys, because numbers are sent in order."""


class BatchOracle:
    """What must hold of batches, and which calls were dragged down by others of theirs."""

    def __init__(self) -> None:
        self.dragged: set[tuple[int, int]] = set()
        self.sizes: dict[int, int] = {}
        self._broke: dict[tuple[int, int], int] = {}
        """In which life of the engine a call was last in a batch that broke."""

    def starts(self, leases: Sequence[Lease], user: User) -> None:
        """A batch starts: check that it may."""
        rule = leases[0].kind.batch
        self.sizes[len(leases)] = self.sizes.get(len(leases), 0) + 1
        assert all(lease.kind is leases[0].kind for lease in leases), "a batch of several kinds"
        assert len({(lease.run.no, lease.node) for lease in leases}) == len(leases), "a call is twice in its batch"
        assert len(leases) <= min(rule.size, limits.CLAIM_MAX), f"{len(leases)} calls in a batch of {rule.size}"
        if len(leases) > 1:
            for lease in leases:
                key = _key(lease, user)
                assert self._broke.get(key) != user.world.incarnation, f"{key} broke in company, and is not alone"

    def broke(self, leases: Sequence[Lease], user: User) -> None:
        """Their worker died, or they were stopped."""
        for lease in leases if len(leases) > 1 else ():
            self._broke[_key(lease, user)] = user.world.incarnation


def _key(lease: Lease, user: User) -> tuple[int, int]:
    submission, node = user.of_lease(lease.run.session, lease.run.seq, lease.node, lease.run)
    return submission.seq, node


class BatchUser:
    """Submits such calls. See the module."""

    def __init__(self, user: User, seed: int) -> None:
        self._user = user
        self._random = random = Random(f"batches {seed}")
        self.takes_part = seed % 2 == 0
        self.rules = [[random.choice((1, 2, 3, 8)), random.choice((0, 1_000_000, 20_000_000))] for _ in range(2)]
        self.together_ns = random.choice((1_000, 500_000))

    def kinds(self) -> list[tuple[int, dict[str, Any]]]:
        """Numbers and what more there is in the kinds."""
        if not self.takes_part:
            return []
        return [(FIRST_KIND + i, {"batch": rule, "handler": f"m:b{i}"}) for i, rule in enumerate(self.rules)]

    def invent(self, first: int, make: type[Submission]) -> list[Submission]:
        """The submissions, numbered from `first`."""
        random, session, found = self._random, self._user.session, []
        for seq in range(first, first + random.randrange(2, 14) if self.takes_part else first):
            kind_no = FIRST_KIND + random.randrange(2)
            if random.random() < 0.7:
                row = [seq, kind_no, seq]
                submission = make(seq, msg.TasksSubmitted(session, [row], orjson.dumps([row])), 1)
            else:
                size = random.randrange(1, 12)
                items = list(range(size))
                raw = orjson.dumps([seq, kind_no, items])
                submission = make(seq, msg.MapSubmitted(session, seq, kind_no, items, raw), size)
            for node in range(submission.size):
                if random.random() < 0.15:
                    submission.fails[node] = random.choice((1, 2, 9))
            found.append(submission)
        return found

    def plan(self, due_ns: int, submissions: Sequence[Submission]) -> None:
        """Send them, and cancel some, one call at a time."""
        clock, random = self._user.world.clock, self._random
        for submission in submissions:
            due_ns += random.randrange(self.together_ns)
            clock.at(due_ns, lambda seq=submission.seq: self._user.send(seq))  # type: ignore[misc]
        for _ in range(random.choice((0, 2, 5)) if submissions else 0):
            one = random.choice(submissions)
            node = None if random.random() < 0.2 else random.randrange(one.size)
            at_ns = due_ns + random.randrange(3_000_000)
            clock.at(at_ns, lambda one=one, node=node: self._user.cancel(one, node))  # type: ignore[misc]

"""The operator: changes who runs next while everything happens, and in the end takes all limits away again.

Its model: a change is sent to the engine that is connected then, and may be lost with it. The last one is sent until it
was answered, which means that it is durable; without it some work would wait for ever, as it should.

A pause is a drain: what was not started comes back. The operator also has what failed replayed, discarded, and runs
rerun, at any moment; every other time somebody mended the cause before. Such a request may be lost, too: it is not sent
again.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES

if TYPE_CHECKING:
    from tests.sim.user import User

TENANTS = ("", "a", "b")
KEYS = ("k", "l")
SCOPES = (*(f"tenant:{t}" for t in TENANTS), *(f"key:{k}" for k in KEYS), "class:low", "type:io", "rate:r")
QUOTAS = tuple(scope for scope in SCOPES if not scope.startswith("rate:"))
FIRST_QUERY = 1_000_000
RETRY_NS = 30_000_000


def sharing(random: Random) -> dict[str, Any]:
    """With whom a kind of task shares."""
    found: dict[str, Any] = {}
    if tenant := random.choice(TENANTS):
        found["tenant"] = tenant
    if random.random() < 0.4:
        found["concurrency_key"] = random.choice(KEYS)
    if random.random() < 0.3:
        found["rate_key"] = "r"
    return found


class Operator:
    """See the module. Its draws are its own, so that it moves nobody else's."""

    def __init__(self, user: User, seed: int) -> None:
        self._user = user
        self._random = Random(f"operator {seed}")
        self._reclasses = Random(f"reclasses {seed}")
        self._revivals = Random(f"revivals {seed}")
        self._revivals_left = 0
        self.planned = 0
        """What it is about to see to."""
        self._paused: set[str] = set()
        self._next_query = FIRST_QUERY
        self._last_query = 0
        self.done = True

    def begin(self, now_ns: int) -> None:
        """Plan some changes; in every third world none."""
        clock, random = self._user.world.clock, self._random
        for _ in range(self._reclasses.choice((0, 3, 9))):
            clock.at(now_ns + self._reclasses.randrange(60_000_000), self._reclass)
        self._revivals_left = self._revivals.choice((0, 3, 12, 12))
        for _ in range(self._revivals_left):
            clock.at(now_ns + self._revivals.randrange(40_000_000), self.revive)
        count = random.choice((0, 2, 6))
        for _ in range(count):
            clock.at(now_ns + random.randrange(40_000_000), self._change)
        if count:
            self.done = False
            clock.at(now_ns + 40_000_000 + random.randrange(40_000_000), self._free)

    def hear_of_end(self, seq: int) -> None:
        """A run, or task, ended without success: soon somebody sees to it, some times."""
        if self._revivals_left:
            self._revivals_left -= 1
            self.planned += 1
            clock = self._user.world.clock
            clock.at(clock.now_ns + self._revivals.randrange(3_000_000), lambda: self._see_to(seq))

    def _see_to(self, seq: int) -> None:
        self.planned -= 1
        self.revive(seq)

    def hear(self, query_id: int) -> None:
        """An answer came."""
        self.done = self.done or query_id == self._last_query

    def _change(self) -> None:
        random, scope = self._random, self._random.choice(SCOPES)
        what = random.randrange(6)
        if what == 0:
            self._send({"pause": [scope]})
            query_id, self._next_query = self._next_query, self._next_query + 1
            self._user.ask(msg.Queried(self._user.session, query_id, "held", {"scopes": [scope], "take_back": True}))
        elif what == 1:
            self._send({"resume": [scope]})
        elif what == 2:
            self._send({"quotas": {random.choice(QUOTAS): random.choice((1, 1, 2, None))}})
        elif what == 5:
            least, most = random.choice(((0.0, 0.5), (0.5, 1.0), (0.3, 0.6)))
            self._send({"shares": {random.choice(PRIORITIES): random.choice(([least, most], None))}})
        elif what == 3:
            self._send({"rates": {"r": random.choice(([2000.0, 1], [500.0, 3], None))}})
        else:
            weights = {random.choice(TENANTS): random.choice((0.5, 2.0, None))}
            self._send({"weights": weights, "ageing_ns": random.choice((0, 1_000_000))})

    def _reclass(self) -> None:
        """Something that was submitted, or is not yet, gets another class."""
        user, random = self._user, self._reclasses
        run = f"{user.session}-{random.choice([*user.submissions])}"
        query_id, self._next_query = self._next_query, self._next_query + 1
        args = {"run": run, "priority": random.choice(PRIORITIES)}
        user.ask(msg.Queried(user.session, query_id, "priority", args))

    def revive(self, seq: int = 0) -> None:
        """Something goes again, or dead letters are discarded: of one submission, or of all."""
        user, random = self._user, self._revivals
        seqs = sorted(user.submissions)
        chosen = [seq] if seq else seqs if random.random() < 0.5 else [random.choice(seqs)]
        what = random.choice(("replay", "replay", "discard", "rerun"))
        args: dict[str, Any] = {"filter": {"run": f"{user.session}-{chosen[0]}"} if len(chosen) == 1 else {}}
        if what == "rerun":
            chosen = chosen[-1:]
            args = {"run": f"{user.session}-{chosen[0]}"}
        if what != "discard":
            user.will_go_again(chosen, mended=random.random() < 0.5)
        query_id, self._next_query = self._next_query, self._next_query + 1
        user.ask(msg.Queried(user.session, query_id, what, args))

    def _free(self) -> None:
        if self.done:
            return
        self._last_query = self._next_query
        quotas = dict.fromkeys((*QUOTAS, *(f"class:{name}" for name in PRIORITIES)))
        self._send({"quotas": quotas, "rates": {"r": None}, "resume": list(SCOPES)})
        clock = self._user.world.clock
        clock.at(clock.now_ns + RETRY_NS, self._free)

    def _send(self, change: dict[str, Any]) -> None:
        query_id, self._next_query = self._next_query, self._next_query + 1
        self._user.ask(msg.Queried(self._user.session, query_id, "policy", {"change": change}))

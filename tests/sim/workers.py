"""Fake workers: they keep the contract of a worker process, and break where real ones do.

Fault model:
- dies at any moment: idle, with claimed leases, while executing; what it had sent still arrives before its death is
known;
- hangs: an execution never ends, and ignores being asked to stop (the escalation must end it);
- answers late: results that were on the way when it was given up still arrive;
- answers twice: the same result frame is delivered again;
- cannot start at all, some times in a row.
It never claims a lease that was revoked, and never starts one that it did not claim: that is the lease table's
contract. It claims the best class first, and shows how far all was claimed or passed over (`passed`); a slot that is
granted again before is an error of the pool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.kinds import PRIORITIES
from actors.protocol.states import LeaseState
from actors.worker import STOP_KINDS
from tests.sim.clock import Clock, Queue


@dataclass(frozen=True)
class Chances:
    """Probabilities of one simulated world."""

    crash: float = 0.0
    hang: float = 0.0
    double: float = 0.0
    boot_failure: float = 0.0
    cooperative: float = 0.5


@dataclass
class Lease:
    """One lease as the worker received it."""

    serial: int
    run: Any
    kind: Any
    node: int
    attempt: int
    item: Any
    batch: int = 0
    claimed_wall_ns: int = 0
    outcomes: Sequence[Any] = ()
    """How its calls ended, where it goes on."""


class FakeWorker:
    """One incarnation. `execute` is called when an execution starts, with the leases that are one call (mostly one);
    it returns their outcomes; `broke` when that call is stopped or dies."""

    def __init__(
        self,
        number: int,
        clock: Clock,
        random: Random,
        chances: Chances,
        say: Callable[[object], None],
        execute: Callable[[list[Lease]], list[tuple[str, Any]]],
        broke: Callable[[list[Lease]], None],
    ) -> None:
        self.number = number
        self.pid = 10_000 + number
        self.alive = True
        self.comes_ns = 0
        """When the latest of what is on its way here arrives, and the latest message."""
        self.coming: list[fx.LeaseWork] = []
        self.table: dict[int, LeaseState] = {}
        self.current = 0
        self.started_ns = 0
        self.passed = 0
        self._newest = 0
        self._clock = clock
        self._random = random
        self._chances = chances
        self._out = Queue(clock, say)
        self._execute = execute
        self._lanes: tuple[deque[Lease], ...] = tuple(deque() for _ in PRIORITIES)
        self._claimed: deque[Lease] = deque()
        self._stops: set[int] = set()
        self._draining = False
        self._stuck = False
        self._broke = broke
        self._executing: list[Lease] = []

    def boot(self) -> None:
        """Come up, or not."""
        if self._random.random() < self._chances.boot_failure:
            self._out.post(msg.WorkerCannotBoot(self.number, "no such module"))
            self.die("exit code 1", 0)
            return
        self._out.post(msg.WorkerHello(self.number, self.pid))

    def grant(self, effect: fx.LeaseWork) -> None:
        """The engine enters leases in the table, before the message is sent."""
        for serial in range(effect.serial, effect.serial + len(effect.nodes)):
            lapped = serial - limits.LEASE_SLOTS
            assert lapped <= self.passed, f"lease {serial} has the slot of {lapped}, which was not passed"
            assert self.table.get(lapped) is not LeaseState.RUNNING, (
                f"lease {serial} has the slot of {lapped}, which runs"
            )
            self.table[serial] = LeaseState.LEASED

    def receive(self, effects: list[fx.LeaseWork]) -> None:
        """Work arrives."""
        for effect in effects:
            for i, node in enumerate(effect.nodes):
                attempt: Any = effect.attempts[i] if effect.attempts else 1
                number, outcomes = attempt if isinstance(attempt, list) else (attempt, ())
                lease = Lease(effect.serial + i, effect.run, effect.kind, node, number, effect.items[i], effect.batch)
                lease.outcomes = outcomes
                self._lanes[effect.kind.priority].append(lease)
        self._newest = effect.serial + len(effect.nodes) - 1
        self._go_on()

    def revoke(self, serials: tuple[int, ...]) -> tuple[int, ...]:
        """Compare-and-set LEASED to REVOKED; returns the serials won."""
        won = tuple(s for s in serials if self.table.get(s) is LeaseState.LEASED)
        for serial in won:
            self.table[serial] = LeaseState.REVOKED
        return won

    def ask_cancel(self, serial: int, reason: int) -> None:
        """A cooperative stop, which the handler may ignore."""
        self._stops.add(serial)
        if self.current == serial and self._random.random() < self._chances.cooperative:
            kind = str(STOP_KINDS[reason])
            self._clock.at(self._clock.now_ns + 10_000, lambda: self._stopped(serial, kind))

    def drain(self) -> None:
        """Finish what runs, claim no more, exit."""
        self._draining = True
        self._go_on()

    def die(self, status: str, signal: int) -> None:
        """End now. What was sent still arrives, then the death."""
        if not self.alive:
            return
        self.alive = False
        self._broke(self._executing if self.current else [])
        claimed = tuple(s for s, state in self.table.items() if state is LeaseState.RUNNING)
        self._out.post(msg.WorkerExited(self.number, status, signal, self.current, self.started_ns, claimed))

    def cut(self) -> None:
        """The engine died, so this worker and all it said is gone."""
        self.alive = False
        self._out.cut()

    def _go_on(self) -> None:
        if not self.alive or self.current or self._stuck:
            return
        if not self._claimed and not self._draining:
            self._claim()
        if not self._claimed:
            if self._draining:
                self.die("exit code 0", 0)
            return
        leases = [self._claimed.popleft()]
        while leases[0].batch and self._claimed and self._claimed[0].batch == leases[0].batch:
            leases.append(self._claimed.popleft())
        self.current, self.started_ns = leases[0].serial, self._clock.now_ns
        self._executing = leases
        if self._random.random() < self._chances.crash:
            delay = self._random.randrange(1_000, 3_000_000)
            self._clock.at(self._clock.now_ns + delay, lambda: self.die("killed by SIGKILL", 9))
            if self._random.random() < 0.5:
                self._execute(leases)
                self._stuck = True
                return
        outcomes = self._execute(leases)
        if self._random.random() < self._chances.hang:
            self._stuck = True
            return
        duration = self._random.choice((1_000, 50_000, 2_000_000))
        self._clock.at(self._clock.now_ns + duration, lambda: self._finish(leases, outcomes))

    def _claim(self) -> None:
        for _ in range(self._random.choice((1, 1, 4))):
            while lane := next(filter(None, self._lanes), None):
                leases = [lane.popleft()]
                while leases[0].batch and lane and lane[0].batch == leases[0].batch:
                    leases.append(lane.popleft())
                claimed = [self._claim_one(lease) for lease in leases]
                if any(claimed):
                    break
        self.passed = min((lane[0].serial - 1 for lane in self._lanes if lane), default=self._newest)

    def _claim_one(self, lease: Lease) -> bool:
        if self.table[lease.serial] is not LeaseState.LEASED:
            return False
        self.table[lease.serial] = LeaseState.RUNNING
        lease.claimed_wall_ns = self._clock.wall_ns
        self._claimed.append(lease)
        return True

    def _finish(self, leases: list[Lease], outcomes: list[tuple[str, Any]]) -> None:
        if not self.alive or self.current != leases[0].serial:
            return
        self.current = 0
        self._executing = []
        for lease, outcome in zip(leases, outcomes, strict=True):
            self.table[lease.serial] = LeaseState.FREE
            self._answer(lease, *outcome)
        self._go_on()

    def _answer(self, lease: Lease, what: str, value: Any) -> None:
        if what == "ok":
            groups = [
                [
                    lease.serial,
                    lease.run.no,
                    [lease.node],
                    [value],
                    self.started_ns,
                    [self._clock.now_ns - self.started_ns],
                ]
            ]
            raw = orjson.dumps([self.pid, groups])
            self._post(msg.WorkerDone(self.number, orjson.loads(raw)[1], raw, self.passed))
        elif what == "spawn":
            block, value = value
            raw = orjson.dumps([lease.serial, lease.run.no, lease.node, block])
            self._post(msg.WorkerSpawned(self.number, lease.serial, block, raw))
            self._finish_again(lease, value)
        elif what == "waits":
            raw = orjson.dumps([lease.serial, lease.run.no, lease.node, value])
            self._post(msg.WorkerSpawned(self.number, lease.serial, orjson.loads(raw)[3], raw))
            failure = {"kind": "waits", "type": "", "message": "", "traceback": ""}
            row = [lease.serial, lease.run.no, lease.node, self.started_ns, self._clock.now_ns, failure]
            self._post(msg.WorkerFailed(self.number, [row], self.passed))
        else:
            failure = {"kind": what, "type": "builtins.ValueError", "message": str(value), "traceback": ""}
            row = [lease.serial, lease.run.no, lease.node, self.started_ns, self._clock.now_ns, failure]
            self._post(msg.WorkerFailed(self.number, [row], self.passed))

    def _finish_again(self, lease: Lease, value: Any) -> None:
        groups = [[lease.serial, lease.run.no, [lease.node], [value], self.started_ns, [1]]]
        raw = orjson.dumps([self.pid, groups])
        self._post(msg.WorkerDone(self.number, orjson.loads(raw)[1], raw, self.passed))

    def _post(self, message: object) -> None:
        self._out.post(message)
        if self._random.random() < self._chances.double and isinstance(message, msg.WorkerDone):
            self._out.post(message)

    def _stopped(self, serial: int, kind: str) -> None:
        if not self.alive or self.current != serial:
            return
        self._stuck = False
        leases, self._executing = self._executing, []
        assert leases
        if kind == "timeout":
            self._broke(leases)
        self.current = 0
        failure = {"kind": kind, "type": "AttemptCancelled", "message": "stopped", "traceback": ""}
        if len(leases) > 1:
            failure["batch"] = len(leases)  # type: ignore[assignment]
        rows = []
        for lease in leases:
            self.table[lease.serial] = LeaseState.FREE
            rows.append([lease.serial, lease.run.no, lease.node, self.started_ns, self._clock.now_ns, failure])
        self._post(msg.WorkerFailed(self.number, rows, self.passed))
        self._go_on()

"""EngineCore: the actors of one engine put together, still pure. The host and the simulator drive this same object.

`receive(events, now_ns, wall_ns)` routes each event to its actor, passes on what actors tell each other until nobody
has anything to say, gives ready work to free workers, hands records to the persister, and returns the effects on the
world. What a session is told waits in the outbox until the log is durable up to its LSN (rule R3).

    events ──► Supervisor ─► WorkerPool × n ─► Scheduler ─► Persister ──► effects
                    └── WorkerAdded ─►┘  ◄─ Grant ─┘  Record ┘   Durable ─► outbox ─► Tell
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from actors.at_workers import RunningNode, running_nodes
from actors.guards import Guards
from actors.inversion import by_need, give_way
from actors.persister import Persister
from actors.pool import WorkerPool
from actors.pool_lanes import offer_over, with_places, with_windows
from actors.pool_size import ask_results, balance
from actors.pool_things import let_go
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import log_messages as log
from actors.protocol import messages as msg
from actors.protocol.records import Record
from actors.queries import Queries
from actors.scheduler import Scheduler
from actors.supervisor import Supervisor

ROUNDS_MAX: Final = 1000
"""Rounds of messages between actors in one turn; more means that two of them talk for ever."""

_POOL, _LOG, _SUPERVISOR, _SEVERAL, _ASKED, _EFFECT, _RECORD = range(7)
_ROUTES: Final[dict[type, int]] = {
    Record: _RECORD,
    msg.Queried: _ASKED,
    **dict.fromkeys(fx.ALL, _EFFECT),
    **dict.fromkeys((log.Written, log.NoSpace, log.LogBroken), _LOG),
    **dict.fromkeys((msg.WorkerWanted, msg.WorkerGone, msg.CloseAsked), _SUPERVISOR),
    **dict.fromkeys((log.CheckpointTaken, log.CheckpointFailed), _SEVERAL),
    **dict.fromkeys((msg.StopLeases, msg.Drain, msg.TimePassed, msg.PoolDelayed, msg.MachineSeen), _SEVERAL),
    **dict.fromkeys(
        (
            msg.WorkerStarted,
            msg.WorkerHello,
            msg.WorkerCannotBoot,
            msg.WorkerDone,
            msg.WorkerFailed,
            msg.WorkerSpawned,
            msg.WorkerProgress,
            msg.WorkerLogged,
            msg.WorkerPools,
            msg.WorkerObserved,
            msg.WorkerExited,
            msg.LeasesRevoked,
            msg.Grant,
            msg.WorkerAdded,
        ),
        _POOL,
    ),
}
"""Where each kind of message goes; what is not here goes to the scheduler."""


class EngineCore:
    """See the module.

    Args:
        scheduler: Fresh, or filled by `actors.replay`.
        persister: Continuing the log after its last record.
        node_types: Wire forms of the node types.
        facts: What the host adds to what the engine says of itself.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        persister: Persister,
        node_types: Sequence[dict[str, Any]],
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.facts = facts or {}
        self.scheduler = scheduler
        scheduler.giving.guards = Guards(node_types)  # what was read back from the log says nothing of now
        self.persister = persister
        self.pools = {n["name"]: WorkerPool(n) for n in node_types}
        self.supervisor = Supervisor(list(self.pools))
        self.queries = Queries(self)
        self._pool_of: dict[int, WorkerPool] = {}
        self._outbox: deque[fx.Tell] = deque()
        self._stalled: dict[str, Any] | None = None
        self._records: list[Record] = []
        self._asked: list[msg.Queried] = []
        self._floor = 0
        self._wanted_lsn = 0
        self._effects: list[Any] = []
        self._now_ns = 0
        self._wall_ns = 0

    def start(self, effects: Sequence[Any], now_ns: int, wall_ns: int) -> list[Any]:
        """Begin: carry out what the recovery asked for, and bring up the smallest number of workers."""
        first = [message for pool in self.pools.values() for message in pool.start(now_ns)]
        return self.receive([*effects, *first], now_ns, wall_ns)

    def receive(self, events: Sequence[Any], now_ns: int, wall_ns: int) -> list[Any]:
        """One turn. Returns effects in the order in which they must be carried out."""
        return self.advance(events, now_ns, wall_ns) + self.commit()

    def advance(self, events: Sequence[Any], now_ns: int, wall_ns: int) -> list[Any]:
        """The first part of a turn: who works on what. Its effects need not wait for the log, so workers begin while
        `commit`, which must follow, has the rest logged and told."""
        self._now_ns, self._wall_ns = now_ns, wall_ns
        self.scheduler.set_time(now_ns, wall_ns)  # it may only give work in this turn
        queue = list(events)
        if not queue or self.unfinished:
            queue.append(msg.TimePassed())
        for _ in range(ROUNDS_MAX):
            queue = self._round(queue) or self._dispatch() or self._answers()
            if not queue:
                break
        return self._taken()

    def commit(self) -> list[Any]:
        """The second part of a turn: what is logged, and what may be told by now."""
        if self.supervisor.draining and not self.held() and not self.scheduler.undecided:
            told = let_go(self.pools.values(), self._now_ns)
            self._effects += self.supervisor.quiet() if told is None else told
        self._commit([])
        return self._taken()

    def receive_log(self, event: Any, now_ns: int, wall_ns: int) -> list[Any]:
        """What became of the write that was out: only the persister and the outbox care."""
        self._now_ns, self._wall_ns = now_ns, wall_ns
        self._commit([event])
        return self._taken()

    def _taken(self) -> list[Any]:
        effects, self._effects = self._effects, []
        return effects

    def answers_within(self, wait_ns: int) -> bool:
        """Whether some worker holds tasks that usually take less than this."""
        return any(pool.average_ns < wait_ns and pool.held() for pool in self.pools.values())

    def busy_workers(self) -> int:
        """Workers that hold something."""
        return sum(1 for pool in self.pools.values() for worker in pool.workers.values() if worker.book.held)

    @property
    def wants_machine(self) -> bool:
        """Whether it matters how busy the machine is: some pool wants to grow."""
        return any(pool.scale.wants_machine for pool in self.pools.values())

    @property
    def unfinished(self) -> bool:
        """Whether another turn is wanted at once: what takes long for a large run comes in slices (rule R5)."""
        return self.scheduler.unfinished

    @property
    def wants_told(self) -> bool:
        """Whether it matters what the sessions have in their hands."""
        return self.scheduler.book.crowded

    @property
    def intake_open(self) -> bool:
        """Whether submissions may be read now; otherwise they wait in their queues (guarantee G5)."""
        return not (self.scheduler.full or self.persister.back_pressure or len(self._outbox) > limits.OUTBOX_TELLS_MAX)

    def watched(self) -> list[int]:
        """Workers to observe."""
        return [worker for pool in self.pools.values() for worker in pool.watched()]

    def open_serials(self, worker: int) -> list[int]:
        """Serials that a worker holds."""
        pool = self._pool_of.get(worker)
        return [] if pool is None else pool.open_serials(worker)

    def held(self) -> int:
        """Leases at all workers."""
        return sum(pool.held() for pool in self.pools.values())

    def running_nodes(self) -> Iterator[RunningNode]:
        """What runs, as of the latest look at the workers."""
        return running_nodes(self.pools)

    def check_invariants(self) -> None:
        """Run every actor's checks, and those between them."""
        self.scheduler.check_invariants()
        self.persister.check_invariants()
        for pool in self.pools.values():
            pool.check_invariants()

    # --- routing --------------------------------------------------------------------------------------------------

    def _round(self, queue: list[Any]) -> list[Any]:
        """Give each message to its actor; returns what they tell each other."""
        to_scheduler: list[Any] = []
        to_supervisor: list[Any] = []
        to_pools: dict[str, list[Any]] = {}
        to_log: list[Any] = []
        for message in queue:
            route = _ROUTES.get(type(message))
            if route is None:
                to_scheduler.append(message)
            elif route == _POOL:
                self._sort_for_pool(message, to_pools)
            elif route == _LOG:
                to_log.append(message)
            elif route == _SUPERVISOR:
                to_supervisor.append(message)
            elif route == _SEVERAL:
                self._sort_for_several(message, to_pools, to_scheduler, to_supervisor)
            elif route == _ASKED:
                self._asked.append(message)
            else:
                self._take(message)
        told: list[Any] = []
        for name, batch in to_pools.items():
            for message in self.pools[name].receive(batch, self._now_ns):
                if not self._take(message):
                    supervised = _ROUTES.get(type(message)) == _SUPERVISOR
                    (to_supervisor if supervised else to_scheduler).append(message)
        if to_scheduler:
            told += self.scheduler.receive(to_scheduler, self._now_ns, self._wall_ns)
        if to_supervisor:
            told += self.supervisor.receive(to_supervisor, self._now_ns)
        if to_log:
            self._commit(to_log)
        return [m for m in told if not self._take(m)]

    def _answers(self) -> list[Any]:
        """Answer what was asked. The answers know what came with the questions: what workers were just seen to run, and
        what may start since and has found a worker or not."""
        asked, self._asked = self._asked, []
        left: list[Any] = []
        for question in asked:
            for answer in self.queries.answer(question, self._now_ns, self._wall_ns):
                left += [m for m in self.scheduler.taken() if not self._take(m)]  # what was changed is logged first
                self._answer(answer)
        return left or (self._dispatch() if asked else left)

    def _sort_for_pool(self, message: Any, to_pools: dict[str, list[Any]]) -> None:
        if type(message) is msg.WorkerAdded:
            self._pool_of[message.worker] = self.pools[message.node_type]
        pool = self._pool_of.get(message.worker)
        if pool is None:
            return
        to_pools.setdefault(pool.name, []).append(message)
        if type(message) is msg.WorkerExited:
            del self._pool_of[message.worker]

    def _sort_for_several(
        self, message: Any, to_pools: dict[str, list[Any]], to_scheduler: list[Any], to_supervisor: list[Any]
    ) -> None:
        kind = type(message)
        if kind is log.CheckpointTaken or kind is log.CheckpointFailed:
            self.persister.checkpoints.ended(message, self._now_ns)
            to_scheduler += [message] if kind is log.CheckpointTaken else []
            return
        if kind is msg.Drain:
            self.scheduler.draining = True
        for name in (message.node_type,) if kind is msg.PoolDelayed else self.pools:
            to_pools.setdefault(name, []).append(message)
        if kind is msg.TimePassed:
            to_scheduler.append(message)
            to_supervisor.append(message)

    def _take(self, message: Any) -> bool:
        """Keep effects; False when it is a message to an actor."""
        route = _ROUTES.get(type(message))
        if route == _RECORD:
            self._records.append(message)
        elif route == _EFFECT:
            kind = type(message)
            if kind is fx.Tell:
                if message.frame == "Q":
                    self._answer(message)
                else:
                    self._outbox.append(message)
            elif kind is fx.RaiseFloor:
                self._floor = max(self._floor, message.lsn)
            else:
                self._effects.append(message)
        else:
            return False
        return True

    def _dispatch(self) -> list[Any]:
        """Give ready work to workers with room; returns what pools want beyond that."""
        told: list[Any] = []
        scheduler = self.scheduler
        for name, pool in by_need(self.pools, scheduler.giving):
            queue = scheduler.ready[name]
            while queue.size and (offer := offer_over(pool, queue.best_class(), self._now_ns)) is not None:
                if not self._lease(pool, offer):
                    break
            while queue.size and (offer := pool.offer(queue.size)) is not None:
                if not self._lease(pool, offer):
                    break
            if queue.size or pool.uneven:
                told += [m for m in balance(pool, queue.size) if not self._take(m)]
            if len(pool.workers) > 1:
                self._effects += ask_results(pool, queue.size)
        if scheduler.giving.denied:
            self._effects += give_way(self, self._now_ns)
        return told

    def _lease(self, pool: WorkerPool, offer: msg.Offer) -> bool:
        """Give what an offer has room for; False when the queue is as it was."""
        scheduler = self.scheduler
        before = scheduler.ready[pool.name].size
        if scheduler.giving.divides(pool.name, offer.worst):
            offer = with_places(pool, offer)
        if pool.name in scheduler.giving.batches.types:
            offer = with_windows(pool, offer)
        grants = [g for g in scheduler.give(offer) if not self._take(g)]
        self._effects += pool.lease(grants, self._now_ns)
        return bool(grants) or scheduler.ready[pool.name].size != before

    def _commit(self, events: list[Any]) -> None:
        batch: list[Any] = events
        if self._records:
            batch.append(log.Append(self._records))
            self._records = []
        wanted = self._outbox[-1].lsn if self._outbox else 0
        if self.supervisor.draining:
            wanted = self.scheduler.lsn
        if wanted > self._wanted_lsn:
            self._wanted_lsn = wanted
            batch.append(log.Wanted(wanted))
        if self._floor:
            batch.append(log.FloorRaised(self.persister.checkpoints.floor(self._floor)))
            self._floor = 0
        if batch or not self.persister.settled or self.persister.checkpoints.due:
            for effect in self.persister.receive(batch, self._now_ns):
                handler = self._from_log.get(type(effect))
                if handler is None:
                    self._effects.append(effect)
                else:
                    handler(self, effect)
        durable = self.persister.durable_lsn
        outbox = self._outbox
        while outbox and outbox[0].lsn <= durable:
            self._effects.append(outbox.popleft())

    def _answer(self, answer: fx.Tell) -> None:
        """Answers wait for the log, as all that is told; but nobody who asks waits for a person to make room."""
        if answer.lsn <= self.persister.durable_lsn:
            self._effects.append(answer)
        elif self._stalled is not None:
            self._effects.append(answer._replace(body=[answer.body[0], None, self._stalled]))
        else:
            self._outbox.append(answer)

    def _stall(self, code: str, message: str) -> None:
        """The log does not go on by itself: tell so to those whose answers wait for it."""
        self._stalled = {"code": code, "message": message}
        waiting = list(self._outbox)
        self._outbox = deque(tell for tell in waiting if tell.frame != "Q")
        for tell in waiting:
            if tell.frame == "Q":
                self._answer(tell)

    def _on_pause(self, effect: log.Pause) -> None:
        self._announce("MS206", effect.message)
        self._stall("MS206", effect.message)

    def _on_resume(self, effect: log.Resume) -> None:
        self._stalled = None
        self._announce("", "there is room on the disk again")

    def _on_halt(self, effect: log.Halt) -> None:
        self._effects.append(fx.Refuse("MS207", effect.message))
        self._stall("MS207", effect.message)

    def _on_wake(self, effect: log.RetryAt) -> None:
        self._effects.append(fx.WakeAt(effect.at_ns))

    def _on_durable(self, effect: log.Durable) -> None:
        """The outbox is emptied after every commit."""

    def _announce(self, code: str, text: str) -> None:
        self._effects.append(fx.Announce(code, text))

    _from_log: Final[dict[type, Callable[[Any, Any], None]]] = {
        log.Pause: _on_pause,
        log.Resume: _on_resume,
        log.Halt: _on_halt,
        log.RetryAt: _on_wake,
        log.Durable: _on_durable,
    }

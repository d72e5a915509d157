"""A worker on a virtual clock: it decides as a real one does (`actors.worker.WorkerDesk`), and only pretends to run.

What a task takes, and how it ends, is asked of the world (`Script`). Mode "process": one after the other, in chunks,
results sent when time is up or a task may take long; what is claimed behind a long task goes back. Mode "asyncio": up
to `slots` at once, each answered when it ends.

Known limits: claims cost nothing, and nothing crashes: an attempt that took its worker with it fails as it did, and the
worker goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from actors.protocol import effects as fx
from actors.protocol import messages as msg
from actors.worker import STOP_KINDS, WorkChunk, WorkerDesk, WorkGroup

HOP_NS: Final = 100_000
"""From a worker to the engine or back: the message, and waking who waits for it."""
LATE_NS: Final = 5_000_000
"""What is claimed behind a task that runs longer goes back; the same as in a worker process."""
RAW: Final = b"[0,[]]"
"""Stands for the frame of results, which nobody reads here."""


class Ending(NamedTuple):
    """How an attempt goes: how long it takes, what is wrong in the end, and what it adds to its run."""

    took_ns: int
    failure: dict[str, Any] | None = None
    block: bytes | None = None


class Script(Protocol):
    """What a worker asks and tells of the world."""

    now_ns: int

    def at(self, due_ns: int, action: Callable[[], None]) -> None:
        """Do this then."""

    def ending(self, run: Any, node: int, attempt: int) -> Ending:
        """How this attempt goes."""

    def ran(self, run: Any, node: int, start_ns: int, end_ns: int) -> None:
        """An attempt is over."""

    def say(self, message: Any, *, alone: bool = False) -> None:
        """Send a message to the engine; `alone` in a turn of its own."""


@dataclass(slots=True)
class PlayedAttempt:
    """One attempt that is claimed."""

    serial: int
    run: Any
    node: int
    start_ns: int
    end_ns: int
    ending: Ending


@dataclass(slots=True)
class Results:
    """What was not sent yet."""

    groups: list[list[Any]] = field(default_factory=list)
    failed: list[list[Any]] = field(default_factory=list)
    blocks: list[tuple[int, bytes]] = field(default_factory=list)
    last: Any = None
    """Run and next serial and node of the last group, which may be extended."""


class VirtualWorker:
    """One worker of mode "process". `kinds` are by number."""

    def __init__(self, number: int, node_type: str, script: Script) -> None:
        self.number = number
        self.node_type = node_type
        self.hello_ns = 0
        self.desk = WorkerDesk()
        self.asked = False
        self.current = 0
        self.started_ns = 0
        self.tasks = 0
        self.alive = True
        self._script = script
        self._pending: set[int] = set()
        self._results = Results()
        self._busy = False
        self._running_now: tuple[WorkChunk, list[PlayedAttempt]] | None = None
        self._turns = 0

    # --- told -----------------------------------------------------------------------------------------------------

    def lease(self, effects: Sequence[fx.LeaseWork]) -> None:
        """The engine enters leases in the table; the message comes later."""
        for effect in effects:
            self._pending.update(range(effect.serial, effect.serial + len(effect.nodes)))
        self._script.at(self._script.now_ns + HOP_NS, lambda: self._arrived(effects))

    def _arrived(self, effects: Sequence[fx.LeaseWork]) -> None:
        batch: list[fx.LeaseWork] = []
        for effect in effects:
            if batch and effect.batch != batch[0].batch:
                self._accept_batch(batch)
                batch = []
            if effect.batch:
                batch.append(effect)
            else:
                self._accept([effect], ())
        if batch:
            self._accept_batch(batch)
        self._go_on()

    def _accept_batch(self, batch: list[fx.LeaseWork]) -> None:
        runs = [(effect.run.no, effect.run.key) for effect in batch for _ in effect.nodes]
        self._accept(batch, runs)

    def _accept(self, effects: Sequence[fx.LeaseWork], runs: Sequence[tuple[int, str]]) -> None:
        """Items are what the world knows them by: run, node and attempt."""
        first = effects[0]
        nodes: Sequence[int] = first.nodes if len(effects) == 1 else [n for e in effects for n in e.nodes]
        owners = [effect.run for effect in effects for _ in effect.nodes] if runs else [first.run] * len(nodes)
        attempts = (
            [a for e in effects for a in e.attempts or [1] * len(e.nodes)] if len(effects) > 1 else first.attempts
        )
        self.desk.accept(
            WorkGroup(
                first.serial,
                first.run.no,
                first.run.key,
                first.kind.no,
                nodes,
                attempts,
                owners,
                plain=True,
                lane=first.kind.priority,
                runs=runs,
            )
        )

    def revoke(self, serials: Sequence[int]) -> tuple[int, ...]:
        """Take back what is not claimed; returns what was."""
        won = tuple(serial for serial in serials if serial in self._pending)
        self._pending.difference_update(won)
        return won

    def stop(self, serial: int, reason: int) -> None:
        """An attempt shall not start; or end, which it does at once, as a handler that heeds it."""
        now_ns, place = self._script.now_ns, 0
        chunk, attempts = self._running_now or (None, [])
        for place, attempt in enumerate(attempts):
            if attempt.serial == serial and chunk is not None and attempt.start_ns <= now_ns < attempt.end_ns:
                attempt.end_ns, attempt.ending = now_ns, Ending(0, _stopped(reason))
                self._pending.update(later.serial for later in attempts[place + 1 :])
                self._run(chunk, attempts[: place + 1], serial + 1 - chunk.serial)
                return
        self.desk.stop(serial, reason)

    def drain(self) -> None:
        """Claim nothing more, and end."""
        self.desk.drain()
        if not self._busy:
            self._end()

    # --- running --------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Claim and run the next chunk, unless one runs."""
        if self._busy or not self.alive:
            return
        now_ns = self._script.now_ns
        while (chunk := self.desk.next_chunk(now_ns=now_ns)) is not None:
            if self._waiting and self.desk.must_flush(chunk, now_ns, asked=self.asked):
                self._flush()
            attempts, passed_over = self._claimed(chunk, now_ns)
            if attempts:
                self.current, self.started_ns = attempts[0].serial, now_ns
                self._run(chunk, attempts, passed_over)
                return
            self.desk.leave(chunk, chunk.size)
        self._flush()
        if self.desk.draining:
            self._end()

    def _run(self, chunk: WorkChunk, attempts: list[PlayedAttempt], done: int) -> None:
        """Be busy until the last of these ends; what was to happen before is off."""
        self._busy, self._running_now = True, (chunk, attempts)
        self._turns = turn = self._turns + 1

        def over() -> None:
            if turn == self._turns:
                self._ended(chunk, attempts, done)

        self._script.at(attempts[-1].end_ns, over)

    def _claimed(self, chunk: WorkChunk, now_ns: int) -> tuple[list[PlayedAttempt], int]:
        """Attempts of a chunk, and how many of its leases are done with then."""
        group, at_ns = chunk.group, now_ns
        found: list[PlayedAttempt] = []
        as_one = bool(group.runs)
        for place in range(chunk.start, chunk.start + chunk.size):
            if at_ns - now_ns > LATE_NS and not as_one:
                return found, place - chunk.start
            serial, run, node = group.serial + place, group.items[place], group.nodes[place]
            if serial not in self._pending:
                continue
            self._pending.remove(serial)
            if self.desk.has_stops and (reason := self.desk.stop_reason(serial)):
                found.append(PlayedAttempt(serial, run, node, at_ns, at_ns, Ending(0, _stopped(reason))))
                continue
            number: Any = group.attempts[place] if group.attempts else 1  # with the ends of its calls, if it had some
            ending = self._script.ending(run, node, number[0] if isinstance(number, list) else number)
            end_ns = (now_ns if as_one else at_ns) + ending.took_ns
            found.append(PlayedAttempt(serial, run, node, now_ns if as_one else at_ns, end_ns, ending))
            at_ns = max(at_ns, end_ns)
        if as_one:
            for call in found:
                call.end_ns = at_ns
        return found, chunk.size

    def _ended(self, chunk: WorkChunk, attempts: list[PlayedAttempt], done: int) -> None:
        if not self.alive:
            return
        self._busy, self.current, self._running_now = False, 0, None
        for attempt in attempts:
            self._enter(attempt)
        self.desk.leave(chunk, done)
        self.desk.ran(chunk.group.kind_no, len(attempts), attempts[-1].end_ns - self.started_ns)
        self.tasks += len(attempts)
        self._go_on()

    def _enter(self, attempt: PlayedAttempt) -> None:
        """An attempt is over: keep what is to be sent."""
        serial, run, node, ending = attempt.serial, attempt.run, attempt.node, attempt.ending
        start_ns, end_ns = attempt.start_ns, attempt.end_ns
        self._script.ran(run, node, start_ns, end_ns)
        results = self._results
        if ending.block is not None:
            results.blocks.append((serial, ending.block))
        if ending.failure is not None:
            results.failed.append([serial, run.no, node, start_ns, end_ns, ending.failure])
            return
        if results.last == (run, serial, start_ns) and ending.block is None:
            group = results.groups[-1]
            group[2].append(node)
            group[3].append(None)
            group[5].append(end_ns - group[4])
        else:
            results.groups.append([serial, run.no, [node], [None], start_ns, [end_ns - start_ns]])
        results.last = None if ending.block is not None else (run, serial + 1, end_ns)

    @property
    def is_busy(self) -> bool:
        """Whether it runs something."""
        return self._busy

    @property
    def _waiting(self) -> bool:
        return bool(self._results.groups or self._results.failed)

    def _flush(self) -> None:
        """Send what there is. What adds nodes has a turn of its own, so that the world sees which they are."""
        results, self._results = self._results, Results()
        self.desk.flushed(self._script.now_ns)
        say, passed = self._script.say, self.desk.passed
        blocks = dict(results.blocks)
        for serial, block in results.blocks:
            say((self.number, serial, block))
        if results.groups:
            alone = [group for group in results.groups if group[0] in blocks]
            others = [group for group in results.groups if group[0] not in blocks] if alone else results.groups
            if others:
                say(msg.WorkerDone(self.number, others, RAW, passed))
            for group in alone:
                say(msg.WorkerDone(self.number, [group], RAW, passed), alone=True)
        for row in results.failed:
            say(msg.WorkerFailed(self.number, [row], passed), alone=row[0] in blocks)

    def observed(self) -> msg.WorkerObserved:
        """What the engine sees of it from outside."""
        return msg.WorkerObserved(
            self.number, self.current, self.started_ns if self.current else 0, 0, self.tasks, passed=self.desk.passed
        )

    def _end(self) -> None:
        if self.alive:
            self._flush()
            self.alive = False
            self._script.say(msg.WorkerExited(self.number, "drained", 0, 0, 0, ()))

    def die(self, status: str, number: int) -> None:
        """Killed."""
        if self.alive:
            self.alive = False
            self._script.say(msg.WorkerExited(self.number, status, number, self.current, self.started_ns, ()))


class VirtualAsyncWorker(VirtualWorker):
    """One of mode "asyncio", with `slots` attempts at once."""

    def __init__(self, number: int, node_type: str, script: Script, slots: int) -> None:
        super().__init__(number, node_type, script)
        self._slots = slots
        self._running: dict[int, PlayedAttempt] = {}

    def _go_on(self) -> None:
        if not self.alive:
            return
        now_ns = self._script.now_ns
        while room := self._slots - len(self._running):
            chunk = self.desk.next_chunk(room, now_ns=now_ns, by_duration=False)
            if chunk is None:
                break
            attempts, _ = self._claimed(chunk, now_ns)
            self.desk.leave(chunk, chunk.size)
            for attempt in attempts:
                attempt.start_ns, attempt.end_ns = now_ns, now_ns + attempt.ending.took_ns
                self._running[attempt.serial] = attempt
                self._script.at(attempt.end_ns, lambda a=attempt: self._one_ended(a))  # type: ignore[misc]
        self._busy = bool(self._running)
        if not self._busy:
            self._flush()
            if self.desk.draining:
                self._end()

    def _claimed(self, chunk: WorkChunk, now_ns: int) -> tuple[list[PlayedAttempt], int]:
        """All of it: they do not wait for each other."""
        found: list[PlayedAttempt] = []
        for place in range(chunk.size):
            single = WorkChunk(chunk.group, chunk.start + place, 1)
            found += super()._claimed(single, now_ns)[0]
        return found, chunk.size

    def _one_ended(self, attempt: PlayedAttempt) -> None:
        if not self.alive or self._running.pop(attempt.serial, None) is None:
            return
        self._enter(attempt)
        self.tasks += 1
        self._flush()
        self._go_on()

    def stop(self, serial: int, reason: int) -> None:
        """An attempt that runs ends at once, as a handler that heeds it does."""
        attempt = self._running.get(serial)
        if attempt is None:
            super().stop(serial, reason)
            return
        attempt.ending, attempt.end_ns = Ending(0, _stopped(reason)), self._script.now_ns
        self._one_ended(attempt)

    def observed(self) -> msg.WorkerObserved:
        running = tuple((serial, attempt.start_ns) for serial, attempt in self._running.items())
        return msg.WorkerObserved(self.number, 0, 0, 0, self.tasks, running=running, passed=self.desk.passed)


def _stopped(reason: int) -> dict[str, Any]:
    return {"kind": str(STOP_KINDS[reason]), "type": "AttemptCancelled", "message": "stopped", "traceback": ""}

"""Mode "asyncio": many tasks at once on one uvloop loop, for work that waits more than it computes.

A turn: take mail, start what there is room for, send the results that came since the last turn; then arm the link and
let the loop sleep. Results batch by themselves: whatever ended within one turn of the loop goes as one frame.

States of an attempt: claimed -> started -> ended. Up to `slots` are claimed at once, and what is claimed starts in the
same turn, so RUNNING in the lease table means running here; each has its start in its slot's word, CURRENT stays 0.

A handler that is no coroutine function runs in a pool of at most `THREADS_MAX` threads, with a copy of its attempt's
context variables. A stop request cancels the task of a coroutine; in a thread it raises AttemptCancelled or
AttemptTimeout, which arrives when the thread executes bytecode next. Timeouts are kept here too, because only here each
start is known exactly.

Concurrency: all state belongs to the loop's thread, except `Attempt.thread` and `Attempt.reason`, which change under
`_threads`. Critical sections of threads contain no call, so that the asynchronous exception cannot arrive inside them.
Known limits: as for any asyncio program, a handler that computes for long holds up the others; what a handler leaves
running in the loop goes on; child processes cannot be told apart by who started them, so a coroutine that is stopped
ends its own (`try` and `finally`), and only those of a worker that is killed are found; an attempt in a thread that
sits in a C call is ended only with its worker.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic_ns
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final

from actors.protocol.errors import DiskFull, HandlerRefused
from actors.worker import WorkGroup
from runtime.context import TaskContext
from runtime.host.async_attempt import Attempt
from runtime.host.async_pools import AsyncPools, lent_value
from runtime.host.attempts import (
    ROOM_S,
    arguments,
    deadline_of,
    encode_result,
    insert_context,
    needs_settling,
    new_loop,
)
from runtime.host.batches import BatchCall
from runtime.host.batches_async import run_batch
from runtime.host.handlers import Handler
from runtime.host.housekeeping import end_own_group
from runtime.host.results import Place
from runtime.host.station import Station, stop_signal
from runtime.host.timeouts import TimeoutQueues
from runtime.mail.lease_table import PASSED, SLOT_MASK
from runtime.mail.link import RECHECK_NS
from runtime.mail.ring import ORDERED_MACHINE
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import EXECUTOR
from runtime.profile.ledger.pins import PINS, of_attempts
from runtime.profile.ledger.tasks import LoopBooks, enter_attempt
from runtime.profile.sampling import always
from runtime.profile.sampling.labels import LABELS, carrying

THREADS_MAX: Final = 32
"""Threads for handlers that are no coroutine functions; those beyond wait for one."""
CHILDREN_LOOK_S: Final = 0.2
_TIMEOUT: Final = 2
SERIAL: Final[contextvars.ContextVar[int]] = contextvars.ContextVar("mainspring_serial", default=0)
"""Serial of the attempt that the running code belongs to; 0 for none. Attributes output."""


class AsyncWorker:
    """See the head of the file."""

    def __init__(self, station: Station, lifeline: int) -> None:
        self.station = station
        self._link = station.link
        self._desk = station.desk
        self._words = station.table.words
        self._slots: int = station.config["node_type"]["slots"]
        self._lifeline = lifeline
        self._loop = new_loop()
        self._running: dict[int, Attempt] = {}
        self._threads = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._books = LoopBooks(self._loop)
        self._backlog: deque[bytes] = deque()
        self._backlog_control: deque[bytes] = deque()
        self.timeouts = TimeoutQueues(self._loop, self._timed_out)
        node_type = station.config["node_type"].get("name", "")
        always.dress(self, node_type, "_run", "_call")
        self._run_batch = always.dressed(run_batch, node_type)
        self._turn_asked = False
        self._armed_ns = 0
        self._recheck_planned = False
        self._children_planned = False
        self._finished = False
        self.pools = AsyncPools(self._loop, self._slots)

    def run(self, booted_ns: int) -> None:
        """Serve until told to drain."""
        signal.signal(signal.SIGUSR1, lambda *_: None)  # stop requests come by mail; see `_stop`
        loop, link = self._loop, self._link
        asyncio.set_event_loop(loop)
        self._books.install()
        always.begin_loop(loop, enters=self._books.enters)
        always.begin_executor(loop)
        self.station.hello(booted_ns)
        loop.add_reader(link.fileno(), self._rung)
        PINS.append(partial(of_attempts, self._running))
        if self._lifeline >= 0:
            loop.add_reader(self._lifeline, end_own_group)
        self._ask_turn()
        while not self._finished:
            loop.call_soon(self._books.begin_run)
            try:
                loop.run_forever()
            except BaseException:  # SystemExit and the like out of a task that a handler left behind
                traceback.print_exc()
        self.pools.close(monotonic_ns(), self.tell)
        link.disarm()
        self.station.flush(monotonic_ns())
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    # --- turns ----------------------------------------------------------------------------------------------------

    def _rung(self) -> None:
        self._link.drain_bell()
        self._ask_turn()

    def _ask_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_asked = False
        for serial, reason in self.station.take_mail():
            attempt = self._running.get(serial)
            if attempt is not None:
                self._stop(attempt, reason)
        self._send()
        if not self._backlog:
            self._start_waiting()
        if self._desk.draining and not self._running and not self._backlog:
            self._finished = True
            self._loop.stop()
        elif not self._turn_asked:
            self._sleep()

    def _sleep(self) -> None:
        if not self._link.arm():
            self._ask_turn()
            return
        self._armed_ns = monotonic_ns()
        self.pools.plan(self._ask_turn)
        if not (ORDERED_MACHINE or self._recheck_planned):
            self._recheck_planned = True
            self._loop.call_later(RECHECK_NS / 1e9, self._recheck)
        if not self._running and not self._children_planned:
            self._look_at_children()

    def _recheck(self) -> None:
        """The net under the wake-ups: see `runtime.mail.link`."""
        left_ns = RECHECK_NS - (monotonic_ns() - self._armed_ns)
        if left_ns > 0:
            self._loop.call_later(left_ns / 1e9, self._recheck)
            return
        self._recheck_planned = False
        if self._link.pending():
            self._ask_turn()

    def _look_at_children(self) -> None:
        """Idle: reap what handlers left behind, for as long as there is something."""
        self._children_planned = not self._running and self.station.dead_children.reap()
        if self._children_planned:
            self._loop.call_later(CHILDREN_LOOK_S, self._look_at_children)

    # --- sending --------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send what ended; what finds no room goes when the bell says so, and nothing new starts until then."""
        now_ns = monotonic_ns()
        self.station.show_pulse(now_ns)
        with self.station.lock:
            self._backlog.extend(self.station.pile.frames())
        self.pools.report(now_ns, self.tell)
        while self._backlog_control and self._link.send(self._backlog_control[0], control=True):
            self._backlog_control.popleft()
        if self._backlog:
            taken = self._link.send_many(list(self._backlog))
            for _ in range(taken):
                self._backlog.popleft()
        if self._backlog or self._backlog_control:
            self._link.want_room()
        self._desk.flushed(now_ns)

    def tell(self, frame: bytes) -> None:
        """Send on the control lane, from any thread."""
        if threading.current_thread() is not threading.main_thread():
            self._loop.call_soon_threadsafe(self.tell, frame)
        elif self._backlog_control or not self._link.send(frame, control=True):
            self._backlog_control.append(frame)
            self._link.want_room()

    # --- starting -------------------------------------------------------------------------------------------------

    def _start_waiting(self) -> None:
        desk, table = self._desk, self.station.table
        while (room := self._slots - len(self._running)) > 0:
            chunk = desk.next_chunk(room, now_ns=monotonic_ns(), by_duration=False)
            if chunk is None:
                return
            group = chunk.group
            claimed = table.claim(chunk.serial, chunk.size)
            if group.runs:
                self._start_batch(group, claimed)
            else:
                for serial in claimed:
                    self._start(group, serial - group.serial)
            desk.leave(chunk, chunk.size)
            self._words[PASSED] = desk.passed

    def _start(self, group: WorkGroup, at: int) -> None:
        place = Place(group.serial + at, group.run_no, group.run_key, group.nodes[at])
        attempt = Attempt(self, place, group.attempts[at] if group.attempts else 1)
        if self._desk.has_stops:
            attempt.reason = self._desk.stop_reason(place.serial)
        self._running[place.serial] = attempt
        attempt.task = asyncio.Task(self._run(attempt, group, at), loop=self._loop)

    def _start_batch(self, group: WorkGroup, claimed: Sequence[int]) -> None:
        """Run claimed leases of a batch as one call, in the name of the first of them."""
        if not claimed:
            return
        batch = BatchCall(self.station, group, claimed)
        attempt = Attempt(self, batch.places[0], batch.attempt)
        attempt.batch = batch.places
        if self._desk.has_stops:
            attempt.reason = max(map(self._desk.stop_reason, claimed))
        self._running[claimed[0]] = attempt
        attempt.task = asyncio.Task(self._run_batch(self, attempt, batch, group.kind_no), loop=self._loop)

    def show_start(self, attempt: Attempt, now_ns: int) -> int:
        """A batch begins: show it, of all its leases. Returns the time."""
        for place in attempt.batch:
            self._words[place.serial & SLOT_MASK] = now_ns
        SERIAL.set(attempt.place.serial)
        return now_ns

    async def _run(self, attempt: Attempt, group: WorkGroup, at: int) -> None:
        """All of an attempt. Nothing leaves this coroutine, because the loop takes SystemExit for its own end."""
        place = attempt.place
        started_ns = attempt.started_ns = self._words[place.serial & SLOT_MASK] = monotonic_ns()
        SERIAL.set(place.serial)
        LABELS.set(self.station.scope(group, at))
        context: TaskContext | None = None
        try:
            if attempt.reason:
                raise stop_signal(attempt.reason)
            handler = self.station.known_handler(group.kind_no) or self.station.find_handler(group.kind_no)
            attempt.handler = handler
            attempt.token = enter_attempt(attempt.task, place, handler.code)
            attempt.deadline_ns = deadline_of(group, at, handler.timeout_ns, started_ns)
            if handler.timeout_ns is not None:
                self.timeouts.add(group.kind_no, started_ns + handler.timeout_ns, place.serial)
            args, kwargs = arguments(self.station, handler, group.items[at], group.plain)
            if handler.context_arg is not None:
                context = TaskContext(attempt)
                insert_context(handler, args, kwargs, context)
            if handler.pools:
                value, exc = await lent_value(self, attempt, handler, args, kwargs, context)
            elif handler.coroutine:
                value, exc = await handler.fn(*args, **kwargs), None
            else:
                value, exc = await self.in_thread(attempt, handler, args, kwargs)
            if exc is not None:
                raise exc
            if not handler.pools and needs_settling(value):
                value = await self.settled(handler, value, place.run_key)
            spawned = context.spawned() if context is not None else None
        except BaseException as exc:
            ending = exc if context is None else context.ending(exc)
            self.ended(attempt)
            self.station.fail(place, started_ns, ending, stopped=attempt.reason, handler=attempt.handler)
            return
        finally:
            if context is not None:
                context.close()
        ended_ns = self.ended(attempt)
        with self.station.lock:
            if spawned is not None:
                self.station.pile.spawned(spawned)
            self.station.pile.result(place, value, started_ns, ended_ns)

    async def settled(self, handler: Handler, value: Any, run_key: str) -> Any:
        """A result as it is kept; awaits what a plain function returned to be awaited."""
        kind = type(value)
        if kind is CoroutineType or hasattr(kind, "__await__"):
            value = await value
        if issubclass(type(value), (GeneratorType, AsyncGeneratorType)):
            raise HandlerRefused("the handler returned a generator, which has no value; return a list instead")
        while True:
            try:
                return encode_result(self.station, value, handler.pickle, run_key)
            except DiskFull:
                await asyncio.sleep(ROOM_S)

    def ended(self, attempt: Attempt) -> int:
        ended_ns = monotonic_ns()
        LEDGER.release(attempt.token)
        del self._running[attempt.place.serial]
        self.station.tasks_done += len(attempt.batch) or 1
        self.station.busy_ns += ended_ns - attempt.started_ns
        self._ask_turn()
        return ended_ns

    # --- threads --------------------------------------------------------------------------------------------------

    def in_thread(
        self, attempt: Attempt, handler: Handler, args: list[Any], kwargs: dict[str, Any]
    ) -> asyncio.Future[tuple[Any, BaseException | None]]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(self._slots, THREADS_MAX), "mainspring-handler")
            LEDGER.track(EXECUTOR, "mainspring-handler", daemon=True)
        return self._loop.run_in_executor(self._pool, carrying(), self._call, attempt, handler.fn, args, kwargs)

    def _call(
        self, attempt: Attempt, fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[Any, BaseException | None]:
        """In a thread: call the handler. Exceptions are returned, because a future does not take all of them."""
        me = threading.get_ident()
        try:
            with self._threads:
                attempt.thread = me
                reason = attempt.reason
            try:
                if reason:
                    raise stop_signal(reason)
                value = fn(*args, **kwargs)
            finally:
                with self._threads:
                    attempt.thread = 0
        except BaseException as exc:
            return None, exc
        return value, None

    # --- stopping -------------------------------------------------------------------------------------------------

    def _stop(self, attempt: Attempt, reason: int) -> None:
        """Ask an attempt to end. One that has not started sees the reason itself."""
        with self._threads:
            already = attempt.reason
            attempt.reason = already or reason
            thread = attempt.thread
            if thread and not already:
                _raise_in_thread(thread, reason)
        if already or thread or attempt.task is None or not attempt.started_ns:
            return
        attempt.task.cancel()

    def _timed_out(self, serial: int) -> None:
        attempt = self._running.get(serial)
        if attempt is not None:
            self._stop(attempt, _TIMEOUT)


def _raise_in_thread(thread: int, reason: int) -> None:
    """Raise the control signal in a thread, at its next bytecode."""
    exception = ctypes.py_object(type(stop_signal(reason)))
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)

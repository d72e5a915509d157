"""Mode "process": one task at a time, on the main thread, without an event loop underneath.

The loop: take mail, claim a chunk, run it, and send results when time is up, when a task may take long, or when there
is nothing left to do. `_run_simple` is the hot loop: for handlers that take plain arguments it publishes the attempt
(two word stores), calls, and appends; everything else is per chunk or per frame.

Who is being run is the lease table's CURRENT word. It is non-zero only between the first line of a `try` and the end of
the call, so "may an exception be raised here" is one comparison: the handler of SIGUSR1 raises AttemptCancelled or
AttemptTimeout only if the serial that shall stop is CURRENT, and not inside a shield (our own code called by the
handler, see `Shield`). CPython runs signal handlers between bytecodes of calls and backward jumps, never between the
stores around a call.

`attention` is how others make the loop stop between two tasks: a non-empty list. It is looked at after the attempt was
published and before it starts, so that whoever put something there and then reads CURRENT knows what will not be
started.

Known limits: a task finds the world as the one before it left it, except for working folder, standard streams, SIGTERM
and SIGUSR1, which are put back with each sending of results; environment, umask, other signals, module state and
threads are not. A worker that is recycled after each task (`recycle_tasks=1`) finds them fresh.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic_ns
from types import FrameType
from typing import Final

from actors.worker import WorkChunk, WorkGroup
from runtime.host.attempts import AttemptRunner, Stopper
from runtime.host.batches import BatchCall
from runtime.host.handlers import Handler
from runtime.host.housekeeping import Housekeeper, end_leftovers
from runtime.host.linger import WORKER_LINGER_NS, Lingerer
from runtime.host.results import BARE, TEXT_CHARS_MAX, Place
from runtime.host.station import Station, default_signals, signal_handler
from runtime.mail.lease_table import BUSY_NS, CURRENT, PASSED, RESULTS_ASKED, SLOT_MASK, TASKS_DONE
from runtime.profile.sampling import always
from runtime.profile.sampling.labels import label_main

CHILDREN_LOOK_S: Final = 0.2
"""Between two looks at children while they live and the worker is idle."""
CHILDREN_LOOK_NS: Final = 1_000_000_000
"""Between two looks at children while the worker is busy."""
LATE_NS: Final = 5_000_000
"""A result that waits longer than this behind a running task is sent by the housekeeper."""


class ProcessWorker:
    """See the head of the file."""

    def __init__(self, station: Station, lifeline: int) -> None:
        self._station = station
        self._desk = station.desk
        self._table = station.table
        self._words = station.table.words
        self._lingerer = Lingerer(station.link, WORKER_LINGER_NS)
        self._attention: list[str] = []
        self._stopper = Stopper()
        self._runner = AttemptRunner(station, self._stopper)
        self._keeper = Housekeeper(lifeline, self._duty)
        self._folder = os.getcwd()
        self._reaped_ns = 0
        self._claimed_until = 0
        self._released_from = 0
        always.dress(self, station.config["node_type"].get("name", ""), "_run_simple", "_run_general", "_run_batch")

    def run(self, booted_ns: int) -> None:
        """Serve until told to drain."""
        signal.signal(signal.SIGUSR1, self._stop_asked)
        os.register_at_fork(after_in_child=self._forked)
        self._keeper.start()
        station, desk, words = self._station, self._desk, self._words
        station.hello(booted_ns)
        while True:
            station.take_mail()
            now_ns = monotonic_ns()
            chunk = desk.next_chunk(now_ns=now_ns)
            if chunk is not None:
                if station.pile.waiting and desk.must_flush(chunk, now_ns, asked=bool(words[RESULTS_ASKED])):
                    self._flush(now_ns)
                    if desk.may_take_long(chunk):  # the engine, if it waits for this core, waits until a tick otherwise
                        os.sched_yield()
                self._run_chunk(chunk)
            else:
                self._flush(now_ns)
                if desk.draining:
                    break
                self._idle()
        self._keeper.end()
        if self._runner.pools is not None:
            self._runner.pools.close()
            self._tell_pools(monotonic_ns(), last=True)

    # --- between chunks -------------------------------------------------------------------------------------------

    def _idle(self) -> None:
        link, children = self._station.link, self._station.dead_children
        if self._lingerer.linger():
            return
        pools = self._runner.pools
        while True:
            patience_s = CHILDREN_LOOK_S if children.reap() else None
            if link.wait(patience_s if pools is None else pools.patience_s(patience_s)):
                return
            self._tell_pools(monotonic_ns())

    def _tell_pools(self, now_ns: int, *, last: bool = False) -> None:
        pools = self._runner.pools
        if pools is not None and (rows := pools.lender.report(now_ns, last=last)) is not None:
            self._station.tell(b"R", rows)

    def _flush(self, now_ns: int) -> None:
        """Send results; put back what handlers changed, where that is cheap; collect dead children now and then."""
        self._tell_pools(now_ns)  # before the results: a program that has them may end
        self._station.flush(now_ns)
        self._station.streams.restore()
        default_signals()
        if signal_handler(signal.SIGUSR1) != self._stop_asked:
            signal.signal(signal.SIGUSR1, self._stop_asked)
        try:
            moved = os.getcwd() != self._folder
        except OSError:
            moved = True
        if moved:
            with suppress(OSError):  # the folder is gone
                os.chdir(self._folder)
        if now_ns - self._reaped_ns > CHILDREN_LOOK_NS:
            self._reaped_ns = now_ns
            self._station.dead_children.reap()

    # --- running --------------------------------------------------------------------------------------------------

    def _run_chunk(self, chunk: WorkChunk) -> None:
        group, desk = chunk.group, self._desk
        claimed = self._table.claim(chunk.serial, chunk.size)
        started_ns = monotonic_ns()
        self._released_from = 0
        if isinstance(claimed, range) and not group.runs:
            self._claimed_until = chunk.serial + chunk.size
        if self._keeper.parked and (len(claimed) > 1 or self._station.pile.waiting):
            self._keeper.wake()
        if group.runs:
            ran = len(claimed)
            self._run_batch(group, claimed)
            desk.leave(chunk, chunk.size)
        elif isinstance(claimed, range):
            ran = self._run_stretch(group, chunk.start, chunk.start + chunk.size) - chunk.start
            desk.leave(chunk, ran)
        else:
            ran = len(claimed)
            for serial in claimed:
                self._claimed_until = serial + 1
                if self._keeper.parked and self._station.pile.waiting:
                    self._keeper.wake()
                self._run_stretch(group, serial - group.serial, serial - group.serial + 1)
            desk.leave(chunk, chunk.size)
        self._claimed_until = 0
        label_main(None)
        if self._attention:
            self._attend()
        ended_ns = monotonic_ns()
        desk.ran(group.kind_no, ran, ended_ns - started_ns)
        words = self._words
        words[PASSED] = desk.passed
        self._station.tasks_done = words[TASKS_DONE] = words[TASKS_DONE] + ran
        self._station.busy_ns = words[BUSY_NS] = words[BUSY_NS] + ended_ns - started_ns

    def _run_stretch(self, group: WorkGroup, start: int, stop: int) -> int:
        """Run claimed leases of one group, from place `start` up to `stop`. Returns the place where it stopped."""
        handler = self._station.known_handler(group.kind_no)
        while start < stop:
            label_main(self._station.scope(group, start))
            if self._attention:
                self._attend()
                if self._released_from:
                    stop = min(stop, self._released_from - group.serial)
                    continue
            if self._desk.has_stops and (reason := self._desk.stop_reason(group.serial + start)):
                self._runner.stopped_before_start(self._place(group, start), reason)
                start += 1
            elif handler is None:
                handler = self._find_handler(group, start)
                start += handler is None
            elif handler.simple and group.plain:
                start = self._run_simple(group, handler, start, start + 1 if self._desk.has_stops else stop)
            else:
                self._run_general(group, handler, start)
                start += 1
        return start

    # long: the hot loop; a function call for each of its parts would double what a short task costs
    def _run_simple(self, group: WorkGroup, handler: Handler, start: int, stop: int) -> int:
        """Run tasks whose handler is called straight from the item. Returns the place where it stopped.

        Ends early at the first failure, or when `attention` asks for it.
        """
        station, words, attention = self._station, self._words, self._attention
        fn, one, called = handler.fn, handler.shape == "one", handler.shape == "call"
        settle, pickle, run_key = self._runner.settle, handler.pickle, group.run_key
        clock_ns, bare, mask = monotonic_ns, BARE, SLOT_MASK
        serial = group.serial + start
        started_ns = now_ns = clock_ns()
        with station.lock:
            span = station.open_span = station.pile.span(self._place(group, start), group.nodes[start:stop], started_ns)
            started_ns, before = span.started_ns, len(span.ends)
        keep, ended = span.values.append, span.ends.append
        failed: BaseException | None = None
        for item in handler.calls(group.items[start:stop]):
            words[serial & mask] = now_ns
            try:
                words[CURRENT] = serial
                if attention:
                    words[CURRENT] = 0
                    break
                value = fn(item) if one else fn(*item[0], **item[1]) if called else fn(*item)
                if value.__class__ not in bare and (value.__class__ is not str or len(value) > TEXT_CHARS_MAX):
                    value = settle(value, pickle, run_key)
                words[CURRENT] = 0
            except BaseException as exc:
                words[CURRENT] = 0
                failed = exc
                break
            now_ns = clock_ns()
            keep(value)
            ended(now_ns - started_ns)
            serial += 1
        done = len(span.ends)
        with station.lock:
            station.open_span = None
            if done < len(span.nodes):
                span.nodes = span.nodes[:done]
        done -= before
        if failed is not None:
            self._failed(self._place(group, start + done), now_ns, failed, handler)
            failed = None
            done += 1
        return start + done

    def _run_general(self, group: WorkGroup, handler: Handler, at: int) -> None:
        """Run one task of any shape: decode, hand in a context, await."""
        serial, words = group.serial + at, self._words
        started_ns = monotonic_ns()
        words[serial & SLOT_MASK] = started_ns
        place = self._place(group, at)
        try:
            words[CURRENT] = serial
            outcome = self._runner.run(group, handler, at, place, started_ns)
            words[CURRENT] = 0
        except BaseException as exc:
            words[CURRENT] = 0
            self._failed(place, started_ns, exc, handler)
            return
        self._runner.succeeded(place, outcome, started_ns)

    def _run_batch(self, group: WorkGroup, claimed: Sequence[int]) -> None:
        """Run claimed leases of a batch as one call, in the name of the first of them."""
        if self._attention:
            self._attend()
        if not claimed:
            return
        batch, words, stopper = BatchCall(self._station, group, claimed), self._words, self._stopper
        if self._desk.has_stops and (reason := max(map(self._desk.stop_reason, claimed))):
            batch.stopped_before_start(reason)
            return
        label_main(self._station.scope(group, 0))
        started_ns = monotonic_ns()
        for serial in claimed:
            words[serial & SLOT_MASK] = started_ns
        handler = self._station.known_handler(group.kind_no)
        try:
            words[CURRENT] = claimed[0]
            if handler is None:
                with stopper.shield():
                    handler = self._station.find_handler(group.kind_no)
            self._runner.run_batch(batch, handler, started_ns)
            words[CURRENT] = 0
        except BaseException as exc:
            words[CURRENT] = 0
            stopped = stopper.reason_for(claimed[0])
            batch.fail(exc, stopped, handler, started_ns)
            if stopped and end_leftovers(started_ns):
                self._desk.drain()
            return
        batch.enter(handler, started_ns, monotonic_ns())

    def _find_handler(self, group: WorkGroup, at: int) -> Handler | None:
        """Import the handler, as part of the attempt at place `at`: a crash, a hang or an exit in there is its own.

        Who asks to stop waits for its end, or ends this process: an import that is left in the middle cannot be
        repeated, because parts of a package stay in `sys.modules` without being attributes of the new package.
        """
        serial, words = group.serial + at, self._words
        started_ns = monotonic_ns()
        words[serial & SLOT_MASK] = started_ns
        try:
            words[CURRENT] = serial
            with self._stopper.shield():
                handler = self._station.find_handler(group.kind_no)
            words[CURRENT] = 0
        except BaseException as exc:
            words[CURRENT] = 0
            self._failed(self._place(group, at), started_ns, exc, None)
            return None
        return handler

    def _failed(self, place: Place, started_ns: int, exc: BaseException, handler: Handler | None) -> None:
        """Enter a failure. What a stopped attempt had started goes with it, if need be together with this worker."""
        self._runner.failed(place, started_ns, exc, handler)
        if self._stopper.reason_for(place.serial) and end_leftovers(started_ns):
            self._desk.drain()

    @staticmethod
    def _place(group: WorkGroup, at: int) -> Place:
        return Place(group.serial + at, group.run_no, group.run_key, group.nodes[at])

    # --- interruptions --------------------------------------------------------------------------------------------

    def _attend(self) -> None:
        """Between two tasks: see why somebody wanted attention."""
        if "forked" in self._attention:
            os._exit(0)
        with self._station.lock:  # the housekeeper finishes what it is at
            self._attention.clear()
        self._station.take_mail()

    def _forked(self) -> None:
        """In a child that a handler forked: it must not go on as if it were the worker."""
        self._station.lock = threading.Lock()  # its owner is not in this process
        self._attention.append("forked")

    def _stop_asked(self, signum: int, frame: FrameType | None) -> None:
        """SIGUSR1, on the main thread: stop what runs, if it is what shall be stopped."""
        serial, reason = self._table.cancel_asked()
        if serial and serial == self._words[CURRENT]:
            self._stopper.stop(serial, reason)
        else:
            self._attention.append("stop")

    def _duty(self) -> bool:
        """The housekeeper's tick: behind a long task, send the results and release what is claimed and not started.

        Nothing else can come up while that task runs, so after `QUIET_TICKS` the housekeeper rests until it is woken.
        """
        station = self._station
        if not self._claimed_until:
            return False
        serial, started_ns = self._table.current()
        if not serial or monotonic_ns() - started_ns <= LATE_NS:
            return True
        with station.lock:
            waits = bool(station.pile.waiting)
            if waits:
                station.send_results()
            return self._release_behind(serial) or waits

    def _release_behind(self, serial: int) -> bool:
        """Release what is claimed behind this attempt, if it still runs. By the housekeeper, under the lock.

        Returns:
            Whether there was any.

        The main thread starts no other once `attention` is set: it looks there between publishing and starting, and
        `_attend` waits for the lock. So what runs now, after `attention` was set, is the last that was started.
        """
        count = self._claimed_until - serial - 1
        if count <= 0 or self._released_from:
            return False
        self._attention.append("released")
        if self._words[CURRENT] == serial:
            self._table.release(serial + 1, count)
            self._released_from = serial + 1
        return True

"""What the engine says, applied to what is open in this program.

The hot loop is `_results`: hundreds of results of single tasks in one frame, each a dictionary pop and two stores.
A frame without the mark of an extension holds plain values, which are handed on as they are; others are decoded by
whoever asks for them, so that user classes are never imported in the reading thread.

Frames that are delivered again (after a restart of the engine) find nothing open and do nothing. Batches are remembered
for a while after their end, because the rows of a batch that is unknown would look like rows of single tasks.

Concurrency: used under the client's lock. `woken` collects the cells whose hooks are to be called without the lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import MainspringError
from actors.protocol.places import unpacked
from runtime.errors import error_of
from runtime.host.outbox import Outbox
from runtime.host.pending import ENDED, ERROR, FAILED, VALUE, WIRE, AckWait, MapChunk, Numbered, Pending, Query
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from runtime.mail.pins import MARK, Pins

_ACKED: Final = ord("A")
_DUPLICATE: Final = ord("D")
_FAILURES: Final = ord("F")
_ENDINGS: Final = ord("N")
_PROGRESS: Final = ord("P")
_REJECTED: Final = ord("J")
_RESULTS: Final = ord("R")


class Intake:
    """See the module.

    Attributes:
        open: Handles and batches that are not settled, by sequence number.
        watched: Handles of runs that other sessions submitted, by run key.
        queries: Questions without an answer, by number.
        counts: Latest counts of running graphs, by sequence number.
        recovery: What the engine reported about its start.
    """

    def __init__(self, outbox: Outbox, blobs: BlobStore | None = None) -> None:
        self.open: dict[int, Pending] = {}
        self.watched: dict[str, list[Pending]] = {}
        self.queries: dict[int, Query] = {}
        self.ack_waits: deque[AckWait] = deque()
        self.counts: dict[int, list[int]] = {}
        self.recovery: dict[str, Any] = {}
        self._outbox = outbox
        self._pins = Pins(blobs) if blobs is not None else None
        self._batches_ended: set[int] = set()
        self._batches_order: deque[int] = deque()
        self._by_letter: dict[int, Callable[[Any, list[Pending]], None]] = {
            _ACKED: self._acked,
            _DUPLICATE: self._duplicate,
            _FAILURES: self._failures,
            _ENDINGS: self._endings,
            _PROGRESS: self._progress,
            _REJECTED: self._rejected,
            ord("Q"): self._answer,
        }

    def work(self, frames: list[bytes], woken: list[Pending]) -> None:
        """Apply frames of the work lane."""
        for frame in frames:
            if frame[0] == _RESULTS:
                groups, plain = orjson.loads(memoryview(frame)[1:]), Codec.plain(frame)
                if not plain and MARK in frame and self._pins is not None:
                    for _, _, values in groups:
                        self._pins.pin(values)
                self._results(groups, plain, woken)
            else:
                apply = self._by_letter.get(frame[0])
                if apply is not None:  # else a newer engine says something that this program does not know
                    apply(orjson.loads(memoryview(frame)[1:]), woken)

    # --- one kind of frame each -----------------------------------------------------------------------------------

    def _results(self, groups: list[list[Any]], plain: bool, woken: list[Pending]) -> None:
        """A hot loop, hence flat: about 0.3 us a result."""
        pop = self.open.pop
        state = VALUE if plain else WIRE
        for seq, nodes, values in groups:
            batch = self.open.get(seq)
            if type(batch) is MapChunk:
                batch.fill(nodes, values, plain, woken)
                if batch._state:
                    self._end_batch(seq)
                continue
            if seq in self._batches_ended:
                continue
            for node, value in zip(unpacked(nodes, len(values)), values, strict=True):
                handle = pop(seq + node, None)
                if handle is not None:
                    handle._value = value
                    handle._state = state
                    if handle._hooks is not None:
                        woken.append(handle)

    def _failures(self, rows: list[list[Any]], woken: list[Pending]) -> None:
        for seq, node, state, failure in rows:
            target = self.open.get(seq)
            if type(target) is MapChunk:
                target.fail(node, state, failure, woken)
                if target._state:
                    self._end_batch(seq)
            elif seq not in self._batches_ended:
                handle = self.open.pop(seq + (node or 0), None)
                if handle is not None:
                    handle.settle(FAILED, [state, failure], woken)

    def _endings(self, rows: list[list[Any]], woken: list[Pending]) -> None:
        for row in rows:
            self.counts.pop(row[0], None)
            handle = self.open.get(row[0])
            if handle is not None and getattr(handle, "run_id", None) == row[1]:
                del self.open[row[0]]
                handle.settle(ENDED, row, woken)
            for watcher in self.watched.pop(row[1], ()):
                self.open.pop(getattr(watcher, "seq", 0), None)  # one that stands for this run has a number of its own
                watcher.settle(ENDED, row, woken)

    def _progress(self, rows: list[list[Any]], woken: list[Pending]) -> None:
        for seq, counts in rows:
            if seq in self.open:
                self.counts[seq] = counts

    def _acked(self, body: list[int], woken: list[Pending]) -> None:
        self.acknowledge(body[0], woken)

    def acknowledge(self, seq: int, woken: list[Pending]) -> None:
        """Everything up to `seq` is durable."""
        if seq > self._outbox.acked:
            self._outbox.acknowledge(seq)
        waits = self.ack_waits
        while waits and waits[0].seq <= seq:
            waits.popleft().settle(VALUE, None, woken)

    def _duplicate(self, body: list[Any], woken: list[Pending]) -> None:
        """A submission stands for an earlier run. Its handle stays open under its number, so that a restarted engine
        says so again; its end comes under the key of that run."""
        seq, run_id, ending = body
        target = self.open.get(seq)
        if isinstance(target, Numbered):
            target.stand_for(run_id)
            watchers = self.watched.setdefault(run_id, [])
            if target not in watchers:
                watchers.append(target)
            if ending is not None:
                self._endings([ending], woken)
        self.acknowledge(seq, woken)

    def _rejected(self, body: list[Any], woken: list[Pending]) -> None:
        seq, answer = body
        target = self.open.pop(seq, None)
        if target is not None:
            target.settle(ERROR, error_of(answer), woken)
        self.acknowledge(seq, woken)

    def _answer(self, body: list[Any], woken: list[Pending]) -> None:
        query = self.queries.pop(body[0], None)
        if query is not None:
            error = body[2]
            query.settle(ERROR if error else VALUE, error_of(error) if error else body[1], woken)

    def answer(self, body: list[Any], woken: list[Pending]) -> None:
        """An answer that came on the control lane."""
        self._answer(body, woken)

    def _end_batch(self, seq: int) -> None:
        self.open.pop(seq, None)
        self._batches_ended.add(seq)
        self._batches_order.append(seq)
        if len(self._batches_order) > limits.FINISHED_BATCHES_MAX:
            self._batches_ended.discard(self._batches_order.popleft())

    # --- the end --------------------------------------------------------------------------------------------------

    def open_seq(self) -> int:
        """The lowest number whose outcome is still wanted."""
        return min(self.open, default=self._outbox.acked + 1)

    def fail_waiting(self, error: MainspringError, woken: list[Pending]) -> None:
        """Nobody will be acknowledged or answered for now; results may still come."""
        while self.ack_waits:
            self.ack_waits.popleft().settle(ERROR, error, woken)

    def fail_all(self, error: MainspringError, woken: list[Pending]) -> None:
        """The engine will say nothing any more: settle everything."""
        self.fail_waiting(error, woken)
        for cell in (*self.open.values(), *self.queries.values(), *(w for ws in self.watched.values() for w in ws)):
            cell.settle(ERROR, error, woken)
        self.open.clear()
        self.queries.clear()
        self.watched.clear()
        self.counts.clear()

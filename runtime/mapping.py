"""`map`: one function over a large or endless iterable, in chunks, with a bounded window. The part that does not wait.

    iterable ──pull──► chunk ──encode──► frame ──► engine ──► results in place ──take──► lists ──► the caller

- A chunk travels as one frame; its items are tasks of their own, so a slow one holds up nothing but its place.
- At most `window` items are submitted and not handed out; the iterable is read no further ahead than that.
- Chunks grow from MAP_CHUNK_FIRST by doubling while the iterable is fast, up to MAP_CHUNK_MAX and to what the measured
  rate of results justifies. An iterable that is slow is read item by item for at most MAP_PULL_NS a chunk.
- Results are handed out as lists that are flattened at C speed: about 0.2 us an item in all for small values.

Concurrency: one consumer; results are entered by the reading thread (`MapChunk`).
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, TypedDict

from actors.protocol import limits
from actors.protocol.errors import CallerError, ConfigurationError, PayloadError, PayloadTooLarge, TaskFailed
from actors.protocol.kinds import Shape
from runtime.dispatch import Dispatch
from runtime.host.pending import ERROR, MapChunk, Pending
from runtime.host.submissions import fresh
from runtime.items import ANY_KEY, encode_call
from runtime.mail.codec import Codec
from runtime.outcome import task_error
from runtime.registry import split_partial

_HEAD_BYTES: Final = 64
"""Room for the number and kind in front of the items of a frame."""
_INDEX: Final = re.compile(r"\[(\d+)\]")

Encode = Callable[[Codec, list[Any], str], bytes]


class Source:
    """Takes chunks from the iterable, of a size that suits its speed and that of the results."""

    def __init__(self, items: Iterator[Any], chunk: int | None) -> None:
        self.exhausted = False
        self.fast = False
        self._items = items
        self._fixed = chunk
        self._size = chunk or limits.MAP_CHUNK_FIRST
        self._size_max = limits.MAP_CHUNK_MAX

    def limit(self, bytes_per_item: float, rate_per_s: float) -> None:
        """Bound the next chunks by the size of the items and by the rate of the results (0: not known)."""
        by_bytes = int(limits.FRAME_BYTES_MAX / 4 / max(bytes_per_item, 1.0))
        by_rate = int(rate_per_s * limits.MAP_CHUNK_NS / 1e9) if rate_per_s else limits.MAP_CHUNK_MAX
        self._size_max = max(1, min(limits.MAP_CHUNK_MAX, by_bytes, max(by_rate, limits.MAP_CHUNK_FIRST)))

    def pull(self, room: int = limits.MAP_CHUNK_MAX) -> list[Any]:
        """The next chunk, of at most `room` items; empty at the end."""
        size = min(self._fixed or min(self._size, self._size_max), room)
        started_ns = time.perf_counter_ns()
        if self._fixed or self.fast:
            found = list(islice(self._items, size))
        else:
            found = []
            for item in islice(self._items, size):
                found.append(item)
                if time.perf_counter_ns() - started_ns > limits.MAP_PULL_NS:
                    self._size = limits.MAP_CHUNK_FIRST
                    return found
        self.exhausted = len(found) < size
        self.fast = time.perf_counter_ns() - started_ns <= limits.MAP_PULL_NS
        self._size = min(2 * size, limits.MAP_CHUNK_MAX) if self.fast else limits.MAP_CHUNK_FIRST
        return found


class MapOptions(TypedDict, total=False):
    """Keywords of `map`; `runtime.submitter.Submitter.map` says what they mean."""

    window: int | None
    ordered: bool
    chunk: int | None
    return_exceptions: bool


class Mapping:
    """One `map`: submits chunks, and gives out lists of results.

    Args:
        dispatch: Submits.
        fn: Task, function or partial.
        iterables: One gives `fn(item)`, several give `fn(*items)` until the shortest ends.
        window: Bound of the items that are submitted and not handed out.
        ordered: Whether results come in the order of the items, or as they arrive.
        chunk: Fixed chunk size, or None to adapt.
        return_exceptions: Whether a failed item gives its exception as a value, or raises it at its place.

    Raises:
        ConfigurationError: A number is out of range. HandlerRefused, UnknownNodeType: see `Dispatch.plan`.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        fn: Callable[..., Any],
        iterables: tuple[Iterable[Any], ...],
        window: int | None = None,
        ordered: bool = True,
        chunk: int | None = None,
        return_exceptions: bool = False,
    ) -> None:
        if not iterables:
            raise CallerError("map needs at least one iterable")
        if window is not None and window < 1:
            raise ConfigurationError("window must be at least 1")
        if chunk is not None and not 1 <= chunk <= limits.MAP_CHUNK_MAX:
            raise ConfigurationError(f"chunk must be 1 to {limits.MAP_CHUNK_MAX}")
        window = window or limits.MAP_WINDOW_ITEMS
        fn, first, named = split_partial(fn)
        plan = dispatch.plan(fn)
        plan.options.without_expiry("map")
        shape, self._encode = _encoder(plan.pickle, first, named, len(iterables))
        self._plan, self._shape = plan, shape
        plan.number(shape)  # what is wrong is said now
        self._dispatch = dispatch
        self.client = dispatch.client
        self._window = window
        self._return_exceptions = return_exceptions
        items: Iterator[Any] = iter(iterables[0]) if len(iterables) == 1 else zip(*iterables, strict=False)
        small = max(1, window // 4) if window < 4 * limits.MAP_CHUNK_MAX else None
        self.source = Source(items, chunk or small)
        self._sink: deque[Any] | None = None if ordered else deque()
        self._batches: deque[MapChunk] = deque()
        self._held: deque[list[Any]] = deque()
        self._sizes: dict[int, int] = {}
        self._place = 0
        self._submitted = 0
        self._handed_out = 0
        self._bytes_open = 0
        self._first_at_ns = 0
        self._first_out = 0

    # --- submitting -----------------------------------------------------------------------------------------------

    @property
    def wants_more(self) -> bool:
        """Whether another chunk may be submitted."""
        return (
            bool(self._held or not self.source.exhausted)
            and self._submitted - self._handed_out < self._window
            and self._bytes_open < limits.MAP_WINDOW_BYTES
        )

    @property
    def finished(self) -> bool:
        """Whether everything was handed out."""
        return self.source.exhausted and not self._held and self._submitted == self._handed_out

    @property
    def has_open(self) -> bool:
        """Whether results are outstanding."""
        return bool(self._batches)

    @property
    def is_fast(self) -> bool:
        """Whether the next chunk comes without delay."""
        return bool(self._held) or self.source.fast

    def submit_next(self) -> None:
        """Submit the next chunk.

        Raises:
            BlobNeeded: It holds large values; call `submit_next_large`.
            QueueFull: Call again later; nothing is lost. PayloadError: the path starts with the number of the item.
        """
        held = self._held
        if not held:
            held.append(self.source.pull(self._window - (self._submitted - self._handed_out)))
        while held:
            items = held[0]
            if items:
                text = self._text(self._dispatch.codec, items, ANY_KEY)
                if len(text) > limits.FRAME_BYTES_MAX - _HEAD_BYTES:
                    if len(items) == 1:
                        raise PayloadTooLarge(f"the item takes {len(text):,} bytes", f"[{self._submitted}]")
                    half = len(items) // 2
                    held[0] = items[half:]
                    held.appendleft(items[:half])
                    continue
                batch = MapChunk(len(items), self._sink)
                self.client.send_batch(self._plan.number(self._shape), text, batch)
                self._note(batch, len(text))
            held.popleft()

    def submit_next_large(self) -> None:
        """Submit the chunk with large values, item by item; writes files. Raises QueueFull: call again later."""
        items = self._held[0]
        while items:
            batch = MapChunk(1, self._sink)
            number = self._plan.number(self._shape)  # its definition goes ahead of the frame
            self.client.send_made(batch, partial(self._frame, items[:1], number))
            self._note(batch, _HEAD_BYTES)
            del items[0]
        self._held.popleft()

    def _frame(self, items: list[Any], number: int, seq: int) -> bytes:
        text = self._text(self.client.codec, items, f"{self.client.session}-{seq}")
        return b"M[%d,%d,%b]" % (seq, number, text)

    def _note(self, batch: MapChunk, size_bytes: int) -> None:
        self._batches.append(batch)
        self._sizes[batch.seq] = size_bytes
        self._submitted += batch.size
        self._bytes_open += size_bytes
        elapsed_ns = time.monotonic_ns() - self._first_at_ns if self._first_at_ns else 0
        rate = (self._handed_out - self._first_out) * 1e9 / elapsed_ns if elapsed_ns > limits.MAP_CHUNK_NS else 0.0
        self.source.limit(size_bytes / batch.size, rate)

    def _text(self, codec: Codec, items: list[Any], key: str) -> bytes:
        try:
            return self._encode(codec, items, key)
        except PayloadError as refused:
            at = _INDEX.match(refused.path)
            if at is None:
                raise
            path = f"[{self._submitted + int(at[1])}]{refused.path[at.end() :]}"
            raise type(refused)(refused.message, path) from refused.__cause__

    # --- taking results -------------------------------------------------------------------------------------------

    def take(self) -> tuple[list[Any], Exception | None]:
        """Results that are there, and the exception that comes after them, if one does. Both may be empty."""
        found, error = self._take_places() if self._sink is None else self._take_arrivals(self._sink)
        if found:
            self._handed_out += len(found)
            if not self._first_at_ns:
                self._first_at_ns = time.monotonic_ns()
                self._first_out = self._handed_out
        return found, error

    def stir(self) -> Pending | None:
        """A cell that is settled when `take` may find something; None when it may now, or all is handed out."""
        cell = Pending()
        with self.client.lock:
            if self._sink is None:
                head = self._batches[0] if self._batches else None
                if head is None or head._state or head.ready_until(self._place) > self._place:
                    return None
                head.stir = cell
                return cell
            if self._sink or not self._batches or any(batch._state for batch in self._batches):
                return None
            for batch in self._batches:
                batch.stir = cell
        return cell

    def _take_places(self) -> tuple[list[Any], Exception | None]:
        if not self._batches:
            return [], None
        batch = self._batches[0]
        if batch._state == ERROR:
            return [], fresh(batch._value)
        start, end = self._place, batch.ready_until(self._place)
        if start == end:
            return [], None
        values = batch.values if start == 0 and end == batch.size else batch.values[start:end]
        if batch.wire:
            values = self.client.codec.decode_list(values)
        error = None
        if batch.failures:
            values, error = self._with_failures(batch, values, start)
        self._place = end
        if end == batch.size:
            self._forget(batch)
            self._batches.popleft()
            self._place = 0
        return values, error

    def _with_failures(self, batch: MapChunk, values: list[Any], start: int) -> tuple[list[Any], Exception | None]:
        values = list(values)
        for place in sorted(place for place in batch.failures if start <= place < start + len(values)):
            error = self._error(batch, place, *batch.failures[place])
            if not self._return_exceptions:
                return values[: place - start], error
            values[place - start] = error
        return values, None

    def _take_arrivals(self, sink: deque[Any]) -> tuple[list[Any], Exception | None]:
        found: list[Any] = []
        while sink:
            entry = sink.popleft()
            if len(entry) == 2:
                values, wire = entry
                found += self.client.codec.decode_list(values) if wire else values
            else:
                place, state, failure = entry
                error = self._error(None, place, state, failure)
                if not self._return_exceptions:
                    return found, error
                found.append(error)
        for batch in [b for b in self._batches if b._state]:
            if batch._state == ERROR:
                return found, fresh(batch._value)
            self._forget(batch)
            self._batches.remove(batch)
        return found, None

    def _error(self, batch: MapChunk | None, place: int, state: str, failure: dict[str, Any]) -> TaskFailed:
        run = f"{self.client.session}-{batch.seq}" if batch is not None else "of the map"
        return task_error(failure, self.client.codec, state, f"item {place} of run {run}")

    def _forget(self, batch: MapChunk) -> None:
        self._bytes_open -= self._sizes.pop(batch.seq, 0)

    # --- the end --------------------------------------------------------------------------------------------------

    def cancel_rest(self) -> None:
        """Cancel what is outstanding. Takes no lock, because it may be called by the collector."""
        client = self.client
        keys = [f"{client.session}-{batch.seq}" for batch in self._batches if not batch._state]
        self._batches.clear()
        if keys:
            client.reader.later(lambda: [client.ask_cancel(key, None) for key in keys])


def _encoder(pickle: bool, first: tuple[Any, ...], named: dict[str, Any], count: int) -> tuple[Shape, Encode]:
    """Shape and encoder of the items; `first` and `named` are the arguments of a partial."""
    if count == 1 and not first and not named:
        return "one", lambda codec, items, key: codec.encode_list(items, pickle=pickle, blob_key=key)
    encode = _encode_calls if named else _encode_rows

    def encode_items(codec: Codec, items: list[Any], key: str) -> bytes:
        rows = [[*first, item] for item in items] if count == 1 else [[*first, *item] for item in items]
        return encode(codec, rows, named, pickle, key)

    return "call" if named else "args", encode_items


def _encode_rows(codec: Codec, rows: list[list[Any]], named: dict[str, Any], pickle: bool, key: str) -> bytes:
    """A list of plain rows is a list of lists of plain values; only rows with something special go one by one."""
    try:
        text = codec.encode_list(rows, pickle=pickle, blob_key="")
        if codec.plain(text):
            return text
    except PayloadError:
        pass  # found again below, with its path
    return _encode_calls(codec, rows, named, pickle, key)


def _encode_calls(codec: Codec, rows: list[list[Any]], named: dict[str, Any], pickle: bool, key: str) -> bytes:
    parts: list[bytes] = []
    for at, row in enumerate(rows):
        try:
            if named:
                parts.append(encode_call(codec, row, named, pickle=pickle, blob_key=key))
            else:
                parts.append(codec.encode_list(row, pickle=pickle, blob_key=key))
        except PayloadError as refused:
            raise type(refused)(refused.message, f"[{at}]{refused.path}") from refused.__cause__
    return b"[" + b",".join(parts) + b"]"

"""What was seen, second by second, for the last minute: weights of stacks as they are, to be put into words later.

A row is one stack of code objects and offsets of instructions, with its labels and thread; `rendering` makes frames of
it when somebody looks. A bucket is a second of rows. Readers take buckets that are closed, which nobody changes.

Ticks come after random gaps, and each of them stands for as much of its second as any other: the sum of the gaps is
kept for the whole bucket, and is divided by the number of ticks when it is closed. A tick that was as heavy as the gap
before it would say the same on average with twice the variance, and would give a long call what was computed before it.

Bounds: `RING_BYTES_MAX` in the ring, by an estimate from above (`cost_of`), and `ROWS_MAX` rows; `BUCKET_BYTES_MAX` and
    `BUCKET_ROWS_MAX` in a second, beyond which stacks are added up as `CROWDED`; label sets as `labels.LabelSets` says.
    A process has two rings at most (what computes, what waits), so they are below 16 MiB whatever runs there. Most have
    some hundred KB; 19 stacks of 25 frames a second are 2 MB a minute if all are different.
Concurrency: one thread adds and closes; any may read what is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from types import CodeType
from typing import Any, Final

from runtime.profile.sampling.labels import Labels, LabelSets

RING_S: Final = 60
RING_BUCKETS: Final = 4 * RING_S
"""Whoever reads each second ends a second's bucket early."""
BUCKET_NS: Final = 1_000_000_000
ROWS_MAX: Final = 8_192
BUCKET_ROWS_MAX: Final = 4_096
RING_BYTES_MAX: Final = 6 << 20
BUCKET_BYTES_MAX: Final = 5 << 19
_ROW_BYTES: Final = 512
_PLACE_BYTES: Final = 48
"""A reference to a code object, one to an offset, and the offset."""
CROWDED: Final = "<too many stacks>"
_GENERATION: Final = 30
Places = tuple[CodeType | str, ...]


class Row:
    """Weight of one stack, innermost frame first: code objects, or text, and offsets of instructions."""

    __slots__ = ("labels", "ns", "offsets", "places", "seen", "thread", "ticks")

    def __init__(self, places: Places, offsets: tuple[int, ...], labels: Labels, thread: str) -> None:
        self.places, self.offsets, self.labels, self.thread = places, offsets, labels, thread
        self.ns = self.seen = self.ticks = 0


def cost_of(places: Places) -> int:
    """Bytes that a row of this stack takes, and not more."""
    return _ROW_BYTES + _PLACE_BYTES * len(places)


class Bucket:
    """A second of ticks. Closed when `ended_ns` is set; times are monotonic.

    It is closed by the first tick after its second, which may come much later where little is computed. So what is in
    it is of its first second, whenever it ended.
    """

    __slots__ = ("begun_ns", "bytes", "ended_ns", "even_ns", "rows", "ticks")

    def __init__(self, begun_ns: int) -> None:
        self.begun_ns, self.ended_ns, self.bytes = begun_ns, 0, 0
        self.even_ns = self.ticks = 0
        self.rows: dict[Any, Row] = {}


class Buckets:
    """See the module."""

    def __init__(self) -> None:
        self.label_sets = LabelSets()
        self.open = Bucket(0)
        self.ring: deque[Bucket] = deque(maxlen=RING_BUCKETS)
        self.rows = self.bytes = 0
        """In the ring."""
        self.gone_ns = 0
        """When the newest one ended that was thrown out of it."""
        self._generation = 0

    def add(self, places: Places, offsets: tuple[int, ...], labels: Labels, thread: str, ns: int) -> Row:
        """Add to the weight of a stack."""
        rows = self.open.rows
        if labels:
            labels = self.label_sets.keep(labels)
        key = (thread, labels, hash((*map(id, places), *offsets)))
        row = rows.get(key)
        if row is None:
            if len(rows) >= BUCKET_ROWS_MAX or self.open.bytes + cost_of(places) > BUCKET_BYTES_MAX:
                places, offsets, key = (CROWDED,), (-1,), (thread, labels, 0)
                row = rows.get(key)
            if row is None:
                row = rows[key] = Row(places, offsets, labels, thread)
                self.open.bytes += cost_of(places)
        row.ns += ns
        row.seen += 1
        return row

    def ticked(self, row: Row, even_ns: int) -> None:
        """A tick found this stack, after a gap of so much, which is for all ticks of the bucket."""
        row.ticks += 1
        self.open.ticks += 1
        self.open.even_ns += even_ns

    def is_over(self, now_ns: int) -> bool:
        """Whether the second of the open bucket is over."""
        return now_ns - self.open.begun_ns >= BUCKET_NS

    def close(self, now_ns: int) -> None:
        """Put the bucket into the ring, and begin another: first, because a tick may come in the middle of this."""
        fresh = Bucket(now_ns)
        bucket, self.open = self.open, fresh  # no call in between, so no other thread has the same one
        if bucket.rows:
            if bucket.ticks:
                each_ns, left_ns = divmod(bucket.even_ns, bucket.ticks)
                for row in bucket.rows.values():
                    if row.ticks:
                        row.ns += each_ns * row.ticks + left_ns
                        left_ns = 0
            bucket.ended_ns = now_ns
            ring = self.ring
            while ring and (
                len(ring) == RING_BUCKETS
                or ring[0].ended_ns <= now_ns - (RING_S + 1) * BUCKET_NS
                or self.rows + len(bucket.rows) > ROWS_MAX
                or self.bytes + bucket.bytes > RING_BYTES_MAX
            ):
                oldest = ring.popleft()
                self.gone_ns = oldest.ended_ns
                self.rows -= len(oldest.rows)
                self.bytes -= oldest.bytes
            ring.append(bucket)
            self.rows += len(bucket.rows)
            self.bytes += bucket.bytes
        self._generation += 1
        if self._generation % _GENERATION == 0:
            self.label_sets.age()

    def closed(self, since_ns: int) -> list[Bucket]:
        """Buckets that began at this monotonic time or later, and get no more."""
        for _ in range(8):
            with suppress(RuntimeError):  # another one was just put in
                return [bucket for bucket in list(self.ring) if bucket.begun_ns >= since_ns]
        return []

    def forget(self) -> None:
        """Begin anew."""
        self.ring.clear()
        self.open = Bucket(0)
        self.rows = self.bytes = self.gone_ns = 0


def since(buckets: Iterable[Bucket], since_ns: int) -> list[Bucket]:
    """Those with something of the time from this monotonic time on: of one that is cut there, all."""
    return [bucket for bucket in buckets if min(bucket.ended_ns, bucket.begun_ns + BUCKET_NS) > since_ns]

"""What a worker has to say: results that pile up while it works, and how they become frames.

All methods are called under the station's lock, by the thread that runs handlers or by the housekeeper, which sends
what waits behind a long task. Only the columns of the span that is open grow without it: `values` is appended to before
`ends`, and whoever makes frames takes the first `len(ends)` of both and remembers how far it came.

A value in a span is a plain scalar, a small container of such that is only ours, or bytes: the JSON text of a value
that was encoded when the handler returned it, because it could be changed by a later task (a list that is kept and
appended to). Values are encoded together when they are sent.

Frames (letters as in the protocol): S before D of its serial, groups of consecutive serials in D, failures in E. A
frame is at most `_FRAME_BYTES` long unless a single value is longer; what is too long is halved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from actors.protocol import limits
from actors.protocol.errors import PayloadError
from actors.protocol.places import joined, packed
from actors.protocol.states import FailureKind
from runtime.mail.codec import Codec
from runtime.mail.failure import failure_of

SCALARS: Final = frozenset({int, str, float, bool, type(None)})
"""Types whose values cannot change after they were returned."""
BARE: Final = SCALARS - {str}
"""Those of them whose values are never large."""
TEXT_CHARS_MAX: Final = limits.PAYLOAD_INLINE_BYTES_MAX // 6
"""Of a text that certainly needs no file, however it is escaped. A longer one is settled like any other large value: by
whoever ran the task and can wait for room on the disk."""
_FRAME_BYTES: Final = limits.FRAME_BYTES_MAX // 2
"""Longest frame made of several groups; a single value, at most PAYLOAD_INLINE_BYTES_MAX, is far below."""
_GAP_NS: Final = 50_000
"""Between the end of a result and the start of the next one in the same span: our own work, not waiting."""


class Place(NamedTuple):
    """Which attempt: its lease's serial, its run's number and key, its node."""

    serial: int
    run_no: int
    run_key: str
    node: int


class ResultSpan:
    """Results of consecutive serials.

    `sent` of them went out already; times are ns, `ends` relative to `started_ns`.
    """

    __slots__ = ("ends", "nodes", "run_key", "run_no", "sent", "serial", "started_ns", "values")

    def __init__(self, serial: int, run_no: int, run_key: str, nodes: Sequence[int], started_ns: int) -> None:
        self.serial = serial
        self.run_no = run_no
        self.run_key = run_key
        self.nodes = nodes
        self.started_ns = started_ns
        self.values: list[Any] = []
        self.ends: list[int] = []
        self.sent = 0

    def continued_by(self, at: Place, started_ns: int) -> bool:
        """Whether this attempt can be the next of the span."""
        if self.run_no != at.run_no or self.serial + len(self.values) != at.serial or not self.ends:
            return False
        return 0 <= started_ns - self.started_ns - self.ends[-1] <= _GAP_NS


class ResultPile:
    """Everything of one worker that was not sent yet. Bounded by the leases it holds."""

    def __init__(self, pid: int, codec: Codec) -> None:
        self._head = b"[%d,[" % pid
        self._codec = codec
        self._spans: list[ResultSpan] = []
        self._failures: list[bytes] = []
        self._spawned: list[bytes] = []

    def span(self, at: Place, nodes: Sequence[int], started_ns: int) -> ResultSpan:
        """A span that the caller appends to, `values` before `ends`, for these nodes, the first of which is `at`.

        It is the last one where that goes on; times are relative to its own start.
        """
        span = self._spans[-1] if self._spans else None
        if span is not None and span.continued_by(at, started_ns):
            span.nodes = joined(span.nodes, nodes)
            return span
        span = ResultSpan(at.serial, at.run_no, at.run_key, nodes, started_ns)
        self._spans.append(span)
        return span

    def result(self, at: Place, value: Any, started_ns: int, ended_ns: int) -> None:
        """A single result.

        It joins the last span where its serial follows on and it started when the one before ended.
        """
        span = self.span(at, [at.node], started_ns)
        span.values.append(value)
        span.ends.append(ended_ns - span.started_ns)

    def failure(self, at: Place, started_ns: int, ended_ns: int, failure: dict[str, Any]) -> None:
        """An attempt that did not succeed."""
        row = [at.serial, at.run_no, at.node, started_ns, ended_ns, failure]
        self._failures.append(orjson.dumps(row))

    def spawned(self, frame: bytes) -> None:
        """Nodes that an attempt adds to its run; call before its result is entered."""
        self._spawned.append(frame)

    @property
    def waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._failures or self._spawned) or any(len(s.ends) > s.sent for s in self._spans)

    def frames(self, open_span: ResultSpan | None = None) -> list[bytes]:
        """Frames for everything that waits; it then counts as sent. `open_span` is kept, because more comes into it."""
        found, self._spawned = self._spawned, []
        groups: list[bytes] = []
        for span in self._spans:
            count = len(span.ends)
            if count > span.sent:
                self._encode(span, span.sent, count, groups)
                span.sent = count
        self._spans = [open_span] if open_span is not None else []
        rows, self._failures = self._failures, []
        return found + self._joined(b"D", groups) + self._joined(b"E", rows)

    def _joined(self, letter: bytes, parts: list[bytes]) -> list[bytes]:
        frames: list[bytes] = []
        start = size = 0
        for at, part in enumerate(parts):
            if at > start and size + len(part) > _FRAME_BYTES:
                frames.append(letter + self._head + b",".join(parts[start:at]) + b"]]")
                start, size = at, 0
            size += len(part) + 1
        if parts:
            frames.append(letter + self._head + b",".join(parts[start:]) + b"]]")
        return frames

    def _encode(self, span: ResultSpan, start: int, stop: int, groups: list[bytes]) -> None:
        """Groups for results start..stop of a span.

        Halved until they fit and until what cannot be encoded stands alone.
        """
        try:
            text = self._values_text(span, start, stop)
        except Exception as refused:
            if stop - start == 1:
                self._refuse(span, start, refused)
                return
            text = b""
        if stop - start > 1 and not 0 < len(text) <= _FRAME_BYTES:
            middle = (start + stop) // 2
            self._encode(span, start, middle, groups)
            self._encode(span, middle, stop, groups)
            return
        shift = span.ends[start - 1] if start else 0
        ends = span.ends[start:stop]
        if shift:
            ends = [end - shift for end in ends]
        groups.append(
            b"[%d,%d,%b,%b,%d,%b]"
            % (
                span.serial + start,
                span.run_no,
                orjson.dumps(packed(span.nodes[start:stop])),
                text,
                span.started_ns + shift,
                orjson.dumps(ends),
            )
        )

    def _values_text(self, span: ResultSpan, start: int, stop: int) -> bytes:
        values = span.values[start:stop]
        if bytes not in set(map(type, values)):
            return self._codec.encode_list(values, blob_key=span.run_key)
        texts = [v if type(v) is bytes else self._codec.encode(v, blob_key=span.run_key) for v in values]
        return b"[" + b",".join(texts) + b"]"

    def _refuse(self, span: ResultSpan, at: int, reason: Exception) -> None:
        kind = FailureKind.PAYLOAD if isinstance(reason, PayloadError) else FailureKind.ERROR
        start = span.started_ns + (span.ends[at - 1] if at else 0)
        place = Place(span.serial + at, span.run_no, span.run_key, span.nodes[at])
        self.failure(place, start, span.started_ns + span.ends[at], failure_of(reason, kind, self._codec))

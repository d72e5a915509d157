"""Trace events as Chrome and Perfetto show them: a time line for each thread of each process, written as a stream.

`timeline` writes what is known by time, as a recorder of flights knows it; frames that follow each other without a gap
are one event. `encode` writes a profile, which knows no times: the stacks of each thread lie side by side in their
order, as long as their weight.

Nothing grows with the length of a trace, and the file has a limit: what is over it is left out, and the last event, the
result and `otherData` say how much that was. A reader that is cut off has a valid file up to there (the format allows
that the list does not end).

The format: "Trace Event Format", the JSON array of objects with `ph` X (complete), i (instant) and M (metadata).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from runtime.profile.model import COUNT, Frame, Labels, Process, Profile, StackSample, dumped

TRACE_BYTES_MAX: Final = 256 << 20
"""Perfetto opens that much in a browser; dumps without a limit are what trace tools are known to die of."""
_TAIL_BYTES: Final = 1_024
_COUNT_NS: Final = 1_000_000
"""How long one of what is counted is drawn: 1 ms."""


class Timed(NamedTuple):
    """What a thread did for a while."""

    at_ns: int
    duration_ns: int
    sample: StackSample


class TraceWritten(NamedTuple):
    """What became of a trace: events in the file, and those that its limit left out."""

    events: int
    left_out: int


class _Open(NamedTuple):
    """A frame that is still going on."""

    frame: Frame
    labels: Labels
    since_ns: int


class _Track:
    """One thread: frames that are open, and until when."""

    def __init__(self, pid: int, tid: int) -> None:
        self.pid, self.tid = pid, tid
        self.open: list[_Open] = []
        self.until_ns = 0

    def close(self, keep: int = 0) -> Iterator[dict[str, Any]]:
        """Events of the frames that end now; the outermost `keep` go on."""
        while len(self.open) > keep:
            frame, labels, since_ns = self.open.pop()
            place = {"file": f"{frame.file}:{frame.line}"} if frame.file else {}
            yield {
                "ph": "X",
                "name": frame.name,
                "cat": "python" if frame.file else "mainspring",
                "ts": since_ns / 1_000,
                "dur": (self.until_ns - since_ns) / 1_000,
                "pid": self.pid,
                "tid": self.tid,
                **({"args": {**place, **dict(labels)}} if place or labels else {}),
            }

    def go_on(self, timed: Timed) -> Iterator[dict[str, Any]]:
        """Events of frames that end where this begins."""
        stack, labels = timed.sample.stack, timed.sample.labels
        same = 0
        if timed.at_ns <= self.until_ns:
            for frame, was in zip(stack, self.open, strict=False):
                if frame != was.frame or labels != was.labels:
                    break
                same += 1
        yield from self.close(same)
        self.open += [_Open(frame, labels, max(timed.at_ns, self.until_ns)) for frame in stack[same:]]
        self.until_ns = max(self.until_ns, timed.at_ns + timed.duration_ns)


class TraceWriter:
    """Writes events to a file, up to a limit.

    Args:
        file: Where to; nothing is read back.
        bytes_max: How large it may get.
    """

    def __init__(self, file: BinaryIO, bytes_max: int = TRACE_BYTES_MAX) -> None:
        self._file, self._left = file, bytes_max - _TAIL_BYTES
        self._events = self._left_out = 0
        self._file.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')

    def event(self, event: dict[str, Any]) -> None:
        """Write an event, or count that it was left out."""
        line = dumped(event)
        self._left -= len(line) + 2
        if self._left < 0:
            self._left_out += 1
            self._left = min(self._left, 0)
            return
        self._file.write(b",\n" + line if self._events else line)
        self._events += 1

    def close(self, last_ns: int = 0, **facts: Any) -> TraceWritten:
        """Write the end: what was left out, and what is to be known besides."""
        if self._left_out:
            text = f"{self._left_out:,} events were left out: the file has its limit"
            line = dumped({"ph": "i", "s": "g", "name": text, "ts": last_ns / 1_000, "pid": 0, "tid": 0})
            self._file.write(b",\n" + line if self._events else line)
        other = {"by": "mainspring", "left_out": self._left_out, **facts}
        self._file.write(b'\n],"otherData":' + dumped(other) + b"}\n")
        return TraceWritten(self._events, self._left_out)


def timeline(rows: Iterable[Timed], file: BinaryIO, bytes_max: int = TRACE_BYTES_MAX, **facts: Any) -> TraceWritten:
    """Write what is known by time.

    Args:
        rows: In the order of time, at least within a thread.
        file: Where to.
        bytes_max: How large the file may get.
        facts: What goes into `otherData`.

    Returns:
        How many events were written and left out.
    """
    writer = TraceWriter(file, bytes_max - len(dumped(facts)))
    tracks: dict[tuple[Process | None, str], _Track] = {}
    pids: dict[Process | None, int] = {}
    for timed in rows:
        key = (timed.sample.process, timed.sample.thread)
        track = tracks.get(key)
        if track is None:
            track = tracks[key] = _Track(_pid(key[0], pids, writer), len(tracks) + 1)
            name = {"name": key[1] or "thread"}
            writer.event({"ph": "M", "name": "thread_name", "pid": track.pid, "tid": track.tid, "args": name})
        for event in track.go_on(timed):
            writer.event(event)
    for track in tracks.values():
        for event in track.close():
            writer.event(event)
    return writer.close(max((track.until_ns for track in tracks.values()), default=0), **facts)


def _pid(process: Process | None, pids: dict[Process | None, int], writer: TraceWriter) -> int:
    """The number under which a process is shown: its pid, or another one if two processes had the same."""
    if process not in pids:
        pid = process.pid if process else 0
        while pid in pids.values():
            pid += 1 << 22  # above every pid of the kernel
        pids[process] = pid
        title = process.title if process else "mainspring"
        writer.event({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": title}})
    return pids[process]


def encode(profile: Profile, file: BinaryIO, bytes_max: int = TRACE_BYTES_MAX) -> TraceWritten:
    """Write a profile, each thread's stacks side by side; see `timeline`."""
    facts = {"kind": profile.kind, "order": "by stack, not by time", "notes": profile.notes}
    return timeline(_laid(profile), file, bytes_max, **facts)


def _laid(profile: Profile) -> Iterator[Timed]:
    factor = _COUNT_NS if profile.unit == COUNT else 1
    ends: dict[tuple[Process | None, str], int] = {}
    for sample in sorted(profile.samples, key=lambda one: (one.labels, one.stack)):
        key = (sample.process, sample.thread)
        at_ns, length = ends.get(key, 0), profile.samples[sample].value * factor
        yield Timed(at_ns, length, sample)
        ends[key] = at_ns + length

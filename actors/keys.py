"""Idempotency keys: a submission that comes again under the same key starts nothing, and stands for the first one.

A task with a key is a run of its own (a graph of one node), whose header says {"key": [key, window in ns, digest]}. Its
submission record is what remembers the key: key -> run, until when, and a digest of what was asked for.

- The window is measured on the wall clock, from the first submission. A window of 0 starts whatever the key stands for,
  and leaves the key free.
- The same key with another digest is refused (`KeyConflict`); so is a new key when `KEYS_MAX` of them are in their
  windows (`TooManyKeys`). Nothing is pushed out: a promise that was acknowledged is kept until its time.
- A submission that stands for an earlier one is a KEYS record, so that it is known after a restart by whom it was
  asked: its session is told again, and is told the run's end.
- What the log is about to forget is written again (`carry`): each key at most once for each time that the floor passes
  its record, so keys outlive the runs that they name. A key whose run is no longer kept gives `UnknownRun`.

Invariant: `_entries` is in the order of the records that hold them. Concurrency: none; the scheduler's.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from actors.protocol import limits
from actors.protocol.errors import KeyConflict, ProtocolError, TooManyKeys
from actors.protocol.records import RecordType

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

KEYS_PER_RECORD: Final = 1000
"""Keys that are written again together: about 110 KB."""

AGAIN_SAVED_MAX: Final = 10_000
"""Submissions of a session that stand for runs which have ended, in a checkpoint."""


class Claim(NamedTuple):
    """What a submission says of its key."""

    key: str
    window_ns: int
    digest: str

    @staticmethod
    def of(header: dict[str, Any]) -> Claim | None:
        """The claim of a submission; None when it has no key. Raises ProtocolError: it is malformed."""
        data = header.get("key")
        if data is None:
            return None
        try:
            key, window_ns, digest = data
        except (TypeError, ValueError) as broken:
            raise ProtocolError(f"an idempotency key is malformed: {broken}") from broken
        if not (isinstance(key, str) and key and isinstance(digest, str) and type(window_ns) is int and window_ns >= 0):
            raise ProtocolError("an idempotency key is malformed")
        return Claim(key, window_ns, digest)


class Entry(NamedTuple):
    """What a key stands for."""

    run: str
    until_ns: int
    digest: str
    lsn: int


class Keys:
    """See the module.

    Attributes:
        again: Submissions that stand for an earlier run, as the log has them: session -> [(number, run, key)].
    """

    def __init__(self, keys_max: int = limits.KEYS_MAX) -> None:
        self.again: dict[str, list[tuple[int, str, str]]] = {}
        self._keys_max = keys_max
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._ends: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, claim: Claim, wall_ns: int) -> str | None:
        """The run that this claim stands for; None when it shall start.

        Raises:
            KeyConflict: The key stands for something else. TooManyKeys: there is no room for a new one.
        """
        self.expire(wall_ns)
        if not claim.window_ns:
            return None
        entry = self._entries.get(claim.key)
        if entry is None:
            if len(self._entries) >= self._keys_max:
                raise TooManyKeys(f"{self._keys_max:,} idempotency keys are within their windows")
            return None
        if entry.digest != claim.digest:
            raise KeyConflict(f"idempotency key {claim.key!r} stands for run {entry.run!r}, which does something else")
        return entry.run

    def enter(self, claim: Claim, run: str, created_ns: int, lsn: int) -> None:
        """A run was started under this claim."""
        self._entries.pop(claim.key, None)
        if claim.window_ns:
            self._put(claim.key, Entry(run, created_ns + claim.window_ns, claim.digest, lsn))

    def carry(self, scheduler: Scheduler, floor: int) -> None:
        """Write again what the log has below the floor, before the floor is raised."""
        self.expire(scheduler.wall_ns)
        entries = self._entries
        low: list[str] = []
        for key, entry in entries.items():
            if entry.lsn >= floor:
                break
            low.append(key)
        for start in range(0, len(low), KEYS_PER_RECORD):
            part = low[start : start + KEYS_PER_RECORD]
            rows = [[key, *entries[key][:3]] for key in part]
            lsn = scheduler.log(RecordType.KEYS, orjson.dumps({"kept": rows, "at_ns": scheduler.wall_ns}))
            for key in part:
                entries[key] = entries[key]._replace(lsn=lsn)
                entries.move_to_end(key)

    def log_again(self, scheduler: Scheduler, session: str, seq: int, run: str, key: str) -> None:
        """Write that a submission stands for an earlier run."""
        told = {"again": [session, seq, run, key], "at_ns": scheduler.wall_ns}
        scheduler.log(RecordType.KEYS, orjson.dumps(told))

    def restore(self, payload: bytes, lsn: int) -> tuple[str, int] | None:
        """Take a KEYS record of the log; returns session and number of a submission that stands for an earlier run."""
        data = orjson.loads(payload)
        for key, run, until_ns, digest in data.get("kept", ()):
            self._entries.pop(key, None)
            self._put(key, Entry(run, until_ns, digest, lsn))
        if "again" not in data:
            return None
        session, seq, run, key = data["again"]
        self.again.setdefault(session, []).append((seq, run, key))
        return session, seq

    def by_run(self) -> dict[str, list[list[Any]]]:
        """Keys that stand for each run, each with its end and digest."""
        found: dict[str, list[list[Any]]] = {}
        for key, entry in self._entries.items():
            found.setdefault(entry.run, []).append([key, entry.until_ns, entry.digest])
        return found

    def holder(self, key: str) -> str | None:
        """The run that a key stands for, if it is known."""
        entry = self._entries.get(key)
        return None if entry is None else entry.run

    def saved(self, scheduler: Scheduler) -> dict[str, Any]:
        """What a checkpoint holds. Keys whose windows are over are forgotten, and of submissions that stand for a run
        that has ended all but the latest: their sessions were told, or are gone."""
        self.expire(scheduler.wall_ns)
        for session, rows in self.again.items():
            late = len(rows) - AGAIN_SAVED_MAX
            if late > 0:
                book = scheduler.book
                kept = [row for row in rows[:late] if (run := book.get(row[1])) is not None and run.open]
                self.again[session] = kept + rows[late:]
        return {
            "again": [[session, rows] for session, rows in self.again.items()],
            "kept": [[key, *entry] for key, entry in self._entries.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take what `saved` made."""
        for session, rows in data["again"]:
            self.again[session] = [(seq, run, key) for seq, run, key in rows]
        for key, run, until_ns, digest, lsn in data["kept"]:
            self._put(key, Entry(run, until_ns, digest, lsn))

    def _put(self, key: str, entry: Entry) -> None:
        self._entries[key] = entry
        heappush(self._ends, (entry.until_ns, key))

    def expire(self, wall_ns: int) -> None:
        """Forget keys whose windows are over. A key that was entered anew has its own end in the heap."""
        while self._ends and self._ends[0][0] <= wall_ns:
            _, key = heappop(self._ends)
            entry = self._entries.get(key)
            if entry is not None and entry.until_ns <= wall_ns:
                del self._entries[key]

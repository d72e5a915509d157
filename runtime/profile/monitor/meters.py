"""What objectives are measured by without a line in the program: how long runs take and how they end, from the log.

    Slo("charge", RunMeter("state/", name="charge", within=0.5), target=0.99)

Whoever measures reads the log as event streams do, in its own process, and asks the engine nothing. A run that has not
ended `within` its time is bad from that moment on, and not only when it ends, if it ever does.

Known limits: a run counts from its submission, so one that was told to begin later is late. Each ending has to be
    followed through the log, some 10 us a run: where there are thousands in a second, measure in another process
    (`python -m runtime.profile watch --slo`), or count them in the program with a `SloMeter`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final

from actors.event_kinds import Event
from actors.protocol.event_errors import CursorTooOld
from runtime.event_filter import filter_of
from runtime.event_reader import EventReader
from runtime.profile.presence.find import state_dir_of

OPEN_MAX: Final = 100_000
"""Runs that are followed at the same time; beyond, the oldest are forgotten."""
_BEGIN: Final = "run.submitted"
_KINDS: Final = (_BEGIN, "run.succeeded", "run.failed", "run.cancelled")


class RunMeter:
    """Counts runs, good and bad, from its first call on; a measure of `Slo`.

    Args:
        where: A state folder, a runtime, or None for the only folder that is open on this machine.
        name: Pattern of the names of tasks and flows; "*": all.
        within: Seconds; what takes longer is bad, however it ends. None: only failures are.
    """

    def __init__(self, where: Any = None, name: str = "*", within: float | None = None) -> None:
        self._where, self._name = where, name
        self._within_ns = None if within is None else int(within * 1e9)
        self._reader: EventReader | None = None
        self._open: dict[str, int] = {}
        self._total = self._bad = 0

    def __call__(self) -> tuple[int, int]:
        """All that have ended or are late, and the bad ones among them. One thread at a time."""
        reader = self._reader
        if reader is None:
            reader = self._reader = self._begun()
        try:
            while events := reader.read():
                for event in events:
                    self._take(event)
        except CursorTooOld:  # the log was cut meanwhile; what was in it is not known
            self.close()
        self._look_at_late(time.time_ns())
        return self._total, self._bad

    def close(self) -> None:
        """Let go of the log; a later call begins anew. Again is harmless."""
        reader, self._reader = self._reader, None
        self._open.clear()
        if reader is not None:
            with suppress(OSError):
                reader.close()

    def _begun(self) -> EventReader:
        wanted = filter_of(_KINDS, name=None if self._name == "*" else self._name)
        return EventReader(state_dir_of(self._where), wanted, "now")

    def _take(self, event: Event) -> None:
        run = event.run or ""
        if event.kind == _BEGIN:
            self._open[run] = event.at_ns
            if len(self._open) > OPEN_MAX:
                del self._open[next(iter(self._open))]
            return
        begun_ns = self._open.pop(run, None)
        if begun_ns is not None and event.kind != "run.cancelled":  # who is cancelled is neither good nor bad
            late = self._within_ns is not None and event.at_ns - begun_ns > self._within_ns
            self._total += 1
            self._bad += late or event.kind == "run.failed"

    def _look_at_late(self, now_ns: int) -> None:
        """The oldest come first, as they were submitted."""
        if self._within_ns is None:
            return
        late = []
        for run, begun_ns in self._open.items():
            if now_ns - begun_ns <= self._within_ns:
                break
            late.append(run)
        for run in late:
            del self._open[run]
        self._total += len(late)
        self._bad += len(late)

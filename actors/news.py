"""News of runs that are under way: how far they have come, told now and then; a function of the scheduler.

What stirred since the last time is told together, at most every `PROGRESS_EVERY_NS`, so that a run of a million nodes
does not become a million messages. Concurrency: none; the scheduler's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.protocol import effects as fx

if TYPE_CHECKING:
    from actors.scheduler import Scheduler

PROGRESS_EVERY_NS: Final = 100_000_000


def report_progress(scheduler: Scheduler) -> None:
    """Tell the sessions how far their runs have come, or ask to be woken when it is time for that."""
    if scheduler.now_ns < scheduler.progress_due_ns:
        scheduler.put(fx.WakeAt(scheduler.progress_due_ns))
        return
    rows: dict[str, list[Any]] = {}
    for run in scheduler.stirred.values():
        rows.setdefault(run.session, []).append([run.seq, run.counts()])
    scheduler.stirred.clear()
    scheduler.progress_due_ns = scheduler.now_ns + PROGRESS_EVERY_NS
    for session, body in rows.items():
        scheduler.tell(session, "P", body)

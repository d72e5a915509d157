"""What was used of rates, in the log: so that a restart does not let start again what a rate has had already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from actors.protocol import effects as fx
from actors.protocol.records import RecordType

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


def note_rates(scheduler: Scheduler, *, whole: bool = False) -> None:
    """Log what was used of rates since the last time, or all of it that still counts; ask to be woken for the next."""
    giving = scheduler.giving
    if (due_ns := giving.due.next_ns()) is not None:
        scheduler.put(fx.WakeAt(due_ns))
    rates = giving.rates
    used = (rates.state if whole else rates.changes)(scheduler.now_ns, scheduler.wall_ns)
    if used and used["busy_ns"]:
        scheduler.log(RecordType.RATES, orjson.dumps(used))

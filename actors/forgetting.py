"""Forgetting a finished run by hand: as the retention rule forgets, but now, and this one.

    forget {run} -> {no}      durable when answered; no: the run's number

The same record tells of both, so whoever reads the log needs to know one thing only. The archive, which would take the
run with the next checkpoint, is told by whoever asks (`runtime.storage.archive`: `forgotten`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import once
from actors.protocol import effects as fx
from actors.protocol.archive_errors import RunNotEnded
from actors.protocol.errors import MissingNode, UnknownRun
from actors.protocol.records import RecordType
from actors.released import released_payload

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


def forget(scheduler: Scheduler, key: str) -> dict[str, Any]:
    """Forget the run of this id.

    Raises:
        UnknownRun: There is none. RunNotEnded: It has not ended. MissingNode: It is one task of several.
    """
    found = scheduler.book.find(key)
    if found is None:
        raise UnknownRun(f"no run {key!r} is known")
    run, own = found
    if own is not None and run.base_size > 1:
        raise MissingNode(f"{key!r} is one task of run {run.key!r}: a run is forgotten as a whole")
    if run.open:
        raise RunNotEnded(f"run {run.key!r} has not ended")
    scheduler.log(RecordType.RELEASED, released_payload([run.no], scheduler.wall_ns))
    for name in once.folders(run):
        scheduler.put(fx.ForgetRun(name))
    scheduler.ended_ns.pop(run.no, None)
    scheduler.waste += run.heavy_columns()
    scheduler.book.forget([run.no])
    return {"no": run.no}

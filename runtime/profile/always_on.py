"""Switching what is always on, in a process that runs, and saying how much of it there is: see `always`."""

from __future__ import annotations

import threading
from typing import Any, Final

import orjson

from runtime.profile.ledger import LEDGER
from runtime.profile.sampler import on_main_thread
from runtime.profile.self_cost import SELF_COST
from runtime.profile.ticks import TICKS
from runtime.profile.waits import HERE_WAITS

_HAD: Final[set[object]] = set()
"""global: who was switched off here and may be switched on again; a process has one set of ticks."""


def switched(on: bool | None, hz: float, who: object) -> bytes:
    """Switch it, and say what there is."""
    if on is not None and (who in TICKS.askers() or who in _HAD):
        on_main_thread(lambda: _ticks(on, hz, who))
    if on is not None and HERE_WAITS.always is not None:
        HERE_WAITS.always.switch(on)
    return orjson.dumps(facts())


def _ticks(on: bool, hz: float, who: object) -> None:
    if on:
        _HAD.discard(who)
        TICKS.start(who, hz)
    else:
        _HAD.add(who)
        TICKS.stop(who)


def facts() -> dict[str, Any]:
    """How much there is of everything that could grow, and what it costs."""
    waits = HERE_WAITS.always
    return {
        "hz": TICKS.hz,
        "askers": [str(who) for who in TICKS.askers()],
        "ticks": TICKS.count,
        "halved": TICKS.halved,
        "errors": TICKS.errors,
        "looks": 0 if waits is None else waits.looks,
        "rows": TICKS.buckets.rows + (0 if waits is None else waits.buckets.rows),
        "ring_bytes": TICKS.buckets.bytes + (0 if waits is None else waits.buckets.bytes),
        "label_sets": len(TICKS.buckets.label_sets) + (0 if waits is None else len(waits.buckets.label_sets)),
        "entries": sum(len(LEDGER.book(kind.name).live) for kind in LEDGER.kinds()),
        "threads": threading.active_count(),
        "self_ns": SELF_COST.total_ns(),
        "ticks_ns": SELF_COST.ticks_ns,
        "looks_ns": SELF_COST.looks_ns,
    }

"""Switching what is always on, in a process that runs, and saying how much of it there is: see `always`."""

from __future__ import annotations

import threading
from typing import Any, Final

import orjson

from runtime.profile.ledger.books import LEDGER
from runtime.profile.sampling.always import ALWAYS
from runtime.profile.sampling.pace import HZ
from runtime.profile.sampling.sampler import on_main_thread
from runtime.profile.sampling.self_cost import SELF_COST
from runtime.profile.sampling.ticks import TICKS
from runtime.profile.sampling.waits import HERE_WAITS


def switched(on: bool | None, hz: float, who: object) -> bytes:
    """Switch it, and say what there is."""
    if on is not None:
        always_on(on, hz, who)
    return orjson.dumps(facts())


def always_on(on: bool, hz: float = HZ, who: object = ALWAYS) -> None:
    """Switch it in this process, where it was on at some time."""
    if who in TICKS.askers() or who in OFF.who:
        on_main_thread(lambda: _ticks(on, hz, who))
    if HERE_WAITS.always is not None:
        HERE_WAITS.always.switch(on)


def _ticks(on: bool, hz: float, who: object) -> None:
    if on:
        OFF.who.discard(who)
        TICKS.start(who, hz)
    else:
        OFF.who.add(who)
        TICKS.stop(who)


class SwitchedOff:
    """Who was switched off, and may be switched on again."""

    def __init__(self) -> None:
        self.who: set[object] = set()


# global: of this process, which has one set of ticks
OFF: Final = SwitchedOff()


def facts() -> dict[str, Any]:
    """How much there is of everything that could grow, and what it costs."""
    waits = HERE_WAITS.always
    return {
        "hz": TICKS.pace.hz,
        "timer": TICKS.timer,
        "askers": [str(who) for who in TICKS.askers()],
        "ticks": TICKS.count,
        "halved": TICKS.pace.halved,
        "errors": TICKS.errors,
        "failure": TICKS.failure,
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

"""Options of `watch`: bounds and objectives, as text.

--ceiling task=500 --slope message=60 --lag 0.2 --rss 2048 --rss-slope 32 --slo 'charge:0.5:99.5'
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.profile.monitor.bounds import Bounds
    from runtime.profile.monitor.burn import Slo

_MIB = 1 << 20


def add_watch_options(options: argparse.ArgumentParser) -> None:
    """Of the command `watch`."""
    options.add_argument("--no-save", dest="save", action="store_false", help="tell breaches, and save no bundles")
    options.add_argument(
        "--slo", action="append", default=[], type=_slo, metavar="NAME:SECONDS:PERCENT",
        help="so many of the runs of this name (or pattern) shall succeed in this time; repeatable",
    )  # fmt: skip
    options.add_argument(
        "--ceiling", action="append", default=[], type=_pair, metavar="KIND=N", help="in one process; repeatable"
    )
    options.add_argument(
        "--slope", action="append", default=[], type=_pair, metavar="KIND=N", help="more in a minute; repeatable"
    )
    options.add_argument("--lag", type=above_0, metavar="SECONDS", help="an event loop may be late, at the 99th (0.5)")
    options.add_argument("--rss", type=above_0, metavar="MIB", help="memory that a process may have")
    options.add_argument("--rss-slope", type=above_0, metavar="MIB", help="by which it may grow in a minute (64)")
    options.add_argument("--silence", type=above_0, metavar="SECONDS", help="without an answer (30)")


def bounds_of(arguments: Namespace) -> Bounds:
    """What the options say is in order."""
    from runtime.profile.monitor.bounds import Bounds  # lazy: only who watches needs it

    asked: dict[str, Any] = {"lag": arguments.lag, "silence": arguments.silence}
    asked["rss_bytes"] = None if arguments.rss is None else int(arguments.rss * _MIB)
    asked["rss_per_min"] = None if arguments.rss_slope is None else int(arguments.rss_slope * _MIB)
    known = {name: value for name, value in asked.items() if value is not None}
    ceilings = {kind: int(most) for kind, most in arguments.ceiling}
    return replace(Bounds(ceilings=ceilings, slope_per_min=dict(arguments.slope)), **known)


def slos_of(arguments: Namespace, state: str) -> list[Slo]:
    """Objectives, each measured from the log of the folder."""
    if not arguments.slo:
        return []
    from runtime.profile.monitor.burn import Slo  # lazy: only who has objectives needs it
    from runtime.profile.monitor.meters import RunMeter  # lazy: as above

    found = []
    for name, within, percent in arguments.slo:
        target = percent / 100
        burn = min(14.4, 0.9 / (1 - target))
        found.append(Slo(name, RunMeter(state, name, within), target=target, burn=burn))
    return found


def _slo(text: str) -> tuple[str, float, float]:
    name, _, figures = text.partition(":")
    within, _, percent = figures.partition(":")
    value = above_0(percent or "99")
    if not name or value >= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:SECONDS:PERCENT, with less than 100 percent")
    return name, above_0(within), value


def _pair(text: str) -> tuple[str, float]:
    kind, _, most = text.partition("=")
    if not kind:
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND=N")
    return kind, above_0(most)


def above_0(text: str, most: float = 1e12) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < most:
        raise argparse.ArgumentTypeError(f"{text!r} must be above 0")
    return value

"""What this process holds of a kind, by where it was created: the answer to "held".

What the ledger has entries of stands at its creation site, with its labels and its owner. What is only counted (leases,
runs, timers) is one sample without a site, so that the sum is what the books say; descriptors are told by what they
are, threads by their name.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from runtime.profile.ledger.books import LEDGER, LedgerEntry
from runtime.profile.ledger.kinds import DESCRIPTOR, THREAD
from runtime.profile.model import COUNT, Frame, Process, Profile, StackSample
from runtime.profile.presence.here import Request
from runtime.profile.turns import TURNS

_FD: Final = "/proc/self/fd"


def answer(request: Request) -> list[bytes]:
    """The answer to "held"."""
    found = holdings(str(request.options.get("kind", "")), request.process)
    content = found.json_pieces()
    found.let_go()
    return content


def holdings(kind: str, process: Process | None = None) -> Profile:
    """What lives of a kind here.

    Args:
        kind: Its name; of one that this process does not know, nothing.
        process: Who this is.
    """
    profile = Profile(kind, COUNT, begun_ns=time.time_ns())
    if kind not in LEDGER.counts():
        return profile
    named = 0
    for entry in LEDGER.entries(kind):
        profile.add(StackSample(entry.site, _labels(entry), process), 1)
        named += 1
        TURNS.breathe()
    for text, count in _told(kind).items():
        profile.add(StackSample((Frame(text),), (), process), count)
        named += count
    counted = LEDGER.counts()[kind].live - named
    if counted > 0:
        profile.add(StackSample((Frame(f"{kind}: counted only"),), (), process), counted)
    return profile


def _labels(entry: LedgerEntry) -> tuple[tuple[str, str], ...]:
    owner = entry.owner() if callable(entry.owner) else entry.owner
    found = dict(entry.labels)
    if owner is not None:
        found["owner"] = owner if isinstance(owner, str) else type(owner).__name__
    if entry.daemon:
        found["daemon"] = "yes"
    return tuple(sorted(found.items()))


def _told(kind: str) -> Counter[str]:
    if kind == DESCRIPTOR:
        return descriptors()
    if kind == THREAD:
        return Counter(thread.name for thread in threading.enumerate())
    return Counter()


def descriptors() -> Counter[str]:
    """Open descriptors by what they are: "socket", "pipe", the label of a block, the path of a file."""
    found: Counter[str] = Counter()
    with suppress(OSError):
        for name in os.listdir(_FD):
            with suppress(OSError):
                found[_what(os.readlink(f"{_FD}/{name}"))] += 1
    return found


def _what(link: Any) -> str:
    text = str(link)
    if text.startswith("/memfd:"):
        return text.removesuffix(" (deleted)").rpartition(":")[0] if text.count(":") > 1 else text
    return text if text.startswith("/") else text.partition(":")[0]

"""What is said of things that are alike: `finding_of`."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from heapq import nsmallest
from typing import Final

from runtime.profile.leak_check.detectors import Seen
from runtime.profile.leak_check.grading import EXEMPLARS, Facts, Finding, Signature
from runtime.profile.leak_check.suggestions import suggestion
from runtime.profile.model import Process
from runtime.profile.turns import TURNS

_TENANTS: Final = 10


def finding_of(
    grade: str,
    signature: Signature,
    seen: Sequence[Seen],
    facts: Facts,
    why: str,
    at_ns: int,
    process: Process | None,
    *,
    proved: bool = False,
) -> Finding:
    """What is said of things that are alike."""
    oldest = nsmallest(EXEMPLARS, seen, key=lambda one: one.since_ns or at_ns)
    since_ns = oldest[0].since_ns
    age_ns = max(0, at_ns - since_ns) if since_ns else 0
    owners = Counter(one.owner for one in seen if one.owner)
    owner = owners.most_common(1)[0][0] if owners else process.title if process else ""
    common = set(seen[0].labels)
    for one in seen:  # and not in one call, which nobody interrupts
        common.intersection_update(one.labels)
        TURNS.breathe()
    if signature.node_type:
        common.add(("node_type", signature.node_type))
    tenants = Counter(text for one in seen for name, text in one.labels if name == "tenant")
    exemplars = tuple(one.key for one in oldest[:EXEMPLARS] if one.key)
    return Finding(
        grade, signature.kind, len(seen), round(facts.slope.value * 60, 3), round(age_ns / 1e9, 3), signature.id,
        signature.site, signature.wait, tuple(sorted(common)), owner, why, exemplars,
        suggestion(signature.kind), proved, tuple(tenants.most_common(_TENANTS)),
        time.time_ns() - age_ns if since_ns else 0, build(), process,
    )  # fmt: skip


@cache
def build() -> str:
    """Of which code a finding is: MAINSPRING_BUILD of the environment, else the version of Mainspring."""
    named = os.environ.get("MAINSPRING_BUILD")
    if named:
        return named
    from importlib.metadata import PackageNotFoundError, version  # lazy: 20 ms, and only for a finding

    try:
        return f"mainspring {version('mainspring')}"
    except PackageNotFoundError:
        return ""

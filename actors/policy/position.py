"""Where a node waits in its queue: the answer of `FairQueue.position`, for `handle.why()`."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Where a node waits. `flows_before`: turns of other flows before the next one of its own.

    `blocked_by`: the scope that holds it back; then `ahead_in_flow` counts its own kind, and no turns are counted.
    """

    class_: int
    tenant: str
    ahead_in_flow: int
    flows_before: int
    blocked_by: str

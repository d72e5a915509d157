"""A kind as the mechanisms of who runs next see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class FakeKind:
    """Compared by identity, as kinds are."""

    node_type: str = "cpu"
    priority: int = 2
    tenant: str = ""
    concurrency_key: str | None = None
    rate_key: str | None = None
    rate_cost: float = 1.0

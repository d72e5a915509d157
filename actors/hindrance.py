"""Why what is ready does not start, in words: what pauses, quotas, rates, breakers and batches say of it.

Only reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import batching
from actors.guards import BREAKER
from actors.inversion import holders_text
from actors.policy.scopes import RATE, scopes_of
from actors.protocol.kinds import Kind

if TYPE_CHECKING:
    from actors.core import EngineCore


def reason(core: EngineCore, scope: str, now_ns: int) -> str:
    """Why nothing of a scope starts, in words."""
    giving = core.scheduler.giving
    word, _, name = scope.partition(":")
    if word == BREAKER:
        return giving.guards.reason(name, now_ns)
    called = scope if name else f"{scope} (the default tenant)"
    if scope in giving.policy.paused:
        note = giving.policy.pauses.get(scope)
        return f"{called} is paused" if note is None else f"{called} is paused {note}"
    limit = giving.policy.quotas.get(scope)
    if limit is not None:
        return f"{giving.quotas.held(scope):,} of {limit:,} places of {called} are taken{holders_text(core, scope)}"
    if scope in giving.batches.by_scope:
        return batching.reason(giving, scope)
    due_ns = giving.due.due_ns(scope)
    if due_ns is not None:
        return f"{called} keeps its room for what was before it; that is looked at in {_seconds(due_ns - now_ns)}"
    return f"{called} has no room"


def pause(core: EngineCore, kind: Kind, now_ns: int) -> str:
    """What of a kind is paused, in words; empty when nothing is. It holds back whatever else does, and has no end."""
    paused = core.scheduler.giving.policy.paused
    scope = next((scope for scope in scopes_of(kind) if scope in paused), None) if paused else None
    return "" if scope is None else reason(core, scope, now_ns)


def hindrance(core: EngineCore, kind: Kind, now_ns: int) -> str:
    """Why a node of this kind would be held back if a worker had room for it, in words; empty when it would not."""
    giving = core.scheduler.giving
    for scope in scopes_of(kind):
        if scope in giving.policy.paused or (scope in giving.policy.quotas and not giving.quotas.room(scope)):
            return reason(core, scope, now_ns)
    guard = giving.guards.tripped.get(kind.node_type)
    if guard is not None and guard.breaker is not None and guard.breaker.until_ns(now_ns) is not None:
        return giving.guards.reason(kind.node_type, now_ns)
    wait_ns = giving.rates.next_ns(kind, now_ns) - now_ns
    return f"{RATE}:{kind.rate_key} is used up; it has room in {_seconds(wait_ns)}" if wait_ns > 0 else ""


def _seconds(ns: int) -> str:
    return f"{max(0, ns) / 1e9:,.3f} s"

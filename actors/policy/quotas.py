"""Quotas: how many nodes of a class, tenant, node type or concurrency key may be leased at the same time.

Purpose: "at most 4 of tenant:acme, one of key:printer". A node falls under several scopes (`scopes.scopes_of`) and
takes a place in each that has a limit, or in none. Places are leases of the attempt: whoever ends, returns or loses a
lease gives its place back, so nothing of this is on disk; after a restart nothing is held.

Prior art: counting semaphores, with the places of all of them taken at once, so that there is no order to deadlock in.

Invariants:
- Held is counted per kind. What a limited scope holds is the sum over its kinds; so a limit that is set while work
  runs knows at once how much runs, and kinds without any limit cost one dictionary entry.
- The scope that `take` names has no room after the call. It has some when `give_back` or `set` says so; what waits
  under it is looked at then, and at no other time.
- Memory: a kind that holds nothing is forgotten, but for its scopes in a cache of at most `limits.KINDS_MAX`.

Concurrency: none; owned by one actor. Known limits: a limit below what is held takes nothing away from what runs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType

from actors.policy.scopes import QUOTA_WORDS, Scoped, parse, scopes_of
from actors.protocol import limits as bounds
from actors.protocol.errors import CallerError, ConfigurationError, InvariantBroken


class Quotas:
    """Places by scope. `limits` shows the limits; change them with `set`."""

    __slots__ = ("_by_kind", "_held", "_limits", "_scopes", "limits")

    def __init__(self, limits: Mapping[str, int] = MappingProxyType({})) -> None:
        self._limits: dict[str, int] = {}
        self.limits: Mapping[str, int] = MappingProxyType(self._limits)
        self._held: dict[str, int] = {}
        self._by_kind: dict[Scoped, int] = {}
        self._scopes: dict[Scoped, tuple[str, ...]] = {}
        for scope, limit in limits.items():
            self.set(scope, limit)

    def set(self, scope: str, limit: int | None) -> bool:
        """Set, change or (None) take away the limit of a scope.

        Returns:
            Whether there is more room than before, so that what waits under the scope may be looked at.

        Raises:
            ConfigurationError: The scope is none that can have a quota, or the limit is below 1.
            CallerError: There are `limits.SCOPES_LIMITED_MAX` already.
        """
        parse(scope, QUOTA_WORDS)
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ConfigurationError(f"quota of {scope!r} is {limit!r}: a whole number from 1 on, or None for no limit")
        old = self._limits.get(scope)
        if limit is None:
            if old is None:
                return False
            self._scopes.clear()
            del self._limits[scope], self._held[scope]
            return True
        if old is None:
            if len(self._limits) >= bounds.SCOPES_LIMITED_MAX:
                raise CallerError(f"more than {bounds.SCOPES_LIMITED_MAX:,} scopes would have a quota")
            self._held[scope] = self.held(scope)
            self._scopes.clear()
        self._limits[scope] = limit
        return old is not None and limit > max(old, self._held[scope])

    def take(self, kind: Scoped, wanted: int) -> tuple[int, str]:
        """Take places for up to so many nodes of a kind, in all its limited scopes or in none.

        Returns:
            How many may start, and the scope that blocks the rest: that with the least room, the first of several;
            empty when none is blocked.
        """
        count, blocking = wanted, ""
        scopes = self.scopes_of(kind)
        for scope in scopes:
            room = max(self._limits[scope] - self._held[scope], 0)
            if room < count:
                count, blocking = room, scope
        if count > 0:
            for scope in scopes:
                self._held[scope] += count
            self._by_kind[kind] = self._by_kind.get(kind, 0) + count
        return count, blocking

    def room_for(self, kind: Scoped) -> float:
        """How many nodes of a kind may start now."""
        return min(map(self.room, self.scopes_of(kind)), default=math.inf)

    def give_back(self, kind: Scoped, count: int) -> list[str]:
        """Give back places of nodes of this kind that are not leased any more.

        Returns:
            The scopes that had no room and have some now.

        Raises:
            InvariantBroken: The kind does not hold so many; nothing is changed.
        """
        left = self._by_kind.get(kind, 0) - count
        if left < 0 or count < 0:
            raise InvariantBroken(f"{count} places are given back, {left + count} are held ({scopes_of(kind)})")
        if left:
            self._by_kind[kind] = left
        else:
            self._by_kind.pop(kind, None)
        freed = []
        for scope in self.scopes_of(kind):
            before, limit = self._held[scope], self._limits[scope]
            self._held[scope] = before - count
            if before - count < limit <= before:
                freed.append(scope)
        return freed

    def move(self, kind: Scoped, other: Scoped, count: int) -> list[str]:
        """Nodes that hold places are of another kind from now on. They go on even where that has no room for them.

        Returns:
            The scopes that had no room and have some now.

        Raises:
            InvariantBroken: The kind does not hold so many; nothing is changed.
        """
        freed = self.give_back(kind, count)
        if count:
            for scope in self.scopes_of(other):
                self._held[scope] += count
            self._by_kind[other] = self._by_kind.get(other, 0) + count
        return [scope for scope in freed if self._held[scope] < self._limits[scope]]

    def kinds_held(self) -> Collection[Scoped]:
        """Kinds of which something is leased."""
        return self._by_kind.keys()

    def held(self, scope: str) -> int:
        """How many places nodes of this scope hold. Without a limit it is counted by going over the kinds."""
        held = self._held.get(scope)
        if held is not None:
            return held
        return sum(count for kind, count in self._by_kind.items() if scope in scopes_of(kind))

    def room(self, scope: str) -> int:
        """How many more of a limited scope may start."""
        return max(self._limits[scope] - self._held[scope], 0)

    def scopes_of(self, kind: Scoped) -> tuple[str, ...]:
        """The scopes of a kind that have a limit."""
        if not self._limits:
            return ()
        scopes = self._scopes.get(kind)
        if scopes is None:
            if len(self._scopes) >= bounds.KINDS_MAX:
                self._scopes.clear()
            scopes = self._scopes[kind] = tuple(scope for scope in scopes_of(kind) if scope in self._limits)
        return scopes

    def check_invariants(self) -> None:
        """What each scope holds is what its kinds hold.

        Raises:
            InvariantBroken: It is not.
        """
        for scope, held in self._held.items():
            counted = sum(count for kind, count in self._by_kind.items() if scope in scopes_of(kind))
            if held != counted:
                raise InvariantBroken(f"{scope} holds {held}, its kinds {counted}")
        if self._held.keys() != self._limits.keys() or not all(count > 0 for count in self._by_kind.values()):
            raise InvariantBroken("quotas hold what is unlimited, or kinds that hold nothing")

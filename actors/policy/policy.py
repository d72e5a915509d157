"""The policy: who runs next and how much at once, as one frozen value. Checked whole, all problems named at once.

    {"shares": {"realtime": [0.2, 1.0]},   class: [part of the slots kept for it, part that it may have at most]
     "ageing_ns": 5000000000,              a class that waits so long gets a turn before the better ones; 0: never
     "weights": {"acme": 2.0},             tenant: turns that it gets for one of a tenant that has none here
     "quotas": {"key:printer": 1},         scope: nodes that are with workers at once
     "rates": {"api": [10.0, 5]},          rate key: [cost per second, cost at once after a pause]
     "paused": ["tenant:acme"],            scopes of which nothing starts
     "pauses": [[by, reason, at_ns, ["tenant:acme"]]]}   who paused them, why and when, where that was said

This is the form of the wire and of the log. A change has the same form, with what it touches only: None takes an entry
away, and "pause" and "resume" list scopes in the place of "paused"; "by" and "reason" say who pauses, and why.

Scopes: "class:low", "tenant:acme", "type:cpu" (a node type), "key:printer" (a concurrency key), "rate:api" (a rate key,
which can be paused; how often it may is a rate and no quota), "schedule:nightly" (a schedule, which can be paused: it
starts no runs then). "tenant:" alone is the default tenant.

Invariant: a Policy is valid; `Policy.of` and `changed` are the only ways to one. Nothing here enforces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import orjson

from actors.policy.pauses import Notes, noted, read_notes, rows_of
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.kinds import PRIORITIES
from actors.protocol.moments import NS_PER_S
from actors.protocol.values import is_number, is_whole
from actors.protocol.words import is_name

Shares = Mapping[str, tuple[float, float]]
Rates = Mapping[str, tuple[float, int]]

QUOTA_SCOPES: Final = ("class", "tenant", "type", "key")
SCOPES: Final = (*QUOTA_SCOPES, "rate", "schedule")
"""What can be paused."""
TABLES: Final = ("shares", "weights", "quotas", "rates")
"""Parts that are entries by name."""
AGEING_NS_MAX: Final = 365 * 86_400 * NS_PER_S
WEIGHT_MAX: Final = 1000.0
"""Largest weight and, inverted, the smallest: one tenant gets at most a million times the turns of another."""
RATE_MAX: Final = 1_000_000.0
"""Largest rate per second: an interval of 1,000 ns, which whole nanoseconds still tell to a thousandth."""
RATE_MIN: Final = 1.0 / (365 * 86_400)
"""Smallest: once a year."""
_BARE: Final = MappingProxyType(
    {"weights": ("tenant:", "tenant"), "rates": ("rate:", "rate key"), "shares": ("class:", "class")}
)
"""Tables whose entries are bare names, with the scope that such a name has elsewhere."""
_SHARES_SLACK: Final = 1e-9
"""What adding binary fractions may be off: 0.7 + 0.2 + 0.1 is the whole."""
_KNOWN: Final = frozenset({*TABLES, "ageing_ns", "paused", "pauses"})
_CHANGES: Final = frozenset({*TABLES, "ageing_ns", "by", "pause", "reason", "resume"})


def _frozen() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Policy:
    """See the module; fields as there. A class, tenant, scope or key that has no entry has no limit and weight 1."""

    shares: Shares = field(default_factory=_frozen)
    ageing_ns: int = limits.AGEING_NS
    weights: Mapping[str, float] = field(default_factory=_frozen)
    quotas: Mapping[str, int] = field(default_factory=_frozen)
    rates: Rates = field(default_factory=_frozen)
    paused: frozenset[str] = frozenset()
    pauses: Notes = field(default_factory=_frozen)

    @staticmethod
    def of(data: Mapping[str, Any], *, bounded: bool = True, new: bool = False) -> Policy:
        """The policy of a dictionary as in the module; what is absent is at its default.

        Args:
            data: As in the module.
            bounded: Refuse what is larger than POLICY_BYTES_MAX. What was put together from two may be twice as large.
            new: Somebody sets it now, who may have written a scope where a name belongs: that is refused, with a hint.
                What was once taken is read as it is.

        Raises:
            ConfigurationError: Something is wrong; all problems are named.
        """
        checks = _Checks(new=new)
        checks.unknown(data, _KNOWN)
        tables = {name: checks.table(name, data.get(name), removable=False) for name in TABLES}
        ageing_ns = checks.ageing(data.get("ageing_ns", limits.AGEING_NS))
        paused = checks.scopes("paused", data.get("paused", ()))
        notes = read_notes(checks.add, data.get("pauses", ()), paused)
        return _made(checks, tables, ageing_ns, paused, notes, bounded=bounded)

    def changed(self, change: Mapping[str, Any], *, new: bool = False, at_ns: int = 0) -> Policy:
        """This policy with a change.

        Args:
            change: As in the module.
            new: As for `of`.
            at_ns: When it is made, on the wall clock.

        Raises:
            ConfigurationError: The change is wrong, or what would come of it; all problems are named.
        """
        checks = _Checks(new=new)
        checks.unknown(change, _CHANGES)
        tables: dict[str, dict[str, Any]] = {}
        for name in TABLES:
            merged = {**getattr(self, name), **checks.table(name, change.get(name), removable=True)}
            tables[name] = {entry: value for entry, value in merged.items() if value is not None}
        ageing_ns = checks.ageing(change.get("ageing_ns", self.ageing_ns))
        started = checks.scopes("pause", change.get("pause", ()))
        paused = (self.paused | started) - checks.scopes("resume", change.get("resume", ()))
        notes = noted(checks.add, self.pauses, change, started, paused, at_ns)
        return _made(checks, tables, ageing_ns, paused, notes)

    def rebased(self, before: Policy, now: Policy) -> Policy:
        """What was changed from `before`, kept over `now`: each entry for itself, and `now` wins where it differs from
        `before`. Pauses stay. A share that no longer fits beside the new ones gives way."""
        tables = {name: _merged(getattr(self, name), getattr(before, name), getattr(now, name)) for name in TABLES}
        ageing_ns = self.ageing_ns if now.ageing_ns == before.ageing_ns else now.ageing_ns
        if sum(least for least, _ in tables["shares"].values()) > 1.0 + _SHARES_SLACK:
            tables["shares"] = dict(now.shares)
        paused = self.paused | now.paused
        return _made(_Checks(), tables, ageing_ns, paused, {**now.pauses, **self.pauses}, bounded=False)

    def to_json(self) -> dict[str, Any]:
        """As in the module; `Policy.of` makes an equal one of it."""
        return {
            "shares": {name: list(share) for name, share in self.shares.items()},
            "ageing_ns": self.ageing_ns,
            "weights": dict(self.weights),
            "quotas": dict(self.quotas),
            "rates": {name: list(rate) for name, rate in self.rates.items()},
            "paused": sorted(self.paused),
            **({"pauses": rows_of(self.pauses)} if self.pauses else {}),
        }


def node_types_in(data: Mapping[str, Any]) -> set[str]:
    """The node types that quotas and pauses of a policy or a change name. What is taken away names none."""
    quotas = data.get("quotas")
    scopes = [scope for scope, limit in quotas.items() if limit is not None] if isinstance(quotas, Mapping) else []
    for name in ("pause", "paused"):
        scopes += data.get(name) or ()
    parts = (str(scope).partition(":") for scope in scopes)
    return {name for kind, _, name in parts if kind == "type" and name}


def _merged(own: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Entries: `now` where the one who sets it changed its mind, else what was made of it meanwhile."""
    found = {}
    for name in {**own, **now}:
        value = own.get(name) if now.get(name) == before.get(name) else now.get(name)
        if value is not None:
            found[name] = value
    return found


def _made(
    checks: _Checks,
    tables: dict[str, dict[str, Any]],
    ageing_ns: int,
    paused: frozenset[str],
    notes: Notes,
    *,
    bounded: bool = True,
) -> Policy:
    least = sum(share[0] for share in tables["shares"].values())
    checks.add(least <= 1.0 + _SHARES_SLACK, f"shares: together they keep {least:.0%} of the slots, over 100 %")
    checks.finish()
    frozen = {name: MappingProxyType(tables[name]) for name in TABLES}
    policy = Policy(**frozen, ageing_ns=ageing_ns, paused=paused, pauses=MappingProxyType(dict(notes)))
    if bounded:
        data = policy.to_json()
        said = len(orjson.dumps(data.pop("pauses", [])))
        size = max(said, len(orjson.dumps(data)))
        checks.add(size <= limits.POLICY_BYTES_MAX, f"it takes {size:,} bytes, over {limits.POLICY_BYTES_MAX:,}")
    checks.finish()
    return policy


class _Checks:
    """Reads the parts of a policy, and gathers what is wrong."""

    def __init__(self, *, new: bool = False) -> None:
        self.problems: list[str] = []
        self.new = new

    def add(self, holds: bool, problem: str) -> bool:
        if not holds:
            self.problems.append(problem)
        return holds

    def finish(self) -> None:
        if self.problems:
            raise ConfigurationError("scheduling: " + "; ".join(self.problems))

    def unknown(self, data: Mapping[str, Any], known: frozenset[str]) -> None:
        strange = sorted(repr(name) for name in data if name not in known)
        self.add(not strange, f"unknown settings: {', '.join(strange)}")

    def table(self, name: str, data: Any, *, removable: bool) -> dict[str, Any]:
        """The entries that are right; with `removable`, None takes one away."""
        if data is None:
            return {}
        if not self.add(isinstance(data, Mapping), f"{name} must be a dictionary"):
            return {}
        found = {}
        for entry, value in data.items():
            if (value is None or self._is_no_scope(name, entry)) and self._entry(name, entry):
                read = None if value is None and removable else _READ[name](self, entry, value)
                if read is not None or (value is None and removable):
                    found[entry] = read
        return found

    def _is_no_scope(self, name: str, entry: object) -> bool:
        """Whether an entry is no scope where a bare name is meant. Such a name would be taken, and mean nobody."""
        word, what = _BARE.get(name, ("", ""))
        if not (self.new and what and isinstance(entry, str) and entry.startswith(word)):
            return True
        return self.add(
            False, f"{name}: {entry!a:.60} is a scope; name the {what} alone: {entry.removeprefix(word)!a:.60}"
        )

    def _entry(self, name: str, entry: object) -> bool:
        """Whether an entry is called as it may be."""
        match name:
            case "shares":
                return self.add(entry in PRIORITIES, f"shares: {entry!a:.60} is none of {', '.join(PRIORITIES)}")
            case "weights":
                return self.add(entry == "" or is_name(entry), f"weights: {entry!a:.60} cannot be a tenant's name")
            case "rates":
                return self.add(is_name(entry), f"rates: {entry!a:.60} cannot be a rate key")
            case _:
                return self._scope("quotas", entry, QUOTA_SCOPES)

    def scopes(self, name: str, data: Any) -> frozenset[str]:
        listed = isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping)
        if not self.add(listed, f"{name} must be a list of scopes"):
            return frozenset()
        return frozenset(scope for scope in data if self._scope(name, scope, SCOPES))

    def _scope(self, name: str, scope: object, allowed: tuple[str, ...]) -> bool:
        kind, colon, rest = scope.partition(":") if isinstance(scope, str) else ("", "", "")
        if not colon or kind not in allowed:
            forms = ", ".join(f"{form}:NAME" for form in allowed)
            return self.add(False, f"{name}: {scope!a:.60} is none of {forms}")
        if kind == "class":
            return self.add(rest in PRIORITIES, f"{name}: class {rest!a:.60} is none of {', '.join(PRIORITIES)}")
        named = is_name(rest) or (kind == "tenant" and not rest)
        return self.add(named, f"{name}: {scope!a:.60} needs a name of 1 to {limits.NAME_BYTES_MAX:,} bytes in UTF-8")

    def ageing(self, value: Any) -> int:
        fits = is_whole(value, 0, AGEING_NS_MAX)
        return value if self.add(fits, "ageing must be 0 (never) to a year") else limits.AGEING_NS

    def share(self, entry: str, value: Any) -> tuple[float, float] | None:
        pair = tuple(value) if isinstance(value, list | tuple) else ()
        rule = f"shares: {entry} must be two numbers: Share(least=..., most=...)"
        if not self.add(len(pair) == 2 and all(map(is_number, pair)), rule):
            return None
        least, most = float(pair[0]), float(pair[1])
        fits = self.add(0 <= least <= 1, f"shares: {entry} must keep 0 to 1 of the slots, not {least:g}")
        fits &= self.add(
            0 < most <= 1, f"shares: {entry} must have at most 1 of the slots and more than 0, not {most:g}"
        )
        fits &= self.add(least <= max(most, 0) or not fits, f"shares: {entry} keeps more ({least:g}) than it may have")
        return (least, most) if fits else None

    def weight(self, entry: str, value: Any) -> float | None:
        fits = is_number(value, 1 / WEIGHT_MAX, WEIGHT_MAX)
        rule = f"must be above 0, {1 / WEIGHT_MAX:g} to {WEIGHT_MAX:g}"
        return float(value) if self.add(fits, f"weights: {entry!a:.60} {rule}, not {value!r:.60}") else None

    def quota(self, entry: str, value: Any) -> int | None:
        fits = is_whole(value, 1, limits.QUOTA_MAX)
        rule = f"must be a whole number from 1 to {limits.QUOTA_MAX:,}"
        return value if self.add(fits, f"quotas: {entry!a:.60} {rule}, not {value!r:.60}") else None

    def rate(self, entry: str, value: Any) -> tuple[float, int] | None:
        pair = tuple(value) if isinstance(value, list | tuple) else ()
        rule = f"rates: {entry!a:.60} must be a rate and a burst: Rate(count, per=..., burst=...)"
        if not self.add(len(pair) == 2, rule):
            return None
        per_s, burst = pair
        fits = self.add(
            is_number(per_s, RATE_MIN, RATE_MAX),
            f"rates: {entry!a:.60} must be once a year to {RATE_MAX:,.0f} per second, not {per_s!r:.30}",
        )
        whole = is_whole(burst, 1, limits.QUOTA_MAX)
        fits &= self.add(whole, f"rates: {entry!a:.60} needs a burst of at least 1, a whole number, not {burst!r:.60}")
        return (float(per_s), burst) if fits else None


_READ: Final[Mapping[str, Callable[[_Checks, str, Any], Any]]] = MappingProxyType(
    {"shares": _Checks.share, "weights": _Checks.weight, "quotas": _Checks.quota, "rates": _Checks.rate}
)

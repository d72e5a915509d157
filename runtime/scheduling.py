"""Who runs next: what a program sets when it opens a runtime, what it can change later, and what stands now.

Times are given in seconds here; in the engine they are integer nanoseconds. What is right is decided in one place,
`actors.policy.policy`, here for what a program sets and in the engine for what it changes.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import float_info
from typing import Any, Self

from actors.policy.pauses import PauseNote, notes_of
from actors.policy.policy import Policy, node_types_in
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S
from runtime.checks import BYTES_MAX, is_number, is_whole
from runtime.units import any_to_ns


@dataclass(frozen=True, slots=True)
class Share:
    """What a priority class has of the slots of each pool, as parts of 1.

    Args:
        least: It comes first while it has less and work to do. Lent while it has none, and back as tasks of others end.
            The classes' least parts are 1 together at most.
        most: It never has more, so the rest is free for the other classes at once: `{"low": Share(most=0.8)}` keeps a
            fifth of the workers from long tasks of class low.
    """

    least: float = 0.0
    most: float = 1.0


@dataclass(frozen=True, slots=True)
class Rate:
    """How often tasks of a rate key may start.

    Args:
        count: So much cost (one for each task, see `rate_cost`) ...
        per: ... in so many seconds.
        burst: So much at once after a pause.

    Raises:
        ConfigurationError: A value is no number, or not above 0; all problems are named.
    """

    count: float
    per: float = 1.0
    burst: int = 1

    def __post_init__(self) -> None:
        values: tuple[tuple[str, Any], ...] = (("count", self.count), ("per", self.per))
        problems = [
            f"{name} must be a number above 0, not {value!r:.60}"
            for name, value in values
            if not is_number(value, 0, float_info.max, above=True)
        ]
        if not is_whole(self.burst, 1, BYTES_MAX):
            problems.append(f"burst must be a whole number of at least 1, not {self.burst!r:.60}")
        if problems:
            raise ConfigurationError(f"Rate: {'; '.join(problems)}")

    @property
    def per_s(self) -> float:
        """Cost in a second."""
        return self.count / self.per


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Who runs next and how much at once, as a program sets it: `Runtime(..., scheduling=Scheduling(...))`.

    What `set_quota`, `set_weight`, `set_rate`, `pause` and `resume` change holds over restarts, until the program sets
    another value for the same entry here than it did when the change was made.

    Args:
        quotas: How many tasks of a scope are with workers at once: "tenant:acme", "key:printer" (a concurrency key),
            "type:cpu" (a node type), "class:low".
        weights: How many turns a tenant gets for one of a tenant that is not named.
        rates: How often tasks of a rate key may start.
        shares: What a priority class has of the slots. Unless other shares are given, a fifth is kept for realtime.
        ageing: Seconds after which a class that waits gets a turn before the better ones; 0 lets it wait for ever.

    Raises:
        ConfigurationError: Values are out of range; all problems are named.
    """

    quotas: Mapping[str, int] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)
    shares: Mapping[str, Share] = field(default_factory=lambda: {"realtime": Share(least=0.2)})
    ageing: float = limits.AGEING_NS / NS_PER_S

    def __post_init__(self) -> None:
        Policy.of(self.to_wire(), new=True)

    def to_wire(self) -> dict[str, Any]:
        """As the engine reads it: the form of `actors.policy.policy`."""
        return {
            "quotas": _rows(self.quotas),
            "weights": _rows(self.weights),
            "rates": _rows(self.rates),
            "shares": _rows(self.shares),
            "ageing_ns": any_to_ns(self.ageing),
        }

    def strangers(self, node_types: Sequence[str]) -> list[str]:
        """What is wrong with the node types that the quotas name.

        Args:
            node_types: Those that there are.

        Returns:
            The problems, none when they are all there.
        """
        strange = sorted(node_types_in(self.to_wire()) - set(node_types))
        return [f"quotas: no node type {name!r}; there are {', '.join(map(repr, node_types))}" for name in strange]


@dataclass(frozen=True, slots=True)
class SchedulingStatus:
    """Who runs next, at one moment: as `Scheduling`, with what was changed at run time.

    `paused` are the scopes of which nothing starts, sorted; `pauses` says of those who paused them, why and when
    (`by`, `reason`, `at_ns` on the wall clock), where that was said; `waiting` is how many tasks of each priority class
    are ready and wait.
    """

    quotas: Mapping[str, int]
    weights: Mapping[str, float]
    rates: Mapping[str, Rate]
    shares: Mapping[str, Share]
    ageing: float
    paused: tuple[str, ...]
    waiting: Mapping[str, int]
    pauses: Mapping[str, PauseNote] = field(default_factory=dict)

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Self:
        """From the engine's answer to "policy".

        Args:
            reply: `{"policy": ..., "waiting": ...}`.
        """
        policy = reply["policy"]
        return cls(
            policy["quotas"],
            policy["weights"],
            {key: Rate(per_s, 1.0, burst) for key, (per_s, burst) in policy["rates"].items()},
            {name: Share(*share) for name, share in policy["shares"].items()},
            policy["ageing_ns"] / NS_PER_S,
            tuple(policy["paused"]),
            reply["waiting"],
            notes_of(policy),
        )


def ask_policy() -> tuple[str, dict[str, Any]]:
    """The question what stands."""
    return "policy", {}


def ask_change(**change: Any) -> tuple[str, dict[str, Any]]:
    """The request of a change, in the form of `actors.policy.policy`.

    Raises:
        ConfigurationError: It is wrong whatever stands; all problems are named.
    """
    Policy().changed(change, new=True)
    return "policy", {"change": change}


def ask_pause(scopes: Sequence[str], by: str | None, reason: str | None) -> tuple[str, dict[str, Any]]:
    """The request of a pause.

    Args:
        scopes: Of what nothing is to start.
        by: Who pauses; None for this user and program.
        reason: Why; None where there is nothing to say.

    Raises:
        ConfigurationError: It is wrong whatever stands; all problems are named.
    """
    told = {"by": asker() if by is None and scopes else by, "reason": reason}
    return ask_change(pause=scopes, **{name: value for name, value in told.items() if value is not None})


def asker() -> str:
    """Who asks, where nobody says it: the user, at the program's name or, where it has none, its pid."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # an id without an entry in the list of users
        user = str(os.getuid())
    path, name = os.path.split(sys.argv[0] if sys.argv else "")
    if name == "__main__.py":
        name = os.path.basename(path)
    program = name.removesuffix(".py") if name.strip("-") not in ("", "c", "m") else f"pid {os.getpid()}"
    return f"{user}@{program}".encode(errors="replace")[: limits.NAME_BYTES_MAX].decode(errors="ignore")


def ask_entry(table: str, entry: str, value: Any) -> tuple[str, dict[str, Any]]:
    """The request to change one entry of a table, or (None) to take it away. Raises ConfigurationError: it is wrong."""
    if not isinstance(entry, str):
        raise ConfigurationError(f"scheduling: {table}: {entry!r:.60} is no name")
    return ask_change(**{table: {entry: row_of(value)}})


def row_of(value: Any) -> Any:
    """A Rate or a Share as numbers; anything else as it is, to be judged by the policy."""
    if isinstance(value, Rate):
        return [value.per_s, value.burst]
    return [value.least, value.most] if isinstance(value, Share) else value


def _rows(table: Any) -> Any:
    return {name: row_of(value) for name, value in table.items()} if isinstance(table, Mapping) else table

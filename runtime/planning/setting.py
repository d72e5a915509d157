"""What a simulation changes, and the node types and the policy that come of it.

All that is wrong is named at once. What is not changed is as it was recorded; where the log does not say how many
workers a node type had, it has as many as ever had work at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from actors.policy.policy import TABLES, Policy
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.kinds import PRIORITIES
from runtime.planning.recording import Recording

EVERY: Final = ""
"""Stands for all node types that are not named."""
WORKERS_MAX: Final = 4096
"""Of one node type; more than an engine has, since nobody has to pay for them here."""
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {"class": "class", "tenant": "tenant", "key": "concurrency key", "type": "node type", "rate": "rate key"}
)
Numbers = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is different. `workers`, `slots` and `prefetch` are by node type, `EVERY` for those that are not named;
    `policy` is a change of the policy (`actors.policy.policy`), which also holds over what was changed at run time."""

    workers: Numbers = field(default_factory=dict)
    slots: Numbers = field(default_factory=dict)
    prefetch: Numbers = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)

    def node_types(self, recording: Recording) -> list[dict[str, Any]]:
        """The node types of the simulation.

        Raises:
            ConfigurationError: There is no such node type, or a number is out of range; all problems are named.
        """
        known = recording.node_types
        problems: list[str] = []
        for what, most in (("workers", WORKERS_MAX), ("slots", limits.PREFETCH_MAX), ("prefetch", limits.PREFETCH_MAX)):
            numbers: Numbers = getattr(self, what)
            least = 0 if what == "prefetch" else 1
            for name, number in numbers.items():
                if name != EVERY and name not in known:
                    problems.append(f"{what}: there is no node type {name!r}; the log has {', '.join(sorted(known))}")
                if not least <= number <= most:
                    problems.append(f"{what} must be {least} to {most:,}, not {number:,}")
        for name in self.slots:
            if name in known and known[name]["mode"] != "asyncio":
                problems.append(f"slots: {name!r} runs one task at a time in each worker")
        if problems:
            raise ConfigurationError(f"simulate: {'; '.join(problems)}")
        return [self._changed(data) for data in known.values()]

    def _changed(self, data: dict[str, Any]) -> dict[str, Any]:
        name, changed = data["name"], {**data, "asks_scale": False, "recycle_tasks": None, "recycle_rss_bytes": None}
        workers = self.workers.get(name, self.workers.get(EVERY))
        if workers is not None:
            changed["workers_min"] = changed["workers_max"] = workers
        prefetch = self.prefetch.get(name, self.prefetch.get(EVERY))
        if prefetch is not None:
            changed["prefetch"] = prefetch
        slots = self.slots.get(name, self.slots.get(EVERY))
        if slots is not None and data["mode"] == "asyncio":
            changed["slots"] = slots
        return changed

    def policy_over(self, recorded: Mapping[str, Any]) -> Policy:
        """The policy where that one was recorded. Raises ConfigurationError: the change is wrong, or does not fit."""
        policy = Policy.of(recorded, bounded=False)
        return policy.changed(self.policy) if self.policy else policy

    def refuse_unknown(self, recording: Recording) -> None:
        """Refuse changes for what no task of the log has: nothing would come of them.

        Raises:
            ConfigurationError: All of them are named.
        """
        kinds = [kind for run in recording.runs.values() for kind in run.run.kinds]
        known = {
            "class": {PRIORITIES[kind.priority] for kind in kinds},
            "tenant": {kind.tenant for kind in kinds},
            "key": {kind.concurrency_key for kind in kinds if kind.concurrency_key},
            "type": set(recording.node_types),
            "rate": {kind.rate_key for kind in kinds if kind.rate_key},
        }
        of_table = {"weights": "tenant", "rates": "rate", "shares": "class"}
        problems = []
        for table in TABLES:
            for name in self.policy.get(table, {}):
                what, _, bare = name.partition(":") if table == "quotas" else (of_table[table], "", name)
                if what in known and bare not in known[what]:
                    there = ", ".join(sorted(one or "(default)" for one in known[what])) or "none"
                    problems.append(f"{_WORDS[what]} {bare!r}: no task of the log has it; what there is: {there}")
        if problems:
            raise ConfigurationError(f"simulate: {'; '.join(problems)}")

    @property
    def is_recorded(self) -> bool:
        """Whether nothing is changed."""
        return not (self.workers or self.slots or self.prefetch or self.policy)

    def words(self) -> list[str]:
        """What is different, in words."""
        found = []
        for what in ("workers", "slots", "prefetch"):
            found += [
                f"{what} {number:,}{f' of {name}' if name else ''}" for name, number in getattr(self, what).items()
            ]
        for table in TABLES:
            for name, value in self.policy.get(table, {}).items():
                found.append(f"{table.removesuffix('s')} of {name or 'the default tenant'} {value}")
        return found


def scope_of(text: str) -> str:
    """A scope as it is written in short: the name of a class stands for it."""
    return f"class:{text}" if text in PRIORITIES else text


def change_to(before: Policy, after: Policy) -> dict[str, Any]:
    """The change that leads from one policy to another."""
    change: dict[str, Any] = {}
    one, other = before.to_json(), after.to_json()
    for table in TABLES:
        entries = {name: None for name in one[table] if name not in other[table]}
        entries |= {name: value for name, value in other[table].items() if one[table].get(name) != value}
        if entries:
            change[table] = entries
    if one["ageing_ns"] != other["ageing_ns"]:
        change["ageing_ns"] = other["ageing_ns"]
    if started := sorted(after.paused - before.paused):
        change["pause"] = started
    if ended := sorted(before.paused - after.paused):
        change["resume"] = ended
    return change

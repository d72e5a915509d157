"""Dead letters: which of them somebody means.

A dead letter is a node that failed for good: its attempts are used up, it expired, its deadline passed, or it took too
many workers with it.
A filter names some of them by what they are; parts that are not given match all. `problems` says all that is wrong
with one at once, so that it is refused before anything was done.

Pure and without state but the compiled pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Self

from actors.policy.scopes import name_problem
from actors.protocol.errors import ConfigurationError
from actors.protocol.states import FailureKind

_NO_FAILURES: Final = frozenset({FailureKind.CANCELLED, FailureKind.SKIPPED, FailureKind.WAITS})
KINDS: Final = tuple(str(kind) for kind in FailureKind if kind not in _NO_FAILURES)
"""How a dead letter may have failed."""
FIELDS: Final = ("handler", "kind", "tenant", "since_ns", "run")


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """See the module. Made by `of`.

    `handler` is a pattern for the function's full name or the task's name; `since_ns` is wall clock; `run` a run id.
    """

    handler: re.Pattern[str] | None = None
    kind: str | None = None
    tenant: str | None = None
    since_ns: int | None = None
    run: str | None = None

    @classmethod
    def of(cls, data: dict[str, Any]) -> Self:
        """The filter of these fields; null means all.

        Raises:
            ConfigurationError: One is wrong; all problems are named.
        """
        wrong = problems(data)
        if wrong:
            raise ConfigurationError("; ".join(wrong))
        handler = data.get("handler")
        return cls(
            None if handler is None else re.compile(pattern_of(handler), re.DOTALL),
            *(data.get(name) for name in FIELDS[1:]),
        )

    def matches_task(self, handler: str, name: str, tenant: str) -> bool:
        """Whether letters of a task are meant: of this function, name and tenant."""
        if self.tenant is not None and tenant != self.tenant:
            return False
        return self.handler is None or bool(self.handler.fullmatch(handler) or self.handler.fullmatch(name))

    def matches_failure(self, kind: str, at_ns: int) -> bool:
        """Whether letters are meant that failed like this, then."""
        return (self.kind is None or kind == self.kind) and (self.since_ns is None or at_ns >= self.since_ns)


def problems(data: dict[str, Any]) -> list[str]:
    """What is wrong with the fields of a filter."""
    found = [f"a filter has no field {name!r:.40}; there are {', '.join(FIELDS)}" for name in data.keys() - {*FIELDS}]
    for name in ("handler", "run"):
        value = data.get(name)
        if value is not None and (trouble := name_problem(value)):
            found.append(f"{name}: {trouble}")
    if data.get("kind") is not None and data["kind"] not in KINDS:
        found.append(f"kind must be one of {', '.join(KINDS)}, not {data['kind']!r:.40}")
    if data.get("tenant") is not None and (trouble := name_problem(data["tenant"], empty=True)):
        found.append(f"tenant: {trouble}")
    since = data.get("since_ns")
    if since is not None and (type(since) is not int or not 0 <= since < 1 << 63):
        found.append(f"since must be a time after 1970, not {since!r:.40}")
    return sorted(found)


def pattern_of(glob: str) -> str:
    """The regular expression of a pattern in which * stands for any text and ? for any character."""
    parts = {"*": ".*", "?": "."}
    return "".join(parts.get(character) or re.escape(character) for character in re.sub(r"\*+", "*", glob))

"""Which events are wanted, checked when it is said: a pattern that names no kind is a mistake, not an empty answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import translate
from typing import Any, Final

from actors.event_kinds import EVENT_KINDS, Event
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.moments import NS_PER_S
from runtime.checks import is_number, listed
from runtime.units import datetime_to_ns

ALL: Final = frozenset(EVENT_KINDS)
LSN_MAX: Final = (1 << 63) - 1
MOMENT_S_MAX: Final = 253_402_300_800.0
"""Of a moment in seconds: the year 10000. More is one in another unit."""
Since = datetime | int | float | str
"""Where to begin: an LSN (int), a moment (a datetime with a time zone, or seconds since 1970 as a float), "begin": the
oldest that is kept, "now": what comes next."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What is wanted. Made by `filter_of`.

    Args:
        kinds: The kinds.
        runs: Patterns of run ids; any of them; none: all runs.
        names: Patterns of the names of tasks, flows and schedules; any of them; none: all.
    """

    kinds: frozenset[str] = ALL
    runs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def looks_at_each(self) -> bool:
        """Whether events of the wanted kinds have to be looked at one by one."""
        return bool(self.runs or self.names)

    def matcher(self) -> Callable[[Event], bool]:
        """Whether an event of a wanted kind is wanted."""
        runs, names = _any_of(self.runs), _any_of(self.names)
        return lambda event: (
            (runs is None or (event.run is not None and runs(event.run) is not None))
            and (names is None or names(event.name) is not None)
        )


def filter_of(
    kinds: str | Iterable[str] | None = None,
    run: Any = None,
    name: str | Iterable[str] | None = None,
) -> EventFilter:
    """Check what is wanted.

    Args:
        kinds: Kinds or patterns of them ("node.*", "*.failed"); None for all.
        run: A handle, run id or pattern of ids, or several of them; None for all runs.
        name: Names or patterns of tasks, flows and schedules; None for all.

    Raises:
        ConfigurationError: All that is wrong.
    """
    problems: list[str] = []
    wanted: set[str] = set()
    for pattern in _texts("kinds", kinds, problems):
        if (why := _unreadable(pattern)) is not None:
            problems.append(f"kinds: {pattern!r} {why}")
            continue
        matches = re.compile(translate(pattern)).match
        found = {kind for kind in EVENT_KINDS if matches(kind)}
        if not found:
            problems.append(f"kinds: {pattern!r} is no kind of event, and matches none: {', '.join(EVENT_KINDS)}")
        wanted |= found
    several = run if isinstance(run, (list, tuple, set, frozenset)) else () if run is None else (run,)
    runs = _texts("run", [getattr(one, "run_id", one) for one in several], problems)
    names = _texts("name", name, problems)
    for what, patterns in (("run", runs), ("name", names)):
        problems += [f"{what}: {one!r} {why}" for one in patterns if (why := _unreadable(one)) is not None]
    if problems:
        raise ConfigurationError("events: " + "; ".join(problems))
    return EventFilter(ALL if kinds is None else frozenset(wanted), tuple(runs), tuple(names))


def check_since(since: Since) -> Since:
    """Refuse what is no place to begin at."""
    if isinstance(since, bool) or not isinstance(since, (int, float, str, datetime)):
        raise ConfigurationError(f'events: since must be an LSN, a moment, "begin" or "now", not {since!r:.60}')
    if isinstance(since, str) and since not in ("begin", "now"):
        raise ConfigurationError(
            f'events: since={since!r:.60} is neither "begin" nor "now"; a moment is a datetime with a time zone, as '
            "datetime.now(UTC) - timedelta(hours=2) or datetime.fromisoformat(...), or seconds since 1970 as a float"
        )
    if isinstance(since, int) and not 1 <= since <= LSN_MAX:
        raise ConfigurationError(f"events: LSNs are 1 to {LSN_MAX}, not {since:.6g}")
    if isinstance(since, (float, datetime)):
        moment_ns(since)
    return since


def moment_ns(since: datetime | float) -> int:
    """Nanoseconds since 1970. Raises ConfigurationError."""
    if isinstance(since, datetime) and since.tzinfo is None:
        raise ConfigurationError("events: since needs a time zone, for example datetime.now(UTC)")
    if isinstance(since, float) and not is_number(since, -MOMENT_S_MAX, MOMENT_S_MAX):
        raise ConfigurationError(f"events: since is no moment in seconds since 1970: {since!r}")
    return datetime_to_ns(since) if isinstance(since, datetime) else round(since * NS_PER_S)


def _texts(what: str, value: str | Iterable[Any] | None, problems: list[str]) -> Sequence[str]:
    if value is None:
        return ()
    several = list(listed(value))
    strange = [one for one in several if not isinstance(one, str) or not one]
    if strange or (not several and what == "kinds"):
        problems.append(f"{what}: patterns are texts that are not empty, not {strange or several!r:.60}")
    if len(several) > limits.EVENT_PATTERNS_MAX:
        problems.append(f"{what}: at most {limits.EVENT_PATTERNS_MAX} patterns")
    return [one for one in several if isinstance(one, str) and one]


def _unreadable(pattern: str) -> str | None:
    """Why a pattern cannot be read."""
    if len(pattern) > limits.EVENT_PATTERN_CHARS_MAX:
        return f"is longer than {limits.EVENT_PATTERN_CHARS_MAX} characters"
    opened = re.sub(r"\[[!^]?\]?[^]]*\]", "", pattern)
    return "has a [ without a ]" if "[" in opened else None


def _any_of(patterns: Sequence[str]) -> Callable[[str], Any] | None:
    return re.compile("|".join(map(translate, patterns))).match if patterns else None

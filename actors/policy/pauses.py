"""Who paused what, since when and why: what is noted of the paused scopes of a policy. Nothing is decided by it.

A scope that is paused already keeps who paused it first, and since when; a later pause that gives a reason has the last
word about who and why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from actors.protocol import limits
from actors.protocol.moments import moment
from actors.protocol.words import is_name

REASON_BYTES_MAX: Final = limits.NAME_BYTES_MAX


class PauseNote(NamedTuple):
    """Who paused a scope, why, and when (wall clock, ns). `reason` may be empty."""

    by: str
    reason: str
    at_ns: int

    def __str__(self) -> str:
        since = f"by {self.by} since {moment(self.at_ns)}"
        return f"{since} ({self.reason})" if self.reason else since


Notes = Mapping[str, PauseNote]


def read_notes(add: Callable[[bool, str], bool], data: Any, paused: Collection[str]) -> dict[str, PauseNote]:
    """The notes of a policy as JSON, of what is paused.

    Args:
        add: Gathers what is wrong; whether it is right.
        data: As `rows_of` made it, or anything else.
        paused: Scopes that are paused; notes of others are left out.
    """
    found: dict[str, PauseNote] = {}
    if not add(isinstance(data, list | tuple), "pauses must be a list"):
        return found
    for row in data:
        if add(_is_row(row), f"pauses: {row!a:.60} must be who, why, when and what"):
            *note, scopes = row
            found.update((s, PauseNote(*note)) for s in scopes if isinstance(s, str) and s in paused)
    return found


def _is_row(row: Any) -> bool:
    if not isinstance(row, list | tuple) or len(row) != 4:
        return False
    by, reason, at_ns, scopes = row
    return is_name(by) and isinstance(reason, str) and type(at_ns) is int and isinstance(scopes, list | tuple)


def rows_of(notes: Notes) -> list[list[Any]]:
    """The notes as JSON: who, why and when stand once for all scopes that were paused together."""
    scopes: dict[PauseNote, list[str]] = {}
    for scope in sorted(notes):
        scopes.setdefault(notes[scope], []).append(scope)
    return [[*note, group] for note, group in scopes.items()]


def notes_of(policy: Mapping[str, Any]) -> dict[str, PauseNote]:
    """The notes of a policy as JSON, by scope. It was checked before."""
    return {scope: PauseNote(*note) for *note, scopes in policy.get("pauses", ()) for scope in scopes}


def noted(
    add: Callable[[bool, str], bool],
    before: Notes,
    change: Mapping[str, Any],
    started: frozenset[str],
    paused: frozenset[str],
    at_ns: int,
) -> dict[str, PauseNote]:
    """The notes after a change.

    Args:
        add: Gathers what is wrong.
        before: Those until now.
        change: In the form of `actors.policy.policy`.
        started: Scopes that the change pauses.
        paused: Scopes that are paused from now on.
        at_ns: Now.
    """
    by, reason = change.get("by"), change.get("reason")
    add(by is None or is_name(by), f"by must be text of 1 to {limits.NAME_BYTES_MAX:,} bytes in UTF-8, not {by!r:.60}")
    add(
        reason is None or reason == "" or is_name(reason),
        f"reason must be text of at most {REASON_BYTES_MAX:,} bytes in UTF-8, not {reason!r:.60}",
    )
    add(not reason or bool(by), "a reason is told with who gives it: by= is missing")
    told = by is not None or reason is not None
    add(not told or bool(change.get("pause")), "by and reason say who pauses, and why; nothing is paused")
    found = {scope: note for scope, note in before.items() if scope in paused}
    if is_name(by):
        for scope in started & paused:
            known = found.get(scope)
            if known is None or reason:
                found[scope] = PauseNote(str(by), reason or "", at_ns if known is None else known.at_ns)
    return found


def cause_of(change: Mapping[str, Any]) -> str:
    """A change in words."""
    parts = []
    if paused := change.get("pause"):
        by, reason = change.get("by"), change.get("reason")
        why = f": {reason}" if reason else ""
        parts.append(f"{', '.join(paused)} paused{f' by {by}' if by else ''}{why}")
    if resumed := change.get("resume"):
        parts.append(f"{', '.join(resumed)} resumed")
    for table in ("quotas", "weights", "rates", "shares"):
        for name, value in (change.get(table) or {}).items():
            entry = name or "the default tenant"
            parts.append(f"{table[:-1]} of {entry} {'none' if value is None else _shown(value)}")
    return "; ".join(parts)


def _shown(value: Any) -> str:
    """An entry of a table: a number, or two."""
    return " ".join(
        "none" if part is None else f"{part:g}" for part in (value if isinstance(value, list | tuple) else [value])
    )

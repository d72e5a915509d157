"""Versions of what records hold: each type has a semantic one, and older forms are brought up to date when read.

`RECORD_VERSION`, a number in every record, counts releases of forms; `CHANGES` says what changed with each, for which
type, and how an older payload becomes one of the new form. Whoever reads a log (`runtime.storage.reader`) passes what
is older through `brought_up`, so that the scheduler knows one form only.

    what       minor version    major version    older payloads
    added      yes                               are valid: the field may be missing
    widened    yes                               are valid: what they hold is still allowed
    renamed                     yes              pass through the change's adapter
    split                       yes              pass through the change's adapter
    removed                     yes              pass through the change's adapter
    replaced                    yes              are refused, with the change's text as the reason

A change is never taken back or altered: `tests/compat` keeps logs of every release, which must open for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from actors.protocol.errors import OlderFormat
from actors.protocol.records import RecordType

What = Literal["added", "widened", "renamed", "split", "removed", "replaced"]
FIRST_FORM: Final = (1, 0)
MINOR: Final = frozenset({"added", "widened"})
ADAPTED: Final = frozenset({"renamed", "split", "removed"})


class FormChange(NamedTuple):
    """What became different in the form of a record type.

    Attributes:
        since: The RECORD_VERSION that records have from then on.
        type: Whose payload it is.
        what: Kind of the change.
        text: What it is, in words.
        adapter: Makes a payload of the new form of one of the form before, where the kind of change needs that.
    """

    since: int
    type: int
    what: What
    text: str
    adapter: Callable[[bytes], bytes] | None = None


CHANGES: Final[tuple[FormChange, ...]] = (
    FormChange(2, RecordType.COMPLETED, "widened", "consecutive nodes may be written as their first"),
    FormChange(3, RecordType.POLICY, "added", "who paused what, when and why, and in words what was changed"),
)
"""In order of `since`."""


def form_of(type_: int, record_version: int, changes: Sequence[FormChange] = CHANGES) -> tuple[int, int]:
    """Semantic version (major, minor) of a type's payload in records of a version."""
    major, minor = FIRST_FORM
    for change in changes:
        if change.type == type_ and change.since <= record_version:
            major, minor = (major, minor + 1) if change.what in MINOR else (major + 1, 0)
    return major, minor


def brought_up(
    lsn: int, type_: int, record_version: int, payload: bytes, changes: Sequence[FormChange] = CHANGES
) -> bytes:
    """The payload of an older record in the form that is current.

    Args:
        lsn: Of the record, for the error.
        type_: Its type.
        record_version: That it was written with.
        payload: What it holds.
        changes: All there were.

    Raises:
        OlderFormat: Its form is not read any more, or it does not have that form.
    """
    for change in changes:
        if change.type != type_ or change.since <= record_version or change.what in MINOR:
            continue
        if change.adapter is None:
            raise OlderFormat(f"{_named(lsn, type_, record_version, changes)}: {change.text}")
        try:
            payload = change.adapter(payload)
        except (AttributeError, LookupError, TypeError, ValueError) as broken:
            raise OlderFormat(f"{_named(lsn, type_, record_version, changes)}: {change.text}: {broken!r}") from broken
    return payload


def _named(lsn: int, type_: int, record_version: int, changes: Sequence[FormChange]) -> str:
    old, new = form_of(type_, record_version, changes), form_of(type_, changes[-1].since, changes)
    name = RecordType(type_).name if type_ in {*RecordType} else f"type {type_}"
    return f"record {lsn} ({name}) has form {old[0]}.{old[1]}, this version reads {new[0]}.{new[1]}"

"""Many small values by one call: the quick ways to write a list of wire values.

    all plain               `plain_list_text`: one call of orjson for the whole list, and one proof of exactness
    some typed              `typed_list_text`: typed trees are put in place, then one call for the whole list

Both give up, and return None, when a value is large, deep, or looks like an extension; and when one is refused: then
`encoding` takes the values one by one, and finds the path. Giving up costs time only; nothing is written to files here.

One call instead of one per value is what counts: orjson reserves a kilobyte for each result, which a list of results
keeps until it is joined (1 to 2 us per value, against 0.1 to 0.3).

What decides between in line and one string is the mean size here: a value hidden among small ones may stay in line up
to INLINE_MEAN_BYTES times their number, which is at most PAYLOAD_INLINE_BYTES_MAX.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

import orjson

from actors.protocol import limits
from runtime.mail.leaves import INT_MAX, INT_MIN, is_text
from runtime.mail.plain import EXTENSION, SCALARS, is_shallow, may_stay, nested_text, plain_text, scalars_text
from runtime.mail.refusal import Refused
from runtime.mail.typed import TooDeep, TreeWriter

INLINE_MEAN_BYTES: Final = 256
"""Mean size of values up to which a list is written by one call, without looking at single sizes. Larger values are
worth a call each."""
BLOCK_VALUES: Final = limits.PAYLOAD_INLINE_BYTES_MAX // INLINE_MEAN_BYTES
"""Longer lists go in blocks, so that no value above PAYLOAD_INLINE_BYTES_MAX can hide among small ones."""
_ESCAPED_BYTES_MAX: Final = 6
"""Longest JSON text of one character."""
_CONTAINERS: Final = frozenset({list, dict})


def plain_list_text(values: list[Any]) -> bytes | None:
    """JSON text of a list of plain and small values, or None when one of them is not."""
    kinds = set(map(type, values))
    if kinds <= SCALARS:
        text = scalars_text(values, kinds)
        if text is None or len(text) <= limits.PAYLOAD_INLINE_BYTES_MAX or str not in kinds:
            return text
        longest = max(len(value) for value in values if type(value) is str)
        return text if longest * _ESCAPED_BYTES_MAX < limits.PAYLOAD_INLINE_BYTES_MAX else None
    return containers_text(values, kinds)


def containers_text(values: list[Any], kinds: set[type]) -> bytes | None:
    """As `plain_list_text`, where some values are lists or dicts; `kinds` are their types."""
    text = nested_text(values, kinds)
    if text is None or len(text) > _bytes_max(values):
        return None
    if 33 in text and b'"!"' in text:  # one of them may look like an extension
        return None
    return text if is_shallow(values, text, len(values) if kinds <= _CONTAINERS else 0) else None


def typed_list_text(values: list[Any]) -> bytes | None:
    """JSON text of a list of small values of any types, or None when one of them is not small, or is refused."""
    out = list(values)
    placed = _place_plain(values, out)
    if placed is None:
        return None
    writer = TreeWriter(None)
    try:
        for at, value in enumerate(values):
            kind = type(value)
            if kind is int:
                if INT_MIN <= value <= INT_MAX:
                    continue
            elif kind is str:
                if is_text(value):
                    continue
            elif kind is float:
                if isfinite(value):
                    continue
            elif value is None or kind is bool or kind in placed:
                continue
            out[at] = {EXTENSION: ["tree", writer.whole(value)]}
        text = orjson.dumps(out)
    except (Refused, TooDeep):
        return None
    except Exception:  # from code of a value's class, or because it changes meanwhile: found again one by one
        return None
    return text if len(text) <= _bytes_max(values) else None


def _place_plain(values: list[Any], out: list[Any]) -> set[type] | None:
    """Put wire values of lists, dicts and plain tuples in place.

    Returns:
        The types that need no further look; None when a value is too large to be treated so, or refused.
    """
    placed: set[type] = {list, dict}
    containers = [at for at, value in enumerate(values) if type(value) in _CONTAINERS]
    if containers and containers_text([values[at] for at in containers], {list, dict}) is None:
        writer = TreeWriter(None)
        for at in containers:
            text = plain_text(values[at])
            if text is None:
                try:
                    out[at] = {EXTENSION: ["tree", writer.whole(values[at])]}
                except Exception:  # as in `typed_list_text`
                    return None
            elif not may_stay(values[at], text):
                return None
    tuples = [at for at, value in enumerate(values) if type(value) is tuple]
    lists = [list(values[at]) for at in tuples]
    if lists and containers_text(lists, {list}) is not None:
        for at, items in zip(tuples, lists, strict=True):
            out[at] = {EXTENSION: ["tree", ["T", items]]}
        placed.add(tuple)
    return placed


def _bytes_max(values: list[Any]) -> int:
    limit = min(INLINE_MEAN_BYTES * len(values), limits.PAYLOAD_INLINE_BYTES_MAX)
    return max(limit, limits.PAYLOAD_OPAQUE_BYTES_MIN)

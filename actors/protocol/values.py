"""Values that others set, which may be anything: whether one is a number as it was asked for.

Neither a truth value nor what is not finite is a number here.
"""

from __future__ import annotations

from typing import Final

FLOAT_MAX: Final = 1.7976931348623157e308
"""The largest float: what is not above it is finite. A whole number may be larger, and fits no float."""


def is_number(value: object, least: float = -FLOAT_MAX, most: float = FLOAT_MAX, *, above: bool = False) -> bool:
    """Whether it is a finite number in these bounds; `above`: and not the least itself."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return least <= value <= most and not (above and value == least)


def is_whole(value: object, least: int, most: int) -> bool:
    """Whether it is a whole number in these bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

"""Numbers in sentences: one place knows that it is "1 node" and "2,000 nodes"."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun.

    Args:
        count: How many.
        noun: What, for one of it: "node", "worker is".
        plural: For any other number; by default with an "s".
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"

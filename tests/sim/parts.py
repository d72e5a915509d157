"""Parts of a saved state as the file of a checkpoint keeps them, in memory: the plain meaning of what is put there."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from actors.saved import ENGINE, SavedPart
from actors.saved_again import Unchanged


class KeptParts:
    """See the module."""

    def __init__(self) -> None:
        self._parts: dict[tuple[int, str, int], SavedPart] = {}

    def put(self, parts: Iterable[SavedPart | Unchanged], kept: Iterable[int]) -> None:
        """As `CheckpointFile.put`."""
        there = {*kept, ENGINE}
        new = {key: part for key, part in self._parts.items() if key[0] in there}
        for no, group in groupby(parts, key=attrgetter("run")):
            given = list(group)
            stays = [part for part in given if isinstance(part, Unchanged)]
            new = {
                key: part
                for key, part in new.items()
                if key[0] != no or any(unchanged.covers(*key[1:]) for unchanged in stays)
            }
            new.update((part[:3], part) for part in given if isinstance(part, SavedPart))
        self._parts = new

    def all(self) -> list[SavedPart]:
        """In order."""
        return [self._parts[key] for key in sorted(self._parts)]

"""The iterator that `Runtime.map` returns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain
from typing import Any, Generic, Self, TypeVar

from actors.protocol.errors import QueueFull
from runtime.items import BlobNeeded
from runtime.mapping import Mapping

R_co = TypeVar("R_co", covariant=True)

_CHUNKS_AHEAD = 2
"""Chunks submitted for each list of results: the window fills up while results flow."""


class MapIterator(Generic[R_co]):
    """Results of a `map`, one by one. Nothing is submitted before the first one is asked for.

    Closing it, leaving it as a context manager, or dropping it cancels what is outstanding. Used by one thread at a
    time.
    """

    def __init__(self, mapping: Mapping) -> None:
        self._segments = _segments(mapping)
        self._flat: Iterator[R_co] = chain.from_iterable(self._segments)

    def __iter__(self) -> Iterator[R_co]:
        return self._flat

    def __next__(self) -> R_co:
        return next(self._flat)

    def close(self) -> None:
        """Cancel what is outstanding. Results that were not taken are dropped."""
        self._segments.close()
        self._flat = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()


def _segments(mapping: Mapping) -> Generator[list[Any], None, None]:
    """Lists of results. Waits only when nothing is there and nothing more may be submitted."""
    client = mapping.client
    try:
        while True:
            found, error = mapping.take()
            if found or error:
                if error is None and mapping.is_fast:
                    _submit(mapping, _CHUNKS_AHEAD)
                yield found
                if error is not None:
                    raise error
            elif mapping.finished:
                return
            elif not (mapping.wants_more and _submit(mapping, 1)):
                cell = mapping.stir()
                if cell is not None:
                    client.wait(cell)
    finally:
        mapping.cancel_rest()


def _submit(mapping: Mapping, chunks: int) -> bool:
    """Submit some chunks; False when the engine is full and there is something to wait for."""
    for _ in range(chunks):
        if not mapping.wants_more:
            break
        try:
            try:
                mapping.submit_next()
            except BlobNeeded:
                mapping.submit_next_large()
        except QueueFull:
            if mapping.has_open:
                return False
            mapping.client.wait(mapping.client.half_acknowledged())
    return True

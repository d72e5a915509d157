"""What a query gives back: rows that are tuples with names, and of when they speak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, overload

CLASSES_KEPT = 256


class QueryRow(tuple[Any, ...]):
    """A row: a tuple, whose values can be asked for by their column, too: `row["state"]`, `row.state`.

    Values are int, float, str, bytes or None.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """The values by column."""
        return dict(zip(self.columns, self, strict=True))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        try:
            return tuple.__getitem__(self, self.columns.index(key))
        except ValueError:
            raise KeyError(key) from None

    def __getattr__(self, name: str) -> Any:
        try:
            return tuple.__getitem__(self, self.columns.index(name))
        except ValueError:
            raise AttributeError(f"the row has no column {name!r}; it has {', '.join(self.columns)}") from None

    def __repr__(self) -> str:
        return f"<{' '.join(f'{name}={value!r}' for name, value in zip(self.columns, self, strict=True))}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.columns, tuple(self))


class QueryRows(Sequence[QueryRow]):
    """The rows of a query, in order: a sequence.

    Attributes:
        columns: Their names; one that comes twice has ":1", ":2", ... behind it.
        lsn: The latest record that the answer knows: it is exactly what was known then.
        at_ns: When that was written, as far as a record says so (wall clock, ns); 0: none does.
    """

    __slots__ = ("_rows", "at_ns", "columns", "lsn")

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], lsn: int = 0, at_ns: int = 0) -> None:
        self.columns = unique(columns)
        make = row_class(self.columns)
        self._rows = [make(row) for row in rows]
        self.lsn = lsn
        self.at_ns = at_ns

    def dicts(self) -> list[dict[str, Any]]:
        """Every row as a dictionary."""
        return [row.as_dict() for row in self._rows]

    def scalar(self) -> Any:
        """The first value of the first row; None where there is no row."""
        return self._rows[0][0] if self._rows else None

    @overload
    def __getitem__(self, index: int) -> QueryRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueryRow]: ...
    def __getitem__(self, index: int | slice) -> QueryRow | list[QueryRow]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[QueryRow]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, QueryRows):
            return (self.columns, self._rows, self.lsn) == (other.columns, other._rows, other.lsn)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<QueryRows {len(self._rows)} of {', '.join(self.columns)}, LSN {self.lsn}>"


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Names of which none comes twice."""
    found: dict[str, None] = {}
    for name in names:
        number, free = 0, name
        while free in found:
            number += 1
            free = f"{name}:{number}"
        found[free] = None
    return tuple(found)


@lru_cache(CLASSES_KEPT)
def row_class(columns: tuple[str, ...]) -> type[QueryRow]:
    """The class of rows with these columns."""
    body: Mapping[str, Any] = {"columns": columns, "__slots__": ()}
    return type("QueryRow", (QueryRow,), dict(body))


def _again(columns: tuple[str, ...], values: tuple[Any, ...]) -> QueryRow:
    return row_class(columns)(values)

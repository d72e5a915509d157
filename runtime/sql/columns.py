"""What a column of a view is, and the words that both views share. The columns: `run_columns`, `task_columns`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar

from actors.protocol.moments import NS_PER_S

R = TypeVar("R", bound=Callable[..., Any])


class ViewColumn(NamedTuple, Generic[R]):
    """A column: its name, its type in SQL, what it means, and what works it out."""

    name: str
    type: str
    text: str
    of: R


def schema(columns: tuple[ViewColumn[Any], ...]) -> str:
    """The columns as SQLite is told of them."""
    return f"CREATE TABLE view({', '.join(f'{column.name} {column.type}' for column in columns)})"


def iso(wall_ns: int | None) -> str | None:
    """A time (wall clock, ns) as ISO 8601, in UTC, to the microsecond: texts are in the order of the times."""
    if wall_ns is None:
        return None
    seconds, ns = divmod(wall_ns, NS_PER_S)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns // 1000:06}Z"
    except (OverflowError, ValueError, OSError):  # no time that anybody can mean
        return None

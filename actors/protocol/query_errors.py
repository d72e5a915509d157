"""Errors that who asks history in SQL can meet; of the family of `actors.protocol.errors`, which describes them."""

from __future__ import annotations

from actors.protocol.errors import CallerError


class BadQuery(CallerError):
    """SQLite does not understand the statement or its parameters. Args: message, where in the statement, or -1."""

    code = "MS160"
    hint = (
        "the views are `runs` and `tasks`, `mainspring query STATE` lists their columns; each ? or :name has one value"
    )

    def __init__(self, message: str, offset: int = -1) -> None:
        super().__init__(message, offset)
        self.offset = offset


class QueryRefused(CallerError):
    """A query reads. A statement that writes, attaches, sets something, or is more than one statement is refused."""

    code = "MS161"
    hint = "ask with one SELECT over the views `runs` and `tasks`"


class QueryTooLong(CallerError, TimeoutError):
    """A query took longer than its `timeout`, or was given up; nothing was changed."""

    code = "MS162"
    hint = (
        "name a run_id or a state, ask for less, or give it more time; a second query reads what the log has new only"
    )


class QueryTooLarge(CallerError):
    """A query has more rows than `rows_max`, or a value in it is too large."""

    code = "MS163"
    hint = "count or group in SQL, add LIMIT, or raise rows_max"

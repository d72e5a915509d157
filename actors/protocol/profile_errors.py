"""Errors that who looks inside can meet; of the family of `actors.protocol.errors`, which describes them."""

from __future__ import annotations

from actors.protocol.errors import CallerError


class ProfileUnreadable(CallerError, ValueError):
    """A file holds no profile in a format that is read, or it is damaged."""

    code = "MS174"
    hint = (
        "what is read: json, folded, pprof, speedscope; pages and traces are for looking at, so keep one of these, too"
    )


class ProfileTooSmall(CallerError):
    """Two profiles cannot be compared, because one of them has too few samples to tell a change from chance."""

    code = "MS175"
    hint = "measure longer or at a higher rate, or compare fewer label sets at once"

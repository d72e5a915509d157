"""Errors that who looks inside can meet; of the family of `actors.protocol.errors`, which describes them."""

from __future__ import annotations

from actors.protocol.errors import CallerError, EnvironmentFault


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


class ProfileUnavailable(EnvironmentFault):
    """No process of the state folder can be seen: no program of this user has it open here, or the system hides it."""

    code = "MS230"
    hint = "open the folder with Runtime(...) in a program of the same user and pid namespace, and ask while it runs"
    retryable = True


class LeaksFound(CallerError, AssertionError):
    """Something that was made is still there, though it should be gone; each is named with where it was created."""

    code = "MS176"
    hint = "end what is named, give it longer (`settle`), say that it is a daemon, or name it in `ignore`"

"""Errors that who reads events, or a log beside its engine, can meet; of the family of `actors.protocol.errors`, which
describes all of them."""

from __future__ import annotations

from actors.protocol.errors import CallerError, EnvironmentFault, StateFolderError


class CursorBeyondEnd(CallerError):
    """Events are wanted from a place that the log has not reached. Args: message, the LSN that comes next."""

    code = "MS150"
    hint = 'start at an LSN that was told, or with since="now"'

    def __init__(self, message: str, next_lsn: int = 0) -> None:
        super().__init__(message, next_lsn)
        self.next_lsn = next_lsn


class CursorTooOld(CallerError):
    """Events are wanted that the log does not keep any more. Args: message, the first LSN that it keeps."""

    code = "MS151"
    hint = 'start with since="begin" for all that is kept; a subscription that is read often enough keeps up'

    def __init__(self, message: str, first_lsn: int = 0) -> None:
        super().__init__(message, first_lsn)
        self.first_lsn = first_lsn


class SubscriptionInUse(CallerError):
    """A durable subscription is read by one reader at a time."""

    code = "MS152"
    hint = "close the other reader, or subscribe under another name"


class SubscriberTooSlow(CallerError):
    """More events came than the subscription holds, and its policy is to be told so."""

    code = "MS153"
    hint = "read faster, let it hold more, or choose another policy"


class BridgeConflict(CallerError):
    """The stream that a bridge is to write has events of another folder, another bridge, or another program."""

    code = "MS154"
    hint = "name another stream, or one that is empty"


class BridgeUnavailable(EnvironmentFault):
    """The server of a bridge cannot be reached, or refuses to serve it."""

    code = "MS220"
    retryable = True
    hint = "check the address, the server and what it allows; everything that was not published is still in the log"


class LogOvertaken(StateFolderError):
    """The engine of the folder cuts its log faster than a reader beside it can read it."""

    code = "MS222"
    hint = "ask again; a larger checkpoint_bytes= cuts the log less often"
    retryable = True

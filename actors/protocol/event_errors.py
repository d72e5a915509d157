"""Errors that who reads events can meet; of the family of `actors.protocol.errors`, which describes all of them."""

from __future__ import annotations

from actors.protocol.errors import CallerError


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

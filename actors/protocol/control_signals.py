"""What the engine raises inside a handler to end or interrupt its attempt.

They derive from `BaseException`, so that a handler's `except Exception` cannot swallow them.
"""

from __future__ import annotations


class ControlSignal(BaseException):
    """Base of what the engine raises inside a handler. Not an `Exception`, so that handlers do not swallow it."""


class AttemptCancelled(ControlSignal):
    """Raised inside a handler whose attempt was cancelled."""


class AttemptTimeout(ControlSignal):
    """Raised inside a handler whose attempt ran over its timeout."""


class WaitsForCalls(ControlSignal):
    """Raised inside a handler that needs the result of a call which has not ended: it is called again when it has.

    `frame` is what its worker sends: the calls.
    """

    frame: bytes = b""


class SkipNode(ControlSignal):
    """Raise in a handler to end its node as *skipped*."""

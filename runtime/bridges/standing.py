"""Where a bridge goes on, by what the stream has and what the bridge knows. Pure.

The stream is right about what it has: events that it took and lost again (a server that was killed, a replica that had
not got them) are sent again, and those that it took while the bridge died are not. Where it cannot say what it has,
because its newest entries were removed, the bridge's own note is as good as the rest of it.
"""

from __future__ import annotations

from typing import NamedTuple

from runtime.bridges.wire import StreamPosition


class StreamStanding(NamedTuple):
    """What a stream says of itself.

    Args:
        last: The last event that it has; None: it has none.
        sure: Nothing behind `last` was ever there and removed.
    """

    last: StreamPosition | None
    sure: bool = True


def going_on(noted: StreamPosition | None, standing: StreamStanding) -> StreamPosition | None:
    """The last event that need not be sent.

    Args:
        noted: The last event that the server confirmed, as the bridge knows.
        standing: What the stream says.

    Returns:
        None: none was sent yet, as far as anybody knows.
    """
    last, sure = standing
    if last is None or noted is None:
        return last or noted
    return last if sure else max(last, noted)

"""`rt.events` and `rt.subscribe`: what a runtime offers to whoever wants to know what happens, for blocking callers.

A part of `Runtime`, in a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from runtime.event_buffer import HOLDS, EventKey, WhenFull
from runtime.event_filter import Since, filter_of
from runtime.event_reader import EventReader
from runtime.event_stream import EventStream
from runtime.handle_base import SyncHandle

if TYPE_CHECKING:
    from runtime.config import RuntimeConfig
    from runtime.host.client import EngineClient


class EventCalls:
    """See the module."""

    _client: EngineClient
    config: RuntimeConfig

    def events(
        self,
        kinds: str | Iterable[str] | None = None,
        *,
        run: SyncHandle | str | Iterable[SyncHandle | str] | None = None,
        name: str | Iterable[str] | None = None,
        since: Since = "now",
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = HOLDS,
        key: EventKey = "node",
    ) -> EventStream:
        """What happens, as soon as it is durable, transition by transition; or what happened, where the log is kept.

        Args:
            kinds: Kinds of `runtime.EVENT_KINDS`, or patterns of them ("node.*", "*.failed"); None for all. Ends of
                runs, and nodes that were skipped or cancelled with others, take folding the log: where a run that is
                older than `since` is met, it is read from its beginning once.
            run: Handles, run ids or patterns of ids; None for all.
            name: Names or patterns of tasks, flows and schedules; None for all.
            since: An LSN (an int), a moment (a datetime with a time zone, or seconds since 1970 as a float), "begin":
                all that is kept, "now": what comes next.
            follow: Wait for what comes; else the iterator ends with what is durable by now.
            when_full: What becomes of events that come faster than they are read. "block": nothing is dropped, and what
                is not read yet waits in the log, as long as it is kept. "drop_oldest", "latest" (of each key) and
                "disconnect" bound what waits by `holds`.
            holds: Events that wait at most.
            key: Of what "latest" keeps one: "node", "run", "kind", "name" or a function of an event.

        Returns:
            An iterator of events, to be closed; see `EventStream`, also for batches.

        Raises:
            ConfigurationError: A filter or policy cannot be; all problems are named.
            CursorTooOld, CursorBeyondEnd: The log does not have that LSN.
        """
        wanted = filter_of(kinds, run, name)
        reader = EventReader(self.config.state_dir, wanted, since)
        return EventStream(reader, self._client, follow=follow, when_full=when_full, holds=holds, key=key)

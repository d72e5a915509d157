"""`rt.events` and `rt.subscribe`: what a runtime offers to whoever wants to know what happens, for blocking callers.

A part of `Runtime`, in a file of its own. What it takes is loaded when it is asked for first: most programs do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from actors.protocol import limits
from runtime.handle_base import SyncHandle

if TYPE_CHECKING:
    from runtime.config import RuntimeConfig
    from runtime.event_buffer import EventKey, WhenFull
    from runtime.event_filter import Since
    from runtime.event_stream import EventStream
    from runtime.host.client import EngineClient
    from runtime.subscription import Subscription


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
        holds: int = limits.EVENTS_HELD,
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
        from runtime.event_filter import filter_of  # lazy: see the module
        from runtime.event_reader import EventReader  # lazy: see the module
        from runtime.event_stream import EventStream  # lazy: see the module

        wanted = filter_of(kinds, run, name)
        reader = EventReader(self.config.state_dir, wanted, since)
        return EventStream(reader, self._client, follow=follow, when_full=when_full, holds=holds, key=key)

    def subscribe(
        self,
        name: str,
        kinds: str | Iterable[str] | None = None,
        *,
        run: SyncHandle | str | Iterable[SyncHandle | str] | None = None,
        names: str | Iterable[str] | None = None,
        since: Since = "now",
        window: int = limits.EVENTS_UNACKED,
        keep_bytes: int = limits.SUBSCRIPTION_KEEP_BYTES,
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = limits.EVENTS_HELD,
        key: EventKey = "node",
    ) -> Subscription:
        """Events that are delivered at least once, also when this program ends and comes again under the same name.

        Args:
            name: Of the subscription, which is read by one reader at a time.
            kinds: As for `events`.
            run: As for `events`.
            names: Names or patterns of tasks, flows and schedules; `name` of `events`.
            since: Where it begins when it is new; later it goes on behind what was acknowledged.
            window: Events that may be given out and not acknowledged; then `SubscriberTooSlow` until some are.
            keep_bytes: Log that is kept for it beyond what is kept anyway. What goes nevertheless is in `lost`.
            follow: As for `events`.
            when_full: As for `events`; what is dropped is as good as acknowledged.
            holds: As for `events`.
            key: As for `events`.

        Returns:
            An iterator of events, to be closed; see `Subscription`.

        Raises:
            ConfigurationError: It cannot be; all problems are named. SubscriptionInUse: it is read already.
            CursorBeyondEnd: The folder's log is an older one than that which was acknowledged.

        What a crash leaves behind: the cursor, in a file of the state folder, `unsubscribe` removes it.
        """
        from runtime.event_buffer import check_policy  # lazy: see the module
        from runtime.event_cursor import EventCursor  # lazy: see the module
        from runtime.event_filter import filter_of  # lazy: see the module
        from runtime.subscription import Subscription  # lazy: see the module

        wanted = filter_of(kinds, run, names)
        check_policy(when_full, holds, key)
        cursor = EventCursor(self.config.state_dir, name, wanted, since, window, keep_bytes)
        return Subscription(cursor, self._client, follow=follow, when_full=when_full, holds=holds, key=key)

    def unsubscribe(self, name: str) -> bool:
        """Forget a durable subscription, with its dead letters; the log is no longer kept for it.

        Args:
            name: Its name.

        Returns:
            Whether there was one.

        Raises:
            SubscriptionInUse: It is read just now.
        """
        return remove_subscription(self.config.state_dir, name)

    def subscriptions(self) -> list[str]:
        """The names of the durable subscriptions of the folder."""
        from runtime.storage.cursors import names_of  # lazy: see the module

        return names_of(self.config.state_dir)


def remove_subscription(state_dir: str, name: str) -> bool:
    """Forget a durable subscription; whether there was one."""
    from runtime.storage.cursors import CursorFile, names_of  # lazy: see the module

    if name not in names_of(state_dir):
        return False
    with closing(CursorFile(state_dir, name)) as file:
        file.remove()
    return True

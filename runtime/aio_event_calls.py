"""`rt.events` and `rt.subscribe` of `AsyncRuntime`; see `runtime.event_calls`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from actors.protocol import limits
from runtime.aio_events import AsyncEventStream
from runtime.aio_handle import AsyncHandle
from runtime.aio_subscription import AsyncSubscription
from runtime.event_buffer import EventKey, WhenFull, check_policy
from runtime.event_calls import remove_subscription
from runtime.event_cursor import EventCursor
from runtime.event_filter import Since, filter_of
from runtime.event_reader import EventReader
from runtime.storage.cursors import names_of

if TYPE_CHECKING:
    from runtime.config import RuntimeConfig
    from runtime.host.client import EngineClient


class AsyncEventCalls:
    """See the module."""

    _client: EngineClient
    config: RuntimeConfig

    def events(
        self,
        kinds: str | Iterable[str] | None = None,
        *,
        run: AsyncHandle | str | Iterable[AsyncHandle | str] | None = None,
        name: str | Iterable[str] | None = None,
        since: Since = "now",
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = limits.EVENTS_HELD,
        key: EventKey = "node",
    ) -> AsyncEventStream:
        """What happens, or happened; see `runtime.event_calls.EventCalls.events`.

        Args:
            kinds: Kinds or patterns of them; None for all.
            run: Handles, run ids or patterns of ids; None for all.
            name: Names or patterns of tasks, flows and schedules; None for all.
            since: An LSN, a moment, "begin" or "now".
            follow: Wait for what comes; else it ends with what is durable by now.
            when_full: "block", "drop_oldest", "latest" or "disconnect".
            holds: Events that wait at most.
            key: Of what "latest" keeps one.

        Returns:
            An asynchronous iterator of events, to be closed.
        """
        wanted = filter_of(kinds, run, name)
        client = self._client
        reader = EventReader(self.config.state_dir, wanted, since)
        return AsyncEventStream(reader, client, follow=follow, when_full=when_full, holds=holds, key=key)

    def subscribe(
        self,
        name: str,
        kinds: str | Iterable[str] | None = None,
        *,
        run: AsyncHandle | str | Iterable[AsyncHandle | str] | None = None,
        names: str | Iterable[str] | None = None,
        since: Since = "now",
        window: int = limits.EVENTS_UNACKED,
        keep_bytes: int = limits.SUBSCRIPTION_KEEP_BYTES,
        follow: bool = True,
        when_full: WhenFull = "block",
        holds: int = limits.EVENTS_HELD,
        key: EventKey = "node",
    ) -> AsyncSubscription:
        """Events that are delivered at least once; see `runtime.event_calls.EventCalls.subscribe`, also for arguments.

        Args:
            name: Of the subscription.
            kinds: Kinds or patterns of them; None for all.
            run: Handles, run ids or patterns of ids; None for all.
            names: Names or patterns of tasks, flows and schedules; None for all.
            since: Where it begins when it is new.
            window: Events that may be given out and not acknowledged.
            keep_bytes: Log that is kept for it beyond what is kept anyway.
            follow: Wait for what comes.
            when_full: What becomes of events that it is late for.
            holds: Events that wait at most.
            key: Of what "latest" keeps one.

        Returns:
            An asynchronous iterator of events, to be closed.
        """
        wanted = filter_of(kinds, run, names)
        check_policy(when_full, holds, key)
        cursor = EventCursor(self.config.state_dir, name, wanted, since, window, keep_bytes)
        return AsyncSubscription(cursor, self._client, follow=follow, when_full=when_full, holds=holds, key=key)

    def unsubscribe(self, name: str) -> bool:
        """Forget a durable subscription; see `runtime.event_calls.EventCalls.unsubscribe`.

        Args:
            name: Its name.

        Returns:
            Whether there was one.
        """
        return remove_subscription(self.config.state_dir, name)

    def subscriptions(self) -> list[str]:
        """The names of the durable subscriptions of the folder."""
        return names_of(self.config.state_dir)

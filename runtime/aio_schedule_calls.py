"""The calls about schedules for asyncio, a part of `AsyncRuntime`; see `schedule_calls`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runtime.aio_handle import answer_of
from runtime.flow import Flow
from runtime.schedule_calls import plan_of, requests
from runtime.submitter_base import SubmitterBase

if TYPE_CHECKING:
    from runtime.schedules import CatchUp, Overlap, ScheduleStatus


class AsyncScheduleCalls(SubmitterBase):
    """See the module."""

    async def schedule(
        self,
        name: str,
        fn: Callable[..., Any] | Flow,
        /,
        *args: Any,
        cron: str | None = None,
        every: float | None = None,
        zone: str = "UTC",
        catch_up: CatchUp = "latest",
        overlap: Overlap = "skip",
        jitter: float = 0.0,
        **options: Any,
    ) -> ScheduleStatus:
        """Run a task or a flow again and again; see `ScheduleCalls.schedule`.

        Args:
            name: Its name.
            fn: A task, an importable function, a `functools.partial` of one, or a `Flow`.
            args: Arguments of the handler.
            cron: An expression.
            every: Or an interval in seconds.
            zone: Time zone of `cron`.
            catch_up: "latest", "none" or "all".
            overlap: "skip", "queue", "cancel" or "allow".
            jitter: Seconds.
            options: Task options; other keywords are the handler's.

        Returns:
            The schedule as it stands.
        """
        plan = plan_of(cron, every, zone, catch_up, overlap, jitter)
        request = requests().ask_schedule(self._dispatch, name, fn, args, options, plan)
        found: ScheduleStatus = requests().ScheduleStatus.of(
            (await answer_of(self._client, self._client.ask(*request)))["row"]
        )
        return found

    async def schedules(self) -> list[ScheduleStatus]:
        """All schedules of the folder, by name.

        Returns:
            Snapshots.
        """
        found: list[ScheduleStatus] = []
        first: str | None = ""
        while first is not None:
            reply = await answer_of(self._client, self._client.ask(*requests().ask_schedules(first)))
            found += map(requests().ScheduleStatus.of, reply["rows"])
            first = reply["next"]
        return found

    async def unschedule(self, name: str) -> bool:
        """End a schedule; see `ScheduleCalls.unschedule`.

        Args:
            name: Its name.

        Returns:
            False: there is none of this name.
        """
        return bool((await answer_of(self._client, self._client.ask(*requests().ask_unschedule(name))))["changed"])

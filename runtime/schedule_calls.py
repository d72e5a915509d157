"""The calls about schedules for blocking callers, a part of `Runtime`; `aio_schedule_calls` has them for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runtime.flow import Flow
from runtime.submitter_base import SubmitterBase

if TYPE_CHECKING:
    from types import ModuleType

    from runtime.schedules import CatchUp, Overlap, ScheduleStatus


class ScheduleCalls(SubmitterBase):
    """See the module."""

    def schedule(
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
        """Run a task or a flow again and again, by a cron expression or at an interval; durable when this returns.

        The same name with the same content changes nothing, so a program can say at each start what it wants; another
        content replaces what was there, and begins anew. A schedule goes on until `unschedule`, also when the program
        does not name it any more. `pause("schedule:NAME")` and `resume` hold it.

        Args:
            name: Its name: up to 80 bytes without a slash. Its runs are called by it and their due time in UTC, as in
                "nightly@20261025T003000Z", so that `rt.handle(run_id)` finds them.
            fn: A task, an importable function, a `functools.partial` of one, or a `Flow`.
            args: Arguments of the handler, the same each time; together at most 32 KiB.
            cron: Minute, hour, day of month, month, day of week; a sixth field in front is the second. "@daily" and
                such are known. When clocks change, jobs at fixed times run once: those in the hour that is left out
                right after it, those in the hour that comes twice at its first coming. Jobs with "*" in minute or hour
                follow the time that passes.
            every: Seconds between two starts, the first one after so many. Not disturbed by clocks that are set.
            zone: Time zone of `cron`, such as "Europe/Berlin".
            catch_up: What becomes of due times that were missed, because nothing ran or the clock was set forward: the
                "latest" is started, "none", or "all", one after the other (at most the latest 1,000). What starts
                within ten seconds of its time, and before the next is due, was not missed.
            overlap: What becomes of a due time while a run before it has not ended: "skip" it, "queue" it until that
                run ends, "cancel" that run and start when it has ended, or "allow" both.
            jitter: Each start is so many seconds late at most, by name and due time, so the same after a crash. Not
                longer than what lies between two due times.
            options: Task options such as `priority`, `tenant`, `timeout` and `retry`; other keywords are the handler's.

        Returns:
            The schedule as it stands.

        Raises:
            ConfigurationError: Values are out of range; all problems are named. HandlerRefused, PayloadError,
                CycleError, UnknownNodeType: what it runs cannot be run.
            DiskFull, LogFailed, EngineUnavailable: As they say; whether it was made shows in `schedules()`.

        What a crash leaves behind: after the return, the schedule. Each due time starts one run, whatever crashes.
        """
        plan = plan_of(cron, every, zone, catch_up, overlap, jitter)
        request = requests().ask_schedule(self._dispatch, name, fn, args, options, plan)
        found: ScheduleStatus = requests().ScheduleStatus.of(self._client.answer_of(self._client.ask(*request))["row"])
        return found

    def schedules(self) -> list[ScheduleStatus]:
        """All schedules of the folder, by name.

        Returns:
            Snapshots.
        """
        found: list[ScheduleStatus] = []
        first: str | None = ""
        while first is not None:
            reply = self._client.answer_of(self._client.ask(*requests().ask_schedules(first)))
            found += map(requests().ScheduleStatus.of, reply["rows"])
            first = reply["next"]
        return found

    def unschedule(self, name: str) -> bool:
        """End a schedule; durable when this returns. Its runs that have not ended go on.

        Args:
            name: Its name.

        Returns:
            False: there is none of this name.
        """
        return bool(self._client.answer_of(self._client.ask(*requests().ask_unschedule(name)))["changed"])


def requests() -> ModuleType:
    """The module that builds requests and reads answers: `runtime.schedules`."""
    from runtime import schedules  # lazy: most programs have no schedules, and none should start later for them

    return schedules


def plan_of(cron: Any, every: Any, zone: Any, catch_up: Any, overlap: Any, jitter: Any) -> dict[str, Any]:
    """What a caller said of the times."""
    return {
        "cron": cron,
        "every": every,
        "zone": zone,
        "catch_up": catch_up,
        "overlap": overlap,
        "jitter": jitter,
    }

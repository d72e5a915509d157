"""What an operator does, for asyncio: the same as `runtime.operations`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from actors.protocol.errors import UnknownRun, WaitTimeout
from runtime import letters as asking
from runtime.aio_handle import AsyncHandle, AsyncRunHandle, AsyncTaskHandle, answer_or_past, rerun
from runtime.aio_iterators import Pages
from runtime.letters import DeadLetter, DeadLetterDetails
from runtime.operations import DRAIN_LOOK_MAX_S, DRAIN_LOOK_S, still_there
from runtime.scheduling import SchedulingStatus, ask_change, ask_pause
from runtime.views import Progress, Request, id_of_run

if TYPE_CHECKING:
    from runtime.host.client import EngineClient


class AsyncOperations:
    """See the module."""

    _client: EngineClient

    def dead(
        self,
        *,
        handler: str | None = None,
        kind: str | None = None,
        tenant: str | None = None,
        since: datetime | float | None = None,
        run: AsyncHandle | str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """What has failed for good; see `runtime.operations.Operations.dead`."""
        wanted = asking.filter_of(handler, kind, tenant, since, run)

        async def page(start: Any) -> tuple[list[DeadLetter], Any]:
            reply = await self._answer_to(asking.ask_dead(wanted, start))
            return [DeadLetter.from_row(row, self._client.codec) for row in reply["rows"]], reply["next"]

        return Pages(page)

    async def dead_letter(self, letter: DeadLetter | str) -> DeadLetterDetails:
        """One dead letter with its traceback and the arguments; see `runtime.operations.Operations.dead_letter`.

        Args:
            letter: It, or its id.
        """
        return DeadLetterDetails.of(await self._answer_to(asking.ask_letter(letter)), self._client.codec)

    async def replay(
        self,
        *letters: DeadLetter | str,
        handler: str | None = None,
        kind: str | None = None,
        tenant: str | None = None,
        since: datetime | float | None = None,
        run: AsyncHandle | str | None = None,
        everything: bool = False,
    ) -> int:
        """Let dead letters run again; see `runtime.operations.Operations.replay`.

        Args:
            letters: Which; or a filter, as for `dead`; or `everything`.

        Returns:
            How many run again.
        """
        wanted = asking.filter_of(handler, kind, tenant, since, run)
        return await self._each("replay", letters, wanted, everything)

    async def discard(
        self,
        *letters: DeadLetter | str,
        handler: str | None = None,
        kind: str | None = None,
        tenant: str | None = None,
        since: datetime | float | None = None,
        run: AsyncHandle | str | None = None,
        everything: bool = False,
    ) -> int:
        """Take dead letters from the list; see `runtime.operations.Operations.discard`.

        Args:
            letters: As for `replay`.

        Returns:
            How many were discarded.
        """
        wanted = asking.filter_of(handler, kind, tenant, since, run)
        return await self._each("discard", letters, wanted, everything)

    async def rerun(self, run: AsyncHandle | str) -> AsyncRunHandle:
        """Run again what did not succeed of a run; see `runtime.operations.Operations.rerun`.

        Args:
            run: Its handle or id; of a single task, too.

        Returns:
            A handle that waits for the new end.
        """
        return await rerun(self._client, run)

    async def progress(self, run: AsyncTaskHandle[Any] | AsyncRunHandle | str) -> Progress:
        """How far a run or task has come; see `runtime.operations.Operations.progress`.

        Args:
            run: Its handle, or the id of a run of any session.

        Returns:
            As the handle's `progress()`; of an id a `RunProgress`.
        """
        if isinstance(run, (AsyncTaskHandle, AsyncRunHandle)):
            return await run.progress()
        return await AsyncRunHandle(self._client, id_of_run(run), foreign=True).progress()

    async def pause(self, *scopes: str, by: str | None = None, reason: str | None = None) -> SchedulingStatus:
        """Start nothing more of these scopes until `resume`; see `runtime.operations.Operations.pause`.

        Args:
            scopes: As for `set_quota`, "rate:api" (a rate key), and "schedule:nightly".
            by: Who pauses; None for this user and program.
            reason: Why, in words.

        Returns:
            What stands now.
        """
        return SchedulingStatus.of(await self._answer_to(ask_pause(scopes, by, reason)))

    async def resume(self, *scopes: str) -> SchedulingStatus:
        """End pauses; see `runtime.operations.Operations.resume`.

        Args:
            scopes: As they were paused.

        Returns:
            What stands now.
        """
        return SchedulingStatus.of(await self._answer_to(ask_change(resume=scopes)))

    async def forget(self, run: AsyncHandle | str) -> None:
        """Delete a finished run; see `runtime.operations.Operations.forget`.

        Args:
            run: Its handle or id.
        """
        run_id, number, unknown = id_of_run(run), None, None
        try:
            number = (await self._answer_to(("forget", {"run": run_id})))["no"]
        except UnknownRun as refused:
            unknown = refused
        past, loop = self._client.past, asyncio.get_running_loop()
        there = past is not None and await loop.run_in_executor(None, past.forget, run_id, number)
        if unknown is not None and not there:
            raise unknown

    async def drain(
        self, *scopes: str, timeout: float | None = None, by: str | None = None, reason: str | None = None
    ) -> SchedulingStatus:
        """Pause scopes, and wait until nothing of them runs; see `runtime.operations.Operations.drain`.

        Args:
            scopes: As for `pause`.
            timeout: Seconds; None waits as long as it takes.
            by: As for `pause`.
            reason: As for `pause`.

        Returns:
            What stands now.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        stands = await self.pause(*scopes, by=by, reason=reason)
        look_s, first = DRAIN_LOOK_S, True
        while held := (await self._answer_to(asking.ask_held(scopes, take_back=first)))["held"]:
            if deadline is not None and loop.time() >= deadline:
                raise WaitTimeout(still_there(held, scopes, timeout))
            await asyncio.sleep(look_s if deadline is None else min(look_s, max(0.0, deadline - loop.time())))
            look_s, first = min(DRAIN_LOOK_MAX_S, 2 * look_s), False
        return stands

    async def _each(
        self, what: str, letters: tuple[DeadLetter | str, ...], wanted: dict[str, Any], everything: bool
    ) -> int:
        count = 0
        for question, args in asking.ask_each(what, letters, wanted, everything):
            following: Any = args.get("from")
            while True:
                reply = await self._answer_to((question, {**args, "from": following}))
                count += reply["count"]
                following = reply["next"]
                if following is None:
                    break
        return count

    async def _answer_to(self, request: Request) -> Any:
        return await answer_or_past(self._client, self._client.ask(*request), request)

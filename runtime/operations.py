"""What an operator does, for blocking callers: runs and dead letters listed, run again or forgotten, scopes drained.

A part of `Runtime`, in a file of its own. Everything is durable when it returns; who asks while the engine restarts is
answered by the new one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from actors.protocol.errors import UnknownRun, WaitTimeout
from actors.protocol.words import counted
from runtime import letters as asking
from runtime.handle import RunHandle, TaskHandle, rerun
from runtime.handle_base import SyncHandle, answer_or_past
from runtime.letters import DeadLetter, DeadLetterDetails
from runtime.past import all_runs
from runtime.scheduling import SchedulingStatus, ask_change, ask_pause
from runtime.views import Progress, Request, RunStatus, id_of_run

if TYPE_CHECKING:
    from runtime.host.client import EngineClient

DRAIN_LOOK_S: Final = 0.002
"""First pause between two looks at what still runs; it doubles."""
DRAIN_LOOK_MAX_S: Final = 0.25


class Operations:
    """See the module."""

    _client: EngineClient

    def runs(self, *, archived: bool = True) -> Iterator[RunStatus]:
        """The runs that the folder knows, latest first; asked for page by page. A bundle of single tasks is one run.

        Args:
            archived: Also those that are in the archive, not in the engine's memory any more.

        Returns:
            How each of them is now.
        """
        return all_runs(self._answer_to, self._client.past if archived else None)

    def dead(
        self,
        *,
        handler: str | None = None,
        kind: str | None = None,
        tenant: str | None = None,
        since: datetime | float | None = None,
        run: SyncHandle | str | None = None,
    ) -> Iterator[DeadLetter]:
        """What has failed for good: tasks and nodes whose attempts are used up, that expired, whose deadline passed, or
        that took their workers with them. Asked for page by page. Their runs are kept beside those of `Retention`, up
        to `limits.LETTER_RUNS_MAX` and the bounds that follow it; then the oldest go.

        Args:
            handler: Pattern for the function ("shop.mail:*") or the task's name; * and ? as in a shell.
            kind: How it failed, for example "timeout"; see `DeadLetter`.
            tenant: Whose it is.
            since: Failed at this time or later; a datetime with a time zone, or seconds since 1970.
            run: Of this run only.

        Returns:
            The letters, those of the latest run first.

        Raises:
            ConfigurationError: The filter is wrong; all problems are named. UnknownRun: there is no such run.
        """
        wanted = asking.filter_of(handler, kind, tenant, since, run)
        return self._pages_of_letters(wanted)

    def _pages_of_letters(self, wanted: dict[str, Any]) -> Iterator[DeadLetter]:
        start: Any = None
        while True:
            reply = self._answer_to(asking.ask_dead(wanted, start))
            yield from (DeadLetter.from_row(row, self._client.codec) for row in reply["rows"])
            start = reply["next"]
            if start is None:
                return

    def dead_letter(self, letter: DeadLetter | str) -> DeadLetterDetails:
        """One dead letter with its traceback and the arguments.

        Args:
            letter: It, or its id.

        Raises:
            MissingNode: It is no dead letter, or none any more. UnknownRun: its run is not known.
        """
        return DeadLetterDetails.of(self._answer_to(asking.ask_letter(letter)), self._client.codec)

    def replay(
        self,
        *letters: DeadLetter | str,
        handler: str | None = None,
        kind: str | None = None,
        tenant: str | None = None,
        since: datetime | float | None = None,
        run: SyncHandle | str | None = None,
        everything: bool = False,
    ) -> int:
        """Let dead letters run again, as if no attempt had been made; nodes that were skipped because of them wait for
        them again. What succeeded keeps its result. A finished run is under way again, and ends again.

        Handles that have ended keep what they were told; `handle(run_id)` makes one that waits for the new end.

        Args:
            letters: Which; or a filter, as for `dead`; or `everything`. In a run that is being cancelled none, when
                they come from a filter.

        Returns:
            How many run again. Letters that were replayed or discarded meanwhile do not count.

        Raises:
            ConfigurationError: Nothing is named. UnknownRun, MissingNode: a letter is not known; RunArchived: only the
            archive has its run. RunBeingCancelled: Other nodes of its run are still being stopped. UniqueTaskOpen:
            another run stands for the same unique task.

        What a crash leaves behind: after the return, all of it; before, some pages of `limits.LETTERS_PER_TURN`.
        """
        wanted = asking.filter_of(handler, kind, tenant, since, run)
        return self._each("replay", letters, wanted, everything)

    def discard(
        self,
        *letters: DeadLetter | str,
        handler: str | None = None,
        kind: str | None = None,
        tenant: str | None = None,
        since: datetime | float | None = None,
        run: SyncHandle | str | None = None,
        everything: bool = False,
    ) -> int:
        """Take dead letters from the list: somebody has dealt with them. Their runs stay as they are, and can be rerun.

        Args:
            letters: As for `replay`.

        Returns:
            How many were discarded.

        Raises:
            As `replay`, but RunBeingCancelled and UniqueTaskOpen.
        """
        wanted = asking.filter_of(handler, kind, tenant, since, run)
        return self._each("discard", letters, wanted, everything)

    def rerun(self, run: SyncHandle | str) -> RunHandle:
        """Run again what did not succeed of a run: what failed, was cancelled or skipped. What succeeded keeps its
        result, also where it ran because a parent had failed.

        Args:
            run: Its handle or id; of a single task, too.

        Returns:
            A handle that waits for the new end. Where everything had succeeded, or another unique task of the same key
            is open, nothing runs.

        Raises:
            UnknownRun: The engine no longer keeps it; RunArchived: the archive has it, where nothing goes again.
            RunBeingCancelled: nodes of it are still being stopped.
            UniqueTaskOpen: another run stands for the same unique task.
        """
        return rerun(self._client, run)

    def progress(self, run: TaskHandle[Any] | RunHandle | str) -> Progress:
        """How far a run or task has come, without asking the engine where that can be.

        Args:
            run: Its handle, or the id of a run of any session.

        Returns:
            As the handle's `progress()`; of an id a `RunProgress`.

        Raises:
            UnknownRun: The engine does not know it, or no longer keeps it.
        """
        if isinstance(run, (TaskHandle, RunHandle)):
            return run.progress()
        return RunHandle(self._client, id_of_run(run), foreign=True).progress()

    def pause(self, *scopes: str, by: str | None = None, reason: str | None = None) -> SchedulingStatus:
        """Start nothing more of these scopes until `resume`, also after a restart. Otherwise as `set_quota`.

        Args:
            scopes: As for `set_quota`, "rate:api" (a rate key), and "schedule:nightly", whose due times then pass.
                What runs goes on; submissions are taken and wait.
            by: Who pauses, for `why()`, the status and events; None for this user and program. Who paused a scope first
                is kept, unless somebody gives a reason after that.
            reason: Why, in words.

        Returns:
            What stands now.
        """
        return SchedulingStatus.of(self._answer_to(ask_pause(scopes, by, reason)))

    def resume(self, *scopes: str) -> SchedulingStatus:
        """End pauses; a scope that is not paused stays so. Otherwise as `set_quota`.

        Args:
            scopes: As they were paused.

        Returns:
            What stands now.
        """
        return SchedulingStatus.of(self._answer_to(ask_change(resume=scopes)))

    def forget(self, run: SyncHandle | str) -> None:
        """Delete a finished run with its results and large values, from memory and from the archive.

        Args:
            run: Its handle or id.

        Raises:
            UnknownRun: There is no such run, or no longer. RunNotEnded: It has not ended.
            MissingNode: It is one task of several that were submitted at once, which are one run.
            ArchiveUnusable, DiskFull, StateFolderError: The archive cannot be changed.

        What a crash leaves behind: after the return, nothing of it. Before, it may be in the archive: ask again.
        """
        run_id, number, unknown = id_of_run(run), None, None
        try:
            number = self._answer_to(("forget", {"run": run_id}))["no"]
        except UnknownRun as refused:
            unknown = refused
        past = self._client.past
        there = past is not None and past.forget(run_id, number)
        if unknown is not None and not there:
            raise unknown

    def drain(
        self, *scopes: str, timeout: float | None = None, by: str | None = None, reason: str | None = None
    ) -> SchedulingStatus:
        """Pause scopes, and wait until nothing of them runs. What workers hold and did not start goes back to the
        queue; submissions are taken and wait. `resume` ends it.

        Args:
            scopes: As for `pause`.
            timeout: Seconds; None waits as long as it takes.
            by: As for `pause`.
            reason: As for `pause`.

        Returns:
            What stands now.

        Raises:
            WaitTimeout: Something still runs; the scopes stay paused. Otherwise as `pause`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        stands = self.pause(*scopes, by=by, reason=reason)
        gate, look_s, first = threading.Event(), DRAIN_LOOK_S, True
        while held := self._answer_to(asking.ask_held(scopes, take_back=first))["held"]:
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(still_there(held, scopes, timeout))
            gate.wait(look_s if deadline is None else min(look_s, max(0.0, deadline - time.monotonic())))
            look_s, first = min(DRAIN_LOOK_MAX_S, 2 * look_s), False
        return stands

    def _each(self, what: str, letters: tuple[DeadLetter | str, ...], wanted: dict[str, Any], everything: bool) -> int:
        """Do something with letters; returns with how many it was done."""
        count = 0
        for question, args in asking.ask_each(what, letters, wanted, everything):
            following: Any = args.get("from")
            while True:
                reply = self._answer_to((question, {**args, "from": following}))
                count += reply["count"]
                following = reply["next"]
                if following is None:
                    break
        return count

    def _answer_to(self, request: Request) -> Any:
        return answer_or_past(self._client, self._client.ask(*request), request)


def still_there(held: int, scopes: tuple[str, ...], timeout: float | None) -> str:
    """What a drain says when its time is over."""
    return f"{counted(held, 'task')} of {', '.join(scopes)} still ran after {timeout} s; what is paused stays paused"

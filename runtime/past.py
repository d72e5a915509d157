"""What a program asks of runs that its engine does not keep any more: answered in its own process, from the archive.

`Past` stands beside the link to the engine and is asked where that says `UnknownRun`. What reads the archive is loaded
with the first such question: most programs never ask one.

Concurrency: any thread; one question at a time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from actors.protocol.states import RunState
from runtime.errors import error_of
from runtime.storage.folder import ARCHIVE_NAME
from runtime.views import Counts, Request, RunStatus, ask_runs, read_runs

if TYPE_CHECKING:
    from actors.archived import ArchivedRun, ArchiveRule
    from runtime.storage.past_runs import PastRuns

PAGE_ROWS: Final = 500


class Past:
    """See the module.

    Args:
        state_dir: The state folder.
        rule: How long archived runs stay; None: there is no archive, unless one is left from before.
        owed: Whether there is something that the next engine with an archive puts there.
    """

    def __init__(self, state_dir: str, rule: ArchiveRule | None, owed: Callable[[], bool] = lambda: False) -> None:
        self._state_dir = state_dir
        self._rule = rule
        self._owed = owed
        self._runs: PastRuns | None = None
        self._lock = threading.Lock()

    def answer(self, what: str, args: dict[str, Any]) -> Any:
        """The answer to a question about a run that the engine does not know; None: it is not here, either.

        Raises:
            MissingNode: The run has no such node. ArchiveUnusable, LogCorrupt, ...: It cannot be read.
        """
        if not self._may_be_there():
            return None
        with self._lock:
            found = self._opened().answer(what, args)
        if found is None:
            return None
        reply, error = found
        if error is not None:
            raise error_of(error)
        return reply

    def forget(self, run_id: str, number: int | None) -> bool:
        """Delete a run here. False: there is none. Raises: as `PastRuns.forget`.

        Args:
            run_id: Its id.
            number: Where the engine knew it until now.
        """
        if not self._may_be_there():
            return number is not None
        with self._lock:
            return self._opened().forget(run_id, number)

    def pages(self) -> Iterator[list[RunStatus]]:
        """All that are here, latest first, a page at a time."""
        if not self._may_be_there():
            return
        with self._lock:
            rows = self._opened().rows()
        while True:
            with self._lock:
                page = [status_of(row) for row in islice(rows, PAGE_ROWS)]
            if not page:
                return
            yield page

    def _may_be_there(self) -> bool:
        known = self._rule is not None or os.path.exists(os.path.join(self._state_dir, ARCHIVE_NAME))
        return known or self._owed()

    def _opened(self) -> PastRuns:
        if self._runs is None:
            from runtime.storage.past_runs import FOR_EVER, PastRuns  # lazy: most programs never ask for it

            assumed = self._rule is None and self._owed()
            self._runs = PastRuns(self._state_dir, FOR_EVER if assumed else self._rule, assumed=assumed)
        return self._runs


def status_of(row: ArchivedRun) -> RunStatus:
    """As the engine would have said it."""
    return RunStatus(row.run_id, row.name, RunState(row.state), Counts(*row.counts), row.submitted_ns, row.ended_ns)


class Merged:
    """The engine's runs and those of the past as one list, latest first: both come page by page, each in that order.

    Feed what is `wanted`, then `take`. A run that went from one to the other meanwhile is in it once.
    """

    def __init__(self) -> None:
        self._recent: deque[RunStatus] = deque()
        self._older: deque[RunStatus] = deque()
        self._open = {"recent", "older"}
        self._seen: set[tuple[str, int]] = set()

    @property
    def wanted(self) -> set[str]:
        """Of which, "recent" and "older", the next page is needed now."""
        return {name for name in self._open if not (self._recent if name == "recent" else self._older)}

    def feed_recent(self, page: list[RunStatus], *, more: bool) -> None:
        """What the engine said, and whether there is more."""
        self._recent += page
        self._seen.update((run.run_id, run.created_ns) for run in page)
        if not more:
            self._open.discard("recent")

    def feed_older(self, page: list[RunStatus] | None) -> None:
        """A page of the past; None: there is no more."""
        if page is None:
            self._open.discard("older")
        self._older += page or ()

    def take(self) -> list[RunStatus]:
        """What is known to be next."""
        found: list[RunStatus] = []
        recent, older = self._recent, self._older
        while not self.wanted and (recent or older):
            if recent and (not older or recent[0].created_ns >= older[0].created_ns):
                found.append(recent.popleft())
            elif ((run := older.popleft()).run_id, run.created_ns) not in self._seen:
                found.append(run)
        return found

    @property
    def over(self) -> bool:
        """Whether all was taken."""
        return not (self._open or self._recent or self._older)


def all_runs(answer_to: Callable[[Request], Any], past: Past | None) -> Iterator[RunStatus]:
    """The runs of the engine, and of the past where it is given, latest first."""
    merged, cursor = Merged(), None
    pages = iter(()) if past is None else past.pages()
    while not merged.over:
        if "recent" in merged.wanted:
            reply = answer_to(ask_runs(cursor))
            cursor = reply.get("next")
            merged.feed_recent(read_runs(reply), more=cursor is not None)
        if "older" in merged.wanted:
            merged.feed_older(next(pages, None))
        yield from merged.take()

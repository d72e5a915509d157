"""What all handles have: an identity, questions, and waiting.

Making a handle is part of every submission, so it is a plain object with slots (0.13 us, about 100 bytes).

    Handle ──► SyncHandle ───► TaskHandle, RunHandle            (`runtime.handle`)
       │   └─► AsyncHandle ──► AsyncTaskHandle, AsyncRunHandle  (`runtime.aio_handle`)
       └─────► RunFacts ─────► RunHandle, AsyncRunHandle
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from actors.protocol.errors import MissingNode, UnknownRun, WaitTimeout
from actors.protocol.states import RunState
from runtime import outcome, views
from runtime.config import Priority
from runtime.flow import Node
from runtime.host.pending import ENDED, ERROR, FAILED, OPEN, VALUE, WIRE, Numbered, Query
from runtime.views import Counts, Output, Progress, ResultRow, RunProgress, RunStatus, StoryEvent

if TYPE_CHECKING:
    from runtime.host.client import EngineClient

T = TypeVar("T")

POLL_S: Final = 0.1
"""First interval at which the end of a run of another session is asked for."""
POLL_MAX_S: Final = 1.0
_WORDS: Final = {OPEN: "open", VALUE: "succeeded", WIRE: "succeeded", FAILED: "failed", ERROR: "lost", ENDED: "ended"}


class Handle(Numbered):
    """What all handles have, without waiting."""

    __slots__ = ("_client", "_key")

    def __init__(self, client: EngineClient, key: str | None = None) -> None:
        self._state = OPEN
        self._value = None
        self._hooks = None
        self._client = client
        self._key = key

    @property
    def run_id(self) -> str:
        """Identity of the run in its state folder, for `rt.handle(run_id)`."""
        return self._key or f"{self._client.session}-{self.seq}"

    def stand_for(self, run_id: str) -> None:
        """The submission started nothing: its idempotency key stands for this run."""
        self._key = run_id

    def done(self) -> bool:
        """Whether it has ended, as far as this program was told."""
        return self._state != OPEN

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.run_id} {_WORDS[self._state]}>"

    def _late(self, timeout: float | None) -> WaitTimeout:
        return WaitTimeout(f"run {self.run_id} did not end within {timeout} s")

    def _reported(self) -> Progress | None:
        """What the handler of a task reported last; None where that must be asked for."""
        board = self._client.board
        if self._state != OPEN or board is None or not board.shows():
            return Progress(1, 1) if self._state != OPEN else None
        row = board.task(self.run_id)
        if row is None:
            return None if board.lost() else Progress(0.0, 1)
        return Progress(row.done, row.total, row.text)

    def _when_done(self, call: Callable[[Any], object]) -> None:
        if not self._client.reader.add_hook(self, call):
            call(self)


class RunFacts(Handle):
    """What a handle of a run knows without asking."""

    __slots__ = ("_foreign",)

    def __init__(self, client: EngineClient, key: str | None = None, *, foreign: bool = False) -> None:
        super().__init__(client, key)
        self._foreign = foreign

    def _how_it_ended(self) -> RunState:
        """Of a settled handle. Raises what was said instead of an end."""
        if self._state == ERROR:
            raise outcome.error_of_cell(self, self._client, self.run_id)
        return RunState(self._value[2])

    def _shown(self) -> RunProgress | None:
        """How far the run is, found without asking: by its end, in shared memory, or in what the engine last said."""
        if self._state == ENDED:
            return RunProgress(Counts(*self._value[3]))
        board = self._client.board
        if self._state == OPEN and board is not None:
            row = board.run(self.run_id)
            return None if row is None else RunProgress(Counts(*row.counts), row.text)
        found = self._client.intake.counts.get(self.seq) if not self._foreign else None
        return RunProgress(Counts(*found)) if found else None

    def _saw(self, status: RunStatus) -> RunStatus:
        """An end that was missed is noted."""
        if status.state != RunState.RUNNING:
            self._client.settle(self, ENDED, [self.seq, self.run_id, str(status.state), list(status.counts)])
        return status


def poll_intervals_s(timeout: float | None) -> Iterator[float]:
    """How long to wait before each look at a run of another session: longer and longer, until the time is over.

    The engine says by itself when such a run ends; looking now and then is the net below.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    interval = POLL_S
    while True:
        left = interval if deadline is None else min(interval, deadline - time.monotonic())
        if left <= 0:
            return
        yield left
        interval = min(POLL_MAX_S, interval * 2)


def node_name(node: Node[Any] | int | str) -> int | str:
    """Number or id of what a caller calls a node. Raises MissingNode: it is something else."""
    if isinstance(node, (int, str)):
        return node
    if isinstance(node, Node):
        return node.index
    raise MissingNode(f"{node!r:.200} is neither a node, nor an id or number of one")


def answer_or_past(client: EngineClient, query: Query, request: views.Request) -> Any:
    """The answer to a question; of a run that the engine does not know any more, what the archive says of it.

    Raises:
        RunArchived: It would be changed, and only the archive has it. UnknownRun, ...: what the engine answered.
    """
    try:
        return client.answer_of(query)
    except UnknownRun:
        found = None if client.past is None else client.past.answer(*request)
        if found is None:
            raise
        return found


class SyncHandle(Handle):
    """Questions that block until the engine has answered. Their answers tell of nothing that could still be lost."""

    __slots__ = ()

    def cancel(self) -> bool:
        """Ask to cancel what has not ended.

        Returns:
            True: recorded, and a crash does not undo it. What waits never starts; what runs is stopped, first
            cooperatively, then by signals. False: it had ended before.
        """
        if self._state != OPEN:
            return False
        client = self._client
        return bool(answer_or_past(client, client.ask_cancel(self.run_id, None), ("cancel", {"run": self.run_id})))

    def set_priority(self, priority: Priority | str) -> bool:
        """Give it another priority class; see `runtime.engine.Runtime.set_priority`.

        Args:
            priority: The class.

        Returns:
            True: recorded, and a crash does not undo it. False: it had ended before.
        """
        return bool(self._ask(views.ask_priority(self.run_id, priority))["changed"])

    def story(self) -> list[StoryEvent]:
        """What happened to it, in order, with causes.

        Raises:
            UnknownRun: The engine no longer keeps it.
        """
        return views.read_story(self._ask(views.ask_story(self.run_id)))

    def why(self) -> str:
        """Why it is not running now, in words.

        Raises:
            UnknownRun: The engine no longer keeps it.
        """
        return str(self._ask(views.ask_why(self.run_id))["text"])

    def output(self) -> Output:
        """What the latest attempt printed: its beginning and its end, when it was much.

        The engine keeps it for the latest thousand attempts that printed something; it is not in the log. A run of
        several nodes is asked node by node: `run.node(id).output()`.

        Raises:
            MissingNode: The run has several nodes. UnknownRun: It is not known any more.
        """
        return views.read_output(self._ask(views.ask_output(self.run_id)))

    def _ask(self, request: views.Request) -> Any:
        return answer_or_past(self._client, self._client.ask(*request), request)

    def _wait(self, timeout: float | None) -> None:
        if not self._state and not self._client.wait(self, timeout):
            raise self._late(timeout)

    def _rows(self, which: str, node: int | str | None = None) -> list[ResultRow]:
        """A table of results."""
        return self._pages(partial(views.ask_results, self.run_id, node=node, which=which), views.read_results)

    def _pages(self, ask: Callable[[int], views.Request], read: Callable[[Any], list[T]]) -> list[T]:
        """All pages of a table."""
        found: list[T] = []
        first: int | None = 0
        while first is not None:
            reply = self._ask(ask(first))
            found += read(reply)
            first = reply.get("next")
        return found

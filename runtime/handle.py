"""Handles: what a program holds of a task or run that it submitted, or found again.

A handle never owns anything: dropping it changes nothing, and `rt.handle(run_id)` makes another one, in another
program too. Waiting reads the engine's frames in the calling thread (see `runtime.host.reader`). Handles may be
used from any thread, until the runtime is closed; then what is open raises `RuntimeClosed`, while the work itself
goes on when the state folder is opened again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from actors.protocol.errors import DiskFull, TaskFailed, UnknownRun
from actors.protocol.states import RunState
from runtime import outcome, views
from runtime.handle_base import RunFacts, SyncHandle, answer_or_past, node_name, poll_intervals_s
from runtime.host.pending import ENDED, VALUE
from runtime.views import NodeStatus, Output, Progress, RunProgress, RunStatus, StoryEvent

if TYPE_CHECKING:
    from runtime.flow import Node
    from runtime.host.client import EngineClient

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class TaskHandle(SyncHandle, Generic[R_co]):
    """A single task."""

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> RunState:
        """Wait for the end; does not raise when it failed.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            How it ended; that it was skipped counts as a success, as in the view `runs`.

        Raises:
            WaitTimeout: The time is over; the task goes on. RuntimeClosed, ...: As `result`.
        """
        if not self._state:
            self._wait(timeout)
        return outcome.end_of(self, self._client, self.run_id)

    def result(self, timeout: float | None = None) -> R_co:
        """Wait for the end and return the result.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            What the handler returned, equal and of the same types.

        Raises:
            TaskFailed: It failed; `__cause__` is the handler's exception where it could be rebuilt. Its kinds
                TaskCancelled and TaskSkipped say what they say.
            WaitTimeout: The time is over; the task goes on.
            RuntimeClosed, EngineUnavailable, LogFailed: The program can no longer be told. The task is not lost.
        """
        if not self._state:
            self._wait(timeout)
        if self._state == VALUE:
            return self._value  # type: ignore[no-any-return]
        if self._state == ENDED:
            self._fetch()
        return outcome.value_of(self, self._client, self.run_id)  # type: ignore[no-any-return]

    def exception(self, timeout: float | None = None) -> TaskFailed | None:
        """Wait for the end.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            The exception that `result` would raise; None when the task succeeded.

        Raises:
            WaitTimeout: The time is over. RuntimeClosed, ...: As `result`.
        """
        try:
            self.result(timeout)
        except TaskFailed as failed:
            return failed
        return None

    def status(self) -> NodeStatus:
        """State, attempts and times, as the engine has them now.

        Raises:
            UnknownRun: The engine no longer keeps it.
        """
        return views.read_nodes(self._ask(views.ask_nodes(self.run_id)))[0]

    def progress(self) -> Progress:
        """What the handler reported last (`TaskContext.progress`); 0 of 1, or 1 of 1, when it reports nothing.

        Returns:
            A snapshot, read from shared memory; the engine is asked only where more tasks report than it shows.
        """
        found = self._reported()
        if found is not None:
            return found
        status = self.status()
        return status.progress or Progress(float(status.done), 1)

    def add_done_callback(self, call: Callable[[TaskHandle[R_co]], object]) -> None:
        """Be called when it has ended; at once if it has.

        Args:
            call: Called with this handle, in the thread that reads the engine's frames: be quick.
        """
        self._when_done(call)

    def _fetch(self) -> None:
        """A task that was submitted with a run id, or by another session: its result is asked for."""
        state, value = outcome.settle_from_row(self._rows("all")[0])
        with self._client.lock:
            if self._state == ENDED:
                self._value = value
                self._state = state

    def rerun(self) -> RunHandle:
        """Run it again, if it did not succeed; see `runtime.operations.Operations.rerun`.

        Returns:
            A handle that waits for the new end.
        """
        return rerun(self._client, self)


class NodeView:
    """One node of a run, by id or number."""

    __slots__ = ("_run", "name")

    def __init__(self, run: RunHandle, name: int | str) -> None:
        self._run = run
        self.name = name

    def __repr__(self) -> str:
        return f"<NodeView {self.name} of {self._run.run_id}>"

    def status(self) -> NodeStatus:
        """State, attempts and times now. Raises MissingNode, UnknownRun."""
        run = self._run
        return views.read_nodes(run._ask(views.ask_nodes(run.run_id, node=self.name)))[0]

    def result(self, timeout: float | None = None) -> Any:
        """As `RunHandle.result` of this node."""
        return self._run.result(self.name, timeout)

    def story(self) -> list[StoryEvent]:
        """What happened to it. Raises MissingNode, UnknownRun."""
        run = self._run
        return views.read_story(run._ask(views.ask_story(run.run_id, self.name)))

    def why(self) -> str:
        """Why it is not running now. Raises MissingNode, UnknownRun."""
        run = self._run
        return str(run._ask(views.ask_why(run.run_id, self.name))["text"])

    def output(self) -> Output:
        """What the latest attempt printed: its beginning and its end, when it was much.

        The engine keeps it for the latest thousand attempts that printed something; it is not in the log.

        Raises:
            MissingNode, UnknownRun: There is no such node or run.
        """
        run = self._run
        return views.read_output(run._ask(views.ask_output(run.run_id, self.name)))

    def cancel(self) -> bool:
        """Cancel this node only; as `RunHandle.cancel`. Nodes that need its result are skipped."""
        client, number = self._run._client, self.name
        if isinstance(number, str):
            number = self.status().index
        run_id = self._run.run_id
        return bool(answer_or_past(client, client.ask_cancel(run_id, number), ("cancel", {"run": run_id})))


class RunHandle(RunFacts, SyncHandle):
    """A run of a flow, or any run that was found again by its id."""

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> RunState:
        """Wait for the end of the run; does not raise when nodes failed.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            How it ended.

        Raises:
            WaitTimeout: The time is over; the run goes on. RuntimeClosed, ...: As `TaskHandle.result`.
        """
        if not self._state:
            if self._foreign:
                self._wait_foreign(timeout)
            else:
                self._wait(timeout)
        return self._how_it_ended()

    @overload
    def result(self, node: Node[T], timeout: float | None = ...) -> T: ...

    @overload
    def result(self, node: int | str | None = ..., timeout: float | None = ...) -> Any: ...

    def result(self, node: Node[Any] | int | str | None = None, timeout: float | None = None) -> Any:
        """Wait for the end of the run and return a result.

        Args:
            node: The node, its id or its number. None: of the final node (no other depends on it); where there are
                several, a dictionary of theirs by id.
            timeout: Seconds; None waits as long as it takes.

        Returns:
            What the node's handler returned.

        Raises:
            TaskFailed: The node did not succeed, see `TaskHandle.result`.
            MissingNode: There is no such node. UnknownRun: the engine no longer keeps the run.
            WaitTimeout: The time is over; the run goes on.
        """
        self.wait(timeout)
        codec = self._client.codec
        if node is None:
            return outcome.final_value(self._rows("final"), codec, self.run_id)
        name = node_name(node)
        return outcome.value_of_row(self._rows("all", name)[0], codec, self.run_id)

    def results(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the end of the run and take all results.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            The values of the nodes that succeeded, by id.

        Raises:
            UnknownRun: The engine no longer keeps the run. WaitTimeout: The time is over.
        """
        self.wait(timeout)
        return outcome.values_of_rows(self._rows("all"), self._client.codec)

    def exception(self, timeout: float | None = None) -> TaskFailed | None:
        """Wait for the end of the run.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            Why the run did not succeed: its first failure; None when it did.

        Raises:
            WaitTimeout: The time is over; the run goes on. RuntimeClosed, ...: As `TaskHandle.result`.
        """
        self.wait(timeout)
        error = outcome.run_error(self._value, self._client.codec)
        if error is None or len(self._value) > 4:
            return error
        try:
            rows = self._rows("failed")
        except UnknownRun:
            return error
        return outcome.error_of_row(rows[0], self._client.codec, self.run_id) if rows else error

    def raise_if_failed(self, timeout: float | None = None) -> RunHandle:
        """Wait for the end and raise the run's exception, unless it succeeded.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            This handle.

        Raises:
            TaskFailed: See `exception`. WaitTimeout: the time is over; the run goes on.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self

    def status(self) -> RunStatus:
        """State and counts now. Raises UnknownRun."""
        return views.read_status(self._ask(views.ask_status(self.run_id)))

    def rerun(self) -> RunHandle:
        """Run again what did not succeed; see `runtime.operations.Operations.rerun`.

        Returns:
            A handle that waits for the new end.
        """
        return rerun(self._client, self)

    def progress(self) -> RunProgress:
        """How far the run has come: nodes by state, and what a handler of it reported last.

        Returns:
            A snapshot, read from shared memory in microseconds, also while the engine is busy or stopped. The engine is
            asked where a run is not shown: it was submitted or has ended a moment ago, or more are open than are shown.

        Raises:
            UnknownRun: The engine no longer keeps it.
        """
        return self._shown() or RunProgress(self.status().counts)

    def node(self, name: Node[Any] | int | str) -> NodeView:
        """Look at one node.

        Args:
            name: The node, its id or its number.

        Returns:
            Its view, which asks when it is asked.
        """
        return NodeView(self, node_name(name))

    def nodes(self) -> list[NodeStatus]:
        """The table of all nodes, as the engine has it now. Raises UnknownRun."""
        return self._pages(partial(views.ask_nodes, self.run_id), views.read_nodes)

    def add_done_callback(self, call: Callable[[RunHandle], object]) -> None:
        """Be called when the run has ended; at once if it has.

        Args:
            call: Called with this handle, in the thread that reads the engine's frames: be quick.
        """
        self._when_done(call)

    # --- runs of other sessions -----------------------------------------------------------------------------------

    def _look(self, *, watch: bool) -> RunStatus:
        """Ask for the state; an end that was missed is noted. With `watch`, the engine says when the run ends."""
        return self._saw(views.read_status(self._ask(views.ask_status(self.run_id, watch=watch))))

    def _wait_foreign(self, timeout: float | None) -> None:
        for interval in poll_intervals_s(timeout):
            if self._client.wait(self, interval):
                return
            with suppress(DiskFull):  # the run goes on when there is room
                self._look(watch=False)
        if not self._state:
            raise self._late(timeout)


def attach(client: EngineClient, run_id: str) -> RunHandle:
    """A handle of a run that may have been submitted by another session.

    Raises:
        UnknownRun: The engine does not know it.
    """
    handle = RunHandle(client, run_id, foreign=True)
    handle.seq = 0
    handle._look(watch=True)
    if not handle.done():
        client.watch(run_id, handle)
    return handle


def rerun(client: EngineClient, run: SyncHandle | str) -> RunHandle:
    """Let what did not succeed of a run go again; a handle that waits for its new end. Raises as `Operations.rerun`."""
    run_id = views.id_of_run(run)
    request = ("rerun", {"run": run_id})
    answer_or_past(client, client.ask(*request), request)
    return attach(client, run_id)
